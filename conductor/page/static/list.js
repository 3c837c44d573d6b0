// A list of very many things of different heights: only those near the view exist.

import { el, scrolled } from "./dom.js";

const GUESS = 150;
const SPARE = 600;

/** Draws into a pane that scrolls. */
export class List {
  /** @param {HTMLElement} pane
   * @param {(key: number) => HTMLElement} make */
  constructor(pane, make) {
    Object.assign(this, { pane, make });
    this.keys = [];
    this.places = new Map();
    this.heights = new Map();
    this.drawn = new Map();
    this.tops = [0];
    /** What is to stay in view until somebody scrolls, and where this list has scrolled to. */
    this.revealed = null;
    this.scrolledTo = 0;
    this.space = el("div.space", { role: "feed", "aria-label": "turns" });
    this.measure = new ResizeObserver((entries) => this.measured(entries));
    pane.addEventListener("scroll", () => {
      if (pane.clientHeight && pane.scrollTop !== this.scrolledTo) this.revealed = null;
      this.soon();
    });
    new ResizeObserver(() => {
      this.keep();
      this.soon();
    }).observe(pane);
  }

  /** Shows things with these keys, in this order. */
  show(keys) {
    const anchor = this.anchor();
    this.keys = keys;
    this.places = new Map(keys.map((key, place) => [key, place]));
    for (const [key, element] of this.drawn) if (!this.places.has(key)) this.forget(key, element);
    if (this.space.parentNode !== this.pane) this.pane.replaceChildren(this.space);
    this.settle(anchor);
  }

  /** Makes a thing anew, if it is in view. */
  renew(key) {
    const old = this.drawn.get(key);
    if (old === undefined) return;
    const made = this.prepared(key);
    this.measure.unobserve(old);
    old.replaceWith(made);
    this.drawn.set(key, made);
  }

  /** Scrolls to a thing, as soon as it is there, unless it is in view. */
  reveal(key) {
    this.revealed = key;
    this.keep();
    this.draw();
  }

  /** What is near the chosen thing may get its height later: that must not push it out of view. */
  keep() {
    const place = this.places.get(this.revealed);
    if (place !== undefined) this.scroll(scrolled(this.pane, this.tops[place], this.tops[place + 1]));
  }

  scroll(top) {
    if (this.pane.scrollTop !== top) this.pane.scrollTop = top;
    this.scrolledTo = this.pane.scrollTop;
  }

  /** The first thing in view, and how far it is scrolled. */
  anchor() {
    const place = this.first(this.pane.scrollTop);
    return { key: this.keys[place], by: this.pane.scrollTop - (this.tops[place] ?? 0) };
  }

  settle({ key, by }) {
    const known = [...this.heights.values()].slice(-50);
    const guess = known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : GUESS;
    this.tops = new Array(this.keys.length + 1);
    this.tops[0] = 0;
    this.keys.forEach((each, place) => {
      this.tops[place + 1] = this.tops[place] + (this.heights.get(each) ?? guess);
    });
    this.space.style.height = `${this.tops.at(-1)}px`;
    const place = this.places.get(key);
    if (place !== undefined && by > 0) this.scroll(this.tops[place] + by);
    this.keep();
    this.draw();
  }

  first(top) {
    let [low, high] = [0, this.keys.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= top) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(this.keys.length - 1, 0));
  }

  soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const { scrollTop, clientHeight } = this.pane;
    const wanted = new Set();
    for (let place = this.first(scrollTop - SPARE); place < this.keys.length; place++) {
      if (this.tops[place] > scrollTop + clientHeight + SPARE) break;
      wanted.add(this.keys[place]);
    }
    for (const [key, element] of this.drawn) {
      if (!wanted.has(key) && !element.contains(document.activeElement)) this.forget(key, element);
    }
    let before = null;
    for (const key of wanted) {
      let element = this.drawn.get(key);
      if (element === undefined) {
        element = this.prepared(key);
        this.drawn.set(key, element);
        // In the order of the list: that is how Tab and screen readers go through it.
        if (before === null) this.space.prepend(element);
        else before.after(element);
      }
      element.style.top = `${this.tops[this.places.get(key)]}px`;
      before = element;
    }
  }

  prepared(key) {
    const element = this.make(key);
    element.setAttribute("aria-setsize", this.keys.length);
    element.setAttribute("aria-posinset", this.places.get(key) + 1);
    element.style.top = `${this.tops[this.places.get(key)]}px`;
    this.measure.observe(element);
    return element;
  }

  forget(key, element) {
    this.measure.unobserve(element);
    element.remove();
    this.drawn.delete(key);
  }

  measured(entries) {
    let isNew = false;
    for (const { target } of entries) {
      const key = Number(target.dataset.key);
      const height = target.offsetHeight;
      if (!height || this.drawn.get(key) !== target || this.heights.get(key) === height) continue;
      this.heights.set(key, height);
      isNew = true;
    }
    if (isNew) this.settle(this.anchor());
  }
}
