import assert from "node:assert/strict";
import { test } from "node:test";
import * as acp from "@agentclientprotocol/sdk";
import * as acp2 from "@agentclientprotocol/sdk/experimental/v2";
import { connect, Editor, Refusal, type Comment, type Hooks, type LogLine, type Panel } from "../src/index.js";

const S = { sessionId: "s1", _meta: { "conductor.component": "research" } };

/** An editor that writes down what it shows. */
function written(more: Hooks = {}): { editor: Editor; seen: string[]; files: Record<string, string>; lines: LogLine[] } {
  const seen: string[] = [];
  const lines: LogLine[] = [];
  const files: Record<string, string> = { "file:///a.rs": "fn a() {}\nfn \u{1f95a}() {}\n" };
  const editor = new Editor({
    panels: {
      show: ({ component, label, contents }: Panel) => seen.push(`${component}: ${label}: ${contents}`),
      clear: ({ id }) => seen.push(`clear ${id}`),
    },
    comments: {
      read(url) {
        if (files[url] === undefined) throw new Refusal(-32002, `no such file: ${url}`);
        return files[url];
      },
      show: ({ text, replies }: Comment) => seen.push([text, ...replies.map((each) => each.text)].join(" | ")),
      clear: ({ id }) => seen.push(`clear ${id}`),
    },
    operations: [
      { name: "get-selection", category: "navigation", description: "what is selected", inputSchema: {}, run: () => ({ text: "x" }) },
      { name: "rename", category: "refactoring", description: "renames", inputSchema: { type: "object" }, run: ({ to }) => ({ to }) },
    ],
    log: (line) => lines.push(line),
    ...more,
  });
  return { editor, seen, files, lines };
}

const refused = (code: number, words: RegExp) => (error: unknown) => {
  assert(error instanceof Refusal);
  assert.equal(error.code, code);
  assert.match(error.message, words);
  return true;
};

test("an editor says what it can, and refuses the rest", async () => {
  assert.deepEqual(new Editor({ log: () => {} }).capabilities._meta.symposium, {
    version: "1.0", html_panel: false, file_comment: false, ide_operation: false, log: true,
  });
  const bare = new Editor({});
  await assert.rejects(bare.handle("_scp/html_panel/show", { ...S, id: "p" }), refused(-32601, /no panels/));
  await assert.rejects(bare.handle("_scp/file_comment/show", { ...S, id: "p" }), refused(-32601, /no comments/));
  await assert.rejects(bare.handle("_scp/ide_operation/list", S), refused(-32601, /no operations/));
  await assert.rejects(bare.handle("_scp/other", S), refused(-32601, /_scp\/other/));
});

test("a panel is new, then changed in part, got and cleared", async () => {
  const { editor, seen } = written();
  const show = (params: object) => editor.handle("_scp/html_panel/show", { ...S, ...params });
  await assert.rejects(show({ id: "p", label: "Research" }), refused(-32602, /both/));
  await assert.rejects(show({ id: 7 }), refused(-32602, /`id`/));
  await assert.rejects(show({ id: "p", label: "Research", contents: 7 }), refused(-32602, /`contents` must be a string/));
  assert.deepEqual(await show({ id: "p", label: "Research", contents: "<p>1" }), { shown: "panel" });
  await show({ id: "q", label: "Other", contents: "<p>2" });
  await show({ id: "p", contents: "<p>3" });
  assert.deepEqual(seen, ["research: Research: <p>1", "research: Other: <p>2", "research: Research: <p>3"]);
  assert.deepEqual([...editor.panels.values()].map((panel) => panel.id), ["q", "p"]);
  assert.equal(await editor.handle("_scp/html_panel/get", { ...S, id: "p" }), "<p>3");
  assert.equal(await editor.handle("_scp/html_panel/get", { sessionId: "s2", id: "p" }), null);
  assert.deepEqual(await editor.handle("_scp/html_panel/clear", { ...S, id: "p" }), {});
  assert.equal(await editor.handle("_scp/html_panel/get", { ...S, id: "p" }), null);
});

test("what an editor cannot show is not kept", async () => {
  const { editor, files } = written({ panels: { show: () => Promise.reject(new Error("no room")), clear: () => {} } });
  await assert.rejects(editor.handle("_scp/html_panel/show", { ...S, id: "p", label: "a", contents: "b" }), /no room/);
  assert.equal(await editor.handle("_scp/html_panel/get", { ...S, id: "p" }), null);
  const lost = { ...S, id: "c", url: "file:///gone", start: { line: 1 }, can_reply: true, text: "?" };
  await assert.rejects(editor.handle("_scp/file_comment/show", lost), refused(-32002, /gone/));
  files["file:///gone"] = "x";
  assert.deepEqual(await editor.handle("_scp/file_comment/show", lost), { shown: "comment" });
});

test("what concerns one panel happens in order", async () => {
  let go = () => {};
  const slow = new Promise<void>((resolve) => { go = resolve; });
  const { editor } = written({ panels: { show: () => slow, clear: () => {} } });
  const shown = editor.handle("_scp/html_panel/show", { ...S, id: "p", label: "a", contents: "b" });
  const cleared = editor.handle("_scp/html_panel/clear", { ...S, id: "p" });
  go();
  await Promise.all([shown, cleared]);
  assert.equal(editor.panels.size, 0);
});

test("a comment has its exact range, and replies of its owner", async () => {
  const { editor, seen } = written();
  const show = (params: object) => editor.handle("_scp/file_comment/show", { ...S, id: "c", ...params });
  await assert.rejects(show({ url: "file:///a.rs", text: "why?" }), refused(-32602, /`start`/));
  await assert.rejects(show({ url: "file:///a.rs", text: "why?", start: { line: 1 }, end: { line: 0 } }), refused(-32602, /`end`/));
  await show({ url: "file:///a.rs", start: { line: 2, column: 4 }, text: "why?", can_reply: true });
  const [comment] = editor.comments.values();
  assert(comment);
  assert.deepEqual(comment.range, { start: { line: 2, column: 4 }, end: { line: 2, column: 10 } });
  await editor.handle("_scp/file_comment/reply", { ...S, id: "c", text: "an egg" });
  assert.deepEqual(await editor.handle("_scp/file_comment/get", { ...S, id: "c" }), {
    id: "c", url: "file:///a.rs", start: { line: 2, column: 4 }, can_reply: true, text: "why?",
    replies: [{ component: "research", text: "an egg" }],
  });
  await editor.handle("_scp/file_comment/clear", { ...S, id: "c" });
  assert.deepEqual(seen, ["why?", "why? | an egg", "clear c"]);
  await assert.rejects(editor.handle("_scp/file_comment/reply", { ...S, id: "c", text: "?" }), refused(-32602, /no such/));
});

test("operations are listed, described and run; lines of a log have their component", async () => {
  const { editor, lines } = written();
  const listed = await editor.handle("_scp/ide_operation/list", { ...S, category: "navigation" });
  assert.deepEqual(listed, { operations: [{ name: "get-selection", category: "navigation", description: "what is selected" }] });
  const described = await editor.handle("_scp/ide_operation/describe", { ...S, name: "rename" });
  assert.deepEqual(described, { name: "rename", category: "refactoring", description: "renames", inputSchema: { type: "object" } });
  assert.deepEqual(await editor.handle("_scp/ide_operation/run", { ...S, name: "rename", arguments: { to: "b" } }), { to: "b" });
  await assert.rejects(editor.handle("_scp/ide_operation/run", { ...S, name: "fly" }), refused(-32602, /`fly`/));
  await editor.handle("_scp/log", { ...S, level: "warn", message: "late", data: { ms: 3 } });
  assert.deepEqual(lines, [{ session: "s1", component: "research", level: "warn", message: "late", data: { ms: 3 } }]);
});

/** An agent that shows a comment and a panel in each turn, and answers one reply itself. */
function scripted(got: unknown[], gate: Promise<void>): acp.AgentApp {
  const asItIs = (params: unknown) => params as { text?: string; id?: string; name?: string };
  return acp.agent({ name: "scripted" })
    .onRequest("initialize", ({ params }) => {
      got.push(params.clientCapabilities?._meta);
      return { protocolVersion: 1, agentCapabilities: {} };
    })
    .onRequest("session/new", () => ({ sessionId: "s1" }))
    .onRequest("session/prompt", async ({ params, client }) => {
      got.push(params.prompt);
      const comment = { ...S, id: "c", url: "file:///a.rs", start: { line: 1 }, can_reply: true, text: "why?" };
      got.push(await client.request("_scp/file_comment/show", comment));
      got.push(await client.request("_scp/html_panel/show", { ...S, id: "p", label: "only this" })
        .catch((error: acp.RequestError) => [error.code, error.message]));
      await client.notify("_scp/log", { ...S, level: "debug", message: "shown" });
      await gate;
      return { stopReason: "end_turn" };
    })
    .onRequest("_scp/file_comment/reply", asItIs, ({ params }) => (
      params.text === "mine" ? {} : { prompt: [{ type: "text", text: `a.rs:1: ${params.text}` }] }))
    .onRequest("_scp/html_panel/event", asItIs, ({ params }) => ({ got: params.name }));
}

test("over a connection: a reply that nobody takes is the next prompt once the session is idle", async () => {
  const got: unknown[] = [];
  const { editor, lines } = written();
  let open = () => {};
  const gate = new Promise<void>((resolve) => { open = resolve; });
  const up = new TransformStream<acp.AnyMessage, acp.AnyMessage>();
  const down = new TransformStream<acp.AnyMessage, acp.AnyMessage>();
  const serving = scripted(got, gate).connect({ readable: down.readable, writable: up.writable });
  const connection = connect(acp.client(), { readable: up.readable, writable: down.writable }, editor);
  const { agent } = connection;
  await agent.request("initialize", { protocolVersion: 1, clientCapabilities: { ...editor.capabilities } });
  await agent.request("session/new", { cwd: "/", mcpServers: [] });
  const first = agent.request("session/prompt", { sessionId: "s1", prompt: [{ type: "text", text: "hi" }] });
  while (!lines.length) await new Promise(setImmediate);
  const [comment] = editor.comments.values();
  assert(comment);
  assert.equal(await editor.reply(comment, "mine"), undefined);
  const second = editor.reply(comment, "and now?");
  while (comment.replies.length < 2) await new Promise(setImmediate);
  const before = got.length;
  open();
  await first;
  assert.deepEqual(await second, { stopReason: "end_turn" });
  assert.deepEqual(got[before], [{ type: "text", text: "a.rs:1: and now?" }]);
  assert.deepEqual(got[3], [-32602, "a new panel needs both `label` and `contents`"]);
  const panel = { ...comment, label: "", contents: "", scripts: true } satisfies Panel;
  assert.deepEqual(await editor.closePanel(panel), { got: "close" });
  await assert.rejects(editor.reply({ ...comment, canReply: false }, "?"), refused(-32602, /may reply/));
  connection.close();
  serving.close();
});

test("in version 2 a session is idle when the agent says so", async () => {
  const { editor } = written();
  const up = new TransformStream<acp2.AnyMessage, acp2.AnyMessage>();
  const down = new TransformStream<acp2.AnyMessage, acp2.AnyMessage>();
  const connection = connect(acp2.client(), { readable: up.readable, writable: down.writable }, editor);
  const out = up.writable.getWriter();
  const sent = down.readable.getReader();
  const next = async () => (await sent.read()).value as { id: number; method: string; params: { prompt: unknown } };
  const say = (message: object) => out.write({ jsonrpc: "2.0", ...message } as acp2.AnyMessage);
  const state = (name: string) => say({
    method: "session/update", params: { sessionId: "s1", update: { sessionUpdate: "state_update", state: name, stopReason: "end_turn" } },
  });
  const prompts: Promise<unknown>[] = [];
  const ask = (text: string) => prompts.push(editor.peer!.prompt("s1", [{ type: "text", text }]).catch(() => {}));
  const opened = connection.agent.request("initialize", { protocolVersion: 2, info: { name: "t", version: "1" } } as never);
  await say({ id: (await next()).id, result: { protocolVersion: 2, capabilities: {}, info: { name: "a", version: "1" } } });
  await opened;
  ask("one");
  const one = await next();
  ask("two");
  await say({ id: one.id, result: { messageId: "m1" } });
  await prompts[0];
  const two = next();
  let isSent = false;
  void two.then(() => { isSent = true; });
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.equal(isSent, false);
  await state("idle");
  assert.deepEqual((await two).params.prompt, [{ type: "text", text: "two" }]);
  connection.close();
});
