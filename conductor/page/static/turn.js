// A turn on the right: where its time went, and a card for each component.

import { duration, el, several } from "./dom.js";

const SIGNS = { added: "+", removed: "−", changed: "~" };
const MOST_SPANS = 200;
const MOST_VISITS = 100;
/** Time that nobody had a turn is shown from this part of it, and from so many milliseconds on. */
const PART_OF_WAY = 0.05;
const LEAST_WAY = 10;
/** Rows of time that is not a component's: no component has such a name. */
const PERSON = " person";
const CLIENT = " client";
const NOBODY = " nobody";
/** Items for whose answer the agent waits. */
const WAITS = new Set(["question", "answer", "refusal", "notice", "mcp"]);
const OTHERS = new Map([
  [PERSON, ["waiting for you", "questions, until you answered", "person"]],
  [CLIENT, ["client", "files, terminals and the like", "client"]],
  [NOBODY, ["no one", "on the way, or waiting in conductor", "nobody"]],
]);
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

/** The name of a component that shows something; a name that is none in the chain is the agent's own. */
export function owner(components, name) {
  const made = el("span.owner", {}, name);
  const first = name.split("/")[0];
  made.style.setProperty("--hue", hue(components, components.includes(first) ? first : components.at(-1)));
  return made;
}

/** When the agent got each prompt of the turn, and when it had answered it, in seconds. */
function agentTimes(detail, components) {
  const { turn } = detail;
  const end = (turn.at ?? 0) + (turn.ms ?? Infinity) / 1000;
  const prompts = (detail.visits ?? []).filter((each) => each.method === "session/prompt");
  const sent = prompts.filter((each) => each.kind === "request" && each.sent !== undefined);
  const last = components.findLast((name) => sent.some((each) => each.component === name));
  const inOrder = (times) => times.sort((one, other) => one - other);
  const begins = last === undefined ? [turn.at ?? 0]
    : inOrder(sent.filter((each) => each.component === last).map((each) => each.at + (each.ms ?? 0) / 1000));
  const ends = inOrder(prompts.filter((each) => each.component === last && each.kind === "response").map((each) => each.at));
  return begins.map((at, place) => [at, Math.max(ends[place] ?? end, at)]);
}

/** When each component had something of the turn: `[[at, ms], …]` in milliseconds since it began. */
function spans(detail, components) {
  const begin = detail.turn.at ?? 0;
  const made = new Map();
  const put = (name, at, ms) => {
    if (!made.has(name)) made.set(name, []);
    if (made.get(name).length < MOST_SPANS) made.get(name).push([Math.max((at - begin) * 1000, 0), ms]);
  };
  for (const each of detail.visits ?? []) put(each.component, each.at, each.ms ?? 0);
  const waits = (detail.items ?? []).filter((each) => WAITS.has(each.kind) && each.ms);
  for (const each of waits) {
    if (each.kind === "question") put(PERSON, each.at, each.ms);
    else if (each.kind === "notice") put(CLIENT, each.at, each.ms);
  }
  let left = (detail.turn.shares ?? []).find((share) => share.component === "agent")?.ms ?? 0;
  const works = (since, until) => {
    const ms = Math.min((until - since) * 1000, left);
    if (ms <= 0) return;
    left -= ms;
    put("agent", since, ms);
  };
  // The agent works on a prompt for as long as its share says, but not while it waits for an answer.
  for (const [got, gave] of agentTimes(detail, components)) {
    let since = got;
    for (const each of waits.filter(({ at }) => at >= got && at < gave)) {
      works(since, each.at);
      since = Math.max(since, each.at + each.ms / 1000);
    }
    works(since, gave);
  }
  return made;
}

function percentOf(ms, whole) {
  const percent = Math.min(Math.round(ms / whole * 100), 100);
  return percent || !ms ? `${percent} %` : "< 1 %";
}

/** The time of a turn: when and how long each component had it, a person was asked, the client had a request, and
 * nobody had it. */
export function waterfall(turn, detail, components, chosen, choose) {
  const shares = (turn.shares ?? []).filter((share) => share.component !== "client");
  const client = (turn.shares ?? []).find((share) => share.component === "client")?.ms ?? 0;
  const bars = shares.map((share) => [share.component, share.ms ?? 0]);
  if (turn.person_ms) bars.push([PERSON, turn.person_ms]);
  if (client) bars.push([CLIENT, client]);
  if (turn.way_ms > Math.max(turn.ms * PART_OF_WAY, LEAST_WAY)) bars.push([NOBODY, turn.way_ms]);
  const found = detail === null ? new Map() : spans(detail, components);
  const ends = [...found.values()].flat().map(([at, ms]) => at + ms);
  const whole = Math.max(turn.ms ?? 0, ...ends, ...bars.map(([, ms]) => ms), 0.001);
  const longest = bars.reduce((one, other) => (other[1] > one[1] ? other : one), ["", 0]);
  const percent = (ms) => `${Math.min(ms / whole * 100, 100)}%`;
  return el("div.waterfall", { role: "list", "aria-label": "where the time went" },
    bars.map((one) => {
      const [name, ms] = one;
      const [label, title, kind] = OTHERS.get(name) ?? [name, name, ""];
      const at = found.get(name) ?? (name === NOBODY ? [] : [[0, ms]]);
      const track = el("span.track", { "aria-hidden": true }, at.map(([at, long]) => (
        el("span.bar", { style: { left: `min(${percent(at)}, 100% - 3px)`, width: percent(Math.min(long, whole - at)) } }))));
      if (!kind) track.style.setProperty("--hue", hue(components, name));
      const inside = [el("span.name", { title }, kind ? el(`span.swatch.${kind}`) : swatch(components, name), label),
        name === NOBODY ? el("span.note", {}, title) : track,
        el("span.time", { "data-longest": String(one === longest) }, duration(ms)),
        el("span.part", {}, turn.ms ? percentOf(ms, turn.ms) : "")];
      return el("div", { role: "listitem" }, kind === "" ? el("button.time-row", {
        type: "button", "data-key": `time ${name}`, "aria-pressed": String(chosen === name),
        title: `only what ${name} touched`, onclick: () => choose(name),
      }, inside) : el(`div.time-row.other.${kind}`, {}, inside));
    }));
}

function edit(held) {
  const lines = [];
  const words = (text) => (text.trim() ? text : el("span.note", {}, "(line breaks or spaces)"));
  if (held.before) lines.push(el("del", {}, words(held.before)));
  if (held.after) lines.push(el("ins", {}, words(held.after)));
  return el("li.edit", {},
    el("p.what", {}, el("b", {}, `${SIGNS[held.op] ?? ""} ${held.op} `), held.what,
      held.cut ? el("span.note", {}, " (cut)") : null),
    el("div.words", {}, lines));
}

function visit(held, openEvent) {
  const direction = held.direction === "down" ? "towards the agent" : "towards the client";
  const change = held.change === "open" && held.kind === "response" ? "dropped" : held.change ?? "same";
  const did = held.edits?.length ? null : DID[change];
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
function unchanged(name, visits, openEvent) {
  const count = visits.reduce((sum, each) => sum + (each.times ?? 1), 0);
  const ms = visits.reduce((sum, each) => sum + (each.ms ?? 0), 0);
  const key = `unchanged ${name}`;
  const made = el("details.unchanged", {
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
function says(share) {
  if (share.says && share.says !== "unchanged") return share.says;
  return share.component === "agent" ? "" : "changed nothing";
}

/** A card for each component that touched the turn, in the order of the chain. */
export function cards(detail, components, chosen, openEvent) {
  const made = [];
  for (const share of detail.turn.shares ?? []) {
    const name = share.component;
    if (name === "client" || (chosen && chosen !== name)) continue;
    const visits = (detail.visits ?? []).filter((each) => each.component === name);
    const verdicts = (detail.verdicts ?? []).filter((each) => each.component === name);
    const answers = (detail.items ?? []).filter((each) => each.component === name && ["answer", "refusal"].includes(each.kind));
    const changes = visits.filter((each) => !["same", "past"].includes(each.change ?? "same"));
    const same = visits.filter((each) => (each.change ?? "same") === "same");
    const tokens = share.tokens ? ` · ${share.tokens > 0 ? "+" : "−"}${several(Math.abs(share.tokens), "token")}` : "";
    made.push(el("section.card", { "data-component": name, "data-changes": String(Boolean(changes.length || verdicts.length)), "aria-label": name },
      el("header", {}, swatch(components, name), el("h3", {}, name), el("span.says", {}, says(share), tokens),
        el("span.time", {}, duration(share.ms ?? 0))),
      verdicts.map((each) => el("p.act.refused", {}, el("b", {}, `⚠ conductor refused what it did (rule ${each.rule}): `), each.text ?? "")),
      answers.slice(0, MOST_VISITS).map((each) => el(`p.act${each.kind === "refusal" ? ".refused" : ""}`, {},
        el("b", {}, each.kind === "refusal" ? "⚠ it refused: " : "it answered for you: "), each.text ?? "", " ", el("b", {}, each.status ?? ""))),
      changes.slice(0, MOST_VISITS).map((each) => visit(each, openEvent)),
      changes.length > MOST_VISITS ? el("p.note", {}, `and ${(changes.length - MOST_VISITS).toLocaleString("en")} more; they are among the messages below`) : null,
      name === "agent" ? acts(detail) : null,
      same.length ? unchanged(name, same, openEvent) : null));
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
