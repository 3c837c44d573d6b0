// A message before and behind a component: JSON, with the lines that differ marked.

import { el } from "./dom.js";

const MOST = 3000;

/** The lines of a text that a message is compared by. */
function lines(value) {
  return (JSON.stringify(value, null, 2) ?? "").split("\n");
}

/** Pairs of equal lines by their longest common run; of long texts only head and tail are paired. */
function compare(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head
    && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const old = before.slice(head, before.length - tail);
  const now = after.slice(head, after.length - tail);
  const same = old.length * now.length > 250000 ? [] : common(old, now);
  return { head, tail, old, now, same };
}

function common(old, now) {
  const best = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let k = now.length - 1; k >= 0; k--) {
      best[i][k] = old[i] === now[k] ? best[i + 1][k + 1] + 1 : Math.max(best[i + 1][k], best[i][k + 1]);
    }
  }
  const pairs = [];
  let [i, k] = [0, 0];
  while (i < old.length && k < now.length) {
    if (old[i] === now[k]) pairs.push([i++, k++]);
    else if (best[i + 1][k] >= best[i][k + 1]) i++;
    else k++;
  }
  return pairs;
}

function pane(title, text, marked, sign) {
  const code = el("pre", { tabindex: 0, "aria-label": title });
  for (const [at, line] of text.slice(0, MOST).entries()) {
    const isMarked = marked.has(at);
    code.append(el(isMarked ? `span.line.${sign === "+" ? "added" : "removed"}` : "span.line.same", {},
      `${isMarked ? sign : " "} ${line}\n`));
  }
  if (text.length > MOST) code.append(el("span.note", {}, `… ${text.length - MOST} more lines`));
  const copy = el("button.small", {
    type: "button",
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
  return event.type === "response" ? event.payload : event.params ?? event.verdict ?? event;
}

/** An event, beside the one whose message it passes on, if there is one. */
export function message(event, before) {
  const now = lines(body(event));
  const name = `${event.from ?? "conductor"} → ${event.to ?? ""}`;
  if (before === null) return el("div.panes.one", {}, pane(name, now, new Set(), "+"));
  const old = lines(body(before));
  const found = compare(old, now);
  const removed = new Set(found.old.map((_, at) => at + found.head));
  const added = new Set(found.now.map((_, at) => at + found.head));
  for (const [i, k] of found.same) {
    removed.delete(i + found.head);
    added.delete(k + found.head);
  }
  return el("div.panes", {}, pane(`before: ${before.from} → ${before.to}`, old, removed, "−"),
    pane(`after: ${name}`, now, added, "+"));
}
