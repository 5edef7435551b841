// @ts-check
/** A small chart over time, with a reading at the pointer or, by arrow keys, at the focus. */

import { html, say, svg } from "./dom.js";
import { tick } from "./format.js";

/** @typedef {{name: string, colour: string, values: (number | null)[]}} Series */

/**
 * @typedef {object} Drawing
 * @property {number} from
 * @property {number} to
 * @property {Series[]} areas stacked, the lowest first
 * @property {Series[]} lines
 */

const HEIGHT = 108;
const TOP = 8;
const BOTTOM = 18;

export class Chart {
  /** @type {(value: number | null) => string} */
  #format;
  #reading = html("p", { class: "reading", "aria-live": "off" });
  #plot = svg("svg", { role: "img", tabindex: 0 });
  /** @type {HTMLElement} */
  element;
  /** @type {Drawing | null} */
  #drawing = null;
  /** @type {number | null} the bin that is read; null: the last one */
  #at = null;
  #width = 0;
  /** @type {string} */
  #title;

  /**
   * @param {string} id
   * @param {string} title
   * @param {(value: number | null) => string} format
   */
  constructor(id, title, format) {
    this.#title = title;
    this.#format = format;
    this.element = html("figure", { id, class: "chart" }, html("figcaption", {}, html("h2", {}, title), this.#reading), this.#plot);
    this.#listen();
    new ResizeObserver(() => {
      this.#width = this.element.clientWidth;
      if (this.#drawing) this.draw(this.#drawing);
    }).observe(this.element);
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    this.#drawing = drawing;
    if (!this.#width) return;
    const { areas, lines } = drawing;
    const bins = (areas[0] ?? lines[0])?.values.length ?? 0;
    const stacked = stack(areas);
    const highest = Math.max(0, ...stacked.flat().map((each) => each ?? 0), ...lines.flatMap((each) => each.values.map((value) => value ?? 0)));
    const top = nice(highest);
    const x = (/** @type {number} */ bin) => ((bin + 0.5) / Math.max(bins, 1)) * this.#width;
    const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    this.#plot.setAttribute("viewBox", `0 0 ${this.#width} ${HEIGHT}`);
    this.#plot.setAttribute("height", String(HEIGHT));
    this.#plot.replaceChildren(
      ...this.#grid(drawing, top, y),
      ...areas.map((each, i) => svg("path", { class: `area ${each.colour}`, d: areaPath(stacked[i], stacked[i - 1], x, y) })).reverse(),
      ...lines.map((each) => svg("path", { class: `line ${each.colour}`, d: linePath(each.values, x, y) })),
      svg("text", { class: "scale", x: 0, y: y(top) + 12 }, this.#format(top)),
      ...this.#cursor(bins, x),
    );
    this.#read(bins);
  }

  /**
   * @param {Drawing} drawing
   * @param {number} top
   * @param {(value: number) => number} y
   */
  #grid({ from, to }, top, y) {
    const step = (to - from) / 6;
    return [
      svg("line", { class: "grid", x1: 0, x2: this.#width, y1: y(top), y2: y(top) }),
      svg("line", { class: "base", x1: 0, x2: this.#width, y1: y(0), y2: y(0) }),
      svg("text", { class: "time", x: 0, y: HEIGHT - 4 }, tick(from, step)),
      svg("text", { class: "time end", x: this.#width, y: HEIGHT - 4 }, tick(to, step)),
    ];
  }

  /**
   * @param {number} bins
   * @param {(bin: number) => number} x
   */
  #cursor(bins, x) {
    if (this.#at === null) return [];
    const at = x(Math.min(this.#at, bins - 1));
    return [svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM })];
  }

  /** @param {number} bins */
  #read(bins) {
    const drawing = /** @type {Drawing} */ (this.#drawing);
    const all = [...drawing.areas, ...drawing.lines];
    const known = (/** @type {number} */ bin) => all.some((each) => each.values[bin] !== null && each.values[bin] !== undefined);
    let bin = this.#at ?? bins - 1;
    if (this.#at === null) while (bin > 0 && !known(bin)) bin--;
    const at = drawing.from + ((bin + 0.5) / bins) * (drawing.to - drawing.from);
    const parts = all.map((each) =>
      html("span", { class: each.colour }, `${each.name} `, html("b", {}, this.#format(each.values[bin] ?? null))),
    );
    if (this.#at !== null) parts.push(html("span", { class: "when" }, tick(at, 1)));
    const text = parts.map((each) => each.textContent).join(", ");
    if (this.#reading.textContent !== parts.map((each) => each.textContent).join("")) this.#reading.replaceChildren(...parts);
    this.#plot.setAttribute("aria-label", `${this.#title}: ${text}`);
  }

  #listen() {
    const redraw = () => this.#drawing && this.draw(this.#drawing);
    const bins = () => (this.#drawing?.areas[0] ?? this.#drawing?.lines[0])?.values.length ?? 0;
    this.#plot.addEventListener("pointermove", (event) => {
      const { left, width } = this.#plot.getBoundingClientRect();
      this.#at = Math.min(Math.max(Math.floor(((event.clientX - left) / width) * bins()), 0), bins() - 1);
      redraw();
    });
    this.#plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      this.#at = Math.min(Math.max((this.#at ?? bins()) + by, 0), bins() - 1);
      this.#reading.setAttribute("aria-live", "polite");
      redraw();
    });
    for (const name of ["pointerleave", "blur"]) {
      this.#plot.addEventListener(name, () => {
        this.#at = null;
        this.#reading.setAttribute("aria-live", "off");
        redraw();
      });
    }
  }
}

/**
 * @param {Series[]} areas
 * @returns {(number | null)[][]}
 */
function stack(areas) {
  /** @type {(number | null)[][]} */
  const stacked = [];
  for (const { values } of areas) {
    const below = stacked[stacked.length - 1];
    stacked.push(values.map((value, bin) => (value === null ? null : value + (below?.[Math.round(bin)] ?? 0))));
  }
  return stacked;
}

/**
 * Give the runs of bins about which something is known; single gaps are bridged, as bins and messages don't coincide.
 * @param {(number | null)[]} values
 */
function runs(values) {
  /** @type {[number, number][][]} */
  const found = [];
  let last = -9;
  values.forEach((value, bin) => {
    if (value === null) return;
    if (bin - last > 3) found.push([]);
    found[found.length - 1].push([bin, value]);
    last = bin;
  });
  return found.map((run) => (run.length > 1 ? run : alone(run[0])));
}

/**
 * Make a bin without neighbours as wide as it is, or nothing of it would be seen.
 * @param {[number, number]} point
 * @returns {[number, number][]}
 */
function alone([bin, value]) {
  return [[bin - 0.45, value], [bin + 0.45, value]];
}

/**
 * @param {(number | null)[]} values
 * @param {(bin: number) => number} x
 * @param {(value: number) => number} y
 */
function linePath(values, x, y) {
  return runs(values).map((run) => `M${points(run, x, y)}`).join("");
}

/**
 * @param {(number | null)[]} values
 * @param {(number | null)[] | undefined} below
 * @param {(bin: number) => number} x
 * @param {(value: number) => number} y
 */
function areaPath(values, below, x, y) {
  return runs(values).map((run) => {
    const back = run.map(([bin]) => /** @type {[number, number]} */ ([bin, below?.[Math.round(bin)] ?? 0])).reverse();
    return `M${points(run, x, y)}L${points(back, x, y)}Z`;
  }).join("");
}

/**
 * @param {[number, number][]} run
 * @param {(bin: number) => number} x
 * @param {(value: number) => number} y
 */
function points(run, x, y) {
  return run.map(([bin, value]) => `${x(bin).toFixed(1)},${y(value).toFixed(1)}`).join("L");
}

/**
 * Give the next number that reads well.
 * @param {number} n
 */
function nice(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= n * 1.02) ?? 20;
  return step * power;
}
