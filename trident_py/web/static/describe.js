// @ts-check
/** A transaction in words: in short beside the pointer, in full in the details. */

import { begun, isUnderWay, lastAttempt, latency } from "./bars.js";
import { html, termList } from "./dom.js";
import { clock, count, counted, duration } from "./format.js";

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./types.js").Attempt} Attempt */

const TIP_CHARS_MAX = 180;
const TIP_FAILURES_MAX = 3;
const OUTCOMES = {
  processing: "processing",
  processed: "processed, waits for its turn",
  committed: "committed",
  parked: "parked: all outputs leave it out until it is released",
  failed: "failed",
  abandoned: "abandoned: its leader ended, and it is not known to have committed",
};

/**
 * Name a transaction, with its attempt if that isn't the first.
 * @param {Transaction} transaction
 */
export function title({ txid, attempts }) {
  return attempts.length > 1 ? `${txid}:${attempts[attempts.length - 1].attempt_id}` : String(txid);
}

/**
 * Say in a line what became of a transaction.
 * @param {Transaction} transaction
 * @param {number} now
 */
export function sentence(transaction, now) {
  const failures = transaction.attempts.filter((each) => each.outcome === "failed").length;
  const took = latency(transaction)?.total ?? (isUnderWay(transaction) ? now - begun(transaction) : null);
  const parts = [`transaction ${title(transaction)}`, OUTCOMES[transaction.outcome]];
  if (failures) parts.push(counted(failures, "failed attempt"));
  if (took !== null) parts.push(isUnderWay(transaction) ? `for ${duration(took)}` : `in ${duration(took)}`);
  return parts.join(", ");
}

/**
 * Tell what is known of a transaction beside the pointer.
 * @param {Transaction} transaction
 * @param {number} now
 * @returns {Node[]}
 */
export function brief(transaction, now) {
  const last = lastAttempt(transaction);
  const failed = transaction.attempts.filter((each) => each.error && each !== last);
  return [
    html("strong", {}, `${last.attempt} `, html("span", { class: `outcome ${last.outcome}` }, OUTCOMES[last.outcome])),
    termList([...facts(last, now, TIP_CHARS_MAX), ...earlier(failed.slice(-TIP_FAILURES_MAX))]),
  ];
}

/**
 * @param {Attempt[]} failed
 * @returns {[string, string][]}
 */
function earlier(failed) {
  return failed.map((each) => [`${each.attempt} failed`, cut(each.error ?? "", TIP_CHARS_MAX)]);
}

/**
 * Tell all that is known of a transaction.
 * @param {Transaction} transaction
 * @param {number} now
 * @returns {Node[]}
 */
export function full(transaction, now) {
  const total = latency(transaction);
  const attempts = [...transaction.attempts].reverse().map((each) =>
    html(
      "section",
      { class: "attempt", "data-attempt": each.attempt },
      html("h3", {}, `Attempt ${each.attempt} `, html("span", { class: `outcome ${each.outcome}` }, OUTCOMES[each.outcome])),
      phases(each),
      termList(facts(each, now, Infinity)),
    ),
  );
  const note = total && transaction.attempts.length > 1
    ? html("p", { class: "note" }, `${duration(total.total)} from its first attempt to its commit, by ${counted(transaction.attempts.length, "attempt")}`)
    : null;
  return note ? [note, ...attempts] : attempts;
}

/** @param {Attempt} attempt */
function phases(attempt) {
  const parts = /** @type {[string, number][]} */ ([
    ["processing", attempt.processing],
    ["waiting", attempt.waiting],
    ["committing", Math.max(0, attempt.committing - attempt.waiting)],
  ]).filter(([, seconds]) => seconds > 0);
  if (attempt.outcome !== "committed" || !parts.length) return null;
  const bar = html("div", { class: "phases", "aria-hidden": "true" });
  for (const [phase, seconds] of parts) {
    const part = html("span", { class: phase });
    part.style.flexGrow = String(seconds * 1e6); // below a sum of 1 they would not fill it
    bar.append(part);
  }
  return bar;
}

/**
 * @param {Attempt} attempt
 * @param {number} now
 * @param {number} charsMax
 * @returns {[string, Node | string | null][]}
 */
function facts(attempt, now, charsMax) {
  const isFull = charsMax === Infinity;
  const by = attempt.host ? `pid ${attempt.pid} on ${attempt.host}, epoch ${attempt.epoch}` : `epoch ${attempt.epoch}`;
  const code = attempt.code ? `, code ${attempt.code}` : "";
  return [
    ["error", attempt.error ? html("span", { class: "error" }, cut(attempt.error, charsMax)) : null],
    ["given up with", attempt.failed && attempt.failed !== attempt.attempt ? attempt.failed : null],
    ["processing", attempt.outcome === "processing" ? `for ${duration(now - attempt.emitted)}` : nonzero(attempt.processing)],
    ["waited", nonzero(attempt.waiting)],
    ["committing", nonzero(attempt.committing - attempt.waiting)],
    ["rows read", attempt.rows ? count(attempt.rows) : null],
    ["written", pairs(attempt.written)],
    ["counted", pairs(attempt.counts)],
    ["begun", clock(attempt.emitted, now)],
    ["ended", isFull && attempt.ended ? clock(attempt.ended, now) : null],
    ["spouts told", isFull && attempt.succeeded ? clock(attempt.succeeded, now) : null],
    ["known to spouts as", isFull ? numberOf(attempt) : null],
    ["by", isFull && attempt.version ? `${by}, trident_py ${attempt.version}${code}` : `${by}${code}`],
    ...Object.entries(attempt.definition).map(([spout, what]) => defined(spout, what, charsMax)),
  ];
}

/** @param {Attempt} attempt */
function numberOf(attempt) {
  return attempt.number === null ? "nothing: it is empty" : attempt.number === attempt.txid ? null : count(attempt.number);
}

/**
 * @param {string} spout
 * @param {unknown} what
 * @param {number} charsMax
 * @returns {[string, Node]}
 */
function defined(spout, what, charsMax) {
  const text = charsMax === Infinity ? lines(what) : JSON.stringify(what);
  return [`batch of ${spout}`, html("code", {}, cut(text, charsMax))];
}

/**
 * Give JSON with a line for each of its parts.
 * @param {unknown} json
 */
function lines(json) {
  if (Array.isArray(json)) return json.map((each) => JSON.stringify(each)).join("\n") || "[]";
  if (typeof json !== "object" || json === null) return JSON.stringify(json);
  return Object.entries(json).map(([name, each]) => `${name}: ${JSON.stringify(each)}`).join("\n") || "{}";
}

/** @param {number} seconds */
function nonzero(seconds) {
  return seconds > 0 ? duration(seconds) : null;
}

/** @param {Record<string, number>} numbers */
function pairs(numbers) {
  return Object.entries(numbers).map(([name, n]) => `${name} ${count(n)}`).join(", ");
}

/**
 * @param {string} text
 * @param {number} charsMax
 */
export function cut(text, charsMax) {
  return text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text;
}
