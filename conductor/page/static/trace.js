// The page of a trace: who changed which message, how long each took.

import { change, chosen } from "./address.js";
import { Chain } from "./chain.js";
import * as conversation from "./conversation.js";
import { open, Trouble } from "./data.js";
import { Details } from "./details.js";
import { duration, el, fill, several } from "./dom.js";
import { help, listen } from "./help.js";
import { histogram } from "./histogram.js";
import { List } from "./list.js";
import { TurnPane } from "./pane.js";
import { show } from "./panes.js";

const $ = (id) => document.getElementById(id);
const PAGE = 2000;
const data = open();
const details = new Details(data, () => draw());
const list = new List($("conversation"), article);
const pane = new TurnPane($("turn-view"), data, details, go);
const chain = new Chain($("chain"), data, (component) => go({ component }), (text) => { refusal = text; state(); });
let head = { components: ["client", "agent"], events: 0, gaps: [], live: false, running: [] };
let turns = [];
let hits = null;
let failure = null;
let refusal = "";
let isLoaded = false;

/** Chooses something else: the address says so, and can be linked to. */
function go(changes, options) {
  change(changes, options);
  draw();
}

// -- drawing ----------------------------------------------------------------------------------

let isWanted = false;
let isDrawing = false;

/** Draws what has changed; of several calls at a time only the last counts. */
async function draw() {
  isWanted = true;
  search?.abort.abort();
  if (isDrawing) return;
  isDrawing = true;
  try {
    while (isWanted) {
      isWanted = false;
      const now = chosen();
      top(now);
      await choose(now.filter);
      if (!isWanted) body(now);
    }
  } finally {
    isDrawing = false;
  }
}

function body(now) {
  const number = head.empty ? null : now.turn ?? usual();
  talk(number);
  if (number === null) {
    pane.empty("");
  } else if (turns[number] === undefined) {
    pane.empty(isLoaded ? `This trace has no turn ${number}.` : "Reading the trace …");
  } else pane.show(turns[number], head, { ...now, turn: number });
  fill($("histogram"), histogram(turns.slice(1), number, (turn) => go({ turn })));
}

/** The turn to show where the address names none: of a running chain the last, else the first. */
function usual() {
  if (!turns.length) return null;
  const wanted = turns.filter((turn) => turn.number > 0 && wantedTurn(turn));
  if (!wanted.length) return hits === null || hits.has(0) ? 0 : null;
  return (head.live && !head.notice && hits === null ? wanted.at(-1) : wanted[0]).number;
}

function wantedTurn(turn) {
  return hits === null || hits.has(turn.number);
}

function top({ component, filter }) {
  chain.show(head, component, head.live && !failure);
  if ($("filter").value !== filter && document.activeElement !== $("filter")) $("filter").value = filter;
}

let search = null;

/** Finds the turns that have what a filter chooses. */
async function choose(text) {
  const note = $("filter-note");
  if (text.trim() === "") {
    hits = search = null;
    $("filter").removeAttribute("aria-invalid");
    note.textContent = "";
    return;
  }
  const key = `${text} ${head.lines} ${head.trace}`;
  if (search?.key === key) return;
  const abort = new AbortController();
  const slow = setTimeout(() => { note.textContent = "Searching …"; }, 150);
  search = { key: "", abort };
  try {
    const found = await data.find(text, abort.signal);
    hits = new Map(found.turns);
    search.key = key;
    $("filter").removeAttribute("aria-invalid");
    note.textContent = found.count ? `${several(found.count, "event")} in ${several(hits.size, "turn")}` : "The filter chooses no event.";
  } catch (error) {
    if (error.name === "AbortError") {
      isWanted = true;
      return;
    }
    $("filter").setAttribute("aria-invalid", "true");
    note.textContent = error.message;
  } finally {
    clearTimeout(slow);
  }
}

// -- the conversation -------------------------------------------------------------------------

function talk(number) {
  const visible = turns.filter(wantedTurn);
  if (head.empty || !visible.length) {
    fill($("conversation"), empty());
    return;
  }
  const isAtEnd = head.live && chosen().turn === null && hits === null;
  list.current = number;
  list.show(visible.map((turn) => turn.number));
  for (const [key, element] of list.drawn) {
    element.setAttribute("aria-current", String(key === number));
    if (element.dataset.mark !== mark(turns[key])) list.renew(key);
  }
  if (isAtEnd) list.reveal(number);
}

function empty() {
  const wide = (title, ...text) => el("div.empty", {}, el("h2", {}, title), el("p", {}, text));
  if (failure?.status === 401) return wide("This page needs its whole address", failure.message);
  if (failure) return wide("Nothing to show", failure.message);
  if (!isLoaded) return wide("Reading the trace …");
  if (hits !== null) return wide("Nothing found", "No turn has an event that the filter chooses. Escape clears it.");
  if (head.live) return wide("Waiting for the first event …", "What a chain does stands here as soon as it does it.");
  return wide("This trace is empty", "A chain writes one with ", el("code", {}, "conductor agent --trace FILE …"), ".");
}

const mark = (turn) => `${head.trace} ${turn.events?.[1]} ${turn.ms} ${turn.stop}`;

function article(number) {
  const turn = turns[number];
  const heading = el("button.turn-head", {
    type: "button", "data-key": `turn ${number}`, onclick: () => { go({ turn: number }); show("turn"); },
  }, number ? `Turn ${number}` : "Outside of turns", " ", el("span.note", {}, [
    number ? turn.session : "set-up, and what belongs to no prompt", number ? duration(turn.ms) : "",
    turn.verdicts ? `⚠ ${turn.verdicts} refused` : ""].filter(Boolean).join(" · ")));
  const inside = el("div.turn-inside", {}, number || turn.verdicts ? conversation.turn(turn, details.known(turn)) : []);
  const made = el("article.turn", {
    "data-key": number, "data-mark": mark(turn), "aria-label": number ? `turn ${number}` : "outside of turns",
    "aria-current": String(number === list.current), "data-outside": String(!number), tabindex: -1,
  }, heading, inside);
  // What scrolls past is not asked for.
  if (number || turn.verdicts) setTimeout(() => made.isConnected && whole(turn, inside), 60);
  return made;
}

async function whole(turn, inside) {
  try {
    const known = details.known(turn);
    const detail = await details.get(turn);
    if (inside.isConnected && (detail !== known || !inside.dataset.whole)) fill(inside, conversation.turn(turn, detail));
    inside.dataset.whole = "1";
  } catch (error) {
    if (error.status !== 413) trouble(error);
  }
}

// -- news -------------------------------------------------------------------------------------

function state() {
  const ring = head.ring ? [`This is ${head.ring}.`] : [];
  const notes = [...(head.notice ? [head.notice] : []), ...ring, ...(head.gaps ?? []).map((gap) => `⚠ ${gap[0].toUpperCase()}${gap.slice(1)}.`)];
  if (failure) notes.unshift(`⚠ ${failure.message}`);
  if (refusal) notes.unshift(`⚠ ${refusal}`);
  if (head.content === "none") notes.push("This trace has no content: only who sent what, and when.");
  const more = notes.length - 3;
  fill($("notice"), notes.slice(0, 3).map((note) => el("p", {}, note)), more > 0 ? el("p", {}, `and ${more} more like this`) : null);
  $("notice").dataset.bad = String(Boolean(failure));
  const isLive = head.live && !failure;
  fill($("state"), el("span.dot", { "data-live": String(isLive), "aria-hidden": true }),
    failure?.status === 0 ? "gone · " : isLive ? "live · " : data.saved ? "saved · " : "", several(head.events, "event"));
}

function trouble(error) {
  failure = error instanceof Trouble ? error : new Trouble(-1, String(error.message ?? error));
  state();
  if (!turns.length) fill($("conversation"), empty());
}

/** Gets the turns that are new, and those that may have changed. */
async function more(running) {
  const grown = [...new Set([...running, ...(head.running ?? []), 0, Math.max(turns.length - 1, 0)])].filter((number) => number < turns.length);
  if (grown.length) for (const turn of await data.only(grown)) turns[turn.number] = turn;
  for (let got = [null]; got.length && turns.length < head.turns;) {
    got = await data.turns(turns.length);
    turns.push(...got);
    // The first ones can be read while the others come.
    if (got.length === PAGE) draw();
  }
}

async function take(news) {
  const running = head.running ?? [];
  if (head.trace !== undefined && news.trace !== head.trace) {
    turns = [];
    details.clear();
  }
  head = news;
  await more(running);
  isLoaded ||= !head.notice || turns.length > 1;
  state();
  await draw();
}

async function follow() {
  await take(await data.head());
  isLoaded = true;
  for await (const news of data.news()) {
    await take(news);
    if (!news.live) break;
  }
  head.live = false;
  state();
  await draw();
}

// -- keys and panes ---------------------------------------------------------------------------

function step(by) {
  const numbers = turns.filter(wantedTurn).map((turn) => turn.number);
  if (!numbers.length) return;
  const at = numbers.indexOf(chosen().turn ?? usual());
  const number = numbers[Math.min(Math.max(at + by, 0), numbers.length - 1)];
  go({ turn: number });
  list.reveal(number);
}

function stepComponent(by) {
  const names = ["", ...head.components.filter((name) => name !== "client")];
  const at = names.indexOf(chosen().component);
  go({ component: names[(at + by + names.length) % names.length] });
}

/** The newest turn; of a running chain the page then goes with it. */
function newest() {
  if (head.live) go({ turn: null });
  else step(turns.length);
}

const KEYS = [
  ["j", "next turn", () => step(1)], ["k", "turn before", () => step(-1)],
  ["]", "next component", () => stepComponent(1)], ["[", "component before", () => stepComponent(-1)],
  ["/", "filter", () => { $("filter").focus(); $("filter").select(); }],
  ["d", "next message that a component changed", () => pane.nextChange()],
  [".", "newest turn, and go with a running chain", newest], ["?", "this help", () => help($("help"), KEYS)],
];
listen(KEYS);
$("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ filter: $("filter").value });
});
$("filter").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  $("filter").value = "";
  $("filter").blur();
  go({ filter: "" });
});
let typing = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => go({ filter: $("filter").value }, { replace: true }), 250);
});
$("help-button").addEventListener("click", () => help($("help"), KEYS));
addEventListener("popstate", () => draw());
addEventListener("hashchange", () => draw());
state();
fill($("conversation"), empty());
follow().catch(trouble);
