// Where something stands in a text. Lines and columns count from 1, and a column counts characters (code points),
// as the messages of an editor have it.

/** A place in a text as a message names it. */
export interface Place {
  line: number;
  /** Left out: the first column of the line, or behind its last one where a range ends. */
  column?: number;
}

/** A place in a text. */
export interface Position {
  line: number;
  column: number;
}

/** A part of a text. The end is behind its last character. */
export interface Range {
  start: Position;
  end: Position;
}

/** The lines of a text: where each begins, and where it ends without its line end, as `slice` counts. */
function lines(text: string): [number, number][] {
  const found: [number, number][] = [];
  let from = 0;
  for (const { index, 0: end } of text.matchAll(/\r\n|\n|\r/g)) {
    found.push([from, index]);
    from = index + end.length;
  }
  found.push([from, text.length]);
  return found;
}

const characters = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/** Whether a value of a message is a place. */
export function isPlace(value: unknown): value is Place {
  const counts = (number: unknown) => Number.isSafeInteger(number) && (number as number) >= 1;
  const { line, column } = (value ?? {}) as Partial<Record<keyof Place, unknown>>;
  return counts(line) && (column === undefined || column === null || counts(column));
}

/** The exact range that a message means.
 *
 * Without an end it is the rest of the line that it begins in. What lies behind the end of the text, or of a line,
 * is moved there: the text may have become shorter since. An end before its start is moved to the start. */
export function resolve(text: string, start: Place, end?: Place | null): Range {
  const all = lines(text);
  const place = ({ line, column }: Place, missing: "first" | "last"): Position => {
    if (line > all.length) return { line: all.length, column: characters(text.slice(...all.at(-1)!)) + 1 };
    const behind = characters(text.slice(...all[line - 1]!)) + 1;
    return { line, column: Math.min(column ?? (missing === "first" ? 1 : behind), behind) };
  };
  const from = place(start, "first");
  const to = place(end ?? { line: start.line }, "last");
  return { start: from, end: to.line < from.line || (to.line === from.line && to.column < from.column) ? from : to };
}

/** Where a range begins and ends in a text, as `slice` counts (UTF-16). */
export function offsets(text: string, range: Range): [number, number] {
  const all = lines(text);
  const offset = ({ line, column }: Position): number => {
    const [from, end] = all[Math.min(line, all.length) - 1]!;
    let at = from;
    for (let left = column - 1; left > 0 && at < end; left--) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
    return at;
  };
  return [offset(range.start), offset(range.end)];
}

/** The range between two offsets of a text, as `slice` counts: what an editor's selection is. */
export function rangeOf(text: string, from: number, to: number): Range {
  const all = lines(text);
  const position = (offset: number): Position => {
    const found = all.findLastIndex(([begin]) => begin <= offset);
    const [begin, end] = all[Math.max(found, 0)]!;
    return { line: Math.max(found, 0) + 1, column: characters(text.slice(begin, Math.min(offset, end))) + 1 };
  };
  return { start: position(Math.min(from, to)), end: position(Math.max(from, to)) };
}
