// A turn on the right: where its time went, and a card for each component.

import { duration, el, several } from "./dom.js";

const SIGNS = { added: "+", removed: "−", changed: "~" };
const MOST_SPANS = 200;
const MOST_VISITS = 100;
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

/** When each component had something of the turn: `[[at, ms], …]` in milliseconds since it began. */
function spans(detail) {
  const begin = detail.turn.at ?? 0;
  const made = new Map();
  const put = (name, at, ms) => {
    if (!made.has(name)) made.set(name, []);
    if (made.get(name).length < MOST_SPANS) made.get(name).push([Math.max((at - begin) * 1000, 0), ms]);
  };
  let [got, gave] = [0, detail.turn.ms ?? 0];
  let left = (detail.turn.shares ?? []).find((share) => share.component === "agent")?.ms ?? 0;
  const works = (since, ms) => {
    const long = Math.min(ms, left);
    left -= long;
    if (long > 0) put("agent", begin + since / 1000, long);
  };
  for (const each of detail.visits ?? []) {
    put(each.component, each.at, each.ms ?? 0);
    if (each.method !== "session/prompt") continue;
    const end = (each.at - begin) * 1000;
    if (each.kind === "request") got = Math.max(got, end + (each.ms ?? 0));
    else if (each.kind === "response") gave = Math.min(gave, end);
  }
  // The agent works from the prompt on, for as long as its share says, but not while a person is asked.
  for (const each of detail.items ?? []) {
    if (each.kind !== "question" || !each.ms) continue;
    put("", each.at, each.ms);
    const asked = (each.at - begin) * 1000;
    works(got, asked - got);
    got = Math.max(got, asked + each.ms);
  }
  works(got, gave - got);
  return made;
}

function percentOf(ms, whole) {
  const percent = Math.min(Math.round(ms / whole * 100), 100);
  return percent || !ms ? `${percent} %` : "< 1 %";
}

/** The time of a turn: when and how long each component had it, and a person was asked. */
export function waterfall(turn, detail, components, chosen, choose) {
  const shares = (turn.shares ?? []).filter((share) => share.component !== "client");
  const bars = shares.map((share) => [share.component, share.component, share.ms ?? 0]);
  if (turn.person_ms) bars.push(["", "waiting for you", turn.person_ms]);
  const found = detail === null ? new Map() : spans(detail);
  const ends = [...found.values()].flat().map(([at, ms]) => at + ms);
  const whole = Math.max(turn.ms ?? 0, ...ends, ...bars.map(([, , ms]) => ms), 0.001);
  const longest = bars.reduce((one, other) => (other[2] > one[2] ? other : one), ["", "", 0]);
  const percent = (ms) => `${Math.min(ms / whole * 100, 100)}%`;
  return el("div.waterfall", { role: "list", "aria-label": "where the time went" },
    bars.map((one) => {
      const [name, label, ms] = one;
      const track = el("span.track", { "aria-hidden": true }, (found.get(name) ?? [[0, ms]]).map(([at, long]) => (
        el("span.bar", { style: { left: `min(${percent(at)}, 100% - 3px)`, width: percent(Math.min(long, whole - at)) } }))));
      if (name) track.style.setProperty("--hue", hue(components, name));
      const inside = [el("span.name", {}, name ? swatch(components, name) : el("span.swatch.person"), label), track,
        el("span.time", { "data-longest": String(one === longest) }, duration(ms)),
        el("span.part", {}, turn.ms ? percentOf(ms, turn.ms) : "")];
      return el("div", { role: "listitem" }, name ? el("button.time-row", {
        type: "button", "data-key": `time ${name}`, "aria-pressed": String(chosen === name),
        title: `only what ${name} touched`, onclick: () => choose(name),
      }, inside) : el("div.time-row.person", {}, inside));
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
  const direction = held.direction === "down" ? "towards the agent" : "towards the client";
  const did = held.edits?.length ? null : DID[held.change ?? "same"];
  const what = `${held.kind === "response" ? "answer to " : ""}${held.method}`;
  const number = held.sent ?? held.got;
  return el("div.visit", { "data-change": held.change ?? "same" },
    el("p.visit-head", {},
      el("button.link", {
        type: "button", title: `${direction}; show the message`, "data-key": `event ${number}`, onclick: () => openEvent(number),
      }, `${held.direction === "down" ? "→" : "←"} ${what}`),
      el("span.note", {}, did ? ` ${did}` : "", (held.times ?? 1) > 1 ? ` · ${held.times} times` : "",
        held.ms ? ` · ${duration(held.ms)}` : "")),
    held.edits?.length ? el("ul.edits", {}, held.edits.map(edit)) : null);
}

const opened = new Set();

/** Visits that a person need not see at once. They are drawn when they are opened. */
function quiet(name, visits, openEvent) {
  const count = visits.reduce((sum, each) => sum + (each.times ?? 1), 0);
  const ms = visits.reduce((sum, each) => sum + (each.ms ?? 0), 0);
  const key = `quiet ${name}`;
  const made = el("details.quiet", {
    open: opened.has(key),
    ontoggle: () => {
      opened[made.open ? "add" : "delete"](key);
      if (made.open && made.childElementCount === 1) made.append(...visits.slice(0, MOST_VISITS).map((each) => visit(each, openEvent)));
    },
  }, el("summary", { "data-key": key }, several(count, "message"), " passed on unchanged",
    ms >= 0.005 ? ` · ${duration(ms)}` : ""));
  return made;
}

/** What a component did, in words. */
function says(share, loud) {
  const parts = [];
  if (share.says && share.says !== "unchanged") parts.push(share.says);
  const other = (share.changed ?? 0) - (parts.length ? 1 : 0);
  if (other > 0) {
    const kinds = new Set(loud.filter((each) => each.method !== "session/prompt").map((each) => each.change ?? "same"));
    const [kind] = kinds.size === 1 ? kinds : ["changed"];
    parts.push(`${WORDS[kind] ?? "changed"} ${parts.length && kind === "changed" ? "another " : ""}${several(other, "message")}`);
  }
  return parts.join(", ") || (share.component === "agent" ? "" : "changed nothing");
}
const WORDS = { answered: "answered", originated: "sent", dropped: "kept back", changed: "changed" };

/** A card for each component that touched the turn, in the order of the chain. */
export function cards(detail, components, chosen, openEvent) {
  const made = [];
  for (const share of detail.turn.shares ?? []) {
    const name = share.component;
    if (name === "client" || (chosen && chosen !== name)) continue;
    const visits = (detail.visits ?? []).filter((each) => each.component === name);
    const verdicts = (detail.verdicts ?? []).filter((each) => each.component === name);
    const loud = visits.filter((each) => !["same", "past"].includes(each.change ?? "same"));
    const same = visits.filter((each) => (each.change ?? "same") === "same");
    const tokens = share.tokens ? ` · ${share.tokens > 0 ? "+" : "−"}${several(Math.abs(share.tokens), "token")}` : "";
    made.push(el("section.card", { "data-component": name, "data-loud": String(Boolean(loud.length || verdicts.length)), "aria-label": name },
      el("header", {}, swatch(components, name), el("h3", {}, name), el("span.says", {}, says(share, loud), tokens),
        el("span.time", {}, duration(share.ms ?? 0))),
      verdicts.map((each) => el("p.act.refused", {}, el("b", {}, `⚠ refused (${each.rule}) `), each.text ?? "")),
      loud.slice(0, MOST_VISITS).map((each) => visit(each, openEvent)),
      loud.length > MOST_VISITS ? el("p.note", {}, `and ${several(loud.length - MOST_VISITS, "more")}; they are among the messages below`) : null,
      name === "agent" ? acts(detail) : null,
      same.length ? quiet(name, same, openEvent) : null));
  }
  return made;
}

function acts(detail) {
  const found = (detail.items ?? []).filter((item) => ["tool", "question", "mcp"].includes(item.kind));
  if (!found.length) return null;
  return el("ul.acts", {}, found.slice(0, MOST_VISITS).map((item) => el("li", {}, el("span.kind", {}, item.kind), " ", item.text ?? "", " ",
    el("span.note", {}, item.status ?? "", item.ms ? ` · ${duration(item.ms)}` : ""))));
}

/** The mark of a component in its colour. */
function swatch(components, name) {
  const made = el("span.swatch", { "aria-hidden": true });
  made.style.setProperty("--hue", hue(components, name));
  return made;
}
