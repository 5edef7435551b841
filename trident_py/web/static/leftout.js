// @ts-check
/** The rows that are left out: dead letters, and those of parked transactions; each as a table. */

import { byId, html, say } from "./dom.js";
import { count, counted } from "./format.js";
import { ask } from "./stream.js";

const LOOK_SECONDS = 5;
const TEXT_MAX = 160;

/**
 * @typedef {object} Letter
 * @property {number} txid
 * @property {string} branch
 * @property {string} operation
 * @property {string} error
 * @property {string} row
 * @property {number} count
 */

export class LeftOut {
  #said = "";

  constructor() {
    byId("parked-list").addEventListener("click", (/** @type {Event} */ event) => {
      const button = /** @type {Element} */ (event.target).closest("[data-rows]");
      if (button) void this.#showRows(Number(button.getAttribute("data-rows")));
    });
    void this.#look();
    setInterval(() => document.hidden || void this.#look(), LOOK_SECONDS * 1e3);
  }

  async #look() {
    /** @type {{count: number, letters: Letter[]}} */
    const found = await ask("dead-letters").catch(() => null);
    const said = JSON.stringify(found);
    if (found === null || said === this.#said) return; // what says the same stays, so that its buttons keep the focus
    this.#said = said;
    byId("letters").hidden = !found.count;
    const shown = found.letters.reduce((sum, each) => sum + each.count, 0);
    say(byId("letters-note"), shown < found.count ? `the last ${count(shown)} of ${counted(found.count, "row")}` : counted(found.count, "row"));
    byId("letters-list").replaceChildren(table(["tx", "branch", "operation", "error", "row", "count", ""], found.letters.toReversed().map(cells)));
  }

  /** @param {number} txid */
  async #showRows(txid) {
    const list = byId("parked-rows");
    list.replaceChildren(html("p", { class: "note" }, "reading the rows…"));
    try {
      let found = await ask(`parked/${txid}`);
      if (!found.stored) {
        const wish = { action: "rows", txids: [txid], reason: "to look at them" };
        const said = await ask("wishes", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wish) });
        found = await ask(`parked/${txid}`);
        if (!found.stored) throw new Error(said.text);
      }
      list.replaceChildren(...found.spouts.flatMap((/** @type {any} */ each) => rowsOf(txid, each)));
    } catch (error) {
      list.replaceChildren(html("p", { class: "error" }, /** @type {Error} */ (error).message));
    }
  }
}

/**
 * @param {Letter} letter
 * @returns {(Node | string)[]}
 */
function cells({ txid, branch, operation, error, row, count: times }) {
  const button = html("button", { type: "button", "data-action": "letters", "data-txid": String(txid), "data-branch": branch }, "Release");
  return [String(txid), branch, cut(operation), cut(error.split("\n", 1)[0]), cut(row), count(times), button];
}

/**
 * @param {number} txid
 * @param {{spout: string, count: number, rows: Record<string, unknown>[]}} part
 * @returns {Node[]}
 */
function rowsOf(txid, { spout, count: all, rows }) {
  const names = Object.keys(rows[0] ?? {});
  const shown = rows.length < all ? `the first ${count(rows.length)} of ${counted(all, "row")}` : counted(all, "row");
  const lines = rows.map((row) => names.map((name) => cut(typeof row[name] === "string" ? row[name] : JSON.stringify(row[name]))));
  return [html("h3", {}, `Transaction ${txid}, spout ${spout}: ${shown}`), table(names, lines)];
}

/** @param {string} text */
function cut(text) {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}

/**
 * @param {string[]} names
 * @param {(Node | string)[][]} lines
 */
function table(names, lines) {
  const head = html("thead", {}, html("tr", {}, ...names.map((each) => html("th", { scope: "col" }, each))));
  const body = html("tbody", {}, ...lines.map((line) => html("tr", {}, ...line.map((each) => html("td", {}, each)))));
  return html("div", { class: "rows" }, html("table", {}, head, body));
}
