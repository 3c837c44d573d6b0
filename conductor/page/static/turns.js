// The turns of a trace in short, as both pages know them.

import { duration, el } from "./dom.js";

/** The turns that have come so far, by number. */
export class Turns {
  /** @param {object} data  where the trace is */
  constructor(data) {
    this.data = data;
    this.all = [];
  }

  /** A turn; undefined: it has not come. */
  at(number) {
    return this.all[number];
  }

  /** Forgets all: another trace has come in the place of this one. */
  clear() {
    this.all = [];
  }

  /** Gets the turns that are new, and again those that may have changed.
   * @param {object} head  what the trace is of
   * @param {number[]} running  the turns that were open before
   * @param {() => void} [some]  called when some have come and more are on their way */
  async update(head, running, some = () => {}) {
    const last = Math.max(this.all.length - 1, 0);
    const again = [...new Set([...running, ...(head.running ?? []), 0, last])].filter((number) => number < this.all.length);
    if (again.length) for (const turn of await this.data.only(again)) this.all[turn.number] = turn;
    for (let got = [null]; got.length && this.all.length < head.turns;) {
      got = await this.data.turns(this.all.length);
      // None that has come since: what else is known of it, as that it runs, comes with later news.
      this.all.push(...got.slice(0, head.turns - this.all.length));
      if (got.length && this.all.length < head.turns) some();
    }
  }
}

/** What differs once a turn has changed. */
export const mark = (turn) => `${turn.events?.[1]} ${turn.ms} ${turn.stop}`;

const OTHER = "another client";

/** What says that a component, or the agent, began a turn that nobody had asked for, or that another client did. */
export const unprompted = (turn) => (turn.by ? [el("span.by", {}, turn.by === OTHER ? `by ${OTHER}` : `unprompted, by ${turn.by}`), " "] : null);

/** How long a turn took, in words; what was said without a prompt has no length. */
export const took = (turn) => (turn.by && !turn.prompt ? "" : duration(turn.ms));

/** The number that is so many places away in a list; at an end of it that end.
 * @param {number[]} numbers  not empty */
export function neighbour(numbers, number, by) {
  return numbers[Math.min(Math.max(numbers.indexOf(number) + by, 0), numbers.length - 1)];
}
