// Ties an `Editor` to a connection of the official SDK, in version 1 or 2 of ACP.

import { RequestError, type ClientApp, type ClientConnection, type Stream } from "@agentclientprotocol/sdk";
import type { ClientApp as ClientApp2, ClientConnection as ClientConnection2 } from "@agentclientprotocol/sdk/experimental/v2";
import { Editor, Refusal } from "./editor.js";
import { Turns } from "./turns.js";

export * from "./editor.js";
export * from "./ranges.js";

interface Serving {
  onRequest(method: string, parse: (params: unknown) => unknown, handler: (context: { params: unknown }) => unknown): unknown;
  onNotification(method: string, parse: (params: unknown) => unknown, handler: (context: { params: unknown }) => void): unknown;
  connect(stream: Stream): { agent: { request(method: string, params: object): Promise<unknown> } };
}

/** Connects a client to a chain with an editor: serves what components ask, and takes their events and replies there.
 *
 * Add `editor.capabilities` to those that the client sends in `initialize`. */
export function connect(app: ClientApp, stream: Stream, editor: Editor): ClientConnection;
export function connect(app: ClientApp2, stream: Stream, editor: Editor): ClientConnection2;
export function connect(app: ClientApp | ClientApp2, stream: Stream, editor: Editor): ClientConnection | ClientConnection2 {
  const serving = app as unknown as Serving;
  const asItIs = (params: unknown) => params;
  for (const method of Editor.methods) {
    serving.onRequest(method, asItIs, ({ params }) => editor.handle(method, params).catch(refuse));
  }
  // Nobody waits for what comes of a line of a log.
  serving.onNotification("_scp/log", asItIs, ({ params }) => void editor.handle("_scp/log", params).catch(() => {}));
  const turns = new Turns();
  const connection = serving.connect(turns.watch(stream));
  const { agent } = connection;
  editor.peer = {
    request: (method, params) => agent.request(method, params),
    prompt: (session, prompt) => turns.next(session, () => agent.request("session/prompt", { sessionId: session, prompt })),
  };
  return connection as unknown as ClientConnection | ClientConnection2;
}

function refuse(error: unknown): never {
  if (error instanceof Refusal) throw new RequestError(error.code, error.message);
  throw error;
}
