// @ts-check
/** The timeline: which time is shown, and which transactions of it; it follows what happens, unless somebody looks. */

import { begun, clampSpan, nextSpan, over, rowHeight, spanFor } from "./bars.js";
import { brief } from "./describe.js";
import { byId, say } from "./dom.js";
import { count, duration } from "./format.js";
import { handle } from "./gestures.js";
import { Lanes, TOP } from "./lanes.js";
import { Rows } from "./rows.js";
import { hideTip, showTip } from "./tip.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./stream.js").Clock} Clock */
/** @typedef {import("./types.js").Transaction} Transaction */

const LIVE_ROW_PIXELS = 14;
const STORED_ROW_PIXELS = 5;
const SPAN_SECONDS_MIN = 0.5;
const STEPPED_SECONDS = 3;
const LAYOUT_SECONDS = 1;
const FIT_ROOM = 1.15;
const FIT_CALM = 1.5;
const FRAME_PIXELS = 0.5;
const FRAME_SECONDS_MIN = 0.033;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Timeline {
  #lanes = new Lanes(byId("bars"));
  #rows = new Rows(byId("rows"));
  /** @type {Store} */
  #store;
  /** @type {Clock} */
  #clock;
  /** @type {(txid: number) => void} */
  #pin;
  /** @type {() => void} */
  #askOlder;

  #span = 10;
  #isFitted = true;
  /** @type {number | null} the right edge; null: it follows */
  #end = null;
  /** @type {number | null} since when somebody points at it, which holds it still */
  #held = null;
  #isLive = true;
  #heard = 0;
  #rowHeight = 18;
  /** @type {Transaction[]} */
  #shown = [];
  /** @type {number | null} */
  #pointed = null;
  #laidOut = 0;
  #isSeen = true;

  /** @type {number | null} */
  pinned = null;
  /** Whether messages come: where they don't, time stands still, or what was under way would seem to go on. */
  isConnected = true;

  /**
   * @param {Store} store
   * @param {Clock} clock
   * @param {(txid: number) => void} pin
   * @param {() => void} askOlder is called where somebody looks for what isn't known
   */
  constructor(store, clock, pin, askOlder) {
    [this.#store, this.#clock, this.#pin, this.#askOlder] = [store, clock, pin, askOlder];
    const lanes = byId("lanes");
    handle(lanes, this);
    new ResizeObserver(() => this.#lanes.resize() && this.layout()).observe(lanes);
    new IntersectionObserver(([entry]) => (this.#isSeen = entry.isIntersecting)).observe(lanes);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    byId("zoom-in").onclick = () => this.zoom(-1);
    byId("zoom-out").onclick = () => this.zoom(1);
    byId("zoom-auto").onclick = () => this.fit();
    byId("follow").onclick = () => this.follow();
    this.#frame();
  }

  /**
   * Show what is known now.
   * @param {boolean} isLive
   * @param {number} heard
   */
  refresh(isLive, heard) {
    this.#isLive = isLive;
    this.#heard = heard;
    byId("follow").hidden = !isLive;
    this.layout();
  }

  restyle() {
    this.#lanes.restyle();
    this.#draw();
  }

  // --- which time is shown --------------------------------------------------------------------------------------------

  get #isFollowing() {
    return this.#isLive && this.#end === null && this.#held === null;
  }

  /** The right edge. Where little time is shown it moves by each message: what is newer isn't known yet. */
  get #to() {
    if (this.#end !== null) return this.#end;
    if (this.#held !== null) return this.#held;
    if (!this.#isLive) return (this.#store.lastMoment() ?? this.#clock.now()) + this.#span * 0.02;
    return this.#span < STEPPED_SECONDS ? this.#heard : this.#now;
  }

  get #now() {
    return this.isConnected ? this.#clock.now() : this.#heard;
  }

  /** Follow what happens. */
  follow() {
    this.#end = null;
    this.#held = null;
    this.layout();
  }

  /** Choose the time by how fast transactions come, and follow. */
  fit() {
    this.#isFitted = true;
    this.follow();
  }

  /**
   * Show more time, or less.
   * @param {1 | -1} direction
   */
  zoom(direction) {
    this.scale(nextSpan(this.#span, direction) / this.#span, null);
  }

  /**
   * Show `factor` times as much time, around a place; null: the right edge, while it follows, or else the middle.
   * @param {number} factor
   * @param {number | null} x
   */
  scale(factor, x) {
    const to = this.#to;
    const oldest = this.#store.oldest();
    const span = clampSpan(this.#span * factor, oldest ? (to - begun(oldest)) * 2 : 0);
    const around = x === null ? to - this.#span / 2 : this.#lanes.moment(x, to - this.#span, to);
    if (this.#end !== null) this.#show(around + (to - around) * (span / this.#span));
    this.#span = span;
    this.#isFitted = false;
    this.layout();
  }

  /**
   * Show earlier time, by so many pixels; negative: later.
   * @param {number} pixels
   */
  pan(pixels) {
    this.#isFitted = false;
    this.#show(this.#to - (pixels / this.#lanes.plotWidth) * this.#span);
    this.layout();
  }

  /** Show what was until a moment; at the newest one, it follows again. @param {number} end */
  #show(end) {
    const newest = this.#isLive ? this.#now : (this.#store.lastMoment() ?? 0) + this.#span * 0.02;
    this.#end = end >= newest ? null : end;
  }

  /** Show earlier or later time, by a fifth of it. @param {1 | -1} direction */
  step(direction) {
    this.pan((direction * this.#lanes.plotWidth) / 5);
  }

  // --- who is pointed at -----------------------------------------------------------------------------------------------

  /** Hold still, as somebody looks. */
  hold() {
    if (this.#held !== null || this.#end !== null || !this.#isLive) return;
    this.#held = this.#to;
    this.#note();
  }

  /** Go on, as nobody looks any more. */
  release() {
    if (this.#rows.focused !== null) return;
    this.#held = null;
    this.#pointed = null;
    hideTip();
    this.layout();
  }

  /**
   * Tell of the transaction at a place of the canvas; null: of none.
   * @param {number} y
   * @param {number} clientX
   * @param {number} clientY
   */
  point(y, clientX, clientY) {
    const found = this.at(y);
    this.#pointed = found?.txid ?? null;
    if (found) showTip(brief(found, this.#clock.now()), clientX, clientY);
    else hideTip();
    this.#draw();
  }

  /** Tell of the transaction whose row has the focus. */
  pointFocused() {
    const found = this.#shown.find((each) => each.txid === this.#rows.focused);
    const place = found && this.#rows.place(found.txid);
    this.#pointed = found?.txid ?? null;
    if (found && place) showTip(brief(found, this.#clock.now()), place.left + this.#lanes.left, place.top);
    this.#draw();
  }

  /**
   * Give the transaction at a place of the canvas.
   * @param {number} y
   */
  at(y) {
    return this.#shown[Math.floor((y - TOP) / this.#rowHeight)] ?? null;
  }

  /** @param {number} by */
  move(by) {
    this.#rows.move(by);
  }

  /** @param {number} txid */
  pin(txid) {
    this.#pin(txid);
  }

  pinFocused() {
    const txid = this.#rows.focused;
    if (txid !== null) this.#pin(txid);
  }

  /**
   * Show the time of a transaction, unless that is shown.
   * @param {Transaction} transaction
   */
  reveal(transaction) {
    if (this.#shown.some((each) => each.txid === transaction.txid) || !this.#store.get(transaction.txid)) return;
    const end = over(transaction) ?? this.#now;
    this.#isFitted = false;
    this.#span = Math.max(this.#span, (end - begun(transaction)) * FIT_ROOM);
    this.#show(end + this.#span * 0.05);
    this.layout();
  }

  // --- drawing ---------------------------------------------------------------------------------------------------------

  layout() {
    if (document.hidden || !this.#lanes.width) return;
    this.#laidOut = performance.now();
    if (this.#isFitted && this.#held === null && this.#end === null) this.#fitSpan();
    const to = this.#to;
    const found = this.#store.between(to - this.#span, to);
    this.#rowHeight = rowHeight(found.length, this.#lanes.plotHeight, this.#rowHeight);
    this.#shown = found.slice(0, Math.floor(this.#lanes.plotHeight / this.#rowHeight));
    this.#rows.show(this.#shown, this.#rowHeight, this.pinned, this.#clock.now());
    byId("lanes-empty").hidden = this.#store.size > 0;
    this.#note(found.length - this.#shown.length);
    this.#draw();
    const oldest = this.#store.oldest();
    if (!this.#isFitted && oldest && begun(oldest) > to - this.#span) this.#askOlder();
  }

  /** Choose the time in which as many began as there is room for. */
  #fitSpan() {
    const to = this.#to;
    const rows = Math.floor(this.#lanes.plotHeight / (this.#isLive ? LIVE_ROW_PIXELS : STORED_ROW_PIXELS));
    let first = null;
    let n = 0;
    for (const each of this.#store.newestFirst()) {
      if (++n > rows) break;
      first = begun(each);
    }
    if (first === null) return;
    const needed = Math.max(to - first, SPAN_SECONDS_MIN);
    if (needed > this.#span || needed * FIT_CALM < this.#span) this.#span = spanFor(needed * FIT_ROOM);
  }

  /** @param {number} [hidden] */
  #note(hidden = 0) {
    say(byId("span"), duration(this.#span));
    byId("zoom-auto").setAttribute("aria-pressed", String(this.#isFitted));
    byId("follow").setAttribute("aria-pressed", String(this.#isLive && this.#end === null));
    const notes = [];
    if (hidden > 0 && !this.#isFitted) notes.push(`${count(hidden)} older ones of this time don't fit: zoom in`);
    if (this.#held !== null && this.#end === null) notes.push("held still while you look; it goes on when you leave");
    say(byId("lanes-note"), notes.join(" · "));
  }

  #draw() {
    const to = this.#to;
    this.#lanes.draw({
      from: to - this.#span,
      to,
      now: this.#isLive ? this.#now : to,
      isLive: this.#isLive && this.#end === null && this.#held === null,
      rowHeight: this.#rowHeight,
      transactions: this.#shown,
      pinned: this.pinned,
      pointed: this.#pointed,
    });
  }

  /** Draw again when something has moved by half a pixel, thirty times a second at most; in a hidden tab never. */
  #frame() {
    const seconds = (FRAME_PIXELS * this.#span) / this.#lanes.plotWidth;
    const wait = calm.matches ? LAYOUT_SECONDS : Math.min(Math.max(seconds, FRAME_SECONDS_MIN), LAYOUT_SECONDS);
    const next = () =>
      requestAnimationFrame(() => {
        if (this.#isFollowing && this.#isSeen) {
          if (performance.now() - this.#laidOut > LAYOUT_SECONDS * 1e3) this.layout();
          else if (!calm.matches && this.#span >= STEPPED_SECONDS) this.#draw();
        }
        this.#frame();
      });
    setTimeout(next, wait * 1e3 - 8);
  }
}
