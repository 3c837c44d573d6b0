// A request or notification in a handler's hands, and what comes of its own requests.

import { Line, match, space } from "./line.js";

export const CLIENT = "p";
export const AGENT = "s";
export const CONDUCTOR = "c";
export const CANCEL = "$/cancel_request";
// What a component answers if it lets something not go on; -32000 would have editors show a login.
export const REFUSED = -31900;
export const other = { [CLIENT]: AGENT, [AGENT]: CLIENT };

// What a request came to: `result` or `error`, decoded; `raw` is the result as it was said.
export class Answer {
  constructor(text) {
    this.line = new Line(text);
  }
  get raw() {
    return this.line.raw("result") ?? null;
  }
  // What is there in the result, as it is written; undefined: nothing.
  rawOf(...path) {
    return this.line.raw("result", ...path);
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

export const written = (value) =>
  (value instanceof Raw ? value.json : JSON.stringify(value)) ?? "null";

const waits = Object.freeze({ waits: true });

// What some agent may read a command by, or not see in front of one; and more, to be quick.
const marked =
  /^[\0-\x20/$!#:@&~%^*+.?\\\x7f-\xbf\u0340-\u037f\u0600-\u063f\u1000-\u3fff\ud800-\udfff\uf000-\uffff\u{c0000}-\u{10ffff}-]/u;

// Whether a prompt begins with a text that no agent takes for a command, or has none. A command must
// begin its prompt, and agents have marks of their own for them. What comes with it before its first
// text counts too: some agents read that first. A skill is a command in a block of its own.
function beginsPlainly(line, at) {
  const mark = line.text[(at = match(space, line.text, at))];
  if (mark === "]") return true;
  if (mark === ",") return beginsPlainly(line, at + 1);
  const end = line.skip(at);
  const block = JSON.parse(line.text.slice(at, end));
  const isMarked = (said) => typeof said === "string" && marked.test(said);
  if (isMarked(block?.text) || isMarked(block?.resource?.text)) return false;
  if (block?.type === "skill") return false;
  if (block?.type === "text" && block.text && typeof block.text === "string") return true;
  return beginsPlainly(line, end);
}

// A request or notification in a handler's hands.
export class Message {
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
  value(...path) {
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

  // Puts a text in front of a prompt; behind one that may be a command, on a line of its own. False:
  // there is no prompt.
  preface(said) {
    const place = this.line.find("params", "prompt");
    const all = this.line.text;
    if (!place || all[place[0]] !== "[" || beginsPlainly(this.line, place[0] + 1))
      return this.prepend(["prompt"], text(said));
    const end = place[1] - 1;
    this.splice(end, end, `,${written(text(`\n${said}`))}`);
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
    // What takes it back is about nothing any more.
    const about = ([text, head]) => head.method === CANCEL && this.isCancelledBy(text, head);
    if (this.lane) this.lane.queue = this.lane.queue.filter((held) => !about(held));
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

  // Whether nobody wants the answer any more, said before it was passed on: the client has cancelled
  // the request, or the turn it begins. What it asked for itself is cancelled then by itself.
  get cancelled() {
    return this.lane?.queue.some(([text, head]) => this.isCancelledBy(text, head)) ?? false;
  }

  isCancelledBy(text, head) {
    if (this.id === undefined || this.lane?.side !== this.side) return false;
    if (head.method === "session/cancel")
      return this.side === CLIENT && this.method === "session/prompt";
    return head.method === CANCEL && new Line(text).raw("params", "requestId") === this.id;
  }

  settle() {
    this.settled = true;
    this.release();
  }

  release() {
    if (this.lane) this.lane.holder = null;
    this.lane = null;
  }

  // Lets a handler begin. What it does wrong ends its message, not the proxy.
  start(handler) {
    try {
      this.steps = handler(this);
      if (typeof this.steps?.then === "function")
        throw new Error("a handler that waits is a generator (`function*`): promises never run");
      if (typeof this.steps?.next !== "function") this.steps = [][Symbol.iterator]();
    } catch (mistake) {
      return this.proxy.failed(this, mistake);
    }
    this.step();
  }

  // Lets the handler go on to where it waits next, or ends.
  step(answer) {
    try {
      const { done, value } = this.steps.next(answer);
      if (done) return this.finish();
      if (value !== waits) throw new Error("a handler yields only what it asks for");
    } catch (mistake) {
      this.proxy.failed(this, mistake);
    }
  }

  finish() {
    if (this.answered && !this.settled) {
      this.proxy.write(this.side, this.answered);
      this.settle();
    }
    this.pass();
  }
}

// A block of a prompt.
export function text(said) {
  return { type: "text", text: said };
}
