// The types of guest.js: what a proxy may use.

export type Side = "p" | "s" | "c";
export declare const CLIENT: Side;
export declare const AGENT: Side;
export declare const CONDUCTOR: Side;
/** The code of a refusal. */
export declare const REFUSED: number;

type Path = readonly string[];

/** What a handler yields to wait; the value of the `yield` is the answer. */
export interface Wait {
  readonly waits: true;
}

/** A function that decides at once, or a generator that yields what it waits for. */
export type Handler = (message: Message) => void | Generator<Wait, void, Answer>;

/** What a request came to. */
export declare class Answer {
  private constructor();
  /** The result, decoded; undefined: there is none. */
  readonly result: any;
  readonly error: { code: number; message: string; data?: unknown } | undefined;
  /** The result as it is written. */
  readonly raw: string | null;
  /** What is there in the result, as it is written; undefined: nothing. */
  rawOf(...path: Path): string | undefined;
}

/** JSON that is put into a message as it is. */
export declare class Raw {
  constructor(json: string);
  readonly json: string;
}

/** A request or notification in a handler's hands. */
export declare class Message {
  private constructor();
  readonly side: Side;
  readonly method: string;
  /** As it is written; undefined: a notification. */
  readonly id: string | undefined;
  /** Whether nobody wants the answer any more. */
  readonly cancelled: boolean;
  /** What is there in the params, decoded; undefined: nothing. */
  value(...path: Path): any;
  /** The same as it is written. */
  raw(...path: Path): string | undefined;
  /** Replaces a value in the params. False: there is none. */
  set(path: Path, value: unknown): boolean;
  /** Puts an element in front of those of an array. False: there is none. */
  prepend(path: Path, element: unknown): boolean;
  /** Puts a text in front of a prompt, or behind one that may be a command. False: there is no prompt. */
  preface(text: string): boolean;
  pass(): void;
  next(): Wait;
  answer(result: unknown): void;
  fail(code: number, message: string): void;
  drop(): void;
  ask(side: Side, method: string, params?: unknown): Wait;
  clock(): Wait;
}

export declare class Proxy {
  /** What it is called in its chain. */
  readonly name: string;
  /** The user's settings, as they are now. */
  readonly settings: Record<string, any>;
  /** What the world `proxy` of channel.wit wants exported. */
  readonly channel: { deliver(lines: string): string };
  handle(method: string, handler: Handler): void;
  update(kind: string, handler: Handler): void;
  notify(side: Side, method: string, params: unknown): void;
  log(level: "debug" | "info" | "warn" | "error", message: string): void;
}

/** A block of a prompt. */
export declare function text(said: string): { type: "text"; text: string };
