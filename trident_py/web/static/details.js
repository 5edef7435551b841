// @ts-check
/** The details of one transaction, kept until they are closed; the page's address names it, as #tx=17. */

import { isClosed } from "./bars.js";
import { full } from "./describe.js";
import { byId, html, say } from "./dom.js";
import { ask } from "./stream.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./stream.js").Clock} Clock */
/** @typedef {import("./types.js").Transaction} Transaction */

export class Details {
  #element = byId("details");
  #body = byId("details-body");
  #actions = byId("details-actions");
  /** @type {Store} */
  #store;
  /** @type {Clock} */
  #clock;
  /** @type {(txid: number | null, transaction: Transaction | null) => void} */
  #tell;
  /** @type {number | null} */
  #txid = null;
  /** @type {Transaction | null} */
  #fetched = null;
  #shown = "";
  /** @type {Element | null} */
  #before = null;

  /**
   * @param {Store} store
   * @param {Clock} clock
   * @param {(txid: number | null, transaction: Transaction | null) => void} tell is told which transaction they are about
   */
  constructor(store, clock, tell) {
    [this.#store, this.#clock, this.#tell] = [store, clock, tell];
    byId("details-close").onclick = () => this.close();
    this.#element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && this.close());
    window.addEventListener("hashchange", () => this.follow());
  }

  /** Show what the page's address says. */
  follow() {
    const txid = /^#tx=(\d{1,15})$/.exec(location.hash)?.[1];
    if (txid !== undefined) void this.#open(Number(txid));
    else if (this.#txid !== null) this.#hide();
  }

  /**
   * Show a transaction, and say so in the page's address.
   * @param {number} txid
   */
  open(txid) {
    this.#before = document.activeElement;
    if (location.hash === `#tx=${txid}`) this.#title(true);
    else location.hash = `tx=${txid}`;
  }

  close() {
    history.pushState(null, "", location.pathname + location.search);
    this.#hide();
    const before = this.#before;
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  }

  /** Show what is known now. */
  refresh() {
    if (this.#txid === null) return;
    const known = this.#store.get(this.#txid) ?? this.#fetched;
    if (!known) return;
    const shown = JSON.stringify(known);
    const isUnderWay = known.outcome === "processing";
    if (shown === this.#shown && !isUnderWay) return;
    this.#shown = shown;
    this.#actions.hidden = isClosed(known);
    for (const button of this.#actions.querySelectorAll("button")) button.dataset.txid = String(known.txid);
    this.#body.replaceChildren(...full(known, this.#clock.now()));
  }

  /** @param {number} txid */
  async #open(txid) {
    this.#txid = txid;
    this.#fetched = null;
    this.#shown = "";
    this.#element.hidden = false;
    this.#actions.hidden = true;
    this.#title(true);
    this.#tell(txid, this.#store.get(txid) ?? null);
    this.#body.replaceChildren();
    this.refresh();
    if (!this.#store.get(txid)) await this.#fetch(txid);
  }

  /** @param {number} txid */
  async #fetch(txid) {
    this.#body.replaceChildren(html("p", { class: "note" }, "asking the history…"));
    try {
      const fetched = await ask(`tx/${txid}`);
      if (this.#txid !== txid) return;
      this.#fetched = fetched;
      this.refresh();
    } catch (error) {
      if (this.#txid === txid) this.#body.replaceChildren(html("p", { class: "error" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {boolean} isNew */
  #title(isNew) {
    const title = byId("details-title");
    say(title, `Transaction ${this.#txid}`);
    if (!isNew) return;
    title.focus({ preventScroll: true });
    this.#element.scrollIntoView({ block: "nearest" });
  }

  #hide() {
    this.#txid = null;
    this.#element.hidden = true;
    this.#tell(null, null);
  }
}
