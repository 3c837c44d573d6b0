// Which sessions have a turn that runs, read off the messages that pass.

import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";

/** The turns of one connection. */
export class Turns {
  /** Prompts that are not answered, by the id of the request: their session. */
  readonly #asked = new Map<unknown, string>();
  /** Sessions in which a turn runs, and how many do. */
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #last = new Map<string, Promise<unknown>>();

  /** The same stream; what passes is looked at. */
  watch(stream: Stream): Stream {
    const out = new TransformStream<AnyMessage, AnyMessage>({
      transform: (message, on) => {
        this.#sent(message);
        on.enqueue(message);
      },
    });
    out.readable.pipeTo(stream.writable).catch(() => {});
    const into = new TransformStream<AnyMessage, AnyMessage>({
      transform: (message, on) => {
        this.#got(message);
        on.enqueue(message);
      },
    });
    return { writable: out.writable, readable: stream.readable.pipeThrough(into) };
  }

  /** Calls `send` once no turn of the session runs; calls of one session wait for each other. */
  next<Answer>(session: string, send: () => Promise<Answer>): Promise<Answer> {
    const turn = (this.#last.get(session) ?? Promise.resolve()).then(async () => {
      while (this.#running.get(session)) await new Promise<void>((resolve) => {
        this.#waiting.set(session, [...(this.#waiting.get(session) ?? []), resolve]);
      });
      return send();
    });
    this.#last.set(session, turn.catch(() => {}));
    return turn;
  }

  #sent(message: AnyMessage): void {
    const { id, method, params } = message as { id?: unknown; method?: string; params?: { sessionId?: string } };
    if (method !== "session/prompt" || id === undefined || typeof params?.sessionId !== "string") return;
    this.#asked.set(id, params.sessionId);
    this.#running.set(params.sessionId, (this.#running.get(params.sessionId) ?? 0) + 1);
  }

  #got(message: AnyMessage): void {
    const { id, method, params, result } = message as {
      id?: unknown; method?: string; result?: { stopReason?: unknown; messageId?: unknown };
      params?: { sessionId?: string; update?: { sessionUpdate?: string; state?: string } };
    };
    if (method === undefined) {
      const session = this.#asked.get(id);
      if (session === undefined) return;
      this.#asked.delete(id);
      // In version 2 an answer with a `messageId` says that the turn has begun; an update says when it is over.
      if (!(result && "messageId" in result && !result.stopReason)) this.#over(session, 1);
    } else if (method === "session/update" && params?.update?.sessionUpdate === "state_update" && typeof params.sessionId === "string") {
      if (params.update.state === "idle") this.#over(params.sessionId, Infinity);
    }
  }

  #over(session: string, turns: number): void {
    const left = Math.max((this.#running.get(session) ?? 0) - turns, 0);
    this.#running.set(session, left);
    if (left) return;
    const waiting = this.#waiting.get(session) ?? [];
    this.#waiting.delete(session);
    for (const resolve of waiting) resolve();
  }
}
