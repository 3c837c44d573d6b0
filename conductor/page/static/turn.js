// A turn on the right: where its time went, and a card for each component.

import { duration, el, several } from "./dom.js";

const SIGNS = { added: "+", removed: "−", changed: "~" };
const DID = {
  answered: "answered it itself", originated: "sent it itself", dropped: "did not pass it on",
  open: "has it still", same: "passed it on", changed: "changed it", past: "",
};

/** Tokens and cost of a turn in words. */
export function cost(turn) {
  const usage = turn.usage;
  const parts = [];
  if (usage?.input || usage?.output) {
    parts.push(`${(usage.input ?? 0).toLocaleString("en")} tokens in, ${(usage.output ?? 0).toLocaleString("en")} out`);
  } else if (turn.tokens_in || turn.tokens_out) {
    parts.push(`≈${(turn.tokens_in ?? 0).toLocaleString("en")} tokens in, ≈${(turn.tokens_out ?? 0).toLocaleString("en")} out`);
  }
  if (usage?.cost !== undefined && usage.cost !== null) {
    const amount = usage.cost.toFixed(usage.cost < 0.1 ? 4 : 2);
    parts.push(usage.currency === "USD" ? `$${amount}` : `${amount} ${usage.currency ?? ""}`.trim());
  }
  return parts.join(" · ");
}

/** The hue of a component, by its place in the chain. */
export function hue(components, name) {
  const place = components.indexOf(name);
  return String((Math.max(place, 0) * 67 + 200) % 360);
}

/** One bar for each component: its own time, the agent's, and that in which a person was asked. */
export function waterfall(turn, components, chosen, choose) {
  const shares = (turn.shares ?? []).filter((share) => share.component !== "client");
  const bars = shares.map((share) => [share.component, share.component, share.ms ?? 0]);
  if (turn.person_ms) bars.push(["", "waiting for you", turn.person_ms]);
  const longest = Math.max(...bars.map(([, , ms]) => ms), 0.001);
  const whole = bars.reduce((sum, [, , ms]) => sum + ms, 0) || 1;
  return el("div.waterfall", { role: "list", "aria-label": "where the time went" },
    bars.map(([name, label, ms]) => {
      const bar = el("span.bar", { style: { width: `${Math.max(ms / longest * 100, 0.5)}%` } });
      if (name) bar.style.setProperty("--hue", hue(components, name));
      const inside = [el("span.name", {}, label), el("span.track", { "aria-hidden": true }, bar),
        el("span.time", {}, duration(ms)),
        el("span.part", {}, `${Math.round(ms / whole * 100)} %`)];
      const kind = name ? "button.time-row" : "div.time-row.person";
      return el("div", { role: "listitem" }, el(kind, name ? {
        type: "button", "aria-pressed": String(chosen === name), onclick: () => choose(name),
      } : {}, inside));
    }));
}

function edit(held) {
  const lines = [];
  if (held.before) lines.push(el("del", {}, held.before));
  if (held.after) lines.push(el("ins", {}, held.after));
  return el("li.edit", {},
    el("p.what", {}, el("b", {}, `${SIGNS[held.op] ?? ""} ${held.op} `), held.what,
      held.cut ? el("span.note", {}, " (cut)") : null),
    el("div.words", {}, lines));
}

function visit(held, openEvent) {
  const did = held.edits?.length ? null : DID[held.change ?? "same"];
  const what = `${held.kind === "response" ? "answer to " : ""}${held.method}`;
  const number = held.sent ?? held.got;
  return el("div.visit", { "data-change": held.change ?? "same" },
    el("p.visit-head", {},
      el("button.link", {
        type: "button", title: "show the message", onclick: () => openEvent(number),
      }, `${held.direction === "down" ? "↓" : "↑"} ${what}`),
      el("span.note", {}, ` ${did ?? ""}`, (held.times ?? 1) > 1 ? ` · ${held.times} times` : "",
        held.ms ? ` · ${duration(held.ms)}` : "", held.tokens ? ` · ${held.tokens > 0 ? "+" : ""}${held.tokens} tokens` : "")),
    held.edits?.length ? el("ul.edits", {}, held.edits.map(edit)) : null);
}

/** A card for each component that touched the turn, in the order of the chain. */
export function cards(detail, components, chosen, openEvent) {
  const made = [];
  for (const share of detail.turn.shares ?? []) {
    const name = share.component;
    if (name === "client" || (chosen && chosen !== name)) continue;
    const visits = (detail.visits ?? []).filter((each) => each.component === name);
    const verdicts = (detail.verdicts ?? []).filter((each) => each.component === name);
    const loud = visits.filter((each) => !["same", "past"].includes(each.change ?? "same"));
    const quiet = visits.filter((each) => ["same"].includes(each.change ?? "same"));
    const says = share.says || (name === "agent" ? "" : share.changed ? several(share.changed, "message") + " changed" : "unchanged");
    made.push(el("section.card", { id: `card-${name}`, "data-component": name, style: null, "aria-label": name },
      el("header", {}, swatch(components, name), el("h3", {}, name), el("span.says", {}, says),
        el("span.time", {}, duration(share.ms ?? 0))),
      verdicts.map((each) => el("p.act.refused", {}, el("b", {}, `⚠ refused (${each.rule}) `), each.text ?? "")),
      loud.map((each) => visit(each, openEvent)),
      name === "agent" ? acts(detail) : null,
      quiet.length ? el("details.quiet", {}, el("summary", {},
        several(quiet.reduce((sum, each) => sum + (each.times ?? 1), 0), "message"), " passed on unchanged"),
      quiet.map((each) => visit(each, openEvent))) : null));
  }
  return made;
}

function acts(detail) {
  const found = (detail.items ?? []).filter((item) => ["tool", "question", "mcp"].includes(item.kind));
  if (!found.length) return null;
  return el("ul.acts", {}, found.map((item) => el("li", {}, el("span.kind", {}, item.kind), " ", item.text ?? "", " ",
    el("span.note", {}, item.status ?? "", item.ms ? ` · ${duration(item.ms)}` : ""))));
}

/** The mark of a component in its colour. */
export function swatch(components, name) {
  const made = el("span.swatch", { "aria-hidden": true });
  made.style.setProperty("--hue", hue(components, name));
  return made;
}
