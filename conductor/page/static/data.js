// The data of a trace: from the server that serves this page, or from the page itself if it was
// saved as one file.

const KEPT = "conductor-secret";

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

/** What went wrong with a request, in words. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
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
    } catch {
      throw new Trouble(0, "conductor has gone; what is here stays");
    }
    if (!answer.ok) {
      const held = await answer.json().catch(() => ({}));
      throw new Trouble(answer.status, held.error ?? `error ${answer.status}`);
    }
    return answer;
  }

  async json(path) {
    return (await this.ask(path)).json();
  }

  head() { return this.json("/api/head"); }
  turns(after) { return this.json(`/api/turns?after=${after}`); }
  turn(number) { return this.json(`/api/turn/${number}`); }
  rows(after, limit) { return this.json(`/api/rows?after=${after}&limit=${limit}`); }
  event(number) { return this.json(`/api/event/${number}`); }
  async search(text) { return new Set(await this.json(`/api/search?text=${encodeURIComponent(text)}`)); }

  /** News, a value at a time, until there is no more to come. Raises `Trouble`. */
  async *news(path = "/api/news") {
    const answer = await this.ask(path);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let left = "";
    for (;;) {
      let part;
      try {
        part = await reader.read();
      } catch {
        throw new Trouble(0, "conductor has gone; what is here stays");
      }
      if (part.done) return;
      const lines = (left + part.value).split("\n");
      left = lines.pop();
      for (const line of lines) if (line) yield JSON.parse(line);
    }
  }
}

class Saved {
  constructor(held) {
    this.held = held;
    this.saved = true;
  }

  async head() { return this.held.head; }
  async turns(after) { return this.held.turns.slice(after); }
  async turn(number) { return this.held.details[number]; }
  async rows(after, limit) {
    return this.held.rows.filter((row) => row[0] >= after).slice(0, limit);
  }
  async event(number) {
    const line = this.held.lines[number];
    if (line === undefined) throw new Trouble(404, "this event was not saved");
    return JSON.parse(line);
  }
  async search(text) {
    const wanted = text.toLowerCase();
    return new Set(Object.entries(this.held.lines)
      .filter(([, line]) => line.toLowerCase().includes(wanted)).map(([number]) => Number(number)));
  }
  async *news() { /* nothing more comes */ }
}

/** Where the data of this page is. */
export function open() {
  const held = document.getElementById("saved");
  return held === null ? new Served() : new Saved(JSON.parse(held.textContent));
}
