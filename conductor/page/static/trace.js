// The page of a trace: who changed which message, how long each took.

import { change, chosen } from "./address.js";
import { Chain } from "./chain.js";
import * as conversation from "./conversation.js";
import { open, Trouble } from "./data.js";
import { Details } from "./details.js";
import { el, fill, several } from "./dom.js";
import { filterHelp, help, listen } from "./help.js";
import { histogram } from "./histogram.js";
import { List } from "./list.js";
import { TurnPane } from "./pane.js";
import { show } from "./panes.js";
import { cost } from "./turn.js";
import { mark, neighbour, took, Turns, unprompted } from "./turns.js";

const $ = (id) => document.getElementById(id);
const data = open();
const details = new Details(data, () => draw());
const list = new List($("conversation"), article);
const pane = new TurnPane($("turn-view"), data, details, go);
const chain = new Chain($("chain"), data, (component) => go({ component }), (text) => { refusal = text; state(); });
let head = { components: ["client", "agent"], events: 0, gaps: [], live: false, running: [] };
const turns = new Turns(data);
/** The filter that counts: the last one that could be read; and the turns that have what it chooses, null: all. */
let filter = "";
let hits = null;
/** Whether there are several sessions, so that a turn must say which one it is of. */
let namesSession = false;
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
  } else if (turns.at(number) === undefined) {
    pane.empty(isLoaded ? `This trace has no turn ${number}.` : "Reading the trace …");
  } else pane.show(turns.at(number), head, { ...now, filter, turn: number });
  fill($("histogram"), histogram(turns.all.slice(1), number, (turn) => go({ turn })));
}

/** The turn to show where the address names none: of a running chain the last, else the first. */
function usual() {
  if (!turns.all.length) return null;
  const wanted = turns.all.filter((turn) => turn.number > 0 && wantedTurn(turn));
  if (!wanted.length) return hits === null || hits.has(0) ? 0 : null;
  return (head.live && !head.notice && hits === null ? wanted.at(-1) : wanted[0]).number;
}

function wantedTurn(turn) {
  return hits === null || hits.has(turn.number);
}

function top(now) {
  chain.show(head, now.component, head.live && !failure);
  if ($("filter").value !== now.filter && document.activeElement !== $("filter")) $("filter").value = now.filter;
}

let search = null;

/** Finds the turns that have what a filter chooses. */
async function choose(text) {
  const note = $("filter-note");
  if (text.trim() === "") {
    hits = search = null;
    filter = "";
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
    filter = text;
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
  const visible = turns.all.filter(wantedTurn);
  namesSession = turns.all.some((turn) => turn.number > 1 && turn.session !== turns.at(1).session);
  if (head.empty || !visible.length) {
    fill($("conversation"), empty());
    return;
  }
  const isAtEnd = head.live && chosen().turn === null && hits === null;
  const isOther = list.current !== number;
  list.current = number;
  list.show(visible.map((turn) => turn.number));
  for (const [key, element] of list.drawn) {
    element.setAttribute("aria-current", String(key === number));
    if (element.dataset.mark !== markOf(turns.at(key))) list.renew(key);
  }
  if (isOther || isAtEnd) list.reveal(number);
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

const markOf = (turn) => `${head.trace} ${namesSession} ${mark(turn)}`;

function article(number) {
  const turn = turns.at(number);
  const heading = el("button.turn-head", {
    type: "button", "data-key": `turn ${number}`, onclick: () => { go({ turn: number }); show("turn"); },
  }, number ? `Turn ${number}` : "Outside of turns", " ", unprompted(turn), el("span.note", {}, [
    number ? "" : "set-up, and what belongs to no prompt", namesSession ? turn.session : "",
    number ? took(turn) : "", cost(turn),
    turn.verdicts ? `⚠ ${turn.verdicts} refused` : ""].filter(Boolean).join(" · ")));
  const inside = el("div.turn-inside", {}, number || turn.verdicts ? conversation.turn(turn, details.known(turn)) : []);
  const made = el("article.turn", {
    "data-key": number, "data-mark": markOf(turn), "aria-label": number ? `turn ${number}` : "outside of turns",
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
  const isLive = head.live && !head.ended && !failure;
  fill($("state"), el("span.dot", { "data-live": String(isLive), "aria-hidden": true }),
    failure?.status === 0 ? "gone · " : isLive ? "live · " : head.live ? "ended · " : data.saved ? "saved · " : "", several(head.events, "event"));
}

function trouble(error) {
  failure = error instanceof Trouble ? error : new Trouble(-1, String(error.message ?? error));
  state();
  if (!turns.all.length) fill($("conversation"), empty());
}

async function take(news) {
  const running = head.running ?? [];
  if (head.trace !== undefined && news.trace !== head.trace) {
    turns.clear();
    details.clear();
  }
  head = news;
  await turns.update(head, running, draw);
  isLoaded ||= !head.notice || turns.all.length > 1;
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
  const numbers = turns.all.filter(wantedTurn).map((turn) => turn.number);
  if (!numbers.length) return;
  go({ turn: neighbour(numbers, chosen().turn ?? usual(), by) });
}

function stepComponent(by) {
  const names = ["", ...head.components.filter((name) => name !== "client")];
  const at = names.indexOf(chosen().component);
  go({ component: names[(at + by + names.length) % names.length] });
}

/** The newest turn; of a running chain the page then goes with it. */
function newest() {
  if (head.live) go({ turn: null });
  else step(turns.all.length);
}

const KEYS = [
  ["j", "next turn", () => step(1)], ["k", "turn before", () => step(-1)],
  ["]", "next component", () => stepComponent(1)], ["[", "component before", () => stepComponent(-1)],
  ["/", "filter", () => { $("filter").focus(); $("filter").select(); }],
  ["d", "next message that a component changed", () => pane.nextChange()],
  [".", "newest turn, and go with a running chain", newest], ["?", "this help", () => explain()],
];
const explain = () => help(KEYS, ...filterHelp());
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
$("help-button").addEventListener("click", explain);
addEventListener("popstate", () => draw());
addEventListener("hashchange", () => draw());
state();
fill($("conversation"), empty());
follow().catch(trouble);
