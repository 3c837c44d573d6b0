import assert from "node:assert/strict";
import { test } from "node:test";
import { isPlace, offsets, rangeOf, resolve, type Place } from "../src/ranges.js";

const TEXT = "one\r\nzw\u{1f95a}lf\n\nend";

function words(start: Place, end?: Place): string {
  return TEXT.slice(...offsets(TEXT, resolve(TEXT, start, end)));
}

test("the four forms of a place have exact ranges", () => {
  assert.deepEqual(resolve(TEXT, { line: 2 }), { start: { line: 2, column: 1 }, end: { line: 2, column: 6 } });
  assert.deepEqual(resolve(TEXT, { line: 2, column: 3 }), { start: { line: 2, column: 3 }, end: { line: 2, column: 6 } });
  assert.deepEqual(resolve(TEXT, { line: 1 }, { line: 2 }), { start: { line: 1, column: 1 }, end: { line: 2, column: 6 } });
  assert.deepEqual(resolve(TEXT, { line: 2, column: 3 }, { line: 2, column: 4 }), {
    start: { line: 2, column: 3 }, end: { line: 2, column: 4 },
  });
});

test("a column counts characters, not what the language counts", () => {
  assert.equal(words({ line: 2, column: 3 }, { line: 2, column: 4 }), "\u{1f95a}");
  assert.equal(words({ line: 2, column: 4 }), "lf");
  assert.equal(words({ line: 1 }, { line: 2 }), "one\r\nzw\u{1f95a}lf");
  assert.equal(words({ line: 3 }), "");
});

test("what lies behind the text is moved to its end, and no end lies before its start", () => {
  assert.deepEqual(resolve(TEXT, { line: 9 }), { start: { line: 4, column: 4 }, end: { line: 4, column: 4 } });
  assert.equal(words({ line: 4, column: 2 }, { line: 7, column: 1 }), "nd");
  assert.equal(words({ line: 1, column: 99 }), "");
  assert.equal(words({ line: 2, column: 3 }, { line: 1, column: 1 }), "");
  assert.deepEqual(resolve("", { line: 1 }), { start: { line: 1, column: 1 }, end: { line: 1, column: 1 } });
});

test("a selection and its range are the same part of the text", () => {
  for (let from = 0; from <= TEXT.length; from++) {
    for (let to = from; to <= TEXT.length; to++) {
      const inside = (at: number) => TEXT[at - 1] === "\r" || TEXT.codePointAt(at - 1)! > 0xffff;
      if (inside(from) || inside(to)) continue;
      assert.deepEqual(offsets(TEXT, rangeOf(TEXT, to, from)), [from, to]);
    }
  }
});

test("lines and columns are whole numbers from 1", () => {
  const good = [{ line: 1 }, { line: 3, column: 7 }];
  const bad = [{}, null, 3, { line: 0 }, { line: 1.5 }, { line: "1" }, { line: 1, column: 0 }, { line: 1, column: -1 }];
  assert.deepEqual(good.map(isPlace), [true, true]);
  assert.deepEqual(bad.map(isPlace), bad.map(() => false));
});
