// @ts-check
/** The attempts that have failed by themselves, those with the same message together, with the rows at which it was. */

import { byId, html } from "./dom.js";
import { clock, count, counted } from "./format.js";
import { cut } from "./describe.js";
import { ask } from "./stream.js";

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./types.js").Attempt} Attempt */
/** @typedef {{message: string, attempts: {attempt: Attempt, row: string}[]}} Group */

const ATTEMPTS_MAX = 500;
const ASKED = 50;
const GROUPS_MAX = 8;
const SHOWN_MAX = 4;
const ROW_CHARS_MAX = 300;
const ROW = ", at "; // how errors of user functions name the row; where it isn't one, all of it is the message

export class Failures {
  /** @type {Map<string, Attempt>} by attempt, those that were heard of last at the end */
  #attempts = new Map();
  #list = byId("error-groups");
  /** @type {(txid: number) => void} */
  #open;
  #isOther = true;

  /** @param {(txid: number) => void} open */
  constructor(open) {
    this.#open = open;
  }

  /** Ask for the last ones. */
  async load() {
    try {
      this.take(await ask(`tx?last=${ASKED}&failed=true`));
      this.refresh(Date.now() / 1e3);
    } catch {
      return; // what comes from now on is shown all the same, and why nothing else is says the connection
    }
  }

  /** @param {Transaction[]} transactions */
  take(transactions) {
    for (const attempt of transactions.flatMap((each) => each.attempts)) {
      if (attempt.outcome !== "failed" || !attempt.error || (attempt.failed && attempt.failed !== attempt.attempt)) continue;
      const key = `${attempt.epoch} ${attempt.attempt}`;
      if (this.#attempts.has(key)) continue;
      this.#attempts.set(key, attempt);
      this.#isOther = true;
      if (this.#attempts.size > ATTEMPTS_MAX) this.#attempts.delete(this.#attempts.keys().next().value ?? "");
    }
  }

  /**
   * Count those that have failed since a moment.
   * @param {number} moment
   */
  since(moment) {
    let found = 0;
    for (const each of this.#attempts.values()) if ((each.ended ?? each.emitted) >= moment) found++;
    return found;
  }

  /** @param {number} now */
  refresh(now) {
    if (!this.#isOther) return;
    this.#isOther = false;
    const groups = grouped([...this.#attempts.values()]);
    if (!groups.length) {
      this.#list.replaceChildren(html("li", { class: "note" }, "No attempt has failed, as far as is known."));
      return;
    }
    this.#list.replaceChildren(...groups.slice(0, GROUPS_MAX).map((group) => this.#group(group, now)));
    if (groups.length > GROUPS_MAX) this.#list.append(html("li", { class: "note" }, `and ${counted(groups.length - GROUPS_MAX, "other message")}`));
  }

  /**
   * @param {Group} group
   * @param {number} now
   */
  #group({ message, attempts }, now) {
    const last = attempts[0].attempt;
    const places = placesOf(attempts);
    const rows = places.slice(0, SHOWN_MAX).map(({ attempt, row, times }) => {
      const link = html("a", { href: `#tx=${attempt.txid}` }, attempt.attempt);
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.#open(attempt.txid);
      });
      return html("li", {}, link, row ? html("code", {}, cut(row, ROW_CHARS_MAX)) : null, times > 1 ? html("span", { class: "note" }, `${times}×`) : null);
    });
    const rest = places.length - rows.length;
    return html(
      "li",
      { class: "group" },
      html("p", { class: "error" }, message),
      html("p", { class: "note" }, `${count(attempts.length)}×, last ${clock(last.ended ?? last.emitted, now)}`),
      html("ul", {}, ...rows, rest > 0 ? html("li", { class: "note" }, `and ${counted(rest, "earlier transaction")}`) : null),
    );
  }
}

/**
 * Put the attempts of one transaction at one row together, the last first.
 * @param {Group["attempts"]} attempts
 */
function placesOf(attempts) {
  /** @type {Map<string, {attempt: Attempt, row: string, times: number}>} */
  const places = new Map();
  for (const { attempt, row } of attempts) {
    const key = `${attempt.txid} ${row}`;
    const known = places.get(key);
    if (known) known.times++;
    else places.set(key, { attempt, row, times: 1 });
  }
  return [...places.values()];
}

/**
 * Put those with the same message together, the last first.
 * @param {Attempt[]} attempts
 * @returns {Group[]}
 */
function grouped(attempts) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  const byTime = attempts.sort((a, b) => (b.ended ?? b.emitted) - (a.ended ?? a.emitted));
  for (const attempt of byTime) {
    const text = attempt.error ?? "";
    const at = text.indexOf(ROW);
    const [message, row] = at > 0 ? [text.slice(0, at), text.slice(at + ROW.length)] : [text, ""];
    const group = groups.get(message) ?? { message, attempts: [] };
    group.attempts.push({ attempt, row });
    groups.set(message, group);
  }
  return [...groups.values()];
}
