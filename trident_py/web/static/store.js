// @ts-check
/** What the page knows of transactions: as many as fit into a bounded memory, the lowest forgotten first. */

import { begun, isClosed, isUnderWay, over } from "./bars.js";

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./types.js").Message} Message */

export const TRANSACTIONS_MAX = 5000;
const UNHEARD_SECONDS = 5;

export class Store {
  /** @type {Map<number, Transaction>} */
  #byTxid = new Map();
  /** @type {number[]} ascending */
  #txids = [];
  /** @type {Map<number, number>} when each that is under way was heard of last */
  #heard = new Map();

  /** The lowest transaction that isn't committed, as far as is known; 0: nothing is. */
  currentTxid = 0;

  /**
   * Take what has changed; returns those that are committed now and were not known to be.
   * @param {Message} message
   * @returns {Transaction[]}
   */
  take(message) {
    const committed = this.merge(message.transactions, message.now);
    this.currentTxid = message.status.current_txid ?? this.currentTxid;
    this.#forgetUnheard(message.now);
    return committed;
  }

  /**
   * @param {Transaction[]} transactions
   * @param {number} now
   * @returns {Transaction[]}
   */
  merge(transactions, now) {
    const committed = [];
    for (const each of transactions) {
      if (each.outcome === "committed" && this.#byTxid.get(each.txid)?.outcome !== "committed") committed.push(each);
      if (isClosed(each)) this.currentTxid = Math.max(this.currentTxid, each.txid + 1);
      if (!this.#byTxid.has(each.txid)) this.#insert(each.txid);
      this.#byTxid.set(each.txid, each);
      if (isUnderWay(each)) this.#heard.set(each.txid, now);
      else this.#heard.delete(each.txid);
    }
    if (this.#txids.length > TRANSACTIONS_MAX) this.#forget(this.#txids.splice(0, this.#txids.length - TRANSACTIONS_MAX));
    return committed;
  }

  /** @param {number} txid */
  get(txid) {
    return this.#byTxid.get(txid);
  }

  get size() {
    return this.#txids.length;
  }

  /** @returns {Transaction[]} those that are committed */
  committed() {
    return [...this.#byTxid.values()].filter((each) => each.outcome === "committed");
  }

  /** @returns {Transaction | undefined} */
  oldest() {
    return this.#byTxid.get(this.#txids[0]);
  }

  /** @returns {Generator<Transaction>} those that are known, the highest first */
  *newestFirst() {
    for (let i = this.#txids.length - 1; i >= 0; i--) yield /** @type {Transaction} */ (this.#byTxid.get(this.#txids[i]));
  }

  /**
   * Give those of which something was to be seen between two moments, the highest first.
   * @param {number} from
   * @param {number} to
   * @returns {Transaction[]}
   */
  between(from, to) {
    const found = [];
    for (const each of this.newestFirst()) {
      if (begun(each) > to) continue;
      const ended = over(each);
      if (ended === null || ended >= from) found.push(each);
      else if (isClosed(each)) break; // those before it were closed before it
    }
    return found;
  }

  inFlight() {
    let found = 0;
    for (const txid of this.#heard.keys()) if (txid >= this.currentTxid) found++;
    return found;
  }

  /** Give when the last thing happened that is known; null: nothing is. */
  lastMoment() {
    let last = null;
    let looked = 0;
    for (const each of this.newestFirst()) {
      for (const { ended, emitted, processing } of each.attempts) last = Math.max(last ?? 0, ended ?? emitted + processing);
      if (++looked === 100) break;
    }
    return last;
  }

  /**
   * Forget those whose commit was left out of a message, as there was too much in it: they would look as if they hung.
   * @param {number} now
   */
  #forgetUnheard(now) {
    const gone = [...this.#heard].filter(([txid, at]) => txid < this.currentTxid && now - at > UNHEARD_SECONDS);
    if (!gone.length) return;
    this.#forget(gone.map(([txid]) => txid));
    this.#txids = this.#txids.filter((txid) => this.#byTxid.has(txid));
  }

  /** @param {number[]} txids */
  #forget(txids) {
    for (const txid of txids) {
      this.#byTxid.delete(txid);
      this.#heard.delete(txid);
    }
  }

  /** @param {number} txid */
  #insert(txid) {
    const txids = this.#txids;
    let at = txids.length;
    while (at > 0 && txids[at - 1] > txid) at--;
    txids.splice(at, 0, txid);
  }
}
