// @ts-check
/** What an operator may wish, with the reason: says what it will do, asks, and says what came of it. */

import { byId, say } from "./dom.js";
import { ask } from "./stream.js";

/** @typedef {import("./types.js").Status} Status */

/** @type {Record<string, {button: string, effect: string}>} */
const WISHES = {
  pause: { button: "Pause", effect: "Nothing new starts, and nothing is replayed. What is under way commits. It lasts until somebody resumes, over restarts and takeovers." },
  drain: { button: "Drain", effect: "All that was begun is committed, with replays where that needs some; nothing new starts. Then it is paused, until somebody resumes." },
  rate: { button: "Limit the rate", effect: "From now on it starts less, until somebody resumes. Replays don't wait." },
  retry: { button: "Retry now", effect: "It is tried again at once, and its failures count from zero." },
  park: { button: "Park", effect: "All outputs leave it out, and the topology continues behind it. Its rows count once it is released." },
  release: { button: "Release", effect: "Its batch is processed again, as a new transaction, and counts once. If it fails again, it is parked again." },
  bisect: { button: "Find the bad rows", effect: "Trials over some of its rows, which commit nothing, find those that fail. They stay parked, and the others are released." },
  skip: { button: "Skip", effect: "It is taken off the list: its rows never count." },
  letters: { button: "Release", effect: "The rows are processed again, those of each branch as a new transaction in which no other branch has a part. A row that fails again stays a dead letter." },
  resume: { button: "Resume", effect: "Lifts everything that operators have wished: pause, drain, and limits of the rate." },
};
const UNLED = "Nobody leads it now, as far as is known here: whoever leads it next does so before anything else.";
const LIMITS = /** @type {const} */ (["batches_per_second", "pending", "max_batch"]);

export class Wishes {
  #dialog = byId("wish");
  #action = "pause";
  #topology = "";
  /** @type {number[]} */
  #txids = [];
  #branch = "";
  #isDone = false;
  #isLed = true;

  constructor() {
    for (const button of document.querySelectorAll("#actions [data-action]")) {
      button.addEventListener("click", () => this.#open(button.getAttribute("data-action") ?? "pause"));
    }
    for (const id of ["parked-list", "details-actions", "letters"]) {
      byId(id).addEventListener("click", (/** @type {Event} */ event) => {
        const button = /** @type {Element} */ (event.target).closest("[data-action]");
        const txid = Number(button?.getAttribute("data-txid"));
        if (button) this.#open(button.getAttribute("data-action") ?? "release", txid ? [txid] : [], button.getAttribute("data-branch") ?? "");
      });
    }
    byId("wish-cancel").onclick = () => this.#dialog.close();
    byId("wish-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      if (this.#isDone) this.#dialog.close();
      else void this.#send();
    });
  }

  /**
   * Offer what makes sense now.
   * @param {string} topology
   * @param {Status} status
   */
  refresh(topology, status) {
    this.#topology = topology;
    byId("actions").hidden = status.state === "not known"; // where nobody could take a wish
    this.#isLed = status.is_leading || status.leader !== null;
    const isHeld = status.hold !== "nothing" || Object.values(status.rate).some((each) => each !== null && each !== undefined);
    byId("actions").toggleAttribute("data-held", isHeld);
  }

  /**
   * @param {string} action
   * @param {number[]} txids that it is about, if any
   * @param {string} branch that it is about, if any
   */
  #open(action, txids = [], branch = "") {
    this.#action = action;
    this.#txids = txids;
    this.#branch = branch;
    this.#isDone = false;
    const { button, effect } = WISHES[action];
    byId("wish-form").reset();
    say(byId("wish-title"), `${button}: ${branch ? `rows of ${branch} from ` : ""}${txids.length ? `transaction ${txids[0]} of ` : ""}${this.#topology}`);
    say(byId("wish-effect"), this.#isLed ? effect : `${effect} ${UNLED}`);
    byId("wish-rate").hidden = action !== "rate";
    this.#limits().forEach((input) => input.setCustomValidity(""));
    this.#settle(button, false);
    this.#dialog.showModal();
    (action === "rate" ? byId("wish-batches") : byId("wish-reason")).focus();
  }

  async #send() {
    /** @type {Record<string, string | number | number[]>} */
    const wish = { action: this.#action, reason: byId("wish-reason").value.trim() };
    if (this.#txids.length) wish.txids = this.#txids;
    if (this.#branch) wish.branch = this.#branch;
    if (this.#action === "rate") {
      for (const [i, input] of this.#limits().entries()) if (input.value !== "") wish[LIMITS[i]] = Number(input.value);
      if (Object.keys(wish).length === 2) return this.#fail("a rate needs a limit, at least one");
    }
    if (!wish.reason) return this.#fail("a reason is needed: whoever is called next reads it");
    const submit = byId("wish-submit");
    submit.disabled = true;
    say(submit, "waiting for the leader…");
    try {
      const said = await ask("wishes", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(wish),
      });
      this.#settle("Close", true);
      byId("wish-outcome").hidden = false;
      byId("wish-outcome").dataset.carriedOut = String(said.carried_out);
      say(byId("wish-outcome"), said.text);
    } catch (error) {
      this.#settle(WISHES[this.#action].button, false);
      this.#fail(/** @type {Error} */ (error).message);
    }
    submit.focus();
  }

  /** @param {string} why */
  #fail(why) {
    byId("wish-error").hidden = false;
    say(byId("wish-error"), why);
  }

  /**
   * @param {string} button
   * @param {boolean} isDone
   */
  #settle(button, isDone) {
    this.#isDone = isDone;
    byId("wish-submit").disabled = false;
    say(byId("wish-submit"), button);
    for (const id of ["wish-error", "wish-outcome"]) byId(id).hidden = true;
    byId("wish-cancel").hidden = isDone;
    byId("wish-why").hidden = isDone;
    byId("wish-effect").hidden = isDone;
    if (isDone) byId("wish-rate").hidden = true;
    byId("wish-reason").required = !isDone;
  }

  /** @returns {HTMLInputElement[]} */
  #limits() {
    return [byId("wish-batches"), byId("wish-pending"), byId("wish-max-batch")];
  }
}
