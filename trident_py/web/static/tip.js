// @ts-check
/** The note beside what the pointer or the focus is on. */

import { byId } from "./dom.js";

const GAP = 14;
const element = byId("tip");

/**
 * Show it beside a place in the window.
 * @param {Node[]} content
 * @param {number} x
 * @param {number} y
 */
export function showTip(content, x, y) {
  element.replaceChildren(...content);
  element.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = element;
  const right = document.documentElement.clientWidth;
  const left = x + GAP + width <= right ? x + GAP : x - GAP - width;
  const above = y + GAP + height <= window.innerHeight ? y + GAP : y - GAP - height;
  element.style.left = `${Math.max(4, Math.min(left, right - width - 4))}px`;
  element.style.top = `${Math.max(4, above)}px`;
}

export function hideTip() {
  element.hidden = true;
}

/**
 * Show it while the pointer or the focus is on an element, until Escape.
 * @param {Element} target
 * @param {() => Node[]} content
 */
export function tipOn(target, content) {
  target.addEventListener("pointermove", (event) => {
    const { clientX, clientY } = /** @type {PointerEvent} */ (event);
    showTip(content(), clientX, clientY);
  });
  target.addEventListener("focus", () => {
    const { left, bottom } = target.getBoundingClientRect();
    if (target.matches(":focus-visible")) showTip(content(), left, bottom - GAP);
  });
  for (const each of ["pointerleave", "blur"]) target.addEventListener(each, hideTip);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
document.addEventListener("scroll", hideTip, { passive: true, capture: true });
