// What differs between two texts: by lines, by words.

const MOST_CELLS = 4_000_000;

/** Runs of two lists: `[[kind, items], …]` with kind `same`, `removed` or `added`. Of long lists all
 * between the first and the last difference is one run. */
export function runs(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head
    && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const old = before.slice(head, before.length - tail);
  const now = after.slice(head, after.length - tail);
  const made = [];
  const put = (kind, items) => {
    if (!items.length) return;
    if (made.at(-1)?.[0] === kind) made.at(-1)[1].push(...items);
    else made.push([kind, [...items]]);
  };
  put("same", before.slice(0, head));
  if (old.length * now.length > MOST_CELLS) {
    put("removed", old);
    put("added", now);
  } else middle(old, now, put);
  put("same", before.slice(before.length - tail));
  return made;
}

/** The longest common run of two short lists, and what lies between. */
function middle(old, now, put) {
  const wide = now.length + 1;
  const best = new Uint16Array((old.length + 1) * wide);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let k = now.length - 1; k >= 0; k--) {
      best[i * wide + k] = old[i] === now[k] ? best[(i + 1) * wide + k + 1] + 1
        : Math.max(best[(i + 1) * wide + k], best[i * wide + k + 1]);
    }
  }
  let [i, k] = [0, 0];
  while (i < old.length || k < now.length) {
    if (i < old.length && k < now.length && old[i] === now[k]) {
      put("same", [old[i++]]);
      k++;
    } else if (k >= now.length || (i < old.length && best[(i + 1) * wide + k] >= best[i * wide + k + 1])) {
      put("removed", [old[i++]]);
    } else put("added", [now[k++]]);
  }
}

const WORDS = /\[redacted(?:: [\w-]+)?\]|\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/** Runs of the words of two texts: `[[kind, text], …]`. */
export function ofWords(before, after) {
  return runs(before.match(WORDS) ?? [], after.match(WORDS) ?? []).map(([kind, words]) => [kind, words.join("")]);
}
