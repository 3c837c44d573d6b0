// The language that chooses events, as conductor/record/turns/filter.py reads it. What both must
// make of it stands in tests/record/turns/filters.json.

import { field } from "./rows.js";

const CHANGED = new Set(["changed", "answered", "originated", "dropped"]);
const TOKEN = /\s*(?:([()&|!])|~([A-Za-z_]*)|"((?:[^"\\]|\\.)*)"|([^\s()&|!"]+(?:\([0-9]+\))?))/y;
const UNITS = { ms: 1, s: 1000, m: 60000 };

const pattern = (value) => new RegExp(
  `^${value.replace(/[.+^${}()|[\]\\?]/g, "\\$&").replaceAll("*", "[^]*")}$`, "i");
const name = (...fields) => (value) => {
  const wanted = pattern(value);
  return (row) => fields.some((each) => wanted.test(row[each]));
};
const test = (check) => () => check;

const TERMS = {
  method: ["METHOD", name(field.method)],
  component: ["NAME", name(field.source, field.target)],
  from: ["NAME", name(field.source)],
  to: ["NAME", name(field.target)],
  session: ["ID", name(field.session)],
  type: ["TYPE", name(field.kind)],
  change: ["CHANGE", name(field.change)],
  turn: ["NUMBER", (value) => {
    if (!/^[0-9]+$/.test(value)) throw new Error("a turn is a number");
    return (row) => row[field.turn] === Number(value);
  }],
  slow: ["TIME", (value) => {
    const found = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m)?$/.exec(value);
    if (found === null) throw new Error("a time is written like `200ms` or `1.5s`");
    const least = Number(found[1]) * UNITS[found[2] ?? "ms"];
    return (row) => Math.max(row[field.ms], row[field.ms_in]) >= least;
  }],
  text: ["WORDS", (value) => words(value)],
  changed: ["", test((row) => CHANGED.has(row[field.change]))],
  refused: ["", test((row) => row[field.kind] === "verdict")],
  would: ["", test((row) => row[field.kind] === "would")],
  mcp: ["", test((row) => row[field.protocol] === "mcp")],
  error: ["", test((row) => row[field.kind] === "response" && row[field.error] !== "")],
};

/** The names of the terms, for help. */
export const NAMES = Object.entries(TERMS).map(([term, [value]]) => `~${term} ${value}`.trim());

/** How words may be spelled in a line, which is JSON. */
function spelled(value) {
  const escaped = JSON.stringify(value).slice(1, -1);
  const ascii = escaped.replace(/[\u007f-\uffff]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [...new Set([value, escaped, ascii])];
}

function words(value) {
  const all = spelled(value);
  return (row, found) => all.some((each) => found(each, row[field.n]));
}

/** Reads a filter. Throws an `Error` with a text for people.
 * @returns {{texts: string[], matches: (row: any[], found: (text: string, n: number) => boolean) => boolean}}
 *   `texts`: the words whose events must be found before. */
export function parse(text) {
  if (text.length > 1000) throw new Error("a filter has at most 1000 characters");
  const tokens = read(text);
  const texts = [];
  let place = 0;
  let depth = 0;
  const wrong = (why, at) => new Error(`${why}, at character ${at + 1}`);
  const next = () => tokens[place];
  const take = (sign) => next().kind === "sign" && next().text === sign && ++place > 0;
  const begins = () => ["term", "word"].includes(next().kind)
    || (next().kind === "sign" && "(!".includes(next().text));

  function or() {
    if (++depth > 50) throw wrong("too many parentheses", next().at);
    const choices = [and()];
    while (take("|")) choices.push(and());
    depth--;
    return choices.length === 1 ? choices[0] : (row, found) => choices.some((one) => one(row, found));
  }
  function and() {
    const parts = [not()];
    while (take("&") || begins()) parts.push(not());
    return parts.length === 1 ? parts[0] : (row, found) => parts.every((one) => one(row, found));
  }
  function not() {
    let negated = false;
    while (take("!")) negated = !negated;
    const token = next();
    let made;
    if (take("(")) {
      made = or();
      if (!take(")")) throw wrong("a `)` is missing", next().at);
    } else if (token.kind === "word") {
      place++;
      texts.push(...spelled(token.text));
      made = words(token.text);
    } else if (token.kind === "term") {
      place++;
      made = term(token);
    } else throw wrong("a term is missing", token.at);
    return negated ? (row, found) => !made(row, found) : made;
  }
  function term(token) {
    const known = Object.hasOwn(TERMS, token.text) ? TERMS[token.text] : null;
    if (known === null) throw wrong(`there is no term \`~${token.text}\``, token.at - 1);
    let value = "";
    if (known[0]) {
      if (next().kind !== "word") throw wrong(`\`~${token.text}\` needs a ${known[0]} behind it`, next().at);
      value = tokens[place++].text;
      if (token.text === "text") texts.push(...spelled(value));
    }
    try {
      return known[1](value);
    } catch (error) {
      throw wrong(error.message, tokens[place - 1].at);
    }
  }

  if (next().kind === "end") return { texts, matches: () => true };
  const whole = or();
  if (next().kind !== "end") throw wrong(`\`${next().text}\` has nothing to close`, next().at);
  return { texts, matches: whole };
}

function read(text) {
  const tokens = [];
  const whole = text.trimEnd();
  let at = 0;
  while (at < whole.length) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(whole);
    if (found === null) throw new Error(`a quote is open, at character ${whole.indexOf('"', at) + 1}`);
    const [, sign, term, quoted, word] = found;
    const end = TOKEN.lastIndex;
    if (sign !== undefined) tokens.push({ kind: "sign", text: sign, at: end - 1 });
    else if (term !== undefined) tokens.push({ kind: "term", text: term, at: end - term.length });
    else if (quoted !== undefined) {
      tokens.push({ kind: "word", text: quoted.replace(/\\(.)/g, "$1"), at: end - quoted.length - 1 });
    } else tokens.push({ kind: "word", text: word, at: end - word.length });
    at = end;
  }
  tokens.push({ kind: "end", text: "", at: whole.length });
  return tokens;
}
