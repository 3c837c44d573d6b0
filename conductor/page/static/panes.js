// The two panes of a page: side by side, or in a narrow window as tabs.

import { el } from "./dom.js";

const NAMES = ["conversation", "turn"];
const main = document.querySelector("main");
const sections = main.querySelectorAll(":scope > section");
const tabs = new Map(NAMES.map((name, place) => [name, el("button", {
  role: "tab", type: "button", id: `tab-${name}`, "aria-controls": sections[place].id,
  onclick: () => show(name), onkeydown: (event) => other(event, name),
}, sections[place].dataset.tab ?? `${name[0].toUpperCase()}${name.slice(1)}`)]));
main.before(el("nav", { "aria-label": "panes" }, el("div.tabs", { role: "tablist", "aria-label": "panes" }, [...tabs.values()])));
show("conversation");

/** Shows a pane where there is room for one only. */
export function show(name) {
  main.dataset.pane = name;
  for (const [each, tab] of tabs) {
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
  }
  delete tabs.get(name).dataset.news;
}

/** Marks the tab of a pane that has something new, until it is shown. */
export function news(name) {
  if (main.dataset.pane !== name) tabs.get(name).dataset.news = "true";
}

/** Goes to the other tab by an arrow key. */
function other(event, name) {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  const next = NAMES.find((each) => each !== name);
  show(next);
  tabs.get(next).focus();
}
