// A small part of Markdown, made into elements: paragraphs, headings, lists, tables, code, emphasis,
// links.
// Whatever it does not know stays text, HTML too.

import { el } from "./dom.js";

// Each part ends at a sign that begins another, or is bounded: else an odd text would take time with
// its square.
const INLINE = new RegExp([
  /(?<!`)(`{1,16})(?!`)([^]{1,4000}?)(?<!`)\1(?!`)/,
  /\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*/,
  /\[([^[\]]+)\]\((https?:\/\/[^\s)]{1,2000})\)/,
].map((part) => part.source).join("|"), "g");
const MOST = 200000;
/** What ends a table. */
const BLOCK = /^\s*(```|~~~|#{1,6}\s|[-*+]\s|\d+[.)]\s)/;

function inline(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(last, found.index));
    const [whole, , code, strong, emphasis, label, link] = found;
    if (code !== undefined) parts.push(el("code", {}, code));
    else if (strong !== undefined) parts.push(el("strong", {}, strong));
    else if (emphasis !== undefined) parts.push(el("em", {}, emphasis));
    else parts.push(el("a", { href: link, rel: "noopener noreferrer", target: "_blank" }, label));
    last = found.index + whole.length;
  }
  parts.push(text.slice(last));
  return parts;
}

/** The cells of a line of a table. */
function cells(line) {
  const parts = line.trim().split(/(?<!\\)\|/);
  if (!parts[0]) parts.shift();
  if (parts.length && !parts.at(-1)) parts.pop();
  return parts.map((part) => part.trim().replaceAll("\\|", "|"));
}

/** How the columns are aligned of the table that begins at a line; null: none begins there. */
function columns(lines, at) {
  const [head, rule] = [lines[at], lines[at + 1]];
  if (!head.includes("|") || !rule?.includes("|")) return null;
  const marks = cells(rule);
  if (!marks.length || marks.length !== cells(head).length || !marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  return marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : mark.startsWith(":") ? "left" : ""));
}

/** A table. Its columns run in the direction of its head; a row without all cells gets none for them, as a stranger may
 * write many. */
function table(aligned, head, rows) {
  const row = (tag, line) => el("tr", {}, cells(line).slice(0, aligned.length)
    .map((cell, place) => el(tag, { style: { textAlign: aligned[place] } }, inline(cell))));
  const way = el("p", { dir: "auto" }, head).matches(":dir(rtl)") ? "rtl" : "ltr";
  return el("div.table", { tabindex: 0, role: "group", "aria-label": "table" }, el("table", { dir: way },
    el("thead", {}, row("th", head)), el("tbody", {}, rows.map((line) => row("td", line)))));
}

/** A text as elements. */
export function markdown(text) {
  const whole = el("div.markdown");
  const lines = text.slice(0, MOST).split("\n");
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)/.exec(line);
    const aligned = columns(lines, at);
    if (fence) {
      const code = [];
      while (++at < lines.length && !lines[at].trim().startsWith(fence[1])) code.push(lines[at]);
      at++;
      whole.append(el("pre.code", { tabindex: 0, "aria-label": "code" }, el("code", {}, code.join("\n"))));
    } else if (heading) {
      whole.append(el("p.heading", {}, inline(heading[2])));
      at++;
    } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      const list = el(/^\s*\d/.test(line) ? "ol" : "ul");
      while (at < lines.length && /^\s*([-*+]|\d+[.)])\s+/.test(lines[at])) {
        list.append(el("li", {}, inline(lines[at++].replace(/^\s*([-*+]|\d+[.)])\s+/, ""))));
      }
      whole.append(list);
    } else if (!line.trim()) at++;
    else if (aligned) {
      const rows = [];
      for (at += 2; at < lines.length && lines[at].trim() && !BLOCK.test(lines[at]); at++) rows.push(lines[at]);
      whole.append(table(aligned, line, rows));
    } else {
      const paragraph = [];
      while (at < lines.length && lines[at].trim() && !/^\s*(```|~~~|#{1,6}\s)/.test(lines[at])
        && (!paragraph.length || columns(lines, at) === null)) {
        paragraph.push(lines[at++]);
      }
      whole.append(el("p", {}, inline(paragraph.join("\n"))));
    }
  }
  if (text.length > MOST) whole.append(el("p.note", {}, "the text goes on; it is cut here"));
  return whole;
}
