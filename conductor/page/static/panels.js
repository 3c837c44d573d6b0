// Panels of components: each in a frame that can reach nothing, below the name of its component.

import { el, fill } from "./dom.js";
import { owner } from "./turn.js";

/** Bytes of an event of a widget, and how many may wait for their answers. */
const MOST_EVENT = 48 * 1024;
const MOST_WAITING = 20;
/** Lines of the log, and characters of the data of one. */
const MOST_LINES = 500;
const MOST_DATA = 2000;

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
  async heard({ source, data: said }) {
    const one = [...this.drawn.values()].find((each) => each.frame.contentWindow === source);
    if (one === undefined || !one.panel.scripts || typeof said?.name !== "string" || one.waiting === MOST_WAITING) return;
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
