// A line of the channel: JSON read where it lies.

export const space = /[ \t\r\n]*/y;
const scalar = /[^ \t\r\n,:{}[\]"]+/y;
const flat = /[^"{}[\]]*/y;
// How conductors begin what they write; what begins otherwise is read member by member.
const ID = '(-?\\d+|"[^"\\\\]*"|null)';
const METHOD = '"method":"([^"\\\\]*)"(?:,"params":|\\})';
export const call = new RegExp(`\\{"jsonrpc":"2\\.0",(?:"id":${ID},)?${METHOD}`, "y");
export const reply = new RegExp(`\\{"jsonrpc":"2\\.0","id":${ID},"(?:result|error)":`, "y");

export function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

export function exec(pattern, text) {
  pattern.lastIndex = 0;
  return pattern.exec(text);
}

// From how many characters on one look at all of them costs less than a search in them: in QuickJS
// `split` and `replaceAll` are ten times as fast as `indexOf` is.
const LARGE = 1000;

export const has = (text, words) => text.split(words, 2).length > 1;

// A JSON text and the places of what is in it. The conductor has read the whole before, so the
// grammar is not checked once more.
export class Line {
  constructor(text) {
    this.text = text;
    this.known = new Map(); // members of objects that were looked into, by where those begin
    this.mask = null;
    this.quotes = null;
  }

  // The text with no quotation marks but those around strings, and all places the same.
  masked() {
    if (this.mask !== null) return this.mask;
    this.mask = this.text.replaceAll("\\\\", "__").replaceAll('\\"', "__");
    if (this.text.length > LARGE) {
      let at = -1;
      this.quotes = this.mask.split('"').map((piece) => (at += piece.length + 1));
    }
    return this.mask;
  }

  // What is behind the string at a place in the masked text; 0: nothing.
  close(at) {
    const quotes = this.quotes;
    if (!quotes) return this.mask.indexOf('"', at + 1) + 1;
    let low = 0;
    for (let high = quotes.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (quotes[middle] <= at) low = middle + 1;
      else high = middle;
    }
    // The last one is no quotation mark, but the end of the text.
    return low < quotes.length - 1 ? quotes[low] + 1 : 0;
  }

  // What is behind the value at a place; -1 if there is none.
  skip(at) {
    const text = this.masked();
    const first = text[at];
    if (first === '"') return this.close(at) || -1;
    if (first !== "{" && first !== "[") return match(scalar, text, at);
    for (let depth = 0; at >= 0 && at < text.length; ) {
      const mark = text[at];
      if (mark === '"') {
        at = this.close(at);
        if (!at) return -1;
      } else {
        at++;
        depth += mark === "{" || mark === "[" ? 1 : -1;
        if (!depth) return at;
      }
      at = match(flat, text, at);
    }
    return -1;
  }

  decode(start, end) {
    const inside = this.text.slice(start + 1, end - 1);
    return inside.includes("\\") ? JSON.parse(this.text.slice(start, end)) : inside;
  }

  // The members of the object at a place: [start, end] by name, the last of repeated ones; null: it
  // is none.
  members(start) {
    let found = this.known.get(start);
    if (found === undefined) {
      found = this.read(start);
      this.known.set(start, found);
    }
    return found;
  }

  read(start) {
    const text = this.masked();
    let at = match(space, text, start);
    if (text[at] !== "{") return null;
    const found = new Map();
    at = match(space, text, at + 1);
    while (at < text.length && text[at] !== "}") {
      if (text[at] === ",") at = match(space, text, at + 1);
      if (text[at] !== '"') return null;
      const behind = this.close(at);
      if (!behind) return null;
      const name = this.decode(at, behind);
      at = match(space, text, behind);
      if (text[at] !== ":") return null;
      const from = match(space, text, at + 1);
      const end = this.skip(from);
      if (end < 0) return null;
      found.set(name, [from, end]);
      at = match(space, text, end);
    }
    found.end = at + 1;
    return at < text.length ? found : null;
  }

  // Where a value is, members by name from the outermost inwards; null: nowhere.
  find(...path) {
    let place = [0, this.text.length];
    for (const name of path) {
      place = this.members(place[0])?.get(name);
      if (!place) return null;
    }
    return place;
  }

  raw(...path) {
    const place = this.find(...path);
    return place ? this.text.slice(...place) : undefined;
  }

  get session() {
    const place = this.find("params", "sessionId");
    if (!place) return "";
    return this.text[place[0]] === '"' ? this.decode(...place) : this.text.slice(...place);
  }

  // What a message is: its id as it is written, and its method; null if it is none.
  head() {
    const found = exec(call, this.text);
    if (found && this.text.endsWith(":", call.lastIndex)) {
      // If the object ends behind the params, nothing in it stands twice.
      const start = call.lastIndex;
      const end = this.text[start] === "{" ? this.members(start)?.end : 0;
      if (end === this.text.length - 1 && this.text[end] === "}") {
        this.known.set(0, new Map([["params", [start, end]]]));
        return { id: found[1], method: found[2] };
      }
    }
    const members = this.members(0);
    if (!members) return null;
    const method = members.get("method");
    const named = method && (this.text[method[0]] === '"' ? this.decode(...method) : "");
    return { id: this.raw("id"), method: named };
  }
}
