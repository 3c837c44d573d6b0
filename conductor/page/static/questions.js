// The questions of the chain for permission: each stays until the person has answered it.

import { block } from "./conversation.js";
import { el } from "./dom.js";

const MOST_INPUT = 20000;

/** Shows questions, and keeps what is shown of those that stay. */
export class Questions {
  /** @param {HTMLElement} place
   * @param {(question: number, option: number) => Promise<void>} answer
   * @param {(text: string) => void} announce */
  constructor(place, answer, announce) {
    Object.assign(this, { place, answer, announce });
    this.drawn = new Map();
  }

  /** @param {Array<object>} questions  @param {string} session  the one that is in view */
  show(questions, session) {
    const wanted = new Set(questions.map((each) => each.number));
    for (const [number, element] of this.drawn) {
      if (wanted.has(number)) continue;
      const had = element.contains(document.activeElement);
      element.remove();
      this.drawn.delete(number);
      if (had) document.getElementById("prompt").focus();
    }
    for (const question of questions) {
      if (this.drawn.has(question.number)) continue;
      const made = this.ask(question, session);
      this.drawn.set(question.number, made);
      this.place.append(made);
      this.announce(`The agent asks: ${title(question)}`);
      // Who is writing goes on writing: a key for a word must not answer a question.
      const active = document.activeElement;
      const isWriting = active?.closest("dialog") || (active?.id === "prompt" && active.value);
      if (!isWriting && this.drawn.size === 1) made.focus();
    }
  }

  ask(question, session) {
    const { call } = question;
    const id = `ask-${question.number}`;
    const choose = async (place) => {
      if (made.dataset.sent) return;
      made.dataset.sent = "1";
      await this.answer(question.number, place);
      delete made.dataset.sent;
    };
    const input = call.rawInput === undefined ? "" : JSON.stringify(call.rawInput, null, 2);
    const blocks = Array.isArray(call.content) ? call.content.map(block) : [];
    // A path that a difference or the title names already is not repeated.
    const named = [call.title, ...(Array.isArray(call.content) ? call.content.map((each) => each?.path) : [])];
    const places = Array.isArray(call.locations)
      ? call.locations.map((each) => each?.path).filter((path) => path && !named.includes(path)) : [];
    const made = el("section.ask", {
      role: "alertdialog", tabindex: -1, "aria-labelledby": id, "data-question": question.number,
      onkeydown: (event) => {
        const place = Number(event.key) - 1;
        if (question.viewed || !(place >= 0 && place < question.options.length) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        choose(place);
      },
    },
    el("h2", { id }, el("span.note", {}, `${who(question)} `), title(question)),
    question.session === session ? null : el("p.note", {}, `in another session: ${question.session}`),
    places.length ? el("p.note", {}, places.join(", ")) : null,
    blocks,
    input && input !== "{}" ? el("details", { open: !blocks.length && input.length < 600 }, el("summary", {}, "what it is given"),
      el("pre.code", { tabindex: 0, "aria-label": "what the tool is given" }, input.slice(0, MOST_INPUT),
        input.length > MOST_INPUT ? "\n… it is cut here" : "")) : null,
    question.viewed ? el("p.note", {}, "Whoever takes part in this session answers it.")
      : question.options.length ? null : el("p.note", {}, "The agent offers no answer. Cancel the turn to go on."),
    call.description ? el("p.note", {}, String(call.description)) : null,
    el("div.answers", {}, question.viewed ? [] : question.options.map((option, place) => el("button", {
      type: "button", "data-kind": option.kind ?? "", onclick: () => choose(place),
    }, place < 9 ? el("kbd", { "aria-hidden": true }, place + 1) : null, option.name || option.kind || `answer ${place + 1}`))));
    return made;
  }
}

const title = ({ call }) => String(call.title || "an action that it does not name");
const who = ({ call }) => (call.kind ? `May the agent do this (${call.kind})?` : "May the agent do this?");
