// The page of a trace: who changed which message, how long each took.

import * as conversation from "./conversation.js";
import { open, Trouble } from "./data.js";
import { duration, el, fill, several } from "./dom.js";
import { NAMES, parse } from "./filter.js";
import { message } from "./message.js";
import { field, Rows } from "./rows.js";
import { Sequence } from "./sequence.js";
import { cards, cost, hue, waterfall } from "./turn.js";

const $ = (id) => document.getElementById(id);
const data = open();
const rows = new Rows(data);
const sequence = new Sequence((number) => go({ event: number }));
let head = { components: ["client", "agent"], events: 0, gaps: [], live: false };
let turns = [];
let detail = null;
let hits = null;
const shown = new Map();
let failure = "";

// -- the address ------------------------------------------------------------------------------

/** What is chosen, as the address says it. */
function chosen() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d{1,9}$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : null);
  return {
    turn: number("turn"), event: number("event"),
    component: parts.get("component") ?? "", filter: parts.get("filter") ?? "",
  };
}

/** Chooses something else: the address says so, and can be linked to. */
function go(changes, { replace = false } = {}) {
  const now = { ...chosen(), ...changes };
  if (changes.turn !== undefined && changes.event === undefined) now.event = null;
  const parts = new URLSearchParams();
  for (const name of ["turn", "component", "filter", "event"]) {
    if (now[name] !== null && now[name] !== "") parts.set(name, now[name]);
  }
  const address = parts.size ? `#${parts}` : location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  draw();
}

// -- drawing ----------------------------------------------------------------------------------

let drawing = 0;

async function draw() {
  const turn = ++drawing;
  const { turn: wanted, component, filter } = chosen();
  chain(component);
  if ($("filter").value !== filter && document.activeElement !== $("filter")) $("filter").value = filter;
  await choose(filter);
  if (turn !== drawing) return;
  talk();
  const number = wanted ?? first();
  if (number !== null) await one(number, turn);
}

function first() {
  const found = turns.find((turn) => turn.number > 0 && wantedTurn(turn)) ?? turns.find(wantedTurn);
  return found ? found.number : turns.length ? 0 : null;
}

function wantedTurn(turn) {
  return hits === null || hits.turns.has(turn.number);
}

/** The chain in the order of its components: a click shows what one of them touched. */
function chain(component) {
  const parts = head.components.filter((name) => name !== "client").map((name) => {
    const button = el("button.component", {
      type: "button", "aria-pressed": String(component === name),
      onclick: () => go({ component: component === name ? "" : name }),
    }, name);
    button.style.setProperty("--hue", hue(head.components, name));
    return button;
  });
  fill($("chain"), el("span.product", {}, "conductor"), ...parts.flatMap((part, at) => (
    at ? [el("span.arrow-sign", { "aria-hidden": true }, "›"), part] : [part])));
}

let filtering = "";

/** Finds the events that a filter chooses. */
async function choose(text) {
  if (text.trim() === "") {
    hits = null;
    filtering = "";
    $("filter").removeAttribute("aria-invalid");
    $("filter-note").textContent = "";
    return;
  }
  const key = `${text} ${head.events}`;
  if (filtering === key) return;
  try {
    const filter = parse(text);
    const found = new Map();
    for (const word of filter.texts) found.set(word, await data.search(word));
    const chosenRows = (await rows.between(0, head.events))
      .filter((row) => filter.matches(row, (word, n) => found.get(word)?.has(n) ?? false));
    hits = { rows: chosenRows, turns: new Set(chosenRows.map((row) => row[field.turn])) };
    filtering = key;
    $("filter").removeAttribute("aria-invalid");
    $("filter-note").textContent = `${several(chosenRows.length, "event")} in ${several(hits.turns.size, "turn")}`;
  } catch (error) {
    $("filter").setAttribute("aria-invalid", "true");
    $("filter-note").textContent = error.message;
  }
}

/** The conversation: only turns near the view are in detail. */
function talk() {
  const pane = $("conversation");
  const { turn: wanted } = chosen();
  const visible = turns.filter((turn) => (turn.number > 0 || turn.verdicts) && wantedTurn(turn));
  const keys = visible.map((turn) => turn.number).join();
  if (pane.dataset.keys !== keys) {
    pane.dataset.keys = keys;
    shown.clear();
    fill(pane, visible.length ? visible.map(place) : empty());
  } else {
    for (const turn of visible) refresh(turn);
  }
  for (const turn of visible) {
    shown.get(turn.number)?.setAttribute("aria-current", String(turn.number === (wanted ?? first())));
  }
}

function empty() {
  if (failure) return el("p.empty", {}, failure);
  if (hits !== null) return el("p.empty", {}, "No turn has an event that the filter matches. Press Escape to clear it.");
  if (head.live) return el("p.empty", {}, head.events ? "Set-up only so far: no prompt yet." : "Waiting for the first event …");
  return el("p.empty", {}, head.events ? "This trace has no prompt. Its events are on the right."
    : "This trace is empty. `conductor agent --trace FILE …` writes one.");
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) load(Number(entry.target.dataset.turn));
  }
}, { root: null, rootMargin: "400px" });

const known = new Map();

async function load(number) {
  const turn = turns[number];
  if (turn === undefined) return;
  const mark = `${turn.events?.[1]}`;
  if (known.get(number)?.mark === mark) return;
  try {
    const held = await data.turn(number);
    known.set(number, { mark, held });
    if (known.size > 200) known.delete(known.keys().next().value);
    const article = shown.get(number);
    if (article) fill(article, heading(turn), conversation.turn(turn, held));
  } catch (error) {
    trouble(error);
  }
}

function heading(turn) {
  return el("button.turn-head", {
    type: "button", onclick: () => { go({ turn: turn.number }); pane("turn"); },
  }, turn.number ? `Turn ${turn.number}` : "Outside of turns", " ",
  el("span.note", {}, [turn.session, duration(turn.ms), turn.verdicts ? `⚠ ${turn.verdicts} refused` : ""]
    .filter(Boolean).join(" · ")));
}

function place(turn) {
  const article = el("article.turn", { "data-turn": turn.number, "aria-label": `turn ${turn.number}` },
    heading(turn), conversation.turn(turn, known.get(turn.number)?.held));
  shown.set(turn.number, article);
  near.observe(article);
  return article;
}

function refresh(turn) {
  if (known.has(turn.number) && known.get(turn.number).mark !== `${turn.events?.[1]}`) load(turn.number);
}

/** The chosen turn on the right. */
async function one(number, drawn) {
  const turn = turns[number];
  if (turn === undefined) {
    fill($("turn-view"), el("p.empty", {}, `This trace has no turn ${number}.`));
    return;
  }
  const { component, event } = chosen();
  try {
    await load(number);
    detail = known.get(number)?.held ?? null;
    if (detail === null || drawn !== drawing) return;
    const [begin, behind] = turn.events ?? [0, 0];
    let list = hits === null ? (await rows.between(begin, behind)) : hits.rows;
    list = list.filter((row) => row[field.turn] === number
      && (!component || row[field.source] === component || row[field.target] === component));
    if (drawn !== drawing) return;
    const view = $("turn-view");
    const facts = [duration(turn.ms), cost(turn), turn.stop && turn.stop !== "end_turn" ? turn.stop : ""];
    const panes = el("div.message", { id: "message", "aria-live": "off" });
    fill(view,
      el("h2", {}, number ? `Turn ${number}` : "Outside of turns", " ",
        el("span.note", {}, facts.filter((fact) => fact && fact !== "…").join(" · "))),
      waterfall(turn, head.components, component, (name) => go({ component: component === name ? "" : name })),
      el("div.cards", {}, cards(detail, head.components, component, (n) => go({ event: n }))),
      el("h3.section", {}, "Messages ", el("span.note", {}, several(list.length, "event"), component ? ` of ${component}` : "")),
      sequence.element, panes);
    sequence.show(list, head.components, false);
    if (event !== null) await openMessage(event, panes);
    else fill(panes, el("p.note", {}, "Choose a message to see it before and after a component."));
  } catch (error) {
    trouble(error);
  }
}

async function openMessage(number, panes) {
  sequence.mark(number);
  try {
    const event = await data.event(number);
    const visit = (detail?.visits ?? []).find((each) => each.sent === number && each.got !== undefined)
      ?? (detail?.visits ?? []).find((each) => each.got === number && each.sent !== undefined);
    if (visit !== undefined && visit.sent !== undefined && visit.got !== undefined) {
      const [before, after] = await Promise.all([data.event(visit.got), data.event(visit.sent)]);
      const made = { ...after };
      fill(panes, message(made, before));
    } else fill(panes, message(event, null));
  } catch (error) {
    fill(panes, el("p.empty", {}, error.message));
  }
}

// -- news -------------------------------------------------------------------------------------

function state() {
  const parts = [several(head.events, "event")];
  if (head.content === "none") parts.push("without content");
  for (const gap of (head.gaps ?? []).slice(0, 2)) parts.push(`⚠ ${gap}`);
  fill($("state"), el("span.dot", { "data-live": String(Boolean(head.live)), "aria-hidden": true }),
    head.live ? "live · " : "", failure ? `⚠ ${failure}` : parts.join(" · "));
}

function trouble(error) {
  failure = error instanceof Trouble ? error.message : String(error);
  state();
  if (!turns.length) talk();
}

/** How many events there were at each time: a click jumps to the turn of that time. */
function histogram() {
  const ended = turns.filter((turn) => turn.number > 0);
  const end = Math.max(...ended.map((turn) => turn.at + (turn.ms ?? 0) / 1000), 0.001);
  fill($("histogram"), ended.slice(-2000).map((turn) => el("span.mark-turn", {
    title: `turn ${turn.number}, ${duration(turn.ms)}`,
    onclick: () => go({ turn: turn.number }),
    "data-changed": String((turn.shares ?? []).some((share) => share.changed)),
    "data-refused": String(Boolean(turn.verdicts)),
    style: {
      left: `${turn.at / end * 100}%`, width: `${Math.max((turn.ms ?? 0) / 1000 / end * 100, 0.6)}%`,
    },
  })));
}

async function more() {
  const last = Math.max(turns.length - 3, 0);
  const got = await data.turns(last);
  turns = [...turns.slice(0, last), ...got];
  for (let after = turns.length; got.length >= 2000; after = turns.length) {
    const next = await data.turns(after);
    turns.push(...next);
    if (next.length < 2000) break;
  }
}

async function follow() {
  head = await data.head();
  await more();
  state();
  histogram();
  await draw();
  for await (const news of data.news()) {
    head = { ...head, ...news };
    await more();
    state();
    histogram();
    if (document.activeElement?.closest("#message") === null || !document.activeElement) await draw();
    else await draw();
  }
  head.live = false;
  failure = "";
  state();
}

// -- keys and panes ---------------------------------------------------------------------------

function pane(name) {
  document.querySelector("main").dataset.pane = name;
  for (const tab of ["conversation", "turn"]) {
    $(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
  }
}

function step(by) {
  const visible = turns.filter((turn) => turn.number > 0 && wantedTurn(turn)).map((turn) => turn.number);
  if (!visible.length) return;
  const at = visible.indexOf(chosen().turn ?? first());
  const number = visible[Math.min(Math.max(at + by, 0), visible.length - 1)];
  go({ turn: number });
  shown.get(number)?.scrollIntoView({ block: "nearest" });
}

function stepComponent(by) {
  const names = ["", ...head.components.filter((name) => name !== "client")];
  const at = names.indexOf(chosen().component);
  go({ component: names[(at + by + names.length) % names.length] });
}

const KEYS = [
  ["j", "next turn", () => step(1)], ["k", "turn before", () => step(-1)],
  ["]", "next component", () => stepComponent(1)], ["[", "component before", () => stepComponent(-1)],
  ["/", "filter", () => $("filter").focus()],
  ["d", "first message that a component changed", () => jump()],
  [".", "last turn", () => step(turns.length)], ["?", "help", () => help()],
];

function jump() {
  const visit = (detail?.visits ?? []).find((each) => each.edits?.length
    && (!chosen().component || each.component === chosen().component));
  if (visit) go({ event: visit.sent });
}

function help() {
  fill($("help"), el("h2", {}, "Keys"),
    el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
    el("h2", {}, "Filter"),
    el("p", {}, NAMES.map((name) => [el("code", {}, name), " "]), " and words; ", el("code", {}, "& | ! ( )"),
      "; names may have ", el("code", {}, "*"), "."),
    el("button", { type: "button", onclick: () => $("help").close() }, "Close"));
  $("help").showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.activeElement === $("filter")) {
    $("filter").value = "";
    $("filter").blur();
    go({ filter: "" });
  }
  if (event.target.closest("input, textarea, select, dialog")) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (found) {
    event.preventDefault();
    found[2]();
  }
});
$("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ filter: $("filter").value });
});
let typing = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => go({ filter: $("filter").value }, { replace: true }), 250);
});
$("help-button").addEventListener("click", help);
for (const name of ["conversation", "turn"]) $(`tab-${name}`).addEventListener("click", () => pane(name));
addEventListener("popstate", () => draw());
addEventListener("hashchange", () => draw());

follow().catch(trouble);
