// @ts-check
/** The rows of the timeline as elements over its canvas: what keyboards, screen readers and tests find. */

import { sentence, title } from "./describe.js";
import { html, say } from "./dom.js";
import { TOP } from "./lanes.js";

/** @typedef {import("./types.js").Transaction} Transaction */

const LABEL_PIXELS = 12;

export class Rows {
  /** @type {HTMLElement} */
  #list;
  /** @type {Map<number, HTMLElement>} */
  #elements = new Map();
  /** @type {Transaction[]} */
  #shown = [];

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list;
  }

  /**
   * Show these, from above.
   * @param {Transaction[]} transactions
   * @param {number} rowHeight
   * @param {number | null} pinned
   * @param {number} now
   */
  show(transactions, rowHeight, pinned, now) {
    const focused = this.focused;
    this.#shown = transactions;
    const wanted = new Set(transactions.map((each) => each.txid));
    for (const [txid, element] of this.#elements) if (!wanted.has(txid)) this.#remove(txid, element);
    const every = Math.ceil(LABEL_PIXELS / rowHeight);
    const reachable = focused !== null && wanted.has(focused) ? focused : (transactions[0]?.txid ?? null);
    transactions.forEach((each, row) => {
      const element = this.#element(each.txid);
      element.style.transform = `translateY(${TOP + row * rowHeight}px)`;
      element.style.height = `${rowHeight}px`;
      element.classList.toggle("labelled", row % every === 0);
      element.setAttribute("aria-selected", String(each.txid === pinned));
      element.setAttribute("aria-label", sentence(each, now));
      element.setAttribute("aria-setsize", String(transactions.length));
      element.setAttribute("aria-posinset", String(row + 1));
      element.dataset.outcome = each.outcome;
      element.tabIndex = each.txid === reachable ? 0 : -1;
      say(element, title(each));
    });
    if (focused !== null && !wanted.has(focused) && reachable !== null) this.focus(reachable);
  }

  /** @returns {number | null} the transaction whose row has the focus */
  get focused() {
    const txid = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.txid;
    return txid && this.#list.contains(document.activeElement) ? Number(txid) : null;
  }

  /** @param {number} txid */
  focus(txid) {
    for (const element of this.#elements.values()) element.tabIndex = -1;
    const element = this.#elements.get(txid);
    if (!element) return;
    element.tabIndex = 0;
    element.focus({ preventScroll: true });
  }

  /**
   * Move the focus by so many rows.
   * @param {number} by
   */
  move(by) {
    const at = this.#shown.findIndex((each) => each.txid === this.focused);
    const next = this.#shown[Math.min(Math.max(at + by, 0), this.#shown.length - 1)];
    if (next) this.focus(next.txid);
  }

  /**
   * Give where a row is in the window; null: it isn't shown.
   * @param {number} txid
   */
  place(txid) {
    return this.#elements.get(txid)?.getBoundingClientRect() ?? null;
  }

  /** @param {number} txid */
  #element(txid) {
    let element = this.#elements.get(txid);
    if (!element) {
      element = html("li", { role: "option", "data-txid": txid, tabindex: -1 });
      this.#elements.set(txid, element);
      this.#list.append(element);
    }
    return element;
  }

  /**
   * @param {number} txid
   * @param {HTMLElement} element
   */
  #remove(txid, element) {
    this.#elements.delete(txid);
    element.remove();
  }
}
