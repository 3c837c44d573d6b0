// What stands beside the conversation, as tabs: the chosen turn, panels of components, files, the log.

import { el, refill } from "./dom.js";

/** Tabs, of which one is in view. */
export class Beside {
  /** @param {HTMLElement} bar */
  constructor(bar) {
    this.bar = bar;
    this.tabs = [];
    this.chosen = "";
  }

  /** @param {Array<{key: string, label: string, note?: string, element: HTMLElement, id: string}>} tabs  not empty */
  show(tabs) {
    this.tabs = tabs;
    if (!tabs.some((each) => each.key === this.chosen)) this.chosen = tabs[0].key;
    const mark = JSON.stringify([this.chosen, tabs.map(({ key, label, note }) => [key, label, note])]);
    if (mark !== this.mark) {
      this.mark = mark;
      refill(this.bar, tabs.map((tab) => this.tab(tab)));
    }
    const front = tabs.find((each) => each.key === this.chosen);
    for (const element of this.bar.parentElement.querySelectorAll(":scope > [role=tabpanel]")) {
      element.hidden = element !== front.element;
      element.removeAttribute("aria-labelledby");
    }
    front.element.setAttribute("aria-labelledby", front.id);
  }

  tab({ key, label, note, element, id }) {
    const isChosen = key === this.chosen;
    return el("button", {
      type: "button", role: "tab", id, "data-key": id, "aria-selected": String(isChosen), "aria-controls": element.id,
      tabindex: isChosen ? 0 : -1, onclick: () => this.choose(key), onkeydown: (event) => this.step(event, key),
    }, el("span.tab-label", {}, label), note ? el("span.note", {}, ` ${note}`) : null);
  }

  /** Brings a tab to the front. */
  choose(key) {
    this.chosen = key;
    this.show(this.tabs);
    this.onchoose?.(key);
  }

  step(event, key) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = this.tabs[(this.tabs.findIndex((each) => each.key === key) + by + this.tabs.length) % this.tabs.length];
    this.choose(next.key);
    document.getElementById(next.id).focus();
  }
}
