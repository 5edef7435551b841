// @ts-check
/** What of a transaction is drawn where: pure, without a canvas. */

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./types.js").Attempt} Attempt */
/** @typedef {"processing" | "waiting" | "committing" | "failed" | "replayed" | "abandoned"} Kind */
/** @typedef {{kind: Kind, from: number, to: number}} Bar */

const ABANDONED_SECONDS_MIN = 0.2;
const SPAN_SECONDS_MIN = 0.02;
const SPAN_SECONDS_ROOM = 60;

/**
 * Give the bars of a transaction, oldest first; what isn't over ends `now`.
 * @param {Transaction} transaction
 * @param {number} now
 * @returns {Bar[]}
 */
export function barsOf(transaction, now) {
  /** @type {Bar[]} */
  const bars = [];
  for (const attempt of transaction.attempts) addBars(bars, attempt, now);
  return bars;
}

/**
 * @param {Bar[]} bars
 * @param {Attempt} attempt
 * @param {number} now
 */
function addBars(bars, attempt, now) {
  const from = attempt.emitted;
  const processed = from + attempt.processing;
  switch (attempt.outcome) {
    case "processing":
      bars.push({ kind: "processing", from, to: Math.max(now, from) });
      break;
    case "processed":
      bars.push({ kind: "processing", from, to: processed });
      bars.push({ kind: "waiting", from: processed, to: Math.max(now, processed) });
      break;
    case "committed":
    case "parked": {
      const to = attempt.ended ?? processed + attempt.committing;
      const turn = Math.min(Math.max(to - (attempt.committing - attempt.waiting), from), to);
      const done = Math.min(processed, turn);
      bars.push({ kind: "processing", from, to: done });
      if (turn > done) bars.push({ kind: "waiting", from: done, to: turn });
      bars.push({ kind: "committing", from: turn, to });
      break;
    }
    case "failed": {
      const kind = attempt.failed && attempt.failed !== attempt.attempt ? "replayed" : "failed";
      bars.push({ kind, from, to: attempt.ended ?? processed });
      break;
    }
    default: {
      const to = attempt.ended ?? Math.max(processed + attempt.committing, from + ABANDONED_SECONDS_MIN);
      bars.push({ kind: "abandoned", from, to });
    }
  }
}

/**
 * @param {Transaction} transaction
 * @returns {Attempt}
 */
export function lastAttempt(transaction) {
  return transaction.attempts[transaction.attempts.length - 1];
}

/** @param {Transaction} transaction */
export function begun(transaction) {
  return transaction.attempts[0].emitted;
}

/**
 * Give when it was over; null: it isn't.
 * @param {Transaction} transaction
 * @returns {number | null}
 */
export function over(transaction) {
  const last = lastAttempt(transaction);
  if (last.outcome === "processing" || last.outcome === "processed") return null;
  return last.ended ?? last.emitted + last.processing + last.committing;
}

/** @param {Transaction} transaction */
export function isClosed(transaction) {
  return transaction.outcome === "committed" || transaction.outcome === "parked";
}

/** @param {Transaction} transaction */
export function isUnderWay(transaction) {
  return transaction.outcome === "processing" || transaction.outcome === "processed";
}

/**
 * Give the time from the first attempt's beginning to the commit, and what it consists of; null: it isn't committed.
 * @param {Transaction} transaction
 */
export function latency(transaction) {
  const last = lastAttempt(transaction);
  if (last.outcome !== "committed") return null;
  const before = last.emitted - begun(transaction);
  const committing = Math.max(0, last.committing - last.waiting);
  return {
    before,
    processing: last.processing,
    waiting: last.waiting,
    committing,
    total: before + last.processing + last.waiting + committing,
  };
}

const SPANS = [0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
const ROWS = [18, 15, 12, 10, 8, 6, 5, 4, 3, 2];

/**
 * Give the next larger (`+1`) or smaller (`-1`) time to show.
 * @param {number} span
 * @param {1 | -1} direction
 */
export function nextSpan(span, direction) {
  const found = direction > 0 ? SPANS.find((each) => each > span * 1.01) : SPANS.findLast((each) => each < span * 0.99);
  return found ?? span;
}

/**
 * Give a time to show that is as long as `seconds`, or up to a tenth longer: a round one.
 * @param {number} seconds
 */
export function spanFor(seconds) {
  const power = 10 ** Math.floor(Math.log10(seconds));
  return (Math.ceil((seconds / power) * 10 - 1e-9) / 10) * power;
}

/**
 * Give a time that can be shown: not much more than is known.
 * @param {number} span
 * @param {number} most
 */
export function clampSpan(span, most) {
  return Math.min(Math.max(span, SPAN_SECONDS_MIN), Math.max(most, SPAN_SECONDS_ROOM));
}

/**
 * Give the seconds between two lines of the grid, so that there are at most `lines`.
 * @param {number} span
 * @param {number} lines
 */
export function gridStep(span, lines) {
  return STEPS.find((each) => span / each <= lines) ?? span;
}

/**
 * Give the height of a row such that `rows` fit, in pixels; a row grows only if there is room to spare, so it is calm.
 * @param {number} rows
 * @param {number} height
 * @param {number} before
 */
export function rowHeight(rows, height, before) {
  const fits = (/** @type {number} */ each) => each * rows <= height * (each > before ? 0.8 : 1);
  return ROWS.find(fits) ?? ROWS[ROWS.length - 1];
}
