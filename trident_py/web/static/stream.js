// @ts-check
/** What the server sends, as it comes; and what is wrong when nothing comes. */

/** @typedef {import("./types.js").Message} Message */

const AGAIN_SECONDS = 3;
const SILENCE_SECONDS = 15;
const OFFSETS_MAX = 20;

/** Thrown where the session is over, and whoever looks has to show a token again. */
export class SessionOver extends Error {}

/**
 * Ask the server, and return the JSON of its answer.
 * @param {string} path
 * @param {RequestInit} [request]
 * @returns {Promise<any>}
 */
export async function ask(path, request) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, ...request });
  if (answer.status === 401) throw new SessionOver("the session is over");
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error ?? `the server has answered ${answer.status}`);
  return said;
}

/** The server's clock, as far as messages tell it: what came quickest tells it best. */
export class Clock {
  /** @type {number[]} */
  #offsets = [];

  /** @param {number} now the server's */
  take(now) {
    this.#offsets.push(now - Date.now() / 1e3);
    if (this.#offsets.length > OFFSETS_MAX) this.#offsets.shift();
  }

  now() {
    return Date.now() / 1e3 + (this.#offsets.length ? Math.max(...this.#offsets) : 0);
  }
}

/**
 * @typedef {object} Connection
 * @property {"connecting" | "connected" | "silent" | "lost" | "over"} state
 * @property {number | null} since when something came last, by this machine's clock
 */

/**
 * Listen for as long as the page is there.
 * @param {(message: Message) => void} take
 * @param {(connection: Connection) => void} tell is told each time that the connection is another one
 */
export function listen(take, tell) {
  /** @type {EventSource} */
  let source;
  /** @type {number | null} */
  let heard = null;
  let state = "connecting";

  /** @param {Connection["state"]} now */
  const become = (now) => {
    if (now === state) return;
    state = now;
    tell({ state: now, since: heard });
  };
  const connect = () => {
    source = new EventSource("events");
    source.onmessage = (event) => {
      heard = Date.now() / 1e3;
      become("connected");
      take(JSON.parse(event.data));
    };
    source.onerror = () => {
      become("lost");
      if (source.readyState === EventSource.CLOSED) void refused(); // else the browser tries again by itself
    };
  };
  const refused = async () => {
    try {
      await ask("plan");
    } catch (error) {
      if (error instanceof SessionOver) return become("over");
    }
    setTimeout(connect, AGAIN_SECONDS * 1e3);
  };
  setInterval(() => {
    if (state === "connected" && heard !== null && Date.now() / 1e3 - heard > SILENCE_SECONDS) become("silent");
  }, 1000);
  connect();
}
