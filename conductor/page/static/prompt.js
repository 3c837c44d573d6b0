// What a person wrote and what the agent got of it: the words that the components added and removed.

import { ofWords } from "./difference.js";
import { el } from "./dom.js";

const LONGEST = 200_000;
const ENDS = 400;
const SIGNS = { added: "ins", removed: "del" };
const SPOKEN = { added: "added: ", removed: "removed: " };

/** The words of a prompt; what is no text is named. */
export function words(params) {
  const blocks = Array.isArray(params?.prompt) ? params.prompt : [];
  return blocks.map((block) => block?.text ?? block?.resource?.text ?? `[${block?.type ?? "content"}]`).join("\n").slice(0, LONGEST);
}

/** The event with which the agent got the prompt of a turn; null: it did not. */
export function got(detail, components) {
  const last = components.at(-2);
  if (last === "client") return detail.turn.events?.[0] ?? null;
  const down = (detail.visits ?? []).filter((visit) => (
    visit.method === "session/prompt" && visit.kind === "request" && visit.got !== undefined)); // not a component's own
  const kept = down.find((visit) => ["answered", "dropped"].includes(visit.change) || visit.sent === undefined);
  if (kept !== undefined) return null;
  // Of components that the prompt went past there is no visit.
  for (const name of components.slice(1, -1).reverse()) {
    const visit = down.find((each) => each.component === name);
    if (visit !== undefined) return visit.sent;
  }
  return detail.turn.events?.[0] ?? null;
}

/** A long run of words without its middle. */
function shortened(text) {
  if (text.length <= 3 * ENDS) return text;
  const left = (text.length - 2 * ENDS).toLocaleString("en");
  return [text.slice(0, ENDS), el("span.note", {}, ` … ${left} characters … `), text.slice(-ENDS)];
}

/** The prompt as the agent got it. */
export function difference(written, received) {
  const found = ofWords(written, received);
  const isSame = found.every(([kind]) => kind === "same");
  const parts = found.map(([kind, text]) => (kind === "same" ? shortened(text)
    : el(SIGNS[kind], {}, el("span.visually-hidden", {}, SPOKEN[kind]), shortened(text))));
  return { isSame, element: el("div.prompt-words", { tabindex: 0, role: "group", "aria-label": "the prompt as the agent got it" }, parts) };
}
