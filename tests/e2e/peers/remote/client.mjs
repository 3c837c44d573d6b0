// The official TypeScript SDK as a client over HTTP or WebSocket: plays a scenario against an
// address and writes what came over the wire as one JSON object. Arguments: ADDRESS PLAN.
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const [address, encoded] = process.argv.slice(2);
const plan = JSON.parse(encoded);
const { agent: methods } = acp.methods;
const wire = address.startsWith("ws")
  ? createWebSocketStream(address, { WebSocket })
  : createHttpStream(address);

// Taken off the wire, where the order is what it is, and not from handlers.
let texts = [];
const answers = {};
const stream = {
  writable: wire.writable,
  readable: wire.readable.pipeThrough(
    new TransformStream({
      transform(message, controller) {
        if (message.method === "session/update") texts.push(message.params.update.content.text);
        else if (message.method === undefined) answers[message.id] = [...texts];
        controller.enqueue(message);
      },
    }),
  ),
};

async function drive(agent) {
  await agent.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION });
  const where = { cwd: "/", mcpServers: [] };
  let sessionId = plan.load;
  if (plan.load) await agent.request(methods.session.load, { sessionId, ...where });
  else ({ sessionId } = await agent.request(methods.session.new, where));
  const replayed = texts;
  texts = [];
  const prompt = [{ type: "text", text: plan.prompt }];
  const { stopReason } = await agent.request(methods.session.prompt, { sessionId, prompt });
  return { replayed, texts, stop: stopReason };
}

const seen = await acp
  .client({ name: "typescript-sdk-client" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onNotification(acp.methods.client.session.update, () => {})
  .connectWith(stream, drive)
  .catch((error) => ({ error: error.message }));
console.log(JSON.stringify(seen));
process.exit();
