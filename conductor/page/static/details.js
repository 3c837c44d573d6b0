// Turns in detail, as they come into view. What was looked at last is kept.

const MOST = 60;

/** Keeps the details of turns. */
export class Details {
  constructor(data, changed) {
    Object.assign(this, { data, changed });
    this.held = new Map();
    this.asked = new Map();
    this.free = new Map();
  }

  /** What is known of a turn in detail, maybe of a moment ago; undefined: nothing so far. */
  known(turn) {
    return this.held.get(turn.number)?.detail;
  }

  /** A turn in detail, as it is now. Raises `Trouble`. */
  async get(turn) {
    const number = turn.number;
    const mark = turn.events?.[1] ?? 0;
    const held = this.held.get(number);
    if (held?.mark === mark) return held.detail;
    if (this.asked.has(number)) return this.asked.get(number);
    // A turn that grows is not asked for all the time: making it may take the server long.
    const wait = (this.free.get(number) ?? 0) - performance.now();
    if (held !== undefined && wait > 0) {
      this.again ??= setTimeout(() => {
        this.again = undefined;
        this.changed();
      }, wait + 1);
      return held.detail;
    }
    const waiting = this.asked;
    const asked = this.ask(number, mark).finally(() => waiting.delete(number));
    waiting.set(number, asked);
    return asked;
  }

  async ask(number, mark) {
    const begin = performance.now();
    const { held } = this;
    const detail = await this.data.turn(number);
    if (held !== this.held) return detail;
    this.free.set(number, performance.now() + 2 * (performance.now() - begin));
    this.held.delete(number);
    this.held.set(number, { mark, detail });
    if (this.held.size > MOST) this.held.delete(this.held.keys().next().value);
    return detail;
  }

  clear() {
    // What is on its way belongs to the old trace.
    this.held = new Map();
    this.asked = new Map();
    this.free.clear();
  }
}
