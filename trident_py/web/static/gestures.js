// @ts-check
/** What wheels, fingers, mice and keys mean in the timeline. */

/** @typedef {import("./timeline.js").Timeline} Timeline */

const DRAG_PIXELS_MIN = 5;
const SCROLL_MILLIS = 300;

/**
 * @param {HTMLElement} lanes
 * @param {Timeline} timeline
 */
export function handle(lanes, timeline) {
  wheel(lanes, timeline);
  pointers(lanes, timeline);
  keys(lanes, timeline);
  lanes.addEventListener("focusin", (event) => {
    if (!(/** @type {Element} */ (event.target).matches(":focus-visible"))) return;
    timeline.hold();
    timeline.pointFocused();
  });
  lanes.addEventListener("focusout", () => setTimeout(() => timeline.release()));
}

/**
 * @param {HTMLElement} lanes
 * @param {Timeline} timeline
 */
function wheel(lanes, timeline) {
  let scrolled = 0;
  window.addEventListener("wheel", (event) => {
    if (!lanes.contains(/** @type {Node} */ (event.target))) scrolled = event.timeStamp;
  }, { passive: true });
  lanes.addEventListener("wheel", (event) => {
    if (event.timeStamp - scrolled < SCROLL_MILLIS) {
      scrolled = event.timeStamp; // the page is being scrolled, and the timeline only came below the pointer
      return;
    }
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (sideways) timeline.pan(-sideways * unit);
    else timeline.scale(Math.exp(event.deltaY * unit * 0.002), event.clientX - lanes.getBoundingClientRect().left);
  }, { passive: false });
}

/**
 * @param {HTMLElement} lanes
 * @param {Timeline} timeline
 */
function pointers(lanes, timeline) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let moved = 0;
  lanes.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && timeline.hold());
  lanes.addEventListener("pointerleave", () => !down.size && timeline.release());
  lanes.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!down.size) moved = 0;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  lanes.addEventListener("pointermove", (event) => {
    const { left, top } = lanes.getBoundingClientRect();
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") timeline.point(event.clientY - top, event.clientX, event.clientY);
      return;
    }
    const now = { x: event.clientX, y: event.clientY };
    const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    moved += Math.abs(now.x - before.x);
    if (moved < DRAG_PIXELS_MIN) return;
    if (!lanes.hasPointerCapture(event.pointerId)) lanes.setPointerCapture(event.pointerId);
    if (other) timeline.scale(Math.abs(before.x - other.x) / Math.max(Math.abs(now.x - other.x), 1), (now.x + other.x) / 2 - left);
    else timeline.pan(now.x - before.x);
    down.set(event.pointerId, now);
  });
  for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
    lanes.addEventListener(name, (event) => down.delete(event.pointerId));
  }
  lanes.addEventListener("click", (event) => {
    if (moved >= DRAG_PIXELS_MIN) return;
    const row = /** @type {Element} */ (event.target).closest("[data-txid]");
    const found = row ? Number(row.getAttribute("data-txid")) : timeline.at(event.clientY - lanes.getBoundingClientRect().top)?.txid;
    if (found !== undefined) timeline.pin(found);
  });
}

/**
 * @param {HTMLElement} lanes
 * @param {Timeline} timeline
 */
function keys(lanes, timeline) {
  /** @type {Record<string, () => void>} */
  const meanings = {
    ArrowDown: () => timeline.move(1),
    ArrowUp: () => timeline.move(-1),
    PageDown: () => timeline.move(10),
    PageUp: () => timeline.move(-10),
    Home: () => timeline.move(-Infinity),
    ArrowLeft: () => timeline.step(1),
    ArrowRight: () => timeline.step(-1),
    "+": () => timeline.zoom(-1),
    "=": () => timeline.zoom(-1),
    "-": () => timeline.zoom(1),
    0: () => timeline.fit(),
    End: () => timeline.follow(),
    Enter: () => timeline.pinFocused(),
    " ": () => timeline.pinFocused(),
  };
  lanes.addEventListener("keydown", (event) => {
    const meaning = event.ctrlKey || event.metaKey || event.altKey ? undefined : meanings[event.key];
    if (!meaning) return;
    event.preventDefault();
    meaning();
  });
}
