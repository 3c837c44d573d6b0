// A library for proxies in JavaScript, on channel/1 (docs/channel-abi.md): lines in, lines out.
//
//     import { Proxy } from "./guest.js";
//     const proxy = new Proxy();
//     proxy.handle("session/prompt", function* (message) { … yield message.clock() … });
//     export const channel = proxy.channel;
//
// What has no handler passes, text for text. A handler that waits is a generator and yields what it
// waits for: promises never run by themselves in the sandbox.

export const CLIENT = "p";
export const AGENT = "s";
export const CONDUCTOR = "c";

const space = /[ \t\r\n]*/y;
const scalar = /[^ \t\r\n,:{}[\]"]+/y;
const flat = /[^"{}[\]]*/y;
const other = { [CLIENT]: AGENT, [AGENT]: CLIENT };

// How conductors begin what they write; what begins otherwise is read member by member.
const ID = '(-?\\d+|"[^"\\\\]*"|null)';
const METHOD = '"method":"([^"\\\\]*)"(?:,"params":|\\})';
const call = new RegExp(`\\{"jsonrpc":"2\\.0",(?:"id":${ID},)?${METHOD}`, "y");
const reply = new RegExp(`\\{"jsonrpc":"2\\.0","id":${ID},"(?:result|error)":`, "y");

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

function exec(pattern, text) {
  pattern.lastIndex = 0;
  return pattern.exec(text);
}

// From how many characters on one look at all of them costs less than a search in them: in QuickJS
// `split` and `replaceAll` are ten times as fast as `indexOf` is.
const LARGE = 1000;

const has = (text, words) => text.split(words, 2).length > 1;

// A JSON text and the places of what is in it. The conductor has read the whole before, so the
// grammar is not checked once more.
class Line {
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

// What a request came to: `result` or `error`, decoded; `raw` is the result as it was said.
export class Answer {
  constructor(text) {
    this.line = new Line(text);
  }
  get raw() {
    return this.line.raw("result") ?? null;
  }
  get result() {
    return this.raw === null ? undefined : JSON.parse(this.raw);
  }
  get error() {
    const raw = this.line.raw("error");
    return raw === undefined ? undefined : JSON.parse(raw);
  }
}

// JSON that is put into a message as it is.
export class Raw {
  constructor(json) {
    this.json = json;
  }
}

const written = (value) => (value instanceof Raw ? value.json : JSON.stringify(value));

// A request or notification in a handler's hands.
class Message {
  constructor(proxy, side, line, head) {
    Object.assign(this, { proxy, side, line, lane: null, steps: null, answered: null });
    this.method = head.method;
    this.id = head.id; // as it is written; undefined: a notification
    this.settled = this.passed = false;
  }

  // The JSON of what is there in the params, as it is written; undefined: nothing.
  raw(...path) {
    return this.line.raw("params", ...path);
  }

  // The same, decoded.
  get(...path) {
    const raw = this.raw(...path);
    return raw === undefined ? undefined : JSON.parse(raw);
  }

  // Replaces a value in the params; all else stays as it is written. False: there is none.
  set(path, value) {
    const place = this.line.find("params", ...path);
    if (!place) return false;
    this.splice(...place, written(value));
    return true;
  }

  // Puts an element in front of those of an array in the params. False: there is none.
  prepend(path, element) {
    const place = this.line.find("params", ...path);
    const text = this.line.text;
    if (!place || text[place[0]] !== "[") return false;
    const at = place[0] + 1;
    const empty = text[match(space, text, at)] === "]";
    this.splice(at, at, written(element) + (empty ? "" : ","));
    return true;
  }

  splice(start, end, middle) {
    const text = this.line.text;
    this.line = new Line(text.slice(0, start) + middle + text.slice(end));
  }

  // Passes it on as it is now; the answer goes back by itself.
  pass() {
    if (this.settled || this.passed) return;
    if (this.side === CONDUCTOR) return this.drop();
    this.proxy.write(other[this.side], this.line.text);
    this.settle();
  }

  // Passes a request on as it is now: `const answer = yield message.next()`.
  next() {
    if (this.id === undefined || this.settled || this.passed || this.side === CONDUCTOR)
      throw new Error(`${this.method}: only a request that is not answered has an answer to come`);
    this.proxy.write(other[this.side], this.line.text);
    this.passed = true;
    this.proxy.expect(other[this.side], this.id, this, true);
    this.release();
    return waits;
  }

  // Answers a request.
  answer(result) {
    this.reply(`"result":${written(result)}`);
  }

  // Answers a request with an error.
  fail(code, message) {
    this.reply(`"error":${JSON.stringify({ code, message })}`);
  }

  // Lets a notification go no further. A request has to be answered, so this fails it.
  drop() {
    this.fail(-32601, "Method not found");
  }

  reply(member) {
    if (this.id !== undefined && !this.settled)
      this.proxy.write(this.side, `{"jsonrpc":"2.0","id":${this.id},${member}}`);
    this.settle();
  }

  // Sends a request of the handler's own: `const answer = yield message.ask(AGENT, …)`.
  ask(side, method, params) {
    this.proxy.ask(this, side, method, params);
    return waits;
  }

  // Asks the conductor what time it is: `(yield message.clock()).result`.
  clock() {
    return this.ask(CONDUCTOR, "clock");
  }

  settle() {
    this.settled = true;
    this.release();
  }

  release() {
    if (this.lane) this.lane.holder = null;
    this.lane = null;
  }

  // Lets the handler go on to where it waits next, or ends.
  step(answer) {
    const { done, value } = this.steps.next(answer);
    if (!done) {
      if (value !== waits) throw new Error(`${this.method}: a handler yields only what it asks for`);
      return;
    }
    if (this.answered && !this.settled) {
      this.proxy.write(this.side, this.answered);
      this.settle();
    }
    this.pass();
  }
}

const waits = Object.freeze({ waits: true });

export class Proxy {
  constructor() {
    Object.assign(this, { handlers: new Map(), lanes: [], open: null, pending: new Map(), out: [] });
    this.counts = { [CLIENT]: 0, [AGENT]: 0, [CONDUCTOR]: 0 };
    this.settings = {};
    this.updates = false; // whether any kind of update is handled
    // What the world `proxy` of channel.wit wants exported.
    this.channel = { deliver: (lines) => this.deliver(lines) };
  }

  // Declares who handles requests and notifications of a method, from any side.
  handle(method, handler) {
    this.handlers.set(method, handler);
  }

  // Declares who handles one kind of update of the agent's.
  update(kind, handler) {
    this.handlers.set(`session/update ${kind}`, handler);
    this.updates = true;
  }

  // Sends a notification of the proxy's own.
  notify(side, method, params) {
    this.write(side, `{"jsonrpc":"2.0","method":${written(method)},"params":${written(params)}}`);
  }

  // Writes to the conductor's log; level is debug, info, warn or error.
  log(level, message) {
    this.notify(CONDUCTOR, "log", { level, message });
  }

  deliver(lines) {
    for (const line of lines.split("\n")) {
      if (line.length < 2) continue;
      this.receive(line[0], line.slice(1));
      this.drain();
    }
    const said = this.out.join("");
    this.out = [];
    return said;
  }

  write(side, json) {
    this.out.push(side, json, "\n");
  }

  ask(message, side, method, params) {
    const count = ++this.counts[side];
    // The conductor's ids are integers, so on its sides ours are texts.
    const id = side === CONDUCTOR ? `${count}` : `"x${count}"`;
    this.expect(side, id, message, false);
    const given = params === undefined ? "" : `,"params":${written(params)}`;
    this.write(side, `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}${given}}`);
  }

  expect(side, id, message, passed) {
    this.pending.set(side + id, { message, passed });
  }

  receive(side, text) {
    if (this.unwanted(side, text)) return this.pass(side, text);
    const line = new Line(text);
    const head = line.head();
    if (!head) return this.pass(side, text);
    if (head.method === undefined) return this.answered(side, line, head);
    const lane = this.laneFor(side, line, head);
    if (lane) lane.queue.push([text, head]);
    else this.dispatch(side, line, head);
  }

  // Whether a line can be seen to concern nobody here without reading it all. Of repeated members
  // the last counts, so a second `method`, however it is spelt, is left to the reader.
  unwanted(side, text) {
    if (this.lanes.length || side === CONDUCTOR) return false;
    const found = exec(call, text);
    if (!found) {
      const answer = exec(reply, text);
      return answer !== null && !this.pending.has(side + answer[1]);
    }
    const method = found[2];
    if (this.handlers.has(method) || (method === "session/update" && this.updates)) return false;
    if (text.split('"method"', 3).length > 2) return false;
    return !has(text, "\\u006") && !has(text, "\\u007");
  }

  pass(side, line) {
    if (side !== CONDUCTOR) this.write(other[side], line);
  }

  // The lane a message has to wait in, if any.
  laneFor(side, line, head) {
    if (side === CONDUCTOR || !this.lanes.length) return null;
    const lanes = this.lanes.filter((lane) => lane !== this.open && lane.side === side);
    if (head.method === "$/cancel_request") {
      const id = line.raw("params", "requestId") ?? null;
      const has = (lane) =>
        lane.holder?.id === id || lane.queue.some(([, waiting]) => waiting.method && waiting.id === id);
      return lanes.find(has);
    }
    const name = line.session;
    return lanes.find((lane) => lane.session === name);
  }

  answered(side, line, head) {
    const key = side + head.id;
    const at = this.pending.get(key);
    if (at) {
      if (at.passed) {
        const name = at.message.line.session;
        const lane = this.lanes.find((one) => one.side === side && one.session === name);
        if (lane && lane !== this.open) return void lane.queue.push([line.text, head]);
        this.hold(at.message, side, name);
        at.message.answered = line.text;
      }
      this.pending.delete(key);
      return at.message.step(new Answer(line.text));
    }
    // An answer that ends a turn must not overtake what came before it.
    const lane = side === AGENT && this.lanes.find((one) => one !== this.open && one.side === side);
    if (lane) lane.queue.push([line.text, head]);
    else this.pass(side, line.text);
  }

  dispatch(side, line, head) {
    if (side === CONDUCTOR && head.method === "configure") {
      this.settings = JSON.parse(line.raw("params", "config") ?? "{}");
      return;
    }
    const handler = this.handlerOf(line, head);
    if (handler) {
      const message = new Message(this, side, line, head);
      if (side !== CONDUCTOR) this.hold(message, side, line.session);
      const steps = handler(message);
      message.steps = typeof steps?.next === "function" ? steps : [][Symbol.iterator]();
      message.step();
    } else if (side !== CONDUCTOR) this.pass(side, line.text);
    else if (head.id !== undefined) new Message(this, side, line, head).drop();
  }

  handlerOf(line, head) {
    if (head.method === "session/update" && this.updates) {
      const place = line.find("params", "update", "sessionUpdate");
      const kind = place && line.text[place[0]] === '"' ? line.decode(...place) : "";
      const handler = this.handlers.get(`session/update ${kind}`);
      if (handler) return handler;
    }
    return this.handlers.get(head.method);
  }

  hold(message, side, name) {
    let lane = this.lanes.find((one) => one.side === side && one.session === name);
    if (!lane) this.lanes.push((lane = { side, session: name, holder: null, queue: [] }));
    lane.holder = message;
    message.lane = lane;
  }

  // Lets go on what waits for nobody any more.
  drain() {
    for (let index = 0; index < this.lanes.length; ) {
      const lane = this.lanes[index];
      while (!lane.holder && lane.queue.length) {
        const [line] = lane.queue.shift();
        this.open = lane;
        this.receive(lane.side, line);
        this.open = null;
      }
      if (lane.holder) index++;
      else {
        this.lanes.splice(index, 1);
        index = 0; // what went on may have freed an earlier one
      }
    }
  }
}

// A block of a prompt.
export function text(said) {
  return { type: "text", text: said };
}
