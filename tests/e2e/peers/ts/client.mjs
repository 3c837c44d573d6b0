// Drives a conductor with the official TypeScript SDK as the client: takes a plan (plan.py)
// as JSON on argv, writes what it saw as one JSON object on stdout.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const plan = JSON.parse(process.argv[2]);
const [command, ...args] = plan.command;
const child = spawn(command, args, { cwd: plan.cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = once(child, "exit");

const frames = [];
const wire = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const writer = wire.writable.getWriter();
const stream = {
  writable: new WritableStream({
    write(message) {
      frames.push({ direction: "out", message });
      return writer.write(message);
    },
  }),
  readable: wire.readable.pipeThrough(
    new TransformStream({
      transform(message, controller) {
        frames.push({ direction: "in", message });
        controller.enqueue(message);
      },
    }),
  ),
};

async function onUpdate({ params, agent }) {
  const { update } = params;
  if (plan.cancel_on === null || update.sessionUpdate !== "agent_message_chunk") return;
  if (update.content.text?.includes(plan.cancel_on)) {
    await agent.notify(acp.methods.agent.session.cancel, { sessionId: params.sessionId });
  }
}

function onPermission({ params }) {
  const chosen = params.options.find((option) => option.kind === plan.permission);
  if (chosen === undefined) return { outcome: { outcome: "cancelled" } };
  return { outcome: { outcome: "selected", optionId: chosen.optionId } };
}

async function drive(agent) {
  const initialized = await agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: false } },
    clientInfo: { name: "typescript-sdk-client", version: "1" },
  });
  const { sessionId } = await agent.request(acp.methods.agent.session.new, {
    cwd: plan.cwd,
    mcpServers: [],
  });
  for (const text of plan.prompts) {
    const params = { sessionId, prompt: [{ type: "text", text }] };
    await agent.request(acp.methods.agent.session.prompt, params).catch((error) => {
      // Answered with an error: on the wire already, where the test reads it.
      if (!(error instanceof acp.RequestError)) throw error;
    });
  }
  return { initialized, sessionId };
}

const seen = await acp
  .client({ name: "typescript-sdk-client" })
  .onRequest(acp.methods.client.session.requestPermission, onPermission)
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => ({
    content: plan.files[params.path],
  }))
  .onNotification(acp.methods.client.session.update, onUpdate)
  // Agents announce things of their own (`_auth/status_update`); nothing to do.
  .onNotification("*", () => {})
  .connectWith(stream, drive);
// The SDK closes none of the streams it was given: the end of input is for us to send.
child.stdin.end();
const [exitCode] = await exited;
process.stdout.write(JSON.stringify({ ...seen, frames, exitCode }) + "\n");
