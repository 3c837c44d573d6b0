// Panels of components: each in a frame that can reach nothing, below the name of its component.

import { el, fill } from "./dom.js";
import { owner } from "./turn.js";

/** Bytes of an event of a widget, and how many may wait for their answers. */
const MOST_EVENT = 48 * 1024;
const MOST_WAITING = 20;
/** Lines of the log, and characters of the data of one. */
const MOST_LINES = 500;
const MOST_DATA = 2000;
/** Milliseconds after which it is looked at again who has the keyboard: not each change is told. */
const AGAIN = 300;
/** Pixels of height that the page of a tool may have at least and at most. */
const [LEAST_HEIGHT, MOST_HEIGHT] = [60, 4000];
/** What a page of a tool says to its owner beside requests. */
const BEGUN = "ui/notifications/initialized";

/** The panels, of which one is in view. */
export class Panels {
  /** @param {HTMLElement} place
   * @param {(panel: object, name: string, data: unknown) => Promise<unknown>} happened  tells the owner
   * @param {(panel: object) => void} close */
  constructor(place, happened, close) {
    Object.assign(this, { place, happened, close });
    /** What is drawn, by the number of what the server has: each change has another one. */
    this.drawn = new Map();
    addEventListener("message", (event) => this.heard(event));
    this.keepKeyboard();
  }

  // A script in a frame can take the keyboard, and would read what is typed for the page. So a widget keeps it only where the
  // person has put it there: by Tab, or by the pointer, of which the frame tells by a port of its own. Else it is stopped.

  keepKeyboard() {
    /** What of the page had the keyboard last, the frame that may have it, the one that was clicked, and the one in doubt. */
    Object.assign(this, { former: null, holder: null, clicked: null, tabbed: false, doubted: { frame: null, since: 0 } });
    for (const change of ["blur", "focusin"]) addEventListener(change, () => this.look());
    setInterval(() => this.look(), AGAIN);
    addEventListener("pointerdown", () => { this.clicked = null; }, true);
    addEventListener("keydown", ({ key }) => {
      [this.clicked, this.tabbed] = [null, key === "Tab"];
      if (this.tabbed) setTimeout(() => { this.tabbed = false; });
    }, true);
  }

  /** Looks who has the keyboard. Of the click that has put it there the page may hear a moment later. */
  look() {
    const active = document.activeElement;
    const one = [...this.drawn.values()].find(({ frame }) => frame === active);
    const now = performance.now();
    if (one === undefined) {
      this.holder = null;
      if (active !== document.body) this.former = active;
    } else if (this.tabbed || active === this.clicked) this.holder = active;
    else if (active === this.holder || !one.panel.scripts) return;
    else if (this.doubted.frame !== active) this.doubted = { frame: active, since: now };
    else if (now - this.doubted.since >= AGAIN) this.stop(one);
  }

  stop(one) {
    this.doubted = { frame: null, since: 0 };
    const { frame } = one;
    const again = el("button.small", { type: "button", onclick: () => note.replaceWith(frame) }, "Start it again");
    const note = el("p.empty", {}, "This widget took the keyboard, and was stopped. ", again);
    frame.replaceWith(note);
    one.port = undefined;
    this.former?.focus({ preventScroll: true });
  }

  /** @param {Array<{number: number, frame: string, panel: object}>} all  @param {number} front
   * @param {string[]} components */
  show(all, front, components) {
    for (const [number, { element }] of this.drawn) {
      if (all.some((each) => each.number === number)) continue;
      element.remove();
      this.drawn.delete(number);
    }
    for (const each of all) {
      if (!this.drawn.has(each.number)) this.draw(each, components);
      this.drawn.get(each.number).element.hidden = each.number !== front;
    }
  }

  draw({ number, frame: address, panel }, components) {
    const of = `${panel.label}, of ${panel.component}`;
    const frame = el("iframe", { title: of, sandbox: panel.scripts ? "allow-scripts" : "", src: address, referrerpolicy: "no-referrer" });
    const element = el("section.panel", { "aria-label": of },
      el("header", {}, owner(components, panel.component), el("h2", {}, panel.label), el("span.note", {}, panel.scripts ? "a widget, with scripts" : ""),
        el("button.small", { type: "button", "aria-label": `close: ${of}`, onclick: () => this.close(panel) }, "Close")),
      frame);
    this.drawn.set(number, { element, frame, panel, waiting: 0 });
    this.place.append(element);
  }

  /** A script in a frame says that something has happened: `parent.postMessage({name, data}, "*")`. */
  async heard({ source, data: said, ports }) {
    const one = [...this.drawn.values()].find((each) => each.frame.contentWindow === source);
    if (one?.panel.scripts && !one.port && ports.length) {  // the first is of the frame's own script
      one.port = ports[0];
      one.port.onmessage = () => { this.clicked = one.frame; this.look(); };
    }
    if (one === undefined || !one.panel.scripts) return;
    if (said?.jsonrpc === "2.0") await this.relay(one, source, said);
    if (typeof said?.name !== "string" || one.waiting === MOST_WAITING) return;
    const { name, data } = said;
    const answer = (more) => source.postMessage({ name, ...more }, "*");
    one.waiting++;
    try {
      if (name === "close") await this.close(one.panel);
      else if (name.length + (JSON.stringify(data) ?? "").length > MOST_EVENT) answer({ error: "an event has at most 48 KiB" });
      else answer({ result: await this.happened(one.panel, name, data) });
    } catch (error) {
      answer({ error: String(error.message) });
    } finally {
      one.waiting--;
    }
  }

  /** A page of a tool (MCP Apps) says something: its owner gets that as the event `mcp`, and answers with messages for the
   * page. A request has an answer in any case. */
  async relay(one, source, said) {
    if (said.method === "ui/notifications/size-changed") size(one.frame, said.params?.height);
    const isRequest = typeof said.method === "string" && ["string", "number"].includes(typeof said.id);
    if (!isRequest && said.method !== BEGUN) return;
    const refuse = (message) => {
      if (isRequest) source.postMessage({ jsonrpc: "2.0", id: said.id, error: { code: -32000, message } }, "*");
    };
    if (one.waiting === MOST_WAITING) return refuse(`${MOST_WAITING} messages of this page are not answered`);
    if (JSON.stringify(said).length > MOST_EVENT) return refuse("a message has at most 48 KiB");
    one.waiting++;
    try {
      const { messages } = await this.happened(one.panel, "mcp", said);
      if (!Array.isArray(messages)) return refuse("nobody serves this page any more");
      for (const each of messages) {
        if (each.result?.hostContext) each.result.hostContext.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
        source.postMessage(each, "*");
      }
    } catch (error) {
      refuse(String(error.message));
    } finally {
      one.waiting--;
    }
  }
}

/** A page of a tool is as high as it wishes, within bounds; the pane scrolls. */
function size(frame, height) {
  if (!Number.isFinite(height)) return;
  frame.parentElement.dataset.sized = "true";
  frame.style.height = `${Math.min(Math.max(height, LEAST_HEIGHT), MOST_HEIGHT)}px`;
}

/** The log: lines of components. */
export class Log {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.all = [];
    this.count = 0;
  }

  add(line) {
    this.all = [...this.all.slice(1 - MOST_LINES), line];
    this.count++;
  }

  /** Shows the lines of a session, and those of none. */
  show(session, components) {
    const mark = `${session} ${this.count}`;
    if (this.mark === mark) return;
    this.mark = mark;
    const isAtEnd = this.place.scrollHeight - this.place.scrollTop - this.place.clientHeight < 40;
    fill(this.place, this.of(session).map(({ component, level, message, data }) => {
      const more = data === undefined || data === null ? "" : JSON.stringify(data);
      return el("p.log-line", { "data-level": level }, el("span.level", {}, level), owner(components, component), el("span.said", {}, message,
        more ? el("code", {}, ` ${more.slice(0, MOST_DATA)}${more.length > MOST_DATA ? " …" : ""}`) : null));
    }));
    if (isAtEnd) this.place.scrollTop = this.place.scrollHeight;
  }

  of(session) {
    return this.all.filter((each) => !each.session || each.session === session);
  }
}
