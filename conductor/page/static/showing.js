// What components show beside the conversation, and ask of this page: the editor of the client library (`editor.js`),
// tied to the server of the page.

import { Beside } from "./beside.js";
import { Editor } from "./editor.js";
import { Files, wordAt } from "./files.js";
import { Log, Panels } from "./panels.js";
import { news } from "./panes.js";

const $ = (id) => document.getElementById(id);
/** Milliseconds that a page waits which nobody looks at: the one that a person looks at answers first. */
const AFTER_YOU = 400;

/** The right side of the page. */
export class Showing {
  /** @param {object} data  where the server is
   * @param {(name: string, body: object) => Promise<any>} post  throws what goes wrong
   * @param {(text: string) => void} problem
   * @param {(text: string) => void} announce */
  constructor(data, post, problem, announce) {
    Object.assign(this, { data, post, problem, announce });
    this.beside = new Beside($("beside-tabs"));
    this.files = new Files($("files"), data, {
      reply: (comment, text) => this.tried(() => this.editor.reply(comment, text)),
      close: (comment) => this.tried(() => this.editor.closeComment(comment)),
    });
    this.panels = new Panels($("panels"), (panel, name, more) => this.editor.panelEvent(panel, name, more),
      (panel) => this.tried(() => this.editor.closePanel(panel)));
    this.log = new Log($("log"));
    this.operations = [...looking(this.files, () => this.beside.choose("files"))];
    this.editor = new Editor({
      panels: { show() {}, clear() {} },
      comments: { read: (url) => this.files.again(url), show() {}, clear() {} },
      operations: this.operations,
      log: (line) => this.log.add(line),
    });
    this.editor.peer = {
      request: (method, { sessionId: session, id, ...more }) => (method.endsWith("/reply")
        ? post("reply", { session, id, text: more.text })
        : post("event", { of: method.includes("panel") ? "panel" : "comment", session, id, ...more })),
      prompt: () => Promise.reject(new Error("the server sends it")),
    };
    /** What is shown, by the number that the server has given it. */
    this.held = new Map();
    this.answered = new Set();
    this.lines = 0;
    this.isFirst = true;
  }

  /** Does something for the person; what goes wrong is shown. */
  async tried(act) {
    try {
      this.problem("");
      await act();
      return true;
    } catch (error) {
      this.problem(error.message);
      return false;
    }
  }

  /** Takes what the server has; returns once it is known here. */
  async sync(state, can) {
    if (!state) return;
    if (can.search && !this.operations.some((each) => each.name === "find-definitions")) this.operations.push(...searching(this.files, this.data));
    const wanted = new Set(state.shown.map((each) => each.number));
    const fresh = state.shown.filter((each) => !this.held.has(each.number));
    for (const [number, one] of this.held) {
      if (wanted.has(number)) continue;
      this.held.delete(number);
      const isAgain = fresh.some((each) => each.method === one.method && each.session === one.session && each.id === one.id);
      if (!isAgain) await this.editor.handle(one.method.replace("/show", "/clear"), { sessionId: one.session, id: one.id });
    }
    for (const each of fresh) await this.take(each);
    if (state.lines > this.lines) {
      for (const { number, params } of await this.data.json(`/api/chat/lines?after=${this.lines}`)) {
        this.lines = number;
        await this.editor.handle("_scp/log", params).catch(() => {});
      }
    }
    for (const asked of state.asked) this.serve(asked);
    this.isFirst = false;
  }

  async take(each) {
    let got;
    try {
      got = await this.data.json(`/api/chat/shown/${each.number}`);
    } catch (error) {
      if (error.status === 404) return; // it has changed again
      throw error;
    }
    const isNew = !this.one(each);
    this.held.set(each.number, { ...each, frame: got.frame });
    try {
      await this.editor.handle(got.method, got.params);
    } catch (error) {
      this.problem(`${got.params._meta?.["conductor.component"] ?? "A component"} shows what cannot be shown: ${error.message}`);
      return;
    }
    const one = this.one(each);
    if (one.replies) one.replies = got.replies.map(({ from, text }) => ({ component: from === "user" ? "" : from, text }));
    const isPanel = each.method.includes("panel");
    if (this.isFirst || (!isPanel && !isNew)) return;
    // The comments of a walkthrough do not hide its panel.
    if (isPanel || !this.isPanelInFront()) this.front = each.number;
    news("turn");
    this.announce(isPanel ? `Panel of ${one.component}: ${one.label}` : `${one.component} comments in a file`);
  }

  /** Whether a panel is in view, or about to be. */
  isPanelInFront() {
    return this.beside.chosen.startsWith("panel ") || Boolean(this.held.get(this.front)?.method.includes("panel"));
  }

  /** The panel or comment that an entry of the server is about. */
  one({ method, session, id }) {
    return (method.includes("panel") ? this.editor.panels : this.editor.comments).get(JSON.stringify([session, id]));
  }

  /** Answers what a component asks of the editor. */
  async serve({ number, method, params }) {
    if (this.answered.has(number)) return;
    this.answered.add(number);
    if (!document.hasFocus()) await new Promise((resolve) => { setTimeout(resolve, AFTER_YOU); });
    let answer;
    try {
      answer = { result: await this.editor.handle(method, params) ?? {} };
    } catch (error) {
      answer = { error: { message: String(error.message), ...(Number.isInteger(error.code) ? { code: error.code } : {}) } };
    }
    await this.post("answered", { number, ...answer }).catch(() => {}); // another page has answered
  }

  /** Draws what is of a session. */
  draw(session, components) {
    const here = [...this.held.values()].filter((each) => each.session === session && this.one(each));
    const of = (kind) => here.filter((each) => each.method.includes(kind)).map((each) => ({ ...each, one: this.one(each) }));
    const panels = of("panel").map(({ number, frame, one }) => ({ number, frame, panel: one }));
    const comments = of("comment").map(({ number, one }) => ({ number, comment: one }));
    const lines = this.log.of(session).length;
    const tabs = [
      { key: "turn", label: "Turn", element: $("turn-view") },
      ...panels.map(({ panel }) => ({ key: `panel ${panel.id}`, label: panel.label.trim() || panel.id, note: panel.component, element: $("panels") })),
      { key: "files", label: "Files", note: comments.length ? `${comments.length}` : "", element: $("files") },
      ...(lines ? [{ key: "log", label: "Log", note: `${lines}`, element: $("log") }] : []),
    ].map((each, place) => ({ ...each, id: `beside-tab-${place}` }));
    const front = here.find((each) => each.number === this.front);
    this.beside.tabs = tabs;
    if (front !== undefined) this.bring(front);
    this.beside.show(tabs);
    const inView = panels.find(({ panel }) => `panel ${panel.id}` === this.beside.chosen);
    this.beside.onchoose = () => this.draw(session, components);
    this.panels.show(panels, inView?.number, components);
    this.log.show(session, components);
    this.files.show(comments, components).then(() => {
      if (front?.method.includes("comment")) this.files.reveal(this.one(front));
    });
  }

  /** Brings to the front what a component has just shown, but not from below the hands of the person. */
  bring(front) {
    this.front = null;
    const active = document.activeElement;
    if (active !== null && $("beside").contains(active) && active.tagName === "TEXTAREA") return;
    this.beside.chosen = front.method.includes("panel") ? `panel ${front.id}` : "files";
  }
}

const TEXT = { type: "string" };
const COUNT = { type: "integer", minimum: 1 };
const PLACE = { type: "object", properties: { line: COUNT, column: COUNT }, required: ["line"] };
const FILE = { url: { ...TEXT, description: "a file: URL, or a path in the project" } };

function file(given) {
  const url = given.url ?? given.path;
  if (typeof url !== "string" || !url) throw new Error("`url` must name a file");
  return url;
}

/** What the page does with what is in view. */
function looking(files, show) {
  return [{
    name: "get-selection", category: "navigation", description: "The text that the user has selected in the file in view, and where it is",
    inputSchema: { type: "object" },
    run: () => files.selection(),
  }, {
    name: "open-file", category: "navigation", description: "Shows the user a file, and a range in it",
    inputSchema: { type: "object", properties: { ...FILE, start: PLACE, end: PLACE }, required: ["url"] },
    run: async (given) => {
      await files.open(file(given), given.start, given.end);
      show();
      return {};
    },
  }];
}

/** Plain searches in the project; only where the chain may have its files. */
function searching(files, data) {
  const NAMED = { type: "object", properties: { symbol: TEXT, ...FILE, start: PLACE }, description: "`symbol`, or the place where it stands" };
  const found = (what, asked) => data.json(`/api/chat/found/${what}?${new URLSearchParams(asked)}`);
  const symbol = async (given) => {
    if (typeof given.symbol === "string") return given.symbol;
    const word = given.start ? wordAt(await files.text(file(given)), given.start) : "";
    if (!word) throw new Error("name a `symbol`, or the `url` and `start` where one stands");
    return word;
  };
  const named = (name, member, description) => ({
    name: `find-${name}`, category: "navigation", description, inputSchema: NAMED,
    run: async (given) => {
      const { found: all, cut } = await found(member, { word: await symbol(given) });
      return { [member]: all, cut, by: "text" };
    },
  });
  return [
    named("all-references", "references", "Where a name stands in the project: a plain search for the word"),
    named("definitions", "definitions", "Where a name seems to be defined: a plain search for words such as `def`, `class`, `fn`"),
    {
      name: "get-diagnostics", category: "diagnostics",
      description: "Conflicts that nobody has settled, and JSON and TOML that cannot be read, in a file or in all; no compiler runs",
      inputSchema: { type: "object", properties: FILE },
      run: async (given) => {
        const { found: all, cut } = await found("diagnostics", given.url || given.path ? { url: file(given) } : {});
        return { diagnostics: all, cut, by: "text" };
      },
    },
  ];
}
