// The sequence: a row for each event, a lane for each component. Only the rows in view exist.

import { bytes, duration, el } from "./dom.js";
import { field } from "./rows.js";
import { hue } from "./turn.js";

const HEIGHT = 26;
const SPARE = 12;
const MOST_HEIGHT = 8_000_000;

/** A list of events that scrolls, however many there are. */
export class Sequence {
  /** @param {(n: number) => void} choose  called with the number of an event */
  constructor(choose) {
    this.choose = choose;
    this.rows = [];
    this.lanes = [];
    this.chosen = -1;
    this.drawn = new Map();
    this.step = HEIGHT;
    this.head = el("div.lanes-head", { "aria-hidden": true });
    this.space = el("div.space");
    this.view = el("div.sequence-view", {
      tabindex: 0, role: "listbox", "aria-label": "messages in order",
      onscroll: () => this.soon(), onkeydown: (event) => this.key(event),
    }, this.space);
    this.element = el("div.sequence", {}, this.head, this.view);
    new ResizeObserver(() => this.soon()).observe(this.view);
  }

  show(rows, components, all) {
    this.components = components;
    const seen = new Set();
    for (const row of rows) {
      seen.add(row[field.source]);
      seen.add(row[field.target]);
    }
    this.lanes = all ? components : components.filter((name) => seen.has(name));
    if (seen.has("conductor")) this.lanes = [...this.lanes, "conductor"];
    this.rows = rows;
    this.head.replaceChildren(...this.lanes.map((name, place) => {
      const made = el("span.lane-name", { title: name, style: { left: this.x(place) } }, name);
      made.style.setProperty("--hue", hue(components, name));
      return made;
    }));
    // Browsers cannot scroll further than some ten million pixels: beyond that rows get closer.
    this.step = Math.min(HEIGHT, MOST_HEIGHT / Math.max(rows.length, 1));
    this.space.style.height = `${rows.length * this.step + HEIGHT}px`;
    this.space.replaceChildren();
    this.drawn = new Map();
    this.soon();
  }

  x(place) {
    return `${(place + 0.5) / this.lanes.length * 100}%`;
  }

  soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw() {
    const top = this.view.scrollTop;
    const first = Math.max(Math.floor(top / this.step) - SPARE, 0);
    const count = Math.ceil(this.view.clientHeight / HEIGHT) + 2 * SPARE;
    const behind = Math.min(first + count, this.rows.length);
    for (const [place, row] of this.drawn) {
      if (place < first || place >= behind) {
        row.remove();
        this.drawn.delete(place);
      }
    }
    for (let place = first; place < behind; place++) {
      if (!this.drawn.has(place)) {
        const made = this.row(place);
        this.drawn.set(place, made);
        this.space.append(made);
      }
      const offset = this.step < HEIGHT ? top + (place - top / this.step) * HEIGHT : place * this.step;
      this.drawn.get(place).style.transform = `translateY(${offset}px)`;
    }
    this.view.setAttribute("aria-activedescendant", this.chosen >= 0 ? `event-${this.chosen}` : "");
  }

  row(place) {
    const row = this.rows[place];
    const [from, to] = [row[field.source], row[field.target]].map((name) => Math.max(this.lanes.indexOf(name), 0));
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    const kind = row[field.kind];
    const label = kind === "verdict" ? `refused: ${row[field.error]} ${row[field.method]}`
      : `${kind === "response" ? "← " : ""}${row[field.method]}${row[field.error] ? ` ✗ ${row[field.error]}` : ""}`;
    const spoken = `${kind} ${row[field.method]} from ${row[field.source]} to ${row[field.target]}`
      + `${row[field.change] ? `, ${row[field.change]}` : ""}${row[field.ms] ? `, ${duration(row[field.ms])}` : ""}`;
    const arrow = el("span.arrow", {
      "data-way": from <= to ? "down" : "up",
      style: { left: this.x(left), width: `${Math.max((right - left) / this.lanes.length * 100, 1)}%` },
    }, el("span.label", {}, label));
    const made = el("div.event", {
      id: `event-${row[field.n]}`, role: "option", "aria-label": spoken,
      "aria-selected": String(row[field.n] === this.chosen), "data-kind": kind,
      "data-change": row[field.change], "data-protocol": row[field.protocol],
      "data-error": row[field.error] !== "" && kind === "response",
      title: `#${row[field.n]} ${spoken}, ${bytes(row[field.bytes])}`,
      onclick: () => this.pick(place),
    }, this.lanes.map((name, at) => el("span.lane", { style: { left: this.x(at) } })), arrow);
    return made;
  }

  pick(place) {
    const row = this.rows[place];
    if (row === undefined) return;
    this.mark(row[field.n]);
    this.choose(row[field.n]);
  }

  /** Marks an event as the chosen one, and scrolls to it if it is out of view. */
  mark(number) {
    this.chosen = number;
    for (const row of this.drawn?.values() ?? []) {
      row.setAttribute("aria-selected", String(row.id === `event-${number}`));
    }
    const place = this.rows.findIndex((row) => row[field.n] === number);
    if (place < 0) return;
    const at = place * this.step;
    if (at < this.view.scrollTop || at > this.view.scrollTop + this.view.clientHeight - 2 * HEIGHT) {
      this.view.scrollTop = Math.max(at - this.view.clientHeight / 3, 0);
    }
    this.soon();
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const place = this.rows.findIndex((row) => row[field.n] === this.chosen);
    this.pick(Math.min(Math.max(place + step, 0), this.rows.length - 1));
  }
}
