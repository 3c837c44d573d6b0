// The sequence: a row for each event, a lane for each component. Only the rows in view exist.

import { bytes, duration, el } from "./dom.js";
import { field } from "./rows.js";
import { hue } from "./turn.js";

const HEIGHT = 26;
const SPARE = 12;
const MOST_HEIGHT = 8_000_000;
const TALLEST = 13;

/** A list of events that scrolls, however many there are. */
export class Sequence {
  /** @param {(n: number) => void} choose  called with the number of an event */
  constructor(choose) {
    this.choose = choose;
    this.rows = null;
    this.lanes = [];
    this.chosen = -1;
    this.drawn = new Map();
    this.step = HEIGHT;
    this.head = el("div.lanes-head", { "aria-hidden": true });
    this.space = el("div.space", { role: "presentation" });
    this.view = el("div.sequence-view", {
      tabindex: 0, role: "listbox", "aria-label": "messages in order",
      onscroll: () => this.soon(), onkeydown: (event) => this.key(event),
    }, this.space);
    this.element = el("div.sequence", {}, this.head, this.view);
    new ResizeObserver(() => this.soon()).observe(this.view);
  }

  /** Shows events. @param {Rows} rows  @param {string[]} lanes  in the order of the chain */
  show(rows, lanes) {
    this.rows = rows;
    this.lanes = [...lanes, "conductor"];
    this.components = lanes;
    this.head.replaceChildren(el("span.gutter", {}, "#"), el("div.lanes", {}, this.lanes.map((name, place) => {
      const style = { left: this.x(place), maxWidth: `calc(${100 / this.lanes.length}% - 8px)` };
      const made = el("span.lane-name", { title: name, style }, name);
      if (name !== "conductor") made.style.setProperty("--hue", hue(lanes, name));
      return made;
    })));
    this.space.replaceChildren();
    this.drawn = new Map();
    this.view.scrollTop = 0;
    this.resize();
  }

  /** Takes over what has changed of the rows: their number, or that some have come. */
  resize() {
    const count = this.rows.count;
    // Browsers cannot scroll further than some ten million pixels: beyond that rows get closer.
    this.step = Math.min(HEIGHT, MOST_HEIGHT / Math.max(count, 1));
    this.space.style.height = `${count * this.step + 10}px`;
    this.view.style.height = `${Math.min(Math.max(count, 1), TALLEST) * HEIGHT + 10}px`;
    for (const [place, row] of this.drawn) {
      if (!row.hasAttribute("data-kind")) {
        row.remove();
        this.drawn.delete(place);
      }
    }
    this.soon();
  }

  x(place) {
    return `${(place + 0.5) / this.lanes.length * 100}%`;
  }

  soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    if (this.rows === null) return;
    const top = this.view.scrollTop;
    const first = Math.max(Math.floor(top / this.step) - SPARE, 0);
    const count = Math.ceil(this.view.clientHeight / HEIGHT) + 2 * SPARE;
    const behind = Math.min(first + count, this.rows.count);
    for (const [place, row] of this.drawn) {
      if (place < first || place >= behind) {
        row.remove();
        this.drawn.delete(place);
      }
    }
    let isActive = false;
    for (let place = first; place < behind; place++) {
      let made = this.drawn.get(place);
      if (made === undefined) {
        made = this.row(place);
        this.drawn.set(place, made);
        this.space.append(made);
      }
      const offset = this.step < HEIGHT ? top + (place - top / this.step) * HEIGHT : place * this.step;
      made.style.transform = `translateY(${offset}px)`;
      isActive ||= made.id === `event-${this.chosen}`;
    }
    if (isActive) this.view.setAttribute("aria-activedescendant", `event-${this.chosen}`);
    else this.view.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const row = this.rows.at(place);
    const position = { "aria-setsize": this.rows.count, "aria-posinset": place + 1 };
    if (row === undefined || row === null) {
      return el("div.event", { role: "option", "aria-label": "on its way", "aria-selected": "false", ...position });
    }
    const [n, kind, method, error] = ["n", "kind", "method", "error"].map((name) => row[field[name]]);
    const ends = [row[field.source], row[field.target]];
    const [from, to] = ends.map((name) => Math.max(this.lanes.indexOf(name), 0));
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    const took = Math.max(row[field.ms], row[field.ms_in]);
    const label = kind === "verdict" ? `refused: ${error} ${method}`
      : kind === "notice" ? `${ends[0]}: ${method}`
      : `${kind === "response" ? "↩ " : ""}${method}${error ? ` ✗ ${error}` : ""}`;
    const spoken = `${kind} ${method} from ${ends[0]} to ${ends[1]}`
      + `${row[field.change] ? `, ${row[field.change]}` : ""}${took ? `, ${duration(took)}` : ""}${error ? `, ${error}` : ""}`;
    const arrow = el("span.arrow", {
      "data-way": from <= to ? "down" : "up",
      style: { left: this.x(left), width: `${Math.max((right - left) / this.lanes.length * 100, 1)}%` },
    });
    const middle = Math.min(Math.max((left + right + 1) / 2 / this.lanes.length, 0.12), 0.88);
    return el("div.event", {
      id: `event-${n}`, role: "option", "aria-label": spoken, ...position,
      "aria-selected": String(n === this.chosen), "data-kind": kind, "data-n": n, "data-pair": row[field.pair],
      "data-is-pair": String(row[field.pair] === this.chosen && this.chosen >= 0),
      "data-change": row[field.change], "data-protocol": row[field.protocol],
      "data-error": error !== "" && kind === "response",
      title: `#${n} ${spoken}, ${bytes(row[field.bytes])}`,
      onclick: () => this.pick(place),
    }, el("span.gutter", {}, kind === "response" && row[field.pair] >= 0 ? `${row[field.pair]}↩` : n),
    el("div.lanes", {}, this.lanes.map((name, at) => el("span.lane", { style: { left: this.x(at) } })), arrow,
      el("span.label", { style: { left: `${middle * 100}%`, maxWidth: `${2 * Math.min(middle, 1 - middle) * 100}%` } }, label)),
    el("span.took", {}, took >= 0.005 ? duration(took) : ""));
  }

  pick(place) {
    const row = this.rows.at(place);
    if (!row) return;
    this.at = place;
    this.mark(row[field.n]);
    this.choose(row[field.n]);
  }

  /** Marks an event as the chosen one; -1: none. With its place it comes into view. */
  mark(number, place = null) {
    this.chosen = number;
    for (const row of this.drawn.values()) {
      row.setAttribute("aria-selected", String(row.id === `event-${number}`));
      row.setAttribute("data-is-pair", String(number >= 0 && row.dataset.pair === String(number)));
    }
    if (place !== null) {
      this.at = place;
      this.reveal(place);
    }
    this.soon();
  }

  reveal(place) {
    const at = place * this.step;
    if (at < this.view.scrollTop || at > this.view.scrollTop + this.view.clientHeight - 2 * HEIGHT) {
      this.view.scrollTop = Math.max(at - this.view.clientHeight / 3, 0);
    }
  }

  key(event) {
    if (!this.rows?.count) return;
    const step = {
      ArrowDown: 1, ArrowUp: -1, PageDown: TALLEST, PageUp: -TALLEST, Home: -this.rows.count, End: this.rows.count,
    }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const place = Math.min(Math.max((this.at ?? -1) + step, 0), this.rows.count - 1);
    this.reveal(place);
    this.at = place;
    this.draw();
    this.pick(place);
  }
}
