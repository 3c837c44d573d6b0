// A message before and behind a component: JSON, with what differs marked.

import { ofWords, runs } from "./difference.js";
import { el } from "./dom.js";

const MOST = 3000;
const WIDEST = 20000;
const SIGNS = { same: " ", removed: "−", added: "+" };

/** The lines of a text that a message is compared by. */
function lines(value) {
  return (JSON.stringify(value, null, 2) ?? "").split("\n");
}

/** A line; of one that has a counterpart, the words that differ are marked. */
function line(kind, text, counterpart) {
  const cut = text.length > WIDEST ? [el("span.note", {}, ` … ${(text.length - WIDEST).toLocaleString("en")} more characters`)] : [];
  let parts = [text.slice(0, WIDEST)];
  if (counterpart !== undefined && text.length + counterpart.length < WIDEST) {
    const pair = kind === "removed" ? [text, counterpart] : [counterpart, text];
    parts = ofWords(...pair).filter(([what]) => what === "same" || what === kind)
      .map(([what, words]) => (what === "same" ? words : el("mark", {}, words)));
  }
  return el(`span.line.${kind}`, {}, `${SIGNS[kind]} `, parts, cut, "\n");
}

function pane(title, text, made) {
  const code = el("pre", { tabindex: 0, "aria-label": title }, made.slice(0, MOST));
  if (made.length > MOST) code.append(el("span.note", {}, `… ${made.length - MOST} more lines`));
  const copy = el("button.small", {
    type: "button", "aria-label": `copy: ${title}`,
    onclick: async () => {
      await navigator.clipboard.writeText(text.join("\n"));
      copy.textContent = "copied";
      setTimeout(() => { copy.textContent = "copy"; }, 1500);
    },
  }, "copy");
  return el("div.pane", {}, el("header", {}, el("h4", {}, title), copy), code);
}

/** What an event carries. */
export function body(event) {
  return event.type === "response" ? event.payload : event.params ?? event.verdict ?? event.happened ?? event;
}

/** An event, beside the one whose message it passes on, if there is one. */
export function message(event, before) {
  const now = lines(body(event));
  const name = event.verdict ? `verdict on ${event.verdict.component ?? ""}` : event.happened ? `${event.happened.component ?? ""}` : `${event.from ?? "conductor"} → ${event.to ?? ""}`;
  if (before === null) return el("div.panes.one", {}, pane(name, now, now.map((text) => line("same", text))));
  const old = lines(body(before));
  const [left, right] = [[], []];
  const found = runs(old, now);
  for (const [at, [kind, texts]] of found.entries()) {
    const next = found[at + 1]?.[0] === "added" ? found[at + 1][1] : [];
    const last = found[at - 1]?.[0] === "removed" ? found[at - 1][1] : [];
    if (kind !== "added") left.push(...texts.map((text, k) => line(kind, text, kind === "removed" ? next[k] : undefined)));
    if (kind !== "removed") right.push(...texts.map((text, k) => line(kind, text, kind === "added" ? last[k] : undefined)));
  }
  return el("div.panes", {}, pane(`before: ${before.from} → ${before.to}`, old, left), pane(`after: ${name}`, now, right));
}
