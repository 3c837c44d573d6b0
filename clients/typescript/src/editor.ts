// What components show in an editor, and what they ask of it. Knows nothing of a connection: `index.ts` ties it to
// one, and the page of `conductor chat` ties it to its server.

import { isPlace, resolve, type Place, type Range } from "./ranges.js";

const INVALID = -32602;
const UNKNOWN = -32601;

/** A request that is refused; `code` is that of JSON-RPC. */
export class Refusal extends Error {
  constructor(readonly code: number, text: string) {
    super(text);
  }
}

/** HTML that a component shows. Show it where it can reach nothing: in a frame with `sandbox`. */
export interface Panel {
  readonly session: string;
  readonly id: string;
  /** The component that shows it. */
  readonly component: string;
  label: string;
  contents: string;
  /** Its HTML has scripts, which a policy has granted. */
  scripts: boolean;
  /** The person has closed it; shown again it is open. */
  closed: boolean;
}

/** What somebody has added to a comment. */
export interface Reply {
  /** A component; empty: the person. */
  component: string;
  text: string;
}

/** A comment that a component makes in a file. */
export interface Comment {
  readonly session: string;
  readonly id: string;
  readonly component: string;
  url: string;
  /** As the component named it. */
  start: Place;
  end: Place | undefined;
  /** Where exactly that is in the text of the file. */
  range: Range;
  /** Markdown. */
  text: string;
  canReply: boolean;
  replies: Reply[];
  /** The person has resolved it; shown again it is open. */
  closed: boolean;
}

/** Something that a component may ask an editor to do. */
export interface Operation {
  /** Such as `get-selection`, `find-all-references`, `find-definitions`, `get-diagnostics`, `open-file`. */
  name: string;
  category: string;
  description: string;
  /** A JSON schema of its arguments. */
  inputSchema: object;
  /** Does it. What it throws is the error of the component that asks. */
  run(given: Record<string, unknown>, session: string): unknown;
}

/** A line of a component's log. */
export interface LogLine {
  session: string;
  component: string;
  level: "error" | "warn" | "info" | "debug";
  message: string;
  data: unknown;
}

/** What an editor does; what is left out it cannot. What a function throws is the component's error. */
export interface Hooks {
  panels?: {
    /** Shows a panel, or what has changed of it, in front of the others. */
    show(panel: Panel): unknown;
    /** Its component takes it away. */
    clear(panel: Panel): unknown;
  };
  comments?: {
    /** The text of a file: comments get exact ranges by it. */
    read(url: string): string | Promise<string>;
    /** Shows a comment, or what has changed of it. */
    show(comment: Comment): unknown;
    /** Its component takes it away. */
    clear(comment: Comment): unknown;
  };
  operations?: readonly Operation[];
  log?(line: LogLine): unknown;
}

/** The other side of an editor: a connection to a chain. */
export interface Peer {
  request(method: string, params: object): Promise<unknown>;
  /** Sends a prompt of the session once no other one runs there; resolves with its answer. */
  prompt(session: string, blocks: object[]): Promise<unknown>;
}

type Params = Record<string, unknown>;

const LEVELS = ["error", "warn", "info", "debug"] as const;
const key = (session: string, id: string): string => JSON.stringify([session, id]);
const isRecord = (value: unknown): value is Params => typeof value === "object" && value !== null && !Array.isArray(value);

function word(params: Params, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw new Refusal(INVALID, `\`${name}\` must be a string`);
  return value;
}

/** As `word`; what is left out stays as it was. */
function changed<Value>(params: Params, name: string, type: "string" | "boolean", old: Value | undefined): Value | undefined {
  const value = params[name] ?? undefined;
  if (value !== undefined && typeof value !== type) throw new Refusal(INVALID, `\`${name}\` must be a ${type}`);
  return value === undefined ? old : (value as Value);
}

function about(params: Params): { session: string; component: string } {
  const meta = isRecord(params._meta) ? params._meta : {};
  const component = meta["conductor.component"];
  return {
    session: typeof params.sessionId === "string" ? params.sessionId : "",
    component: typeof component === "string" ? component : "",
  };
}

/** The panels and comments of an editor, and the requests about them. */
export class Editor {
  /** What components have shown and not cleared; the one in front is the last. */
  readonly panels = new Map<string, Panel>();
  readonly comments = new Map<string, Comment>();
  /** Where events and replies go; `connect` sets it. */
  peer: Peer | null = null;
  readonly #hooks: Hooks;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(hooks: Hooks) {
    this.#hooks = hooks;
  }

  /** What to add to the capabilities in `initialize`, in version 1 and 2 of ACP. */
  get capabilities(): { _meta: { symposium: Record<string, string | boolean> } } {
    const { panels, comments, operations, log } = this.#hooks;
    return {
      _meta: {
        symposium: {
          version: "1.0", html_panel: Boolean(panels), file_comment: Boolean(comments),
          ide_operation: Boolean(operations), log: Boolean(log),
        },
      },
    };
  }

  /** The methods that `handle` serves. */
  static readonly methods: readonly string[] = [
    ...["show", "clear", "get"].map((name) => `_scp/html_panel/${name}`),
    ...["show", "clear", "get", "reply"].map((name) => `_scp/file_comment/${name}`),
    ...["list", "describe", "run"].map((name) => `_scp/ide_operation/${name}`),
    "_scp/log",
  ];

  /** Serves a request, or a notification, of a component. Throws a `Refusal`, and what the hooks throw. */
  async handle(method: string, given: unknown): Promise<unknown> {
    const params = isRecord(given) ? given : {};
    const [, kind, act] = method.split("/");
    if (kind === "html_panel") return this.#inOrder(params, () => this.#panel(act, params));
    if (kind === "file_comment") return this.#inOrder(params, () => this.#comment(act, params));
    if (kind === "ide_operation") return this.#operation(act, params);
    if (method === "_scp/log") return this.#log(params);
    throw new Refusal(UNKNOWN, `Method not found: ${method}`);
  }

  // -- what the person does ---------------------------------------------------------------------------------------

  /** Something has happened in a panel; what its component answers. */
  panelEvent(panel: Panel, name: string, data?: unknown): Promise<unknown> {
    return this.#send("_scp/html_panel/event", panel, { name, ...(data === undefined ? {} : { data }) });
  }

  /** The person closes a panel. */
  closePanel(panel: Panel): Promise<unknown> {
    panel.closed = true;
    return this.panelEvent(panel, "close");
  }

  /** The person replies to a comment. Resolves once its component has taken that; where none does, the reply becomes
   * the next prompt of the session, and it resolves with the answer to that. */
  async reply(comment: Comment, text: string): Promise<unknown> {
    if (!comment.canReply) throw new Refusal(INVALID, "nobody may reply to this comment");
    const answer = await this.#send("_scp/file_comment/reply", comment, { text });
    comment.replies.push({ component: "", text });
    if (!isRecord(answer) || !Array.isArray(answer.prompt) || !this.peer) return undefined;
    return this.peer.prompt(comment.session, answer.prompt);
  }

  /** The person resolves a comment. */
  closeComment(comment: Comment): Promise<unknown> {
    comment.closed = true;
    return this.#send("_scp/file_comment/event", comment, { name: "close" });
  }

  #send(method: string, { session, id }: Panel | Comment, more: object): Promise<unknown> {
    if (this.peer === null) return Promise.reject(new Refusal(-32603, "the editor is not connected"));
    return this.peer.request(method, { sessionId: session, id, ...more });
  }

  // -- what components ask ----------------------------------------------------------------------------------------

  /** What concerns one panel or comment happens in the order in which it was asked. */
  async #inOrder(params: Params, act: () => Promise<unknown>): Promise<unknown> {
    const of = key(about(params).session, word(params, "id"));
    const done = (this.#last.get(of) ?? Promise.resolve()).then(act, act);
    this.#last.set(of, done);
    try {
      return await done;
    } finally {
      if (this.#last.get(of) === done) this.#last.delete(of);
    }
  }

  async #panel(act: string | undefined, params: Params): Promise<unknown> {
    const hooks = this.#hooks.panels;
    if (!hooks) throw new Refusal(UNKNOWN, "the editor shows no panels");
    const { session, component } = about(params);
    const id = word(params, "id");
    const of = key(session, id);
    const old = this.panels.get(of);
    if (act === "get") return old?.contents ?? null;
    if (act === "clear") {
      this.panels.delete(of);
      if (old) await hooks.clear(old);
      return {};
    }
    const label = changed(params, "label", "string", old?.label);
    const contents = changed(params, "contents", "string", old?.contents);
    if (label === undefined || contents === undefined) throw new Refusal(INVALID, "a new panel needs both `label` and `contents`");
    const scripts = changed(params, "scripts", "boolean", old?.scripts) ?? false;
    const panel = { session, id, component: component || (old?.component ?? ""), label, contents, scripts, closed: false };
    await hooks.show(panel);
    this.panels.delete(of);
    this.panels.set(of, panel);
    return { shown: "panel" };
  }

  async #comment(act: string | undefined, params: Params): Promise<unknown> {
    const hooks = this.#hooks.comments;
    if (!hooks) throw new Refusal(UNKNOWN, "the editor shows no comments");
    const of = key(about(params).session, word(params, "id"));
    const old = this.comments.get(of);
    if (act === "get") return old ? told(old) : null;
    if (act === "clear") {
      this.comments.delete(of);
      if (old) await hooks.clear(old);
      return {};
    }
    if (act === "reply") {
      if (!old) throw new Refusal(INVALID, "there is no such comment");
      old.replies.push({ component: about(params).component || old.component, text: word(params, "text") });
      await hooks.show(old);
      return {};
    }
    const comment = await this.#made(params, old);
    await hooks.show(comment);
    this.comments.set(of, comment);
    return { shown: "comment" };
  }

  async #made(params: Params, old: Comment | undefined): Promise<Comment> {
    const { session, component } = about(params);
    const url = changed(params, "url", "string", old?.url);
    const text = changed(params, "text", "string", old?.text);
    const start = params.start ?? old?.start;
    // A range that moves has no end of before.
    const end = params.end ?? (params.start === undefined ? old?.end : undefined);
    if (url === undefined || text === undefined) throw new Refusal(INVALID, "a new comment needs `url`, `start` and `text`");
    if (!isPlace(start)) throw new Refusal(INVALID, "`start` must be {line, column?}, counted from 1");
    if (end !== undefined && !isPlace(end)) throw new Refusal(INVALID, "`end` must be {line, column?}, counted from 1");
    const range = resolve(await this.#hooks.comments!.read(url), start, end);
    return {
      session, id: word(params, "id"), component: component || (old?.component ?? ""), url, start, end, range, text,
      canReply: changed(params, "can_reply", "boolean", old?.canReply) ?? false, replies: old?.replies ?? [], closed: false,
    };
  }

  async #operation(act: string | undefined, params: Params): Promise<unknown> {
    const all = this.#hooks.operations;
    if (!all) throw new Refusal(UNKNOWN, "the editor has no operations");
    const short = ({ name, category, description }: Operation) => ({ name, category, description });
    if (act === "list") {
      const category = changed<string>(params, "category", "string", undefined);
      return { operations: all.filter((each) => category === undefined || each.category === category).map(short) };
    }
    const name = word(params, "name");
    const found = all.find((each) => each.name === name);
    if (!found) throw new Refusal(INVALID, `the editor has no operation \`${name}\``);
    if (act === "describe") return { ...short(found), inputSchema: found.inputSchema };
    return found.run(isRecord(params.arguments) ? params.arguments : {}, about(params).session);
  }

  async #log(params: Params): Promise<unknown> {
    const level = LEVELS.find((each) => each === params.level) ?? "info";
    await this.#hooks.log?.({ ...about(params), level, message: word(params, "message"), data: params.data });
    return {};
  }
}

/** A comment as the messages have it. */
function told({ id, url, start, end, canReply, text, replies }: Comment): object {
  return { id, url, start, ...(end ? { end } : {}), can_reply: canReply, text, replies };
}
