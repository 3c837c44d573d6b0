// Rows: events in short, fetched in blocks as they are needed (conductor/record/turns/model.py, Row).

/** Where each member of a row is. */
export const field = Object.fromEntries([
  "n", "at", "kind", "source", "target", "method", "session", "bytes", "ms", "ms_in", "change",
  "protocol", "error", "pair", "turn",
].map((name, place) => [name, place]));

const BLOCK = 2000;

/** The rows of a trace, by the numbers of their events. */
export class Rows {
  constructor(data) {
    this.data = data;
    this.blocks = new Map();
  }

  /** The rows from number `first` to before `behind`. */
  async between(first, behind, wanted = () => true) {
    const found = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < behind; block++) {
      if (!wanted()) return found;
      for (const row of await this.block(block, behind)) {
        if (row[field.n] >= first && row[field.n] < behind) found.push(row);
      }
    }
    return found;
  }

  block(number, behind) {
    const begin = number * BLOCK;
    const isWhole = begin + BLOCK <= behind;
    if (this.blocks.has(number)) return this.blocks.get(number);
    const rows = this.data.rows(begin, BLOCK)
      .then((all) => all.filter((row) => row[field.n] < begin + BLOCK));
    if (isWhole) this.blocks.set(number, rows);
    return rows;
  }
}
