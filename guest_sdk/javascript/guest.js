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

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

// What is behind the value at a place; -1 if there is none. The conductor has read the whole
// before, so the grammar is not checked once more.
function skip(text, at) {
  const first = text[at];
  if (first === '"') return skipString(text, at);
  if (first !== "{" && first !== "[") return match(scalar, text, at);
  for (let depth = 0; at >= 0 && at < text.length; ) {
    const mark = text[at];
    if (mark === '"') {
      at = skipString(text, at);
      if (at < 0) return -1;
    } else {
      at++;
      depth += mark === "{" || mark === "[" ? 1 : -1;
      if (!depth) return at;
    }
    at = match(flat, text, at);
  }
  return -1;
}

function skipString(text, at) {
  for (let from = at + 1; ; ) {
    const end = text.indexOf('"', from);
    if (end < 0) return -1;
    let before = end;
    while (before > from && text[before - 1] === "\\") before--;
    if ((end - before) % 2 === 0) return end + 1;
    from = end + 1;
  }
}

function decode(text, start, end) {
  const inside = text.slice(start + 1, end - 1);
  return inside.includes("\\") ? JSON.parse(text.slice(start, end)) : inside;
}

// The members of the object at a place: [start, end] by name, the last of repeated ones; null: it
// is none.
function members(text, start = 0, stop = text.length) {
  let at = match(space, text, start);
  if (text[at] !== "{") return null;
  const found = new Map();
  at = match(space, text, at + 1);
  while (at < stop && text[at] !== "}") {
    if (text[at] === ",") at = match(space, text, at + 1);
    if (text[at] !== '"') return null;
    const behind = skipString(text, at);
    if (behind < 0) return null;
    const name = decode(text, at, behind);
    at = match(space, text, behind);
    if (text[at] !== ":") return null;
    const from = match(space, text, at + 1);
    const end = skip(text, from);
    if (end < 0) return null;
    found.set(name, [from, end]);
    at = match(space, text, end);
  }
  return at < stop ? found : null;
}

function find(text, path) {
  let place = [0, text.length];
  for (const name of path) {
    place = members(text, ...place)?.get(name);
    if (!place) return null;
  }
  return place;
}

// What a request came to: `result` or `error`, decoded; `raw` is the result as it was said.
export class Answer {
  constructor(line) {
    this.line = line;
  }
  get raw() {
    const place = find(this.line, ["result"]);
    return place && this.line.slice(...place);
  }
  get result() {
    return this.raw === null ? undefined : JSON.parse(this.raw);
  }
  get error() {
    const place = find(this.line, ["error"]);
    return place ? JSON.parse(this.line.slice(...place)) : undefined;
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
    const place = find(this.line, ["params", ...path]);
    return place ? this.line.slice(...place) : undefined;
  }

  // The same, decoded.
  get(...path) {
    const raw = this.raw(...path);
    return raw === undefined ? undefined : JSON.parse(raw);
  }

  // Replaces a value in the params; all else stays as it is written. False: there is none.
  set(path, value) {
    const place = find(this.line, ["params", ...path]);
    if (!place) return false;
    this.splice(...place, written(value));
    return true;
  }

  // Puts an element in front of those of an array in the params. False: there is none.
  prepend(path, element) {
    const place = find(this.line, ["params", ...path]);
    if (!place || this.line[place[0]] !== "[") return false;
    const at = place[0] + 1;
    const empty = this.line[match(space, this.line, at)] === "]";
    this.splice(at, at, written(element) + (empty ? "" : ","));
    return true;
  }

  splice(start, end, middle) {
    this.line = this.line.slice(0, start) + middle + this.line.slice(end);
  }

  // Passes it on as it is now; the answer goes back by itself.
  pass() {
    if (this.settled || this.passed) return;
    if (this.side === CONDUCTOR) return this.drop();
    this.proxy.write(other[this.side], this.line);
    this.settle();
  }

  // Passes a request on as it is now: `const answer = yield message.next()`.
  next() {
    if (this.id === undefined || this.settled || this.passed || this.side === CONDUCTOR)
      throw new Error(`${this.method}: only a request that is not answered has an answer to come`);
    this.proxy.write(other[this.side], this.line);
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

  receive(side, line) {
    const found = members(line);
    if (!found) return this.pass(side, line);
    const place = (name) => found.get(name);
    const raw = (name) => (place(name) ? line.slice(...place(name)) : undefined);
    const head = { id: raw("id"), params: place("params") };
    if (!place("method")) return this.answered(side, line, head);
    const method = place("method");
    head.method = line[method[0]] === '"' ? decode(line, ...method) : "";
    const lane = this.laneFor(side, line, head);
    if (lane) lane.queue.push([line, head]);
    else this.dispatch(side, line, head);
  }

  pass(side, line) {
    if (side !== CONDUCTOR) this.write(other[side], line);
  }

  // The lane a message has to wait in, if any.
  laneFor(side, line, head) {
    if (side === CONDUCTOR || !this.lanes.length) return null;
    const lanes = this.lanes.filter((lane) => lane !== this.open && lane.side === side);
    if (head.method === "$/cancel_request") {
      const place = find(line, ["params", "requestId"]);
      const id = place && line.slice(...place);
      const has = (lane) =>
        lane.holder?.id === id || lane.queue.some(([, waiting]) => waiting.method && waiting.id === id);
      return lanes.find(has);
    }
    const name = session(line);
    return lanes.find((lane) => lane.session === name);
  }

  answered(side, line, head) {
    const key = side + head.id;
    const at = this.pending.get(key);
    if (at) {
      if (at.passed) {
        const name = session(at.message.line);
        const lane = this.lanes.find((one) => one.side === side && one.session === name);
        if (lane && lane !== this.open) return void lane.queue.push([line, head]);
        this.hold(at.message, side, name);
        at.message.answered = line;
      }
      this.pending.delete(key);
      return at.message.step(new Answer(line));
    }
    // An answer that ends a turn must not overtake what came before it.
    const lane = side === AGENT && this.lanes.find((one) => one !== this.open && one.side === side);
    if (lane) lane.queue.push([line, head]);
    else this.pass(side, line);
  }

  dispatch(side, line, head) {
    if (side === CONDUCTOR && head.method === "configure") {
      const place = find(line, ["params", "config"]);
      this.settings = place ? JSON.parse(line.slice(...place)) : {};
      return;
    }
    const handler = this.handlerOf(line, head);
    if (handler) {
      const message = new Message(this, side, line, head);
      if (side !== CONDUCTOR) this.hold(message, side, session(line));
      const steps = handler(message);
      message.steps = typeof steps?.next === "function" ? steps : [][Symbol.iterator]();
      message.step();
    } else if (side !== CONDUCTOR) this.pass(side, line);
    else if (head.id !== undefined) new Message(this, side, line, head).drop();
  }

  handlerOf(line, head) {
    if (head.method === "session/update") {
      const place = find(line, ["params", "update", "sessionUpdate"]);
      const kind = place && line[place[0]] === '"' ? decode(line, ...place) : "";
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

function session(line) {
  const place = find(line, ["params", "sessionId"]);
  if (!place) return "";
  return line[place[0]] === '"' ? decode(line, ...place) : line.slice(...place);
}

// A block of a prompt.
export function text(said) {
  return { type: "text", text: said };
}
