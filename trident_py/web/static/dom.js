// @ts-check
/** Elements, made and found. What users' rows say only ever becomes text: no markup is parsed anywhere. */

/**
 * Return the element of the page with this id.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Make an HTML element; a child that is null is left out, text becomes a text node.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {HTMLElement}
 */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Make an SVG element, likewise.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Record<string, string | number | boolean | null | undefined>} attributes
 * @param {(Node | string | null)[]} children
 * @returns {E}
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/**
 * Set the text of an element, unless it has that already: what doesn't change is neither drawn nor read out again.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make a list of terms and what they are; without those that are null or empty.
 * @param {[string, Node | string | null][]} facts
 */
export function termList(facts) {
  const known = facts.filter(([, what]) => what !== null && what !== "");
  return html("dl", { class: "facts" }, ...known.flatMap(([term, what]) => [html("dt", {}, term), html("dd", {}, what)]));
}
