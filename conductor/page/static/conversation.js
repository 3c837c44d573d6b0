// The conversation as a person reads it: what the client sent and got.

import { duration, el, shown } from "./dom.js";
import { markdown } from "./markdown.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const SIGNS = { completed: "✓", failed: "✗", in_progress: "…", pending: "…", error: "✗", ok: "✓" };

const LONG = 2000;
/** A turn that takes less has no slow component … */
const SLOW = 100;
/** … and of another one those are slow that take this part of it. */
const MUCH = 0.1;
const MOST_ITEMS = 100;

/** A text; of a long one the beginning, and a button for the rest. */
function text(words) {
  const whole = String(words ?? "");
  if (whole.length <= 1.5 * LONG) return markdown(whole);
  const made = el("div", {}, markdown(whole.slice(0, LONG)), el("button.small.more", {
    type: "button", onclick: () => made.replaceChildren(markdown(whole)),
  }, `show the other ${(whole.length - LONG).toLocaleString("en")} characters`));
  return made;
}

/** Words of the page before or behind those of somebody: their direction stays that of their own first letter. */
const label = (...words) => el("span", {}, words);

/** A content block of ACP. */
export function block(content) {
  if (typeof content !== "object" || content === null) return null;
  if (content.type === "text") return text(content.text);
  if (content.type === "image" && PICTURES.has(content.mimeType)) {
    return el("img.picture", { src: `data:${content.mimeType};base64,${content.data}`, alt: "picture in a message" });
  }
  if (content.type === "resource" && content.resource) {
    const text = content.resource.text;
    return el("details.resource", {},
      el("summary", {}, content.resource.uri ?? "resource"),
      text === undefined ? null : el("pre.code", { tabindex: 0, "aria-label": "resource" }, text));
  }
  if (content.type === "resource_link") {
    return el("p.note", {}, label("↗ "), content.title ?? content.name ?? "", " ", el("span", {}, content.uri ?? ""));
  }
  if (content.type === "skill") return el("p.note", {}, label("skill "), content.name ?? "");
  if (content.type === "session") return el("p.note", {}, `session ${content.sessionId ?? ""}`);
  if (content.type === "content") return block(content.content);
  if (content.type === "diff") return Array.isArray(content.changes) ? filesDiff(content) : fileDiff(content);
  if (content.type === "terminal") return el("p.note", {}, `terminal ${content.terminalId ?? ""}`);
  return el("p.note", {}, content.type ?? "content");
}

/** What changes of some files, in version 2 of ACP. */
function filesDiff(content) {
  const names = content.changes.map((each) => `${each?.operation ?? "change"} ${each?.oldPath ? `${each.oldPath} → ` : ""}${each?.path ?? "file"}`);
  const lines = String(content.patch?.text ?? "").split("\n").slice(0, 800);
  const kind = (text) => (text.startsWith("+") ? "added" : text.startsWith("-") ? "removed" : "same");
  return el("figure.diff", {}, el("figcaption", {}, names.join(", ")),
    content.patch ? el("pre", { tabindex: 0, "aria-label": `changes of ${names.join(", ")}` },
      lines.map((text) => el(`span.line.${kind(text)}`, {}, `${text}\n`))) : null);
}

/** A file before and after: the lines that differ, and some around them. */
function fileDiff(content) {
  const before = content.oldText ? String(content.oldText).split("\n") : [];
  const after = String(content.newText ?? "").split("\n");
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head
    && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const removed = before.slice(head, before.length - tail);
  const added = after.slice(head, after.length - tail);
  const line = (sign, kind) => (text) => el(`span.line.${kind}`, {}, `${sign} ${text}\n`);
  return el("figure.diff", {},
    el("figcaption", {}, content.path ?? "file", " ",
      el("span.count", {}, `+${added.length} −${removed.length}`)),
    el("pre", { tabindex: 0, "aria-label": `changes of ${content.path ?? "a file"}` },
      before.slice(Math.max(head - 2, 0), head).map(line(" ", "same")),
      removed.slice(0, 400).map(line("−", "removed")),
      added.slice(0, 400).map(line("+", "added")),
      before.slice(before.length - tail, before.length - tail + 2).map(line(" ", "same"))));
}

/** What each component did with the prompt, and its time; also of those that only took much of it. */
function marks(turn) {
  const isSlow = (share) => turn.ms > SLOW && share.ms >= turn.ms * MUCH;
  const isChange = (share) => share.says && share.says !== "unchanged";
  const made = (turn.shares ?? []).filter((share) => share.component !== "client" && (isChange(share) || isSlow(share)));
  if (!made.length) return null;
  return el("p.marks", {}, made.map((share) => el("span.mark", { "data-component": share.component, "data-slow": String(isSlow(share)), "data-changed": String(Boolean(isChange(share))) },
    el("b", {}, share.component), isChange(share) ? ` ${share.says}` : "", " ", el("span.mark-time", {}, duration(share.ms ?? 0)))));
}

function plan(entries) {
  return el("ul.plan", {}, entries.map((entry) => el("li", { "data-status": entry.status },
    el("span.sign", { "aria-hidden": true }, entry.status === "completed" ? "✓" : entry.status === "in_progress" ? "◐" : "○"),
    el("span.visually-hidden", {}, `${entry.status ?? "open"}: `), entry.content ?? "")));
}

function tool(item) {
  const blocks = item.blocks ?? [];
  const status = item.status ?? "";
  const title = [el("span.sign", { "aria-hidden": true }, SIGNS[status] ?? "▸"), " ",
    label(item.component ? `${item.component}: ` : ""), item.text || "tool call", " ",
    el("span.note", {}, status, item.ms ? ` · ${duration(item.ms)}` : "")];
  if (!blocks.length) return el("div.act.tool", { "data-status": status }, title);
  return el("details.act.tool", { "data-status": status, open: blocks.some((b) => b.type === "diff") },
    el("summary", {}, title), blocks.map(block));
}

/** Items of a turn, and what `behind` puts behind one; what is of one nested exchange stands below its title. */
export function items(all, behind = () => null) {
  const parts = [];
  let exchange;
  for (const held of all) {
    const id = held.nested ? `exchange ${held.exchange ?? ""}` : undefined;
    if (id === undefined) parts.push(item(held), behind(held));
    else if (id === exchange) parts.at(-1).append(item(held));
    else parts.push(el("details.act.nested", { open: true }, el("summary", {}, held.nested), item(held)));
    exchange = id;
  }
  return parts.filter(Boolean);
}

function item(held) {
  switch (held.kind) {
    case "prompt":
      return el(held.component ? "div.speech.own" : "div.speech.you", {}, el("p.who", {}, held.component ? `${held.component} to the agent` : "You"), (held.blocks ?? []).length
        ? held.blocks.map(block) : text(held.text));
    case "text":
      return el("div.speech.agent", {}, el("p.who", {}, held.component || "Agent"),
        text(held.text), (held.blocks ?? []).map(block));
    case "thought":
      return el("details.thought", {}, el("summary", {}, "Thought"), text(held.text));
    case "plan":
      return el("div.act", {}, el("p.who", {}, "Plan"), plan(held.blocks ?? []));
    case "tool":
      return tool(held);
    case "question":
      return el("div.act.question", {}, el("span.sign", { "aria-hidden": true }, "?"), " ",
        label(held.component ? `${held.component} asks: ` : "The agent asks: "), held.text ?? "", " ",
        el("b", {}, held.status ?? "no answer yet"), " ",
        el("span.note", {}, held.ms ? duration(held.ms) : ""));
    case "mcp":
      return el("div.act.mcp", { "data-status": held.status ?? "" }, el("span.sign", { "aria-hidden": true }, "⇄"),
        " ", held.text ?? "", " ", el("span.note", {}, held.component ? `${held.component} · ` : "",
          held.status ?? "", held.ms ? ` · ${duration(held.ms)}` : ""));
    case "answer":
    case "refusal":
      return el(held.kind === "refusal" ? "div.act.refused" : "div.act.question", {},
        el("b", {}, held.kind === "refusal" ? `⚠ ${held.component} refused: ` : `${held.component} answered for you: `),
        held.text ?? "", " ", el("b", {}, held.status ?? ""), " ", el("span.note", {}, held.ms ? duration(held.ms) : ""));
    case "verdict":
      return el("div.act.refused", {}, el("b", {}, `⚠ conductor refused what ${held.component ?? ""} did (rule ${held.status ?? ""}): `), held.text ?? "");
    case "would":
      return el("div.act.notice", {}, el("b", {}, `only watched (rule ${held.status ?? ""}): `), held.text ?? "");
    case "refused":
      return el("div.act.refused", {}, el("b", {}, `⚠ refused by ${held.component ?? "a component"}: `), held.text ?? "");
    case "error":
      return el("div.act.refused", {}, el("b", {}, "error "), held.text ?? "");
    case "notice":
      return held.component ? el("p.happened", {}, el("b", {}, `${held.component} `), held.text ?? "", held.status === "error" ? " → error" : "")
        : el("p.note", {}, held.text ?? "", label(held.status ? ` → ${held.status}` : "", held.ms ? ` · ${duration(held.ms)}` : ""));
    case "mode":
      return el("p.note", {}, label("mode: "), held.text ?? "");
    default:
      return held.text ? el("p.note", {}, label(held.component ? `${held.component}: ` : ""), held.text) : null;
  }
}

/** A turn of the conversation, in short until its detail is there. */
export function turn(summary, detail) {
  const all = detail?.items ?? [
    ...(summary.prompt ? [{ kind: "prompt", text: summary.prompt }] : []),
    ...(summary.answer ? [{ kind: "text", text: summary.answer }] : []),
  ];
  const made = el("div", {});
  const drawn = (from) => {
    made.append(...items(all.slice(from, from + MOST_ITEMS), (held) => held.kind === "prompt" ? marks(summary) : null));
    const left = all.length - from - MOST_ITEMS;
    if (left <= 0) return;
    const more = el("button.small.more", {
      type: "button",
      onclick: () => {
        more.remove();
        drawn(from + MOST_ITEMS);
      },
    }, `show more: ${left.toLocaleString("en")} are left`);
    made.append(more);
  };
  drawn(0);
  const hasError = all.some((held) => ["error", "refused"].includes(held.kind));
  if (summary.failed && !hasError) made.append(el("div.act.refused", {}, el("b", {}, "ended: "), shown(summary.stop ?? "")));
  else if (!summary.failed && summary.stop && !["end_turn", "ended"].includes(summary.stop)) made.append(el("p.note", {}, `ended: ${shown(summary.stop)}`));
  return [made];
}
