// The chosen turn: where its time went, what the agent got of the prompt, what each component did,
// and its messages.

import { el, fill, refill, several } from "./dom.js";
import { message } from "./message.js";
import { difference, got, words } from "./prompt.js";
import { Rows } from "./rows.js";
import { Sequence } from "./sequence.js";
import { cards, cost, waterfall } from "./turn.js";
import { took, unprompted } from "./turns.js";

const sentence = (error) => `${error.message[0].toUpperCase()}${error.message.slice(1)}.`;

/** Draws a turn into a section of the page. */
export class TurnPane {
  /** @param {HTMLElement} section
   * @param {object} data  where the trace is
   * @param {Details} details
   * @param {(changes: object) => void} go  chooses something else */
  constructor(section, data, details, go) {
    Object.assign(this, { section, data, details, go });
    this.sequence = new Sequence((number) => go({ event: number }));
    this.title = el("h2");
    this.failed = el("p.refused");
    this.time = el("div");
    this.prompt = el("section.prompt", { "aria-label": "what the agent got", hidden: true });
    this.cards = el("div.cards");
    this.count = el("span.note");
    this.all = el("button.small", {
      type: "button", onclick: () => go({ all: this.chosen.all ? "" : "1", turn: this.chosen.turn, event: null }),
    });
    this.message = el("div.message");
    this.parts = [this.title, this.failed, this.time, this.prompt, this.cards,
      el("div.section", {}, el("h3", {}, "Messages "), this.count, this.all), this.sequence.element, this.message];
    this.key = "";
    this.promptMark = "";
    this.shownEvent = -1;
  }

  /** Says why there is no turn to show. */
  empty(why) {
    this.key = "";
    this.turn = undefined;
    fill(this.section, el("p.empty", {}, why));
  }

  /** Shows a turn. @param {object} chosen  as in the address, with the number of a turn */
  show(turn, head, chosen) {
    if (this.title.parentNode !== this.section) this.section.replaceChildren(...this.parts);
    const key = JSON.stringify([turn.number, chosen.component, chosen.filter, chosen.all, head.trace]);
    const isOther = key !== this.key;
    if (isOther && this.turn?.number !== turn.number) this.section.scrollTop = 0;
    Object.assign(this, { turn, head, chosen, key });
    this.summary();
    this.detail(isOther);
    if (isOther) this.list();
    else if (head.live || turn.events?.[1] !== this.behind) this.rows.grow();
    this.behind = turn.events?.[1];
    this.open(chosen.event);
  }

  summary() {
    const { turn } = this;
    const facts = [turn.ms === undefined || turn.ms === null ? (turn.number ? "not ended" : "") : took(turn), cost(turn),
      turn.verdicts ? `⚠ ${turn.verdicts} refused` : "", turn.failed ? "failed" : turn.stop === "end_turn" ? "" : turn.stop];
    fill(this.title, turn.number ? `Turn ${turn.number}` : "Outside of turns", " ", unprompted(turn),
      el("span.note", {}, facts.filter(Boolean).join(" · ")));
    this.failed.hidden = !turn.failed;
    fill(this.failed, turn.stop ?? "");
  }

  /** What is made of the turn in detail; only what has changed is drawn anew. */
  async detail(isOther) {
    const { turn, key } = this;
    const known = this.details.known(turn) ?? null;
    if (isOther) this.draw(known);
    try {
      const detail = await this.details.get(turn);
      if (key === this.key && (detail !== known || !isOther)) this.draw(detail);
    } catch (error) {
      if (key === this.key) refill(this.cards, el("p.note", {}, sentence(error)));
    }
  }

  draw(detail) {
    const { turn, head, chosen, key } = this;
    const drawn = `${key} ${detail?.turn.events?.[1] ?? "-"} ${turn.ms}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const pick = (name) => this.go({ component: chosen.component === name ? "" : name });
    refill(this.time, waterfall(turn, detail, head.components, chosen.component, pick));
    refill(this.cards, detail === null ? el("p.note", {}, "Reading this turn …")
      : cards(detail, head.components, chosen.component, (number) => this.go({ event: number })));
    this.words(detail);
  }

  /** What the agent got of the prompt. */
  async words(detail) {
    const { key, prompt, chosen, head, turn } = this;
    prompt.hidden = !turn.number || Boolean(turn.by) || Boolean(chosen.component) || detail === null;
    if (prompt.hidden) return;
    const received = got(detail, head.components);
    const first = turn.events?.[0];
    const mark = `${head.trace} ${first} ${received}`;
    if (this.promptMark === mark) return;
    try {
      const [written, what] = await Promise.all([this.data.event(first), received === null ? null : this.data.event(received)]);
      if (key !== this.key) return;
      this.promptMark = mark;
      if (what === null) {
        fill(prompt, el("h3", {}, "The agent did not get this prompt"));
        return;
      }
      const [before, after] = [words(written.event.params), words(what.event.params)];
      prompt.hidden = !before && !after;
      const found = difference(before, after);
      const hides = head.content === "redacted" && before.includes("[redacted]") ? "; the trace has [redacted] for a secret" : "";
      const note = found.isSame ? "your words, unchanged" : "your words, what was added and removed";
      fill(prompt, el("h3", {}, "What the agent got ", el("span.note", {}, note, hides)),
        found.element);
    } catch (error) {
      if (key !== this.key) return;
      this.promptMark = "";
      fill(prompt, el("h3", {}, "What the agent got"), el("p.note", {}, sentence(error)));
    }
  }

  list() {
    const { turn, chosen, head } = this;
    const wanted = { turn: chosen.all ? null : turn.number, filter: chosen.filter, component: chosen.component };
    const key = this.key;
    const rows = this.rows = new Rows(this.data, wanted, () => {
      if (key !== this.key) return;
      if (this.sequence.rows !== rows) this.sequence.show(rows, head.components);
      this.counted();
    }, (error) => {
      if (key === this.key) fill(this.count, sentence(error));
    });
    // Messages of the same turn stay in view until the others have come: maybe they never do.
    if (this.listed !== wanted.turn) this.sequence.show(rows, head.components);
    this.listed = wanted.turn;
    this.shownEvent = -1;
    fill(this.message);
    fill(this.count, "…");
    this.all.textContent = chosen.all ? "only this turn" : "the whole trace";
    this.arrived = rows.grow();
  }

  counted() {
    const { chosen } = this;
    const of = [chosen.all ? "in the whole trace" : "", chosen.component ? `of ${chosen.component}` : "",
      chosen.filter ? "that the filter chooses" : ""].filter(Boolean).join(" ");
    fill(this.count, several(this.rows.count, "event"), of ? ` ${of}` : "");
    this.sequence.resize();
  }

  /** A message, before and behind the component that passed it on. */
  async open(number) {
    if (number === this.shownEvent) return;
    this.shownEvent = number;
    const { key, message: panes } = this;
    const isStill = () => key === this.key && this.shownEvent === number;
    if (number === null) {
      this.sequence.mark(-1);
      fill(panes, el("p.note", {}, "Choose a message to see it before and after a component."));
      return;
    }
    this.sequence.mark(number);
    try {
      await this.arrived;
      const place = await this.rows.place(number);
      if (!isStill()) return;
      this.sequence.mark(number, place);
      const made = await this.pair(number);
      if (!isStill()) return;
      fill(panes, made);
      panes.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (isStill()) fill(panes, el("p.note", {}, sentence(error)));
    }
  }

  async pair(number) {
    const { event, before } = await this.data.event(number);
    if (before !== null) return message(event, (await this.data.event(before)).event);
    const visits = (await this.details.get(this.turn).catch(() => null))?.visits ?? [];
    const sent = visits.find((each) => each.sent === number && each.got !== undefined);
    if (sent !== undefined && event.type !== "response") return message(event, (await this.data.event(sent.got)).event);
    const passed = visits.find((each) => each.got === number && each.sent !== undefined && each.change === "changed");
    if (passed !== undefined) return message((await this.data.event(passed.sent)).event, event);
    return message(event, null);
  }

  /** Opens the next message that a component changed. */
  async nextChange() {
    const { turn } = this;
    if (turn === undefined) return;
    // Why a turn has no detail stands in the place of its cards.
    const visits = (await this.details.get(turn).catch(() => null))?.visits ?? [];
    if (turn !== this.turn) return;
    const changed = visits.filter((each) => each.edits?.length && (!this.chosen.component || each.component === this.chosen.component))
      .map((each) => each.sent ?? each.got);
    if (changed.length) this.go({ event: changed[(changed.indexOf(this.chosen.event) + 1) % changed.length] });
  }
}
