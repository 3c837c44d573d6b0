// The page of a chat: a conversation with a chain, and what each component did beside each turn.

import { change, chosen } from "./address.js";
import { Chain } from "./chain.js";
import { Composer } from "./composer.js";
import * as conversation from "./conversation.js";
import { open, Trouble } from "./data.js";
import { Details } from "./details.js";
import { el, fill, renew, scrolled, several } from "./dom.js";
import { help, listen } from "./help.js";
import { TurnPane } from "./pane.js";
import { show } from "./panes.js";
import { Questions } from "./questions.js";
import { settings } from "./settings.js";
import { Showing } from "./showing.js";
import { mark, neighbour, took, Turns, unprompted } from "./turns.js";

const $ = (id) => document.getElementById(id);
const AGAIN = 2000;
const data = open();
const details = new Details(data, () => draw());
const pane = new TurnPane($("turn-view"), data, details, go);
const chain = new Chain($("chain"), data, (component) => go({ component }), problem);
const composer = new Composer((parts) => post("prompt", { session: session()?.id, parts }).then(() => go({ turn: null, event: null })), problem);
const questions = new Questions($("questions"), (question, option) => act("answer", { question, option }), (text) => {
  $("announcement").textContent = text;
});
const showing = new Showing(data, post, problem, (text) => { $("news").textContent = text; });
let head = { components: ["client", "agent"], events: 0, turns: 0, gaps: [], live: false, running: [] };
let chat = null;
const turns = new Turns(data);
let failure = null;
/** What stays in view until somebody scrolls away from it: a turn, or the end; null: nothing. */
let goal = chosen().turn ?? "end";
let aimed = chosen().turn;
let scrolledTo = 0;
const articles = new Map();

function go(changes, options) {
  change(changes, options);
  aim();
}

/** Draws what the address has chosen, and goes to its turn if it is another one. */
function aim() {
  const { turn } = chosen();
  if (turn !== aimed) goal = turn ?? "end";
  aimed = turn;
  draw();
}

function problem(text) {
  $("problem").textContent = text;
}

// -- what the person does ---------------------------------------------------------------------

async function post(name, body) {
  return data.json(`/api/chat/${name}`, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
  });
}

/** Does something; what goes wrong is shown below the prompt. */
async function act(name, body) {
  try {
    problem("");
    return await post(name, body);
  } catch (error) {
    problem(error.message);
    return null;
  }
}

/** The session that is in view: the one of the address, else the last one. */
function session() {
  const [all, wanted] = [chat?.sessions ?? [], chosen().session];
  // An address holds no half of an emoji.
  return all.find((each) => each.id.toWellFormed() === wanted) ?? all.at(-1) ?? null;
}

let choices = 0;

function choose(id) {
  choices += 1;
  $("sessions").close();
  go({ session: id, turn: null, event: null });
  write();
}

/** Opens a session, and shows it, unless the person has chosen another one meanwhile. */
async function shown(how, body) {
  const before = choices;
  const opened = await act(how, body);
  if (opened !== null && choices === before) choose(opened.session);
}

const name = (each) => each.title || each.id || each.sessionId;

// -- drawing ----------------------------------------------------------------------------------

function draw() {
  const now = chosen();
  const held = session();
  chain.show(head, now.component, !failure && !chat?.ended[0]);
  state();
  composer.show(held, Boolean(chat?.can.image), Boolean(chat?.ended[0]) || failure?.status === 0 || failure?.status === 401);
  $("composer").hidden = Boolean(held?.viewed);
  $("watching").hidden = !held?.viewed;
  settings($("settings"), held, act);
  $("usage").textContent = used(held?.usage);
  $("new-session").hidden = chat?.can.new === false;
  $("session-name").textContent = $("session-name").title = held ? name(held) : "";
  questions.show(chat?.questions ?? [], held?.id);
  if (held) talk(held, now);
  const number = now.turn ?? own(held).at(-1)?.number ?? null;
  if (number === null || turns.at(number) === undefined) {
    pane.empty(chat === null ? "" : "What each component does with your prompt shows here.");
  } else pane.show(turns.at(number), head, { ...now, turn: number });
  showing.draw(held?.id, head.components);
}

/** Shows the chosen turn, in front of panels and files. */
function showTurn() {
  showing.beside.choose("turn");
  show("turn");
}

function used(usage) {
  if (!usage || typeof usage.used !== "number") return "";
  const percent = usage.size ? ` (${Math.round(usage.used / usage.size * 100)} %)` : "";
  return `context ${usage.used.toLocaleString("en")} tokens${percent}`;
}

function state() {
  const [ended, hint] = chat?.ended ?? ["", ""];
  const lacks = chat?.lacks ?? [];
  const notes = failure ? [failure.message] : ended ? [`The chain has ended: ${ended}`, hint] : lacks;
  const mark = notes.join("\n");
  if ($("notice").dataset.mark !== mark) {
    $("notice").dataset.mark = mark;
    fill($("notice"), notes.filter(Boolean).map((note, at) => el("p", {}, at && notes !== lacks ? "" : "⚠ ", note)));
  }
  const isLive = !failure && !ended && chat !== null;
  const agent = chat?.agent?.title || chat?.agent?.name || "";
  const version = chat?.agent?.version ?? "";
  fill($("state"), el("span.dot", { "data-live": String(isLive), "aria-hidden": true }),
    [isLive ? "" : failure?.status === 0 ? "gone" : ended ? "ended" : "", `${agent} ${version}`.trim(), several(head.events, "event")]
      .filter(Boolean).join(" · "));
}

/** The turns of a session, in the order of its conversation. */
function own(held) {
  if (!held) return [];
  const since = held.history?.[0] ?? 0;
  // Of a turn that a component hides nothing is to be read here.
  const isHidden = (turn) => turn.by && turn.by !== "another client" && !turn.answer && !turn.tools;
  return turns.all.filter((turn) => turn.number > 0 && turn.session === held.id && (turn.events?.[0] ?? 0) >= since && !isHidden(turn));
}

function talk(held, now) {
  const place = $("conversation");
  const visible = own(held);
  const current = now.turn ?? visible.at(-1)?.number ?? null;
  const keys = JSON.stringify([held.id, held.history, visible.map((turn) => turn.number)]);
  if (place.dataset.keys !== keys) {
    const isOther = place.dataset.session !== held.id;
    place.dataset.keys = keys;
    place.dataset.session = held.id;
    if (isOther) {
      articles.clear();
      goal = now.turn ?? "end";
    }
    fill(place, setUp(current), held.history ? before(held) : null, visible.map((turn) => articles.get(turn.number) ?? article(turn)),
      el("p.working", { id: "working" }));
    if (!visible.length && !held.history) place.append(el("div.empty", {}, el("h2", {}, "Say something"), el("p", {}, "The chain runs, and the agent waits for your prompt.")));
  }
  for (const turn of visible) {
    const made = articles.get(turn.number);
    made.setAttribute("aria-current", String(turn.number === current));
    if (made.dataset.mark !== mark(turn)) whole(turn, made);
  }
  place.querySelector(".set-up")?.setAttribute("aria-current", String(current === 0));
  working(held);
  stick();
}

function working(held) {
  const asked = (chat?.questions ?? []).find((each) => each.session === held.id);
  const text = held.loading ? "The agent repeats the session …" : !held.running ? "" : asked ? `The agent waits for ${asked.viewed ? "an" : "your"} answer.`
    : held.cancelling ? "The turn is being cancelled …" : "The agent works …";
  const [error, hint] = Array.isArray(held.error) ? held.error : ["", ""];
  const line = $("working");
  line.hidden = !text;
  if (line.textContent !== text) line.textContent = text;
  const trouble = error && hint ? hint : "";
  let note = $("turn-hint");
  if (!trouble) note?.remove();
  else if (note?.textContent !== trouble) {
    note?.remove();
    note = el("p.act.refused", { id: "turn-hint" }, trouble);
    line.before(note);
  }
}

function setUp(current) {
  return el("button.turn-head.set-up", {
    type: "button", "aria-current": String(current === 0), onclick: () => { go({ turn: 0, event: null }); showTurn(); },
  }, "Set-up of the chain and its sessions");
}

/** What the agent repeated of an older session. */
function before(held) {
  const key = `history ${held.id} ${held.history}`;
  let made = articles.get(key);
  if (made === undefined) {
    made = el("article.turn", { "aria-label": "before" }, el("p.turn-head", {}, "Before, as the agent repeats it"), el("div.turn-inside"));
    articles.set(key, made);
    post("history", { session: held.id })
      .then((items) => fill(made.lastChild, conversation.items(items))).catch(trouble);
  }
  return made;
}

function article(turn) {
  const heading = el("button.turn-head", {
    type: "button", onclick: () => { go({ turn: turn.number, event: null }); showTurn(); },
  });
  const made = el("article.turn", { "aria-label": `turn ${turn.number}`, "data-turn": turn.number }, heading, el("div.turn-inside"));
  articles.set(turn.number, made);
  near.observe(made);
  grown.observe(made);
  return made;
}

const grown = new ResizeObserver(stick);

/** Turns that are far from the view are not asked for in detail. */
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.dataset.near = isIntersecting ? "1" : "";
    const turn = turns.at(Number(target.dataset.turn));
    if (isIntersecting && target.dataset.whole !== mark(turn)) whole(turn, target);
  }
}, { root: $("conversation"), rootMargin: "600px" });

/** Draws a turn; what has not changed of it stays as it is. */
async function whole(turn, made) {
  made.dataset.mark = mark(turn);
  fill(made.firstChild, `Turn ${turn.number} `, unprompted(turn), el("span.note", {}, [turn.ms === undefined || turn.ms === null ? "" : took(turn),
    turn.verdicts ? `⚠ ${turn.verdicts} refused` : ""].filter(Boolean).join(" · ")));
  try {
    const known = details.known(turn);
    if (known === undefined && !made.lastChild.childElementCount) fill(made.lastChild, conversation.turn(turn, undefined));
    if (!made.dataset.near) return;
    const detail = await details.get(turn);
    const fresh = conversation.turn(turn, detail)[0];
    const drawn = made.lastChild.firstChild;
    if (drawn === null || fresh.querySelector(":scope > .more")) fill(made.lastChild, fresh);
    else renew(drawn, [...fresh.childNodes]);
    if (detail.turn.events?.[1] === turn.events?.[1]) made.dataset.whole = mark(turn);
    else made.dataset.mark = "";
    stick();
  } catch (error) {
    if (error.status !== 413) trouble(error);
  }
}

/** Keeps in view what is to stay there. */
function stick() {
  const place = $("conversation");
  const made = goal === 0 ? place.querySelector(".set-up") : articles.get(goal);
  if (goal === "end") place.scrollTop = place.scrollHeight;
  else if (made) place.scrollTop = scrolled(place, made.offsetTop, made.offsetTop + made.offsetHeight);
  scrolledTo = place.scrollTop;
}

/** Goes to the field of the prompt. */
function write() {
  show("conversation");
  $("prompt").focus();
}

// -- news -------------------------------------------------------------------------------------

function trouble(error) {
  failure = error instanceof Trouble ? error : new Trouble(-1, String(error.message ?? error));
  draw();
}

async function take({ chat: state, ...news }) {
  const running = head.running ?? [];
  chat = state ?? chat;
  head = news;
  await turns.update(head, running);
  await showing.sync(chat?.editor, chat?.can ?? {});
  failure = null;
  draw();
}

async function follow() {
  for (;;) {
    try {
      for await (const news of data.news("/api/chat/news")) await take(news);
    } catch (error) {
      trouble(error);
      if (error.status === 401) return;
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN); });
  }
}

// -- sessions ---------------------------------------------------------------------------------

function sessionRow(each, isOpen, current) {
  return el("li", {}, el("button", {
    type: "button", "aria-current": String(each.id === current), onclick: () => (isOpen ? choose(each.id) : load(each.id)),
  }, name(each), " ", el("span.note", {}, [each.running ? "running" : "", each.updatedAt ?? "", each.title ? each.id : ""].filter(Boolean).join(" · "))));
}

async function load(id) {
  $("sessions").close();
  await shown("load", { session: id });
}

async function sessions() {
  const held = chat?.sessions ?? [];
  const older = el("div", {});
  fill($("sessions"), el("h2", {}, "Sessions"), el("h3", {}, "Open"),
    el("ul.session-list", {}, held.map((each) => sessionRow(each, true, session()?.id))), older,
    el("button", { type: "button", onclick: () => $("sessions").close() }, "Close"));
  $("sessions").showModal();
  if (!chat?.can.list) fill(older, el("p.note", {}, "This agent lists no older sessions."));
  else listOlder(older, held, null, el("ul.session-list"));
}

async function listOlder(place, held, cursor, list) {
  try {
    const found = await post("sessions", { cursor });
    const rows = (Array.isArray(found.sessions) ? found.sessions : []).filter((each) => each && typeof each.sessionId === "string")
      .map((each) => ({ ...each, id: each.sessionId }));
    const news = rows.filter((each) => !held.some((one) => one.id === each.id));
    if (chat.can.load) list.append(...news.map((each) => sessionRow(each, false, "")));
    else list.append(...news.map((each) => el("li", {}, name(each))));
    const next = typeof found.nextCursor === "string" ? found.nextCursor : "";
    fill(place, el("h3", {}, "Older, of this folder"), list.childElementCount ? list : el("p.note", {}, "There are none."),
      chat.can.load ? null : el("p.note", {}, "This agent cannot load them."),
      next ? el("button.small", { type: "button", onclick: () => listOlder(place, held, next, list) }, "more") : null);
  } catch (error) {
    fill(place, el("p.problem", {}, error.message));
  }
}

// -- keys and panes ---------------------------------------------------------------------------

function step(by) {
  const numbers = own(session()).map((turn) => turn.number);
  if (!numbers.length) return;
  const number = neighbour(numbers, chosen().turn ?? numbers.at(-1), by);
  go({ turn: number, event: null });
}

const KEYS = [
  ["j", "next turn", () => step(1)], ["k", "turn before", () => step(-1)],
  ["d", "next message that a component changed", () => pane.nextChange()],
  [".", "newest turn, and go with the chat", () => { goal = "end"; go({ turn: null, event: null }); }],
  ["p", "write a prompt", write],
  ["a", "the question that waits for an answer", () => { show("conversation"); $("questions").querySelector(".ask")?.focus(); }],
  ["?", "this help", () => explain()],
];

function explain() {
  help(KEYS, el("p", {}, "In a question, ", el("kbd", {}, "1"), " to ", el("kbd", {}, "9"),
    " choose an answer. In the prompt, Enter sends and Shift+Enter begins a line."));
}

listen(KEYS);
$("help-button").addEventListener("click", explain);
$("sessions-button").addEventListener("click", sessions);
$("new-session").addEventListener("click", async ({ currentTarget: button }) => {
  button.disabled = true; // an agent may take seconds
  button.textContent = "Opening …";
  await shown("new", {});
  button.disabled = false;
  button.textContent = "New session";
});
$("cancel").addEventListener("click", () => act("cancel", { session: session()?.id }));
$("conversation").addEventListener("scroll", () => {
  const place = $("conversation");
  if (!place.clientHeight || place.scrollTop === scrolledTo) return;
  goal = place.scrollHeight - place.scrollTop - place.clientHeight < 80 ? "end" : null;
});
new ResizeObserver(stick).observe($("conversation"));
addEventListener("popstate", aim);
addEventListener("hashchange", aim);
draw();
$("prompt").focus();
follow();
