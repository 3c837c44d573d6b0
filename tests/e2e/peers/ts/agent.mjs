// An agent on the official TypeScript SDK: the same commands as python_agent.py.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const SESSION = "typescript-1";
const OPTIONS = [
  { optionId: "always", name: "Always", kind: "allow_always" },
  { optionId: "once", name: "Once", kind: "allow_once" },
  { optionId: "never", name: "No", kind: "reject_once" },
];

const cancelled = Promise.withResolvers?.() ?? deferred();

function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

const commands = {
  async count(say, argument) {
    for (let n = 0; n < Number(argument); n += 1) await say(String(n));
  },
  async permission(say, _argument, { client }) {
    const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
      sessionId: SESSION,
      toolCall: { toolCallId: "call-1", title: "Launch" },
      options: OPTIONS,
    });
    await say(outcome.outcome === "selected" ? `selected ${outcome.optionId}` : "cancelled");
  },
  async wait(say) {
    await say("waiting");
    await cancelled.promise;
    return "cancelled";
  },
  async blocks(say, _argument, { params }) {
    await say(JSON.stringify(params.prompt));
  },
  async read(say, path, { client }) {
    const params = { sessionId: SESSION, path };
    const answer = await client.request(acp.methods.client.fs.readTextFile, params);
    await say(answer.content);
  },
};

async function prompt(context) {
  const texts = context.params.prompt.filter((block) => block.type === "text");
  const [command, ...rest] = texts.at(-1).text.split(" ");
  const say = (text) =>
    context.client.notify(acp.methods.client.session.update, {
      sessionId: SESSION,
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
    });
  if (!Object.hasOwn(commands, command)) {
    throw new acp.RequestError(-32042, "no such command", { command });
  }
  return { stopReason: (await commands[command](say, rest.join(" "), context)) ?? "end_turn" };
}

acp
  .agent({ name: "typescript-sdk-agent" })
  .onRequest(acp.methods.agent.initialize, ({ params }) => ({
    protocolVersion: Math.min(params.protocolVersion, acp.PROTOCOL_VERSION),
    agentInfo: { name: "typescript-sdk-agent", version: "1" },
    agentCapabilities: {},
  }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: SESSION }))
  .onRequest(acp.methods.agent.session.prompt, prompt)
  .onNotification(acp.methods.agent.session.cancel, () => cancelled.resolve())
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
