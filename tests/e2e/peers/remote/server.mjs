// An agent on the official TypeScript SDK, behind the SDK's own server for HTTP and WebSocket.
// Writes its address on one line. It says what scenario.py expects.
import { createServer } from "node:http";
import * as acp from "@agentclientprotocol/sdk";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

const words = JSON.parse(process.argv[2]);

const say = (client, sessionId, sessionUpdate, text) =>
  client.notify(acp.methods.client.session.update, {
    sessionId,
    update: { sessionUpdate, content: { type: "text", text } },
  });

async function prompt({ client, params: { sessionId } }) {
  const chunk = "agent_message_chunk";
  for (const text of words.before) await say(client, sessionId, chunk, text);
  const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId: "call-1", title: "Löschen" },
    options: [{ optionId: words.option, name: "Ja", kind: "allow_once" }],
  });
  for (const text of words.after) await say(client, sessionId, chunk, text);
  await say(client, sessionId, chunk, outcome.optionId ?? outcome.outcome);
  return { stopReason: "end_turn" };
}

async function load({ client, params: { sessionId } }) {
  for (const [kind, text] of words.replayed) await say(client, sessionId, kind, text);
  return {};
}

const createAgent = () =>
  acp
    .agent({ name: "typescript-sdk-server" })
    .onRequest(acp.methods.agent.initialize, () => ({
      protocolVersion: acp.PROTOCOL_VERSION,
      agentCapabilities: { loadSession: true },
    }))
    .onRequest(acp.methods.agent.session.new, () => ({ sessionId: words.fresh }))
    .onRequest(acp.methods.agent.session.load, load)
    .onRequest(acp.methods.agent.session.prompt, prompt);

const server = new AcpServer({ createAgent });
const sockets = new WebSocketServer({ noServer: true });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, sockets));
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/acp`));
