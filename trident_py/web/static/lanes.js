// @ts-check
/** The bars of transactions, drawn on a canvas: it is drawn anew up to sixty times a second, so it is nothing but that. */

import { barsOf, gridStep } from "./bars.js";
import { tick } from "./format.js";

/** @typedef {import("./types.js").Transaction} Transaction */
/** @typedef {import("./bars.js").Kind} Kind */

/**
 * @typedef {object} Scene
 * @property {number} from
 * @property {number} to the time that is shown
 * @property {number} now what isn't over ends there
 * @property {boolean} isLive whether the right edge is now
 * @property {number} rowHeight
 * @property {Transaction[]} transactions from above
 * @property {number | null} pinned
 * @property {number | null} pointed
 */

export const AXIS_HEIGHT = 20;
export const TOP = 4;
const RIGHT = 10;
const TICK_WIDTH = 96;
const COLOURS = ["processing", "waiting", "committing", "failed", "replayed", "abandoned", "line", "dim", "hover", "ink"];

export class Lanes {
  /** @type {HTMLCanvasElement} */
  #canvas;
  /** @type {CanvasRenderingContext2D} */
  #context;
  /** @type {Record<string, string>} */
  #colours = {};
  #font = "";

  width = 0;
  height = 0;
  /** Where the time begins, in pixels: to the left are the numbers of transactions. */
  left = 64;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.restyle();
  }

  /** Take the colours of the page again, as they depend on light and dark. */
  restyle() {
    const style = getComputedStyle(this.#canvas);
    this.#colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.#font = `11px ${style.fontFamily}`;
  }

  /** Take the size of the canvas again; returns whether it is another one. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const isOther = this.#canvas.width !== Math.round(width * scale) || this.#canvas.height !== Math.round(height * scale);
    if (!isOther) return false;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    this.width = width;
    this.height = height;
    return true;
  }

  get plotWidth() {
    return Math.max(this.width - this.left - RIGHT, 1);
  }

  get plotHeight() {
    return this.height - AXIS_HEIGHT - TOP;
  }

  /**
   * Give the moment below a place.
   * @param {number} x
   * @param {number} from
   * @param {number} to
   */
  moment(x, from, to) {
    return from + ((x - this.left) / this.plotWidth) * (to - from);
  }

  /** @param {Scene} scene */
  draw(scene) {
    const context = this.#context;
    context.clearRect(0, 0, this.width, this.height);
    context.font = this.#font;
    this.#grid(scene);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width - this.left - RIGHT + 1, this.height - AXIS_HEIGHT);
    context.clip();
    scene.transactions.forEach((each, row) => this.#row(scene, each, TOP + row * scene.rowHeight));
    context.restore();
  }

  /** @param {Scene} scene */
  #grid({ from, to, isLive }) {
    const context = this.#context;
    const bottom = this.height - AXIS_HEIGHT;
    const step = gridStep(to - from, Math.max(1, this.plotWidth / TICK_WIDTH));
    const zone = new Date(to * 1e3).getTimezoneOffset() * 60;
    context.textAlign = "center";
    for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
      const x = Math.round(this.left + ((at - from) / (to - from)) * this.plotWidth) + 0.5;
      context.fillStyle = this.#colours.line;
      context.fillRect(x - 0.5, 0, 1, bottom);
      context.fillStyle = this.#colours.dim;
      if (x > this.left + 20 && x < this.width - (isLive ? 66 : 26)) context.fillText(tick(at, step), x, this.height - 6);
    }
    if (!isLive) return;
    context.textAlign = "right";
    context.fillStyle = this.#colours.ink;
    context.fillText("now", this.width - RIGHT + 4, this.height - 6);
    context.fillStyle = this.#colours.dim;
    context.fillRect(this.width - RIGHT, 0, 1, bottom);
  }

  /**
   * @param {Scene} scene
   * @param {Transaction} transaction
   * @param {number} y
   */
  #row(scene, transaction, y) {
    const { from, to, rowHeight } = scene;
    const pixels = this.plotWidth / (to - from);
    const gap = rowHeight >= 12 ? 4 : rowHeight >= 5 ? 2 : rowHeight >= 3 ? 1 : 0;
    if (transaction.txid === scene.pinned || transaction.txid === scene.pointed) {
      this.#context.fillStyle = this.#colours.hover;
      this.#context.fillRect(this.left, y, this.plotWidth + RIGHT, rowHeight);
    }
    for (const bar of barsOf(transaction, Math.min(scene.now, to))) {
      if (bar.to < from || bar.from > to) continue;
      const x = this.left + (Math.max(bar.from, from) - from) * pixels;
      const width = Math.max((Math.min(bar.to, to) - Math.max(bar.from, from)) * pixels, 1.5);
      this.#bar(bar.kind, x, y + gap / 2, width, rowHeight - gap);
    }
  }

  /**
   * @param {Kind} kind
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  #bar(kind, x, y, width, height) {
    const context = this.#context;
    context.fillStyle = this.#colours[kind];
    if (kind === "waiting" && height >= 4) {
      context.fillRect(x, y + height / 2 - 1, width, 2);
    } else if (kind === "abandoned" && height >= 4) {
      context.strokeStyle = this.#colours.abandoned;
      context.setLineDash([3, 2]);
      context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 1), height - 1);
      context.setLineDash([]);
    } else if (height >= 8 && width > 4) {
      context.beginPath();
      context.roundRect(x, y, width - 0.5, height, 2);
      context.fill();
    } else {
      context.fillRect(x, y, width, height);
    }
    if ((kind === "failed" || kind === "replayed") && height >= 8 && width >= 8) this.#stripes(x, y, width, height);
  }

  /**
   * Stripe what failed, so that it isn't told by its colour alone.
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  #stripes(x, y, width, height) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = this.#colours.hover;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let at = x - height + (x % 1); at < x + width; at += 6) {
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
    context.lineWidth = 1;
  }
}
