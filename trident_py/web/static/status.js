// @ts-check
/** What is the case, in words and figures: the state, who leads, what stands, what is waited for, what is wrong. */

import { byId, html, say } from "./dom.js";
import { clock, count, counted, duration, rate, short } from "./format.js";
import { sum } from "./samples.js";

/** @typedef {import("./types.js").Status} Status */
/** @typedef {import("./types.js").Message} Message */
/** @typedef {import("./stream.js").Connection} Connection */
/** @typedef {ReturnType<import("./samples.js").Samples["all"]>} Summary */

const COLOURS = { well: "%232f7d5b", held: "%23a8701a", wrong: "%23c8503c", off: "%23888888" };

/**
 * Say how well a state is; that there is nothing to do is well.
 * @param {Status} status
 * @param {boolean} isIdle
 * @returns {keyof typeof COLOURS}
 */
function health(status, isIdle) {
  if (status.state === "failed" || status.error) return "wrong";
  if (["stopped", "not running", "not known"].includes(status.state)) return "off";
  if (status.hold !== "nothing" || status.state === "paused" || (status.waits_for.length && !isIdle) || status.state === "standing by") return "held";
  return "well";
}

/**
 * @param {Message} message
 * @param {number} inFlight
 */
export function showStatus({ topology, status, is_live: isLive, now }, inFlight) {
  const isIdle = status.unready.length > 0 && inFlight === 0 && status.hold === "nothing" && status.state === "running";
  const wellness = health(status, isIdle);
  document.title = `${wellness === "well" ? "" : `${status.state} · `}${topology} · trident`;
  say(byId("topology"), topology);
  say(byId("state"), status.state);
  byId("state").dataset.state = status.state;
  byId("state").dataset.health = wellness;
  say(byId("message"), status.error || status.message === status.state ? "" : status.message);
  showLeader(status, now, isLive);
  favicon(wellness);
  showStanding(status, isLive || status.leader !== null);
  showWaits(status, now, isIdle);
  showParked(status, now);
  byId("failure").hidden = !status.error;
  say(byId("error"), status.error ?? "");
  showWarnings(status, isLive);
  showResidents(status);
}

/** @param {keyof typeof COLOURS} wellness */
function favicon(wellness) {
  const icon = byId("favicon");
  const href = icon.href.replace(/fill='[^']*'/, `fill='${COLOURS[wellness]}'`);
  if (icon.href !== href) icon.href = href;
}

/**
 * @param {Status} status
 * @param {number} now
 * @param {boolean} isLive
 */
function showLeader({ leader, epoch, leads_since: since, is_leading: isLeading }, now, isLive) {
  const parts = isLive ? [] : ["from its history"];
  if (leader) parts.push(`led by pid ${leader.pid} on ${leader.host}`);
  const begun = since ?? leader?.since ?? null;
  if (begun) parts.push(`since ${clock(begun, now)}`);
  if (epoch !== null) parts.push(`epoch ${epoch}`);
  const address = leader?.address && !isLeading && /^https?:\/\//.test(leader.address) ? leader.address : null;
  const said = parts.join(" · ");
  const element = byId("leader");
  if (element.dataset.said === said + address) return;
  element.dataset.said = said + address;
  element.replaceChildren(said, ...(address ? [" · ", html("a", { href: address, rel: "noreferrer" }, "its page")] : []));
}

/**
 * @param {Status} status
 * @param {boolean} isLed
 */
function showStanding({ state, hold, rate: limits, reason }, isLed) {
  const parts = hold === "nothing" ? [] : [hold === "paused" ? "Paused" : "Draining"];
  if (!parts.length && state === "paused") parts.push("Paused by its program, with query.pause(): query.resume() there lifts that");
  if (limits.batches_per_second) parts.push(`at most ${short(limits.batches_per_second)} batches a second`);
  if (limits.pending) parts.push(`at most ${counted(limits.pending, "transaction")} pending`);
  if (limits.max_batch) parts.push(`at most ${counted(limits.max_batch, "row")} in a batch`);
  const standing = byId("standing");
  standing.toggleAttribute("data-held", parts.length > 0);
  const why = parts.length && reason ? `: “${reason}”` : "";
  const said = parts.join(", ");
  say(standing, parts.length ? `${said[0].toUpperCase()}${said.slice(1)}${why}` : isLed ? "Nothing is held back" : "");
}

/**
 * @param {Status} status
 * @param {number} now
 * @param {boolean} isIdle
 */
function showWaits({ waits_for: waits }, now, isIdle) {
  byId("standstill").hidden = !waits.length;
  byId("standstill").toggleAttribute("data-idle", isIdle);
  const list = byId("waits");
  while (list.children.length > waits.length) list.lastElementChild?.remove();
  waits.forEach(({ what, since }, i) => {
    if (!list.children[i]) list.append(html("li", {}, html("span", { class: "what" }), html("span", { class: "since", "aria-live": "off" })));
    const [text, time] = list.children[i].children;
    say(text, what);
    say(time, since === null ? "" : `since ${clock(since, now)}, for ${duration(Math.round(now - since))}`);
  });
}

/**
 * List what is parked; a list that says the same stays as it is, so that its buttons keep the focus.
 * @param {Status} status
 * @param {number} now
 */
function showParked({ parked = [] }, now) {
  byId("parked").hidden = !parked.length;
  const said = parked.map((each) => {
    const why = [each.reason && `“${each.reason}”`, each.error].filter(Boolean).join("; ");
    const state = each.released_as ? `is being released as ${each.released_as}` : each.is_wanted ? "waits for its release" : "is parked";
    const letters = each.letters_of ? `, dead letters of ${each.letters_of},` : "";
    return `Transaction ${each.txid}${letters} ${state}, since ${clock(each.since, now)}, by ${each.by}${why ? `: ${why}` : ""}`;
  });
  const list = byId("parked-list");
  if (list.dataset.said === said.join("\n")) return;
  list.dataset.said = said.join("\n");
  list.replaceChildren(...parked.map((each, i) => html("li", {}, said[i], ...buttons(each))));
}

/** @param {import("./types.js").Parked} parked */
function buttons({ txid, is_wanted: isWanted, released_as: releasedAs, letters_of: lettersOf }) {
  const actions = releasedAs || (isWanted && lettersOf) ? [] : isWanted ? ["skip"] : lettersOf ? ["release", "skip"] : ["release", "bisect", "skip"];
  /** @type {Record<string, string>} */
  const words = { release: "Release", bisect: "Find the bad rows", skip: "Skip" };
  const made = actions.map((each) => html("button", { type: "button", "data-action": each, "data-txid": String(txid) }, words[each]));
  if (!lettersOf && !isWanted) made.push(html("button", { type: "button", "data-rows": String(txid) }, "Rows"));
  return made.flatMap((each) => [" ", each]);
}

/**
 * @param {Status} status
 * @param {boolean} isLive
 */
function showWarnings({ expiring = {}, history_error: historyError, events_dropped: dropped, unready, waits_for: waits }, isLive) {
  const warnings = [];
  if (historyError) warnings.push(`the history can't be written just now: ${historyError}`);
  for (const [txid, why] of Object.entries(expiring)) warnings.push(`the rows of parked transaction ${txid} may soon be gone: ${why}; the button "Rows" stores them`);
  if (dropped) warnings.push(`${counted(dropped, "event")} came faster than they were taken, and are missing here`);
  if (isLive && unready.length && !waits.length) warnings.push(`nothing new from ${unready.join(", ")}`);
  byId("warnings").hidden = !warnings.length;
  const said = warnings.join("\n");
  if (byId("warnings").dataset.said === said) return;
  byId("warnings").dataset.said = said;
  byId("warnings").replaceChildren(...warnings.map((each) => html("li", {}, each)));
}

/**
 * Say how many tasks stay for small batches, what became of their requests, and which of them take long.
 * @param {Status} status
 */
function showResidents({ resident_tasks: numbers = {}, busy_tasks: busy = [] }) {
  const { there, answered = 0, given_back: givenBack = 0, dropped = 0 } = numbers;
  byId("residents").hidden = there === undefined;
  const requests = `${counted(answered, "request")} answered, ${count(givenBack)} given back to jobs, ${count(dropped)} dropped`;
  const long = busy.map((each) => `task ${each.task} has had one for ${duration(Math.round(each.seconds))} ${each.place}`.trimEnd());
  say(byId("residents"), [`${counted(there ?? 0, "resident task")}: ${requests}`, ...long].join(" · "));
}

/**
 * @param {Status} status
 * @param {object} known
 * @param {Summary} known.lately
 * @param {Summary} known.latencies
 * @param {number} known.inFlight
 * @param {number} known.failures
 * @param {string} known.failuresTitle
 * @param {number | null} known.committed
 */
export function showFigures(status, known) {
  const lags = Object.values(status.lag).map((parts) => sum(Object.values(parts)));
  const { lately, latencies, committed } = known;
  figure("committed", committed, [committed === null ? "–" : count(committed), ""]);
  figure("transactions-rate", lately?.transactions, rate(lately?.transactions ?? null));
  figure("rows-rate", lately?.rows, rate(lately?.rows ?? null));
  figure("latency-median", latencies?.median, split(duration(latencies?.median ?? null)));
  figure("latency-p95", latencies?.p95, split(duration(latencies?.p95 ?? null)));
  figure("in-flight", known.inFlight, [count(known.inFlight), ""]);
  figure("lag", lags.length ? sum(lags) : null, split(lags.length ? short(sum(lags)) : "–"));
  figure("failures", known.failures, [count(known.failures), ""]);
  say(byId("failures-title"), known.failuresTitle);
  byId("failures").toggleAttribute("data-some", known.failures > 0);
}

/**
 * Show a figure; the number itself is its data-value.
 * @param {string} id
 * @param {number | null | undefined} value
 * @param {[string, string]} shown
 */
function figure(id, value, [number, unit]) {
  const element = byId(id);
  element.dataset.value = value ?? "";
  if (element.textContent === number + unit) return;
  element.replaceChildren(number, ...(unit ? [html("small", {}, unit)] : []));
}

/**
 * @param {string} text
 * @returns {[string, string]}
 */
function split(text) {
  const at = text.indexOf(" ");
  return at < 0 || text.indexOf(" ", at + 1) >= 0 ? [text, ""] : [text.slice(0, at), text.slice(at)];
}

/** @param {Connection} connection */
export function showConnection({ state, since }) {
  const element = byId("connection");
  const when = since === null ? "" : ` What is shown is from ${clock(since, Date.now() / 1e3)}.`;
  /** @type {Record<string, (Node | string)[]>} */
  const said = {
    lost: [`The connection is lost; it is tried again.${when}`],
    silent: [`Nothing has been heard for a while, though the connection is there.${when}`],
    over: ["The session is over. ", html("a", { href: "./" }, "Show your token again"), `.${when}`],
  };
  element.hidden = !(state in said);
  element.replaceChildren(...(said[state] ?? []));
  document.body.dataset.connection = state;
}
