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
import { Wishes } from "./wishes.js";

/** @typedef {import("./types.js").Message} Message */

const RATE_SECONDS = 10;
const SLOW_SECONDS = 120;
const LATENCY_SECONDS = 60;
const FAILURES_SECONDS = 600;
const RATE_TRANSACTIONS_MIN = 5;
const OLDER_MAX = 2000;

const store = new Store();
const clock = new Clock();
const samples = new Samples();
const plan = new Plan();
const charts = new Charts(samples);
const wishes = new Wishes();
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

/** @param {Message} message */
function take(message) {
  clock.take(message.now);
  const committed = store.take(message);
  samples.take(message, committed);
  if (!message.is_live && committed.length) samples.seed([...store.newestFirst()].filter((each) => each.outcome === "committed"));
  failures.take(message.transactions);
  if (last === null) details.follow();
  last = message;
  show();
}

function show() {
  if (last === null || document.hidden) return;
  const { status, is_live: isLive, now } = last;
  const lately = isLive ? recent(status.waits_for.length > 0 || status.hold !== "nothing") : samples.all();
  const minute = isLive ? samples.last(LATENCY_SECONDS) : null;
  const inFlight = isLive ? store.inFlight() : 0;
  showStatus(last, inFlight);
  showFigures(status, {
    lately,
    latencies: minute?.median == null ? samples.all() : minute,
    inFlight,
    failures: failures.since(isLive ? now - FAILURES_SECONDS : 0),
    failuresTitle: isLive ? "failed, last 10 min" : "failed",
    committed: store.currentTxid - 1,
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

/** Ask for more transactions, twice as many each time, until there are no older ones or enough are known. */
async function askOlder() {
  if (asked >= OLDER_MAX) return;
  const oldest = store.oldest()?.txid;
  const wanted = Math.min(Math.max(asked, store.size) * 2, OLDER_MAX);
  asked = OLDER_MAX; // none more until these are there
  try {
    store.merge(await ask(`tx?last=${wanted}`), clock.now());
    asked = store.oldest()?.txid === oldest ? OLDER_MAX : wanted;
    show();
  } catch {
    asked = wanted / 2; // what is shown is all the same true; the next look asks again
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
    void plan.load();
    void failures.load();
  }
});
