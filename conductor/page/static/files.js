// Files of the project, with the comments that components make in them.

import { el, fill, refill } from "./dom.js";
import { markdown } from "./markdown.js";
import { offsets, rangeOf, resolve } from "./ranges.js";
import { owner } from "./turn.js";

const MOST_LINES = 10000;

const keyOf = ({ session, id }) => JSON.stringify([session, id]);

/** The files and comments, of which one file is in view. */
export class Files {
  /** @param {HTMLElement} place
   * @param {object} data  where files are read
   * @param {object} acts  `reply(comment, text)` and `close(comment)` */
  constructor(place, data, acts) {
    Object.assign(this, { place, data, acts });
    /** Files by the URL that was asked for, and by their own: `{url, path, text, number}`, or `{url, path, error}`. */
    this.read = new Map();
    this.reads = 0;
    this.comments = [];
    this.components = [];
    this.url = "";
    /** What the person, or a component, has opened. */
    this.opened = [];
    this.range = null;
    this.drafts = new Map();
    /** The last selection in a file, as `slice` counts. */
    this.selected = null;
    this.view = el("div.file", { tabindex: 0, role: "group", "aria-label": "file" });
    this.names = el("div.file-names", { role: "group", "aria-label": "files" });
    this.input = el("input", { id: "file-path", type: "text", dir: "auto", autocomplete: "off", spellcheck: "false", placeholder: "open a file: src/main.rs" });
    this.note = el("p.problem", { role: "alert" });
    fill(place, el("form.file-form", { onsubmit: (event) => this.asked(event) },
      el("label.visually-hidden", { for: "file-path" }, "Open a file"), this.input), this.names, this.note, this.view);
    document.addEventListener("selectionchange", () => this.select());
  }

  /** The text of a file; empty if it cannot be read. */
  async text(url) {
    return (await this.load(url)).text ?? "";
  }

  /** The same, read anew: the file may have changed. */
  again(url) {
    this.read.delete(url);
    return this.text(url);
  }

  /** The URL of a file, however somebody names it. */
  own(url) {
    return this.read.get(url)?.url ?? url;
  }

  async load(url) {
    if (!this.read.has(url)) {
      let file;
      try {
        file = await this.data.json(`/api/chat/file?${new URLSearchParams({ url })}`);
      } catch (error) {
        file = { url, path: url, error: error.message };
      }
      file.number = ++this.reads;
      for (const name of [url, file.url, ...this.comments.map(({ comment }) => comment.url).filter((each) => this.own(each) === file.url)]) {
        this.read.set(name, file);
      }
    }
    return this.read.get(url);
  }

  /** Opens a file; its text is read anew. Throws what is in the way. */
  async open(url, start, end) {
    this.read.delete(url);
    const file = await this.load(url);
    if (file.error) {
      this.read.delete(url);
      throw new Error(file.error);
    }
    if (!this.opened.includes(file.url)) this.opened.push(file.url);
    this.range = start ? resolve(file.text, start, end) : null;
    this.url = file.url;
    this.draw();
    if (this.range) this.scroll(this.range.start.line);
  }

  async asked(event) {
    event.preventDefault();
    this.note.textContent = "";
    try {
      if (this.input.value.trim()) await this.open(this.input.value.trim());
      this.input.value = "";
    } catch (error) {
      fill(this.note, error.message);
    }
  }

  /** Shows these comments; each has the number of what the server has of it.
   * @param {Array<{number: number, comment: object}>} comments  @param {string[]} components */
  async show(comments, components) {
    this.comments = comments;
    this.components = components;
    for (const { comment } of comments) await this.load(comment.url);
    this.draw();
  }

  /** Brings a comment into view. */
  reveal(comment) {
    this.url = this.own(comment.url);
    this.range = null;
    this.draw();
    this.scroll(comment.range.start.line);
  }

  scroll(line) {
    this.view.querySelector(`[data-line="${line}"]`)?.scrollIntoView({ block: "center" });
  }

  get urls() {
    return [...new Set([...this.comments.map(({ comment }) => this.own(comment.url)), ...this.opened])];
  }

  draw() {
    const { urls } = this;
    if (!urls.includes(this.url)) this.url = urls[0] ?? "";
    const of = (url) => this.comments.filter(({ comment }) => this.own(comment.url) === url);
    const here = of(this.url);
    const file = this.read.get(this.url);
    const mark = JSON.stringify([urls, this.url, file?.number, this.range, here.map((each) => each.number)]);
    if (mark === this.mark) return;
    const isOther = this.drawnUrl !== this.url;
    Object.assign(this, { mark, drawnUrl: this.url });
    refill(this.names, urls.map((url) => {
      const count = of(url).length;
      return el("button.file-name", { type: "button", "data-key": `file ${url}`, "aria-pressed": String(url === this.url), onclick: () => {
        this.url = url;
        this.range = null;
        this.draw();
      } }, this.read.get(url)?.path ?? url, count ? el("span.note", {}, ` ${count}`) : null);
    }));
    const top = isOther ? 0 : this.view.scrollTop;
    if (!file) fill(this.view, el("div.empty", {}, el("h2", {}, "No file is open"), el("p", {}, "Comments of components stand beside the lines they are about.")));
    else if (file.error) fill(this.view, el("p.note.unread", {}, `${file.error}.`), here.map((each) => this.card(each, null)));
    else this.lines(file, here);
    this.view.scrollTop = top;
  }

  lines(file, here) {
    const { text } = file;
    const marks = here.map((each) => {
      const range = resolve(text, each.comment.start, each.comment.end);
      return { ...each, range, at: offsets(text, range) };
    });
    marks.sort((one, other) => one.at[0] - other.at[0]);
    if (this.range) marks.push({ range: this.range, at: offsets(text, this.range) });
    const made = [];
    let from = 0;
    let number = 0;
    for (const { index, 0: end } of [...text.matchAll(/\r\n|\n|\r/g), { index: text.length, 0: "" }]) {
      const isBehindEnd = index === text.length && from === index && number > 0;
      if (isBehindEnd && !marks.some(({ at }) => at[0] === index)) break;
      number++;
      if (number > MOST_LINES) break;
      made.push(el("div.row", { "data-line": number }, el("span.number", { "aria-hidden": true }, number), el("code", {}, pieces(text, from, index, marks))));
      const behind = marks.filter((each) => each.comment && lastLine(each.range) === number);
      for (const each of behind) made.push(this.card(each, each.range));
      from = index + end.length;
    }
    if (number > MOST_LINES) made.push(el("p.note.unread", {}, `The file goes on; the first ${MOST_LINES.toLocaleString("en")} lines are shown.`));
    this.view.setAttribute("aria-label", file.path);
    refill(this.view, made);
  }

  /** A comment with what was said below it. */
  card({ comment }, range) {
    const key = keyOf(comment);
    const place = range ? where(range) : `line ${comment.start.line}`;
    const answer = comment.canReply ? this.answer(comment, key) : null;
    return el("section.comment", { "aria-label": `comment of ${comment.component}, ${place}`, "data-id": comment.id },
      el("header", {}, owner(this.components, comment.component), el("span.note", {}, place), el("button.small", {
        type: "button", "data-key": `resolve ${key}`, onclick: () => this.acts.close(comment),
      }, "Resolve")),
      markdown(comment.text),
      comment.replies.map((reply) => el("div.reply", {}, el("p.who", {}, reply.component || "You"), markdown(reply.text))), answer);
  }

  answer(comment, key) {
    const input = el("textarea", { rows: 1, dir: "auto", "aria-label": `reply to ${comment.component}`, placeholder: "Reply …", "data-key": `reply ${key}`,
      oninput: () => this.drafts.set(key, input.value),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        form.requestSubmit();
      } });
    input.value = this.drafts.get(key) ?? "";
    const form = el("form.answer", { onsubmit: async (event) => {
      event.preventDefault();
      const text = input.value;
      if (!text.trim() || input.disabled) return;
      input.disabled = true; // once
      // Before the answer comes the file may be drawn anew, with a place for the next reply.
      this.drafts.delete(key);
      if (await this.acts.reply(comment, text)) input.value = "";
      else if (!this.drafts.has(key)) this.drafts.set(key, text);
      input.disabled = false;
    } }, input, el("button.small", { type: "submit" }, "Reply"));
    return form;
  }

  // -- the selection --------------------------------------------------------------------------

  select() {
    const chosen = getSelection();
    if (!chosen.rangeCount || !this.view.contains(chosen.anchorNode) || !this.view.contains(chosen.focusNode)) return;
    const ends = [[chosen.anchorNode, chosen.anchorOffset], [chosen.focusNode, chosen.focusOffset]].map((each) => offsetOf(...each));
    if (ends.includes(null)) return;
    this.selected = { url: this.url, from: Math.min(...ends), to: Math.max(...ends) };
  }

  /** What is selected in the file in view. */
  selection() {
    const { selected, url } = this;
    const file = this.read.get(url);
    if (selected?.url !== url || !file?.text) return { text: "" };
    const text = file.text.slice(selected.from, selected.to);
    return { url: file.url, path: file.path, ...rangeOf(file.text, selected.from, selected.to), text };
  }
}

/** The parts of a line: each is in the same ranges. */
function pieces(text, from, to, marks) {
  const cuts = new Set([from, to]);
  for (const { at } of marks) for (const each of at) if (each > from && each < to) cuts.add(each);
  const inOrder = [...cuts].sort((one, other) => one - other);
  const made = inOrder.slice(1).map((end, place) => {
    const begin = inOrder[place];
    const held = marks.filter(({ at }) => at[0] < end && at[1] > begin);
    const tag = !held.length ? "span" : held.some((each) => each.comment) ? "mark.commented" : "mark.opened";
    return el(tag, { "data-from": begin, "data-to": end }, text.slice(begin, end));
  });
  // A range without any character is a place between two.
  const points = marks.filter(({ at }) => at[0] === at[1] && at[0] >= from && at[0] <= to && at[0] !== undefined);
  for (const { at } of points) {
    const before = made.findIndex((each) => Number(each.dataset.from) >= at[0]);
    made.splice(before < 0 ? made.length : before, 0, el("mark.point", { "data-from": at[0], "data-to": at[0] }));
  }
  return made;
}

/** Where a place of the document is in the text of the file. */
function offsetOf(node, offset) {
  const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
  const piece = element.closest("[data-from]");
  if (piece === null) {
    const row = element.closest(".row");
    if (row === null) return null;
    const all = [...row.querySelectorAll("[data-from]")];
    if (!all.length) return null;
    return Number(offset && element.tagName === "CODE" ? all.at(-1).dataset.to : all[0].dataset.from);
  }
  const [from, to] = [Number(piece.dataset.from), Number(piece.dataset.to)];
  // Of what is written out, such as a sign that cannot be seen, the whole piece counts.
  if (piece.textContent.length !== to - from) return offset ? to : from;
  return node.nodeType === Node.TEXT_NODE ? from + offset : offset ? to : from;
}

/** The line below which a comment stands. */
function lastLine({ start, end }) {
  return end.column === 1 && end.line > start.line ? end.line - 1 : end.line;
}

function where({ start, end }) {
  if (start.line === end.line && start.column === end.column) return `line ${start.line}, ${start.column}`;
  return start.line === end.line ? `line ${start.line}, ${start.column}–${end.column}` : `lines ${start.line}–${lastLine({ start, end })}`;
}

/** The name that stands at a place of a text, if any does. */
export function wordAt(text, place) {
  const [at] = offsets(text, resolve(text, place, place));
  for (const { index, 0: word } of text.matchAll(/[\p{L}\p{N}_$]+/gu)) {
    if (index <= at && at <= index + word.length) return word;
    if (index > at) break;
  }
  return "";
}
