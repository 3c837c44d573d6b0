// The keys of a page, and their help.

import { el, fill } from "./dom.js";
import { NAMES } from "./filter.js";

const dialog = el("dialog", { id: "help", "aria-label": "help" });
document.body.append(dialog);

/** Opens the dialog of the help.
 * @param {Array<[string, string, Function]>} keys
 * @param {...Node} more  what the page explains beside its keys */
export function help(keys, ...more) {
  fill(dialog, el("h2", {}, "Keys"),
    el("dl", {}, keys.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
    more, el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.showModal();
}

/** The words of the filter, for the help. */
export function filterHelp() {
  return [el("h2", {}, "Filter"),
    el("p.terms", {}, NAMES.map((name) => [el("code", {}, name), " "])),
    el("p", {}, "Words stand for events that hold them. ", el("code", {}, "& | ! ( )"), " combine; names may have ", el("code", {}, "*"),
      ". The terminal takes the same: ", el("code", {}, "conductor log show FILE FILTER"), ".")];
}

/** Calls what belongs to a key, unless somebody writes or a dialog is open. */
export function listen(keys) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
    const found = keys.find(([key]) => key === event.key);
    if (found === undefined) return;
    event.preventDefault();
    found[2]();
  });
}
