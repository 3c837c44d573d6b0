// The data of a trace: from the server that serves this page, or from the page itself if it was
// saved as one file.

import { parse } from "./filter.js";
import { field } from "./rows.js";

const SEEN = 200;
const HIDDEN = 3000;
const KEPT = "conductor-secret";
const GONE = "conductor has gone. What is here stays; start it again to see more.";

/** Takes the secret out of the address as soon as the page opens, so that a copied address has none.
 * @returns {string} */
function takeSecret() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const secret = parts.get("secret");
  if (secret !== null) {
    parts.delete("secret");
    sessionStorage.setItem(KEPT + location.port, secret);
    history.replaceState(null, "", location.pathname + (parts.size ? `#${parts}` : ""));
    return secret;
  }
  return sessionStorage.getItem(KEPT + location.port) ?? "";
}

/** What went wrong with a request, in words. `status` 0: the server has gone. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Waits a moment; a page that nobody sees waits longer, or until it is seen. */
function pause() {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", go);
      resolve();
    };
    const timer = setTimeout(go, document.hidden ? HIDDEN : SEEN);
    document.addEventListener("visibilitychange", go);
  });
}

class Served {
  constructor() {
    this.secret = takeSecret();
    this.saved = false;
  }

  async ask(path, options = {}) {
    const headers = { Authorization: `Bearer ${this.secret}`, ...options.headers };
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble(0, GONE);
    }
    if (!answer.ok) {
      const held = await answer.json().catch(() => ({}));
      throw new Trouble(answer.status, held.error ?? `error ${answer.status}`);
    }
    return answer;
  }

  async json(path, options) {
    return (await this.ask(path, options)).json();
  }

  head() { return this.json("/api/head"); }
  turns(after) { return this.json(`/api/turns?after=${after}`); }
  only(numbers) { return this.json(`/api/turns?only=${numbers.join()}`); }
  turn(number) { return this.json(`/api/turn/${number}`); }
  event(number) { return this.json(`/api/event/${number}`); }
  find(filter, signal) { return this.json(`/api/find?${new URLSearchParams({ filter })}`, { signal }); }

  /** Events in short; `wanted` has `turn` (null: all), `filter`, `component`, and may have `event`. */
  rows(wanted, after, limit) {
    const asked = new URLSearchParams({ after, limit });
    for (const [name, value] of Object.entries(wanted)) {
      if (value !== null && value !== undefined && value !== "") asked.set(name, value);
    }
    return this.json(`/api/rows?${asked}`);
  }

  /** News: how much there is, each time it is more, without end. Raises `Trouble`.
   *
   * Each is a request of its own, answered at once. One that waits for news would hold one of the few
   * connections that a browser has to a server, and the seventh tab would get none. */
  async *news(path = "/api/head") {
    for (let [before, seen] = ["", -1];;) {
      const text = await (await this.ask(`${path}?seen=${seen}`)).text();
      const news = JSON.parse(text);
      if (text !== before) yield news;
      before = text;
      seen = news.version ?? seen;
      await pause();
    }
  }
}

class Saved {
  constructor(held) {
    this.held = held;
    this.saved = true;
  }

  async head() { return { events: 0, ...this.held.head, turns: this.held.turns.length, running: [], notice: "", empty: !this.held.rows.length }; }
  async turns(after) { return this.held.turns.slice(after); }
  async only(numbers) { return numbers.map((number) => this.held.turns[number]); }
  async turn(number) {
    const held = this.held.details[number];
    if (held === undefined) throw new Trouble(404, "this turn was not saved with the page");
    return held;
  }
  async event(number) {
    const line = this.held.lines[number];
    if (line === undefined) throw new Trouble(404, "this event was not saved with the page");
    return { event: JSON.parse(line), before: this.held.before?.[number] ?? null };
  }
  chosen({ turn = null, filter = "", component = "" }) {
    const { matches } = parse(filter);
    const has = (word, n) => (this.held.lines[n] ?? "").toLowerCase().includes(word.toLowerCase());
    return this.held.rows.filter((row) => (turn === null || row[field.turn] === turn)
      && (!component || row[field.source] === component || row[field.target] === component)
      && matches(row, has));
  }
  async find(filter) {
    const turns = new Map();
    const rows = this.chosen({ filter });
    for (const row of rows) turns.set(row[field.turn], (turns.get(row[field.turn]) ?? 0) + 1);
    return { count: rows.length, turns: [...turns] };
  }
  async rows(wanted, after, limit) {
    const rows = this.chosen(wanted);
    const place = rows.findIndex((row) => row[field.n] >= (wanted.event ?? Infinity));
    return { count: rows.length, rows: rows.slice(after, after + limit), place: place < 0 ? rows.length : place };
  }
  async *news() { /* nothing more comes */ }
}

/** Where the data of this page is. */
export function open() {
  const held = document.getElementById("saved");
  return held === null ? new Served() : new Saved(JSON.parse(held.textContent));
}
