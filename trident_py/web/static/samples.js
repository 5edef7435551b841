// @ts-check
/** What is measured over time: a sample for each message, and rates, latencies and lags of some time made of them. */

import { latency } from "./bars.js";

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./types.js").Message} Message */
/** @typedef {import("./types.js").Status} Status */
/** @typedef {NonNullable<ReturnType<typeof latency>>} Latency */

/**
 * @typedef {object} Sample
 * @property {number} at the end of the time that it is about
 * @property {number} seconds how long that was
 * @property {number} committed transactions
 * @property {number} rows
 * @property {Latency[]} latencies of those transactions that came
 * @property {Record<string, number>} written by state and sink, of those that came
 * @property {Record<string, number> | null} lag by spout
 */

const SAMPLES_MAX = 2000;
const LATENCIES_MAX = 100;
const SEEDS = 150;

export class Samples {
  /** @type {Sample[]} */
  #samples = [];
  /** @type {{at: number, epoch: number | null, committed: number, rows: number} | null} */
  #before = null;

  /**
   * @param {Message} message
   * @param {Transaction[]} committed those that are new in it
   */
  take(message, committed) {
    const { status, now } = message;
    if (this.#before === null) this.seed(committed);
    else this.#add(this.#measured(status, now, committed));
    this.#before = { at: now, epoch: status.epoch, committed: status.committed, rows: status.rows };
  }

  /**
   * Make samples of what was committed before the page was opened; those that there are are dropped.
   * @param {Transaction[]} committed
   */
  seed(committed) {
    const ended = committed.map((each) => endOf(each)).sort((a, b) => a - b);
    this.#samples = [];
    if (ended.length < 2) return;
    const first = ended[0];
    const width = Math.max((ended[ended.length - 1] - first) / SEEDS, 0.5);
    /** @type {Map<number, Transaction[]>} */
    const bins = new Map();
    const last = Math.floor((ended[ended.length - 1] - first) / width);
    for (let i = 0; i <= last; i++) bins.set(i, []);
    for (const each of committed) bins.get(Math.floor((endOf(each) - first) / width))?.push(each);
    for (const [i, each] of bins) this.#add(sampleOf(first + (i + 1) * width, width, each.length, rowsOf(each), each, null));
  }

  /**
   * @param {Status} status
   * @param {number} now
   * @param {Transaction[]} seen
   * @returns {Sample}
   */
  #measured(status, now, seen) {
    const before = this.#before;
    const lag = Object.fromEntries(Object.entries(status.lag).map(([spout, parts]) => [spout, sum(Object.values(parts))]));
    const isSame = before !== null && status.is_leading && status.epoch === before.epoch && status.committed >= before.committed;
    const committed = isSame ? status.committed - before.committed : seen.length;
    const rows = isSame ? status.rows - before.rows : rowsOf(seen);
    return sampleOf(now, Math.max(before === null ? 0 : now - before.at, 0.001), committed, rows, seen, lag);
  }

  /** @param {Sample} sample */
  #add(sample) {
    this.#samples.push(sample);
    if (this.#samples.length > SAMPLES_MAX) this.#thin();
  }

  /** Put each two of the older half together: so a day fits into the same memory as an hour, only less sharply. */
  #thin() {
    const older = this.#samples.splice(0, SAMPLES_MAX / 2);
    const thinner = older.flatMap((each, i) => (i % 2 ? [] : [i + 1 < older.length ? together(each, older[i + 1]) : each]));
    this.#samples.unshift(...thinner);
  }

  /** @returns {[number, number] | null} the time that the samples are about */
  extent() {
    const [first] = this.#samples;
    const last = this.#samples[this.#samples.length - 1];
    return first ? [first.at - first.seconds, last.at] : null;
  }

  /**
   * Put the samples between two moments together, `bins` of them at most; a bin about which nothing is known is null.
   * @param {number} from
   * @param {number} to
   * @param {number} bins
   */
  binned(from, to, bins) {
    const width = (to - from) / bins;
    /** @type {Sample[][]} */
    const parts = Array.from({ length: bins }, () => []);
    for (const each of this.#samples) {
      const bin = Math.floor((each.at - from) / width);
      if (bin >= 0 && bin < bins) parts[bin].push(each);
    }
    return parts.map((part, i) => ({ at: from + (i + 0.5) * width, sum: part.length ? summary(part) : null }));
  }

  /**
   * Summarize the last `seconds`; null: nothing is known of these.
   * @param {number} seconds
   */
  last(seconds) {
    const last = this.#samples[this.#samples.length - 1];
    if (!last) return null;
    return summary(this.#samples.filter((each) => each.at > last.at - seconds));
  }

  /** Summarize all of it; null: nothing is known. */
  all() {
    return this.#samples.length ? summary(this.#samples) : null;
  }
}

/**
 * @param {number} at
 * @param {number} seconds
 * @param {number} committed
 * @param {number} rows
 * @param {Transaction[]} seen
 * @param {Record<string, number> | null} lag
 * @returns {Sample}
 */
function sampleOf(at, seconds, committed, rows, seen, lag) {
  /** @type {Latency[]} */
  const latencies = [];
  /** @type {Record<string, number>} */
  const written = {};
  for (const each of seen) {
    const one = latency(each);
    if (one && latencies.length < LATENCIES_MAX) latencies.push(one);
    const last = each.attempts[each.attempts.length - 1];
    for (const [name, n] of Object.entries(last.written)) written[name] = (written[name] ?? 0) + n;
  }
  const known = Math.max(seen.length, 1); // of more transactions than came, as much again is taken to be written
  for (const name of Object.keys(written)) written[name] *= Math.max(committed, 1) / known;
  return { at, seconds, committed, rows, latencies, written, lag };
}

/**
 * @param {Sample} a
 * @param {Sample} b
 * @returns {Sample}
 */
function together(a, b) {
  const written = { ...a.written };
  for (const [name, n] of Object.entries(b.written)) written[name] = (written[name] ?? 0) + n;
  return {
    at: b.at,
    seconds: a.seconds + b.seconds,
    committed: a.committed + b.committed,
    rows: a.rows + b.rows,
    latencies: [...a.latencies, ...b.latencies].slice(0, LATENCIES_MAX),
    written,
    lag: b.lag ?? a.lag,
  };
}

/** @param {Sample[]} samples */
function summary(samples) {
  const seconds = sum(samples.map((each) => each.seconds));
  const latencies = samples.flatMap((each) => each.latencies);
  const totals = latencies.map((each) => each.total).sort((a, b) => a - b);
  /** @type {Record<string, number>} */
  const written = {};
  for (const each of samples) for (const [name, n] of Object.entries(each.written)) written[name] = (written[name] ?? 0) + n / seconds;
  const mean = (/** @type {keyof Latency} */ phase) => sum(latencies.map((each) => each[phase])) / latencies.length;
  return {
    seconds,
    transactions: sum(samples.map((each) => each.committed)) / seconds,
    rows: sum(samples.map((each) => each.rows)) / seconds,
    committed: sum(samples.map((each) => each.committed)),
    written,
    lag: samples.findLast((each) => each.lag)?.lag ?? null,
    median: quantile(totals, 0.5),
    p95: quantile(totals, 0.95),
    phases: latencies.length
      ? { before: mean("before"), processing: mean("processing"), waiting: mean("waiting"), committing: mean("committing") }
      : null,
  };
}

/** @param {Transaction} transaction */
function endOf(transaction) {
  const last = transaction.attempts[transaction.attempts.length - 1];
  return last.ended ?? last.emitted + last.processing + last.committing;
}

/** @param {Transaction[]} transactions */
function rowsOf(transactions) {
  return sum(transactions.map((each) => each.attempts[each.attempts.length - 1].rows));
}

/** @param {number[]} numbers */
export function sum(numbers) {
  return numbers.reduce((a, b) => a + b, 0);
}

/**
 * @param {number[]} sorted
 * @param {number} part
 * @returns {number | null}
 */
function quantile(sorted, part) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] : null;
}
