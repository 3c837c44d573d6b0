// How long each turn took, as bars to jump by: by time of day most of a trace is waiting for people.

import { duration, el } from "./dom.js";

const MOST = 80;

/** Draws the bars of turns. */
export function histogram(turns, chosen, jump) {
  const wide = Math.max(Math.ceil(turns.length / MOST), 1);
  const groups = [];
  for (let at = 0; at < turns.length; at += wide) groups.push(turns.slice(at, at + wide));
  const height = (ms) => Math.log10(1 + (ms ?? 0));
  const most = Math.max(...groups.map((group) => Math.max(...group.map((turn) => height(turn.ms)))), 1);
  return groups.map((group) => {
    const longest = group.reduce((one, other) => ((other.ms ?? 0) > (one.ms ?? 0) ? other : one));
    const changed = group.some((turn) => (turn.shares ?? []).some((share) => share.changed));
    return el("span.mark-turn", {
      title: `turn ${longest.number}: ${duration(longest.ms)}`, onclick: () => jump(longest.number),
      "data-changed": String(changed), "data-refused": String(group.some((turn) => turn.verdicts)),
      "data-chosen": String(group.some((turn) => turn.number === chosen)),
      style: { height: `${Math.max(height(longest.ms) / most * 100, 10)}%` },
    });
  });
}
