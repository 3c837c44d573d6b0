// A library for proxies in JavaScript, on channel/1 (docs/architecture.md#the-channel): lines in, lines out.
//
//     import { Proxy } from "./guest.js";
//     const proxy = new Proxy();
//     proxy.handle("session/prompt", function* (message) { … yield message.clock() … });
//     export const channel = proxy.channel;
//
// What has no handler passes, text for text. A handler that waits is a generator and yields what it
// waits for: promises never run by themselves in the sandbox.

import { call, exec, has, Line, reply } from "./line.js";
import { AGENT, CANCEL, CLIENT, CONDUCTOR } from "./message.js";
import { Answer, Message, Raw, other, written } from "./message.js";

export { AGENT, CLIENT, CONDUCTOR, REFUSED, Answer, Raw, text } from "./message.js";

export class Proxy {
  constructor() {
    Object.assign(this, { handlers: new Map(), lanes: [], open: null, pending: new Map(), out: [] });
    this.counts = { [CLIENT]: 0, [AGENT]: 0, [CONDUCTOR]: 0 };
    this.name = "";
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
      this.read(line[0], line.slice(1));
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
    this.pending.set(side + id, { side, id, message, passed });
  }

  // What cannot be read passes: it is for others to complain about.
  read(side, text) {
    try {
      this.receive(side, text);
    } catch (mistake) {
      if (!(mistake instanceof SyntaxError)) throw mistake;
      this.pass(side, text);
    }
  }

  receive(side, text) {
    if (this.unwanted(side, text)) return this.pass(side, text);
    const line = new Line(text);
    const head = line.head();
    if (!head) return this.pass(side, text);
    if (head.method === undefined) return this.answered(side, line, head);
    const lane = this.laneFor(side, line, head);
    if (!lane) return this.dispatch(side, line, head);
    lane.queue.push([text, head]);
    if (lane.holder?.isCancelledBy(text, head)) this.withdraw(lane.holder);
  }

  // Cancels what a message has asked its neighbours.
  withdraw(message) {
    for (const one of this.pending.values()) {
      if (one.message !== message || one.passed || one.withdrawn || one.side === CONDUCTOR) continue;
      one.withdrawn = true;
      this.notify(one.side, CANCEL, new Raw(`{"requestId":${one.id}}`));
    }
  }

  // Ends a message whose handler made a mistake, and says which. It goes no further.
  failed(message, mistake) {
    const stack = `${mistake?.stack ?? ""}`.trimEnd();
    const place = /\(([^\s()]+?):(\d+)/.exec(stack);
    const what = place ? `${mistake} (${place[1]}, line ${place[2]})` : `${mistake}`;
    this.log("error", `the handler of \`${message.method}\` failed: ${what}\n${stack}`);
    message.fail(-32603, `proxy \`${this.name}\` failed at \`${message.method}\`: ${what}`);
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
    if (head.method === CANCEL) {
      const id = line.raw("params", "requestId") ?? null;
      const holds = ({ holder }) => holder?.side === side && holder.id === id;
      const waits = ({ queue }) => queue.some(([, held]) => held.method && held.id === id);
      return lanes.find((lane) => holds(lane) || waits(lane));
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
      this.name = JSON.parse(line.raw("params", "name") ?? '""');
    }
    const handler = this.handlerOf(line, head);
    if (handler) {
      const message = new Message(this, side, line, head);
      if (side !== CONDUCTOR) this.hold(message, side, line.session);
      message.start(handler);
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
        this.read(lane.side, line);
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
