// @ts-check
/** Throughput, latency and lag over time. */

import { Chart } from "./chart.js";
import { byId } from "./dom.js";
import { duration, rateText, short } from "./format.js";
import { sum } from "./samples.js";

/** @typedef {import("./samples.js").Samples} Samples */
/** @typedef {ReturnType<Samples["binned"]>} Bins */

const LIVE_SECONDS_MAX = 300;
const LIVE_SECONDS_MIN = 60;
const BIN_PIXELS = 4;
const BIN_SECONDS = 2.5;
const BIN_TRANSACTIONS = 5;
const BINS_MIN = 20;
const SPOUTS_MAX = 4;
const PHASES = /** @type {const} */ (["processing", "waiting", "committing", "before"]);

export class Charts {
  #transactions = new Chart("chart-transactions", "Transactions", rateText);
  #rows = new Chart("chart-rows", "Rows", rateText);
  #latency = new Chart("chart-latency", "Latency", duration);
  #lag = new Chart("chart-lag", "Lag", (value) => (value === null ? "–" : short(value)));
  /** @type {Samples} */
  #samples;

  /** @param {Samples} samples */
  constructor(samples) {
    this.#samples = samples;
    byId("charts").append(this.#transactions.element, this.#rows.element, this.#latency.element, this.#lag.element);
  }

  /**
   * Show what is known; of what isn't live, all of it.
   * @param {boolean} isLive
   * @param {number} now
   */
  refresh(isLive, now) {
    const [from, to, bins] = this.#bins(isLive, now);
    const drawn = { from, to, areas: [], lines: [] };
    this.#transactions.draw({ ...drawn, areas: [{ name: "", colour: "committing", values: bins.map((each) => each.sum?.transactions ?? null) }] });
    this.#rows.draw({ ...drawn, areas: [{ name: "", colour: "processing", values: bins.map((each) => each.sum?.rows ?? null) }] });
    this.#latency.draw({
      ...drawn,
      areas: PHASES.map((phase) => ({
        name: phase === "before" ? "replays" : phase,
        colour: phase === "before" ? "failed" : phase,
        values: bins.map((each) => each.sum?.phases?.[phase] ?? null),
      })).filter(({ name, values }) => name !== "replays" || values.some(Boolean)),
      lines: [{ name: "p95", colour: "ink", values: bins.map((each) => each.sum?.p95 ?? null) }],
    });
    const lags = lagLines(bins);
    this.#lag.element.hidden = !lags.length;
    this.#lag.draw({ ...drawn, lines: lags });
  }

  /**
   * @param {boolean} isLive
   * @param {number} now
   * @returns {[number, number, Bins]}
   */
  #bins(isLive, now) {
    const pixels = this.#lag.element.clientWidth || this.#latency.element.clientWidth;
    const binsMax = Math.max(BINS_MIN, Math.floor(pixels / BIN_PIXELS));
    const known = this.#samples.extent() ?? [now, now];
    const few = BIN_TRANSACTIONS / (this.#samples.all()?.transactions || Infinity); // so long a bin has to be, to be calm
    if (!isLive && known[1] > known[0]) {
      const wanted = Math.round((known[1] - known[0]) / few);
      return [...known, this.#samples.binned(...known, Math.min(Math.max(wanted, BINS_MIN), binsMax))];
    }
    const seconds = Math.min(Math.max(now - known[0], LIVE_SECONDS_MIN), Math.max(LIVE_SECONDS_MAX, few * BINS_MIN));
    const width = Math.max(BIN_SECONDS, seconds / binsMax, Math.min(few, seconds / BINS_MIN));
    const to = Math.ceil(now / width) * width; // else each message would put samples into other bins, and all would tremble
    const bins = Math.ceil(seconds / width);
    return [to - bins * width, to, this.#samples.binned(to - bins * width, to, bins)];
  }
}

/**
 * Give a line for each spout; where there are many, one for the total.
 * @param {Bins} bins
 */
function lagLines(bins) {
  const spouts = [...new Set(bins.flatMap((each) => Object.keys(each.sum?.lag ?? {})))].sort();
  if (spouts.length <= SPOUTS_MAX) {
    return spouts.map((spout, i) => ({ name: spout, colour: `spout${i}`, values: bins.map((each) => each.sum?.lag?.[spout] ?? null) }));
  }
  const totals = bins.map((each) => (each.sum?.lag ? sum(Object.values(each.sum.lag)) : null));
  return [{ name: `all ${spouts.length} spouts`, colour: "spout0", values: totals }];
}
