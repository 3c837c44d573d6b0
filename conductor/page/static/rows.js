// Rows: events in short (conductor/record/turns/model.py, Row), fetched as they come into view.

/** Where each member of a row is. */
export const field = Object.fromEntries([
  "n", "at", "kind", "source", "target", "method", "session", "bytes", "ms", "ms_in", "change",
  "protocol", "error", "pair", "turn",
].map((name, place) => [name, place]));

const BLOCK = 400;
const KEPT = 24;

/** The events that are wanted: how many there are, and those near the view. */
export class Rows {
  /** @param {object} data  where the events are
   * @param {{turn: ?number, filter: string, component: string}} wanted
   * @param {() => void} changed  called when rows have come, or more are there
   * @param {(error: Error) => void} trouble */
  constructor(data, wanted, changed, trouble) {
    Object.assign(this, { data, wanted, changed, trouble });
    this.count = 0;
    this.blocks = new Map();
  }

  /** The row at a place; undefined: it is on its way. */
  at(place) {
    const number = Math.floor(place / BLOCK);
    const block = this.blocks.get(number);
    if (block === undefined) this.fetch(number);
    else if (Array.isArray(block)) {
      if (block[place % BLOCK] === undefined && place < this.count) this.fetch(number);
      return block[place % BLOCK] ?? undefined;
    }
    return undefined;
  }

  /** Asks again how many there are. */
  async grow() {
    await this.fetch(Math.floor(this.count / BLOCK));
  }

  /** The place of an event. */
  async place(event) {
    const answer = await this.data.rows({ ...this.wanted, event }, 0, 0);
    this.count = answer.count;
    return answer.place;
  }

  async fetch(number) {
    const held = this.blocks.get(number);
    if (held !== undefined && !Array.isArray(held)) return held;
    const asked = this.data.rows(this.wanted, number * BLOCK, BLOCK).then((answer) => {
      this.count = answer.count;
      this.blocks.delete(number);
      this.blocks.set(number, answer.rows);
      if (this.blocks.size > KEPT) this.blocks.delete(this.blocks.keys().next().value);
      this.changed();
    }).catch((error) => {
      this.blocks.delete(number);
      this.trouble(error);
    });
    // What is known of a block that grows stays in view meanwhile.
    if (held === undefined) this.blocks.set(number, asked);
    return asked;
  }
}
