// @ts-check
/** The operator's page: takes what the server sends, and has each part show it. */

import { Charts } from "./charts.js";
import { Details } from "./details.js";
import { byId, html } from "./dom.js";
import { count } from "./format.js";
import { Failures } from "./failures.js";
import { Plan } from "./plan.js";
import { Samples } from "./samples.js";
import { showConnection, showFigures, showStatus } from "./status.js";
import { Store } from "./store.js";
import { ask, Clock, listen } from "./stream.js";
import { Timeline } from "./timeline.js";
import { LeftOut } from "./leftout.js";
import { Wishes } from "./wishes.js";

/** @typedef {import("./types.js").Message} Message */

const RATE_SECONDS = 10;
const SLOW_SECONDS = 120;
const LATENCY_SECONDS = 60;
const FAILURES_SECONDS = 600;
const RATE_TRANSACTIONS_MIN = 5;
const LOADED = 200;
const OLDER_MAX = 1000;
const ENDED = new Set(["failed", "stopped", "not running", "not known"]);

const store = new Store();
const clock = new Clock();
const samples = new Samples();
const plan = new Plan();
const charts = new Charts(samples);
const wishes = new Wishes();
new LeftOut();
const timeline = new Timeline(store, clock, (txid) => details.open(txid), () => void askOlder());
const failures = new Failures((txid) => details.open(txid));
const details = new Details(store, clock, (txid, transaction) => {
  timeline.pinned = txid;
  if (transaction) timeline.reveal(transaction);
  timeline.layout();
});
/** @type {Message | null} */
let last = null;
let asked = 0;
let isBegun = false;

/** What isn't told while a topology starts. @type {import("./types.js").Status} */
const UNKNOWN = {
  message: "", state: "starting", is_leading: false, leader: null, epoch: null, current_txid: null, committed: 0, rows: 0,
  counts: {}, lag: {}, unready: [], hold: "nothing", rate: {}, reason: "", waits_for: [], error: null, events_dropped: 0,
  history_error: "", leads_since: null,
};

/** @param {Message} message */
function take(message) {
  message.status = { ...UNKNOWN, ...message.status };
  clock.take(message.now);
  const committed = store.take(message);
  if (isMoving(message)) samples.take(message, committed);
  else if (committed.length) samples.seed(store.committed());
  failures.take(message.transactions);
  const isFirst = last === null;
  last = message;
  show();
  if (isFirst) details.follow();
}

/**
 * Tell whether anything may still happen: what has ended is shown as it was then.
 * @param {Message} message
 */
function isMoving({ status }) {
  return !ENDED.has(status.state);
}

function show() {
  if (last === null || document.hidden) return;
  const { status, now } = last;
  const isLive = isMoving(last);
  const lately = isLive ? recent(status.waits_for.length > 0 || status.hold !== "nothing") : samples.all();
  const minute = isLive ? samples.last(LATENCY_SECONDS) : null;
  const inFlight = isLive ? (status.in_flight?.length ?? store.inFlight()) : 0;
  showStatus(last, inFlight);
  showFigures(status, {
    lately,
    latencies: minute?.median == null ? samples.all() : minute,
    inFlight,
    failures: failures.since(isLive ? now - FAILURES_SECONDS : 0),
    failuresTitle: isLive ? "failed, last 10 min" : "failed",
    committed: store.currentTxid > 0 ? store.currentTxid - 1 : null,
  });
  timeline.refresh(isLive, now);
  charts.refresh(isLive, now);
  plan.refresh(status, lately);
  failures.refresh(now);
  details.refresh();
  wishes.refresh(last.topology, status);
  showCounts(status.counts);
}

/**
 * Summarize what was done lately: over a longer time where few transactions come, or their rate would jump.
 * @param {boolean} standsStill
 */
function recent(standsStill) {
  const short = samples.last(RATE_SECONDS);
  return short && (standsStill || short.committed >= RATE_TRANSACTIONS_MIN) ? short : samples.last(SLOW_SECONDS);
}

/**
 * Ask for the last transactions, and take those that aren't known: of the others, messages know more.
 * @param {number} wanted
 */
async function load(wanted) {
  /** @type {import("./types.js").Transaction[]} */
  const found = await ask(`tx?last=${wanted}`);
  store.merge(found.filter((each) => !store.get(each.txid)), clock.now());
  show();
}

/** Ask for what was before this page: an earlier leadership's transactions are in no message. */
async function begin() {
  try {
    await load(LOADED);
    samples.seed(store.committed());
  } catch {
    return; // what comes from now on is shown all the same
  }
}

/** Ask for more transactions, twice as many each time, until there are no older ones or enough are known. */
async function askOlder() {
  if (asked >= OLDER_MAX) return;
  const oldest = store.oldest()?.txid;
  const wanted = Math.min(Math.max(asked, store.size) * 2, OLDER_MAX);
  asked = OLDER_MAX; // none more until these are there
  try {
    await load(wanted);
    asked = store.oldest()?.txid === oldest ? OLDER_MAX : wanted;
  } catch {
    asked = wanted / 2; // the next look asks again
  }
}

/** @param {Record<string, number>} counts */
function showCounts(counts) {
  const names = Object.keys(counts).sort();
  byId("counted").hidden = !names.length;
  const facts = names.map((name) => [html("dt", {}, name), html("dd", {}, count(counts[name]))]);
  byId("counts").replaceChildren(...facts.flat());
}

document.addEventListener("visibilitychange", show);
listen(take, (connection) => {
  showConnection(connection);
  timeline.isConnected = connection.state === "connected";
  if (connection.state === "connected") {
    if (!isBegun) void begin();
    isBegun = true;
    void plan.load();
    void failures.load();
  }
});
