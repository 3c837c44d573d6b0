// A small part of Markdown, made into elements: paragraphs, headings, lists, code, emphasis, links.
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

/** A text as elements. */
export function markdown(text) {
  const whole = el("div.markdown");
  const lines = text.slice(0, MOST).split("\n");
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)/.exec(line);
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
    else {
      const paragraph = [];
      while (at < lines.length && lines[at].trim() && !/^\s*(```|~~~|#{1,6}\s)/.test(lines[at])) {
        paragraph.push(lines[at++]);
      }
      whole.append(el("p", {}, inline(paragraph.join("\n"))));
    }
  }
  if (text.length > MOST) whole.append(el("p.note", {}, "the text goes on; it is cut here"));
  return whole;
}
