// An agent on the official TypeScript SDK whose sessions outlast its process: the same as
// python_lasting_agent.py.
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const HOME = process.argv[2];
const open = new Set();

const said = (session) => readFileSync(join(HOME, session), "utf8").split("\n").slice(0, -1);

const say = (client, sessionId, text) =>
  client.notify(acp.methods.client.session.update, {
    sessionId,
    update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
  });

async function prompt({ params, client }) {
  const { sessionId } = params;
  if (!open.has(sessionId)) throw new acp.RequestError(-32002, "no such session");
  const { text } = params.prompt.at(-1);
  if (text === "history") {
    await say(client, sessionId, said(sessionId).join("|"));
    return { stopReason: "end_turn" };
  }
  appendFileSync(join(HOME, sessionId), `${text}\n`);
  await say(client, sessionId, text);
  if (text === "hang") await new Promise(() => {});
  return { stopReason: "end_turn" };
}

writeFileSync(join(HOME, "pid"), String(process.pid));
acp
  .agent({ name: "typescript-sdk-agent" })
  .onRequest(acp.methods.agent.initialize, ({ params }) => ({
    protocolVersion: Math.min(params.protocolVersion, acp.PROTOCOL_VERSION),
    agentInfo: { name: "typescript-sdk-agent", version: "1" },
    agentCapabilities: { loadSession: true },
  }))
  .onRequest(acp.methods.agent.session.new, () => {
    const kept = readdirSync(HOME).filter((name) => name.startsWith("lasting-"));
    const sessionId = `lasting-${kept.length + 1}`;
    writeFileSync(join(HOME, sessionId), "");
    open.add(sessionId);
    return { sessionId };
  })
  .onRequest(acp.methods.agent.session.load, async ({ params, client }) => {
    for (const text of said(params.sessionId)) await say(client, params.sessionId, text);
    open.add(params.sessionId);
    return {};
  })
  .onRequest(acp.methods.agent.session.prompt, prompt)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
