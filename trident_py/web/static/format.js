// @ts-check
/** Numbers and times as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayTime = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric" });
const DASH = "–";

/** @param {number} n */
export function count(n) {
  return whole.format(n);
}

/**
 * Give a number in at most four digits and a unit: 9,995 or 1.24 M.
 * @param {number} n
 */
export function short(n) {
  for (const [least, unit] of /** @type {[number, string][]} */ ([[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]])) {
    if (Math.abs(n) >= least) return significant(n / (unit === " k" ? 1e3 : least)) + unit;
  }
  return Number.isInteger(n) || Math.abs(n) >= 100 ? whole.format(n) : significant(n);
}

/** @param {number} n */
function significant(n) {
  return n === 0 ? "0" : Math.abs(n) >= 100 ? whole.format(n) : String(Number(n.toPrecision(Math.abs(n) >= 10 ? 3 : 2)));
}

/**
 * Give a rate, by the minute or hour where it is that slow.
 * @param {number | null} perSecond
 * @returns {[string, string]} the number and its unit
 */
export function rate(perSecond) {
  if (perSecond === null || !Number.isFinite(perSecond)) return [DASH, ""];
  if (perSecond === 0 || perSecond >= 0.5) return [short(perSecond), "/s"];
  if (perSecond * 60 >= 0.5) return [short(perSecond * 60), "/min"];
  return [short(perSecond * 3600), "/h"];
}

/** @param {number | null} perSecond */
export function rateText(perSecond) {
  return rate(perSecond).join(" ").trim();
}

/** @param {number | null} seconds */
export function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return DASH;
  const s = Math.max(0, seconds);
  if (s === 0) return "0 ms";
  if (s < 0.0995) return `${significant(s * 1e3)} ms`;
  if (s < 0.9995) return `${Math.round(s * 1e3)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 119.5) return `${Math.round(s)} s`;
  if (s < 3600) return two(s, 60, "min", "s");
  if (s < 86400) return two(s / 60, 60, "h", "min");
  return two(s / 3600, 24, "d", "h");
}

/**
 * @param {number} n
 * @param {number} base
 * @param {string} large
 * @param {string} small
 */
function two(n, base, large, small) {
  const rounded = Math.round(n);
  const rest = rounded % base;
  return `${Math.floor(rounded / base)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/**
 * Give a moment by this machine's clock, with the day unless that is `now`'s.
 * @param {number} moment
 * @param {number} now
 */
export function clock(moment, now) {
  const at = new Date(moment * 1e3);
  const isToday = at.toDateString() === new Date(now * 1e3).toDateString();
  return isToday ? clockTime.format(at) : `${dayTime.format(at)}, ${clockTime.format(at)}`;
}

/**
 * Give a moment with its tenths or hundredths of a second, as far as `step` seconds tell them apart.
 * @param {number} moment
 * @param {number} step
 */
export function tick(moment, step) {
  const at = new Date(Math.round(moment * 1e3));
  if (step >= 86400) return dayTime.format(at);
  const text = clockTime.format(at);
  if (step >= 60) return text.slice(0, 5);
  const fraction = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  return fraction ? `${text}.${String(at.getMilliseconds()).padStart(3, "0").slice(0, fraction)}` : text;
}

/**
 * @param {number} n
 * @param {string} what
 */
export function counted(n, what) {
  return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}
