"""The language that chooses events of a trace: `~component redact & ~changed | ~slow 200ms`.

One language for all views. `conductor/page/static/filter.js` reads it too; tests/record/turns/
filters.json holds the results that both must have.

    or     = and ("|" and)*
    and    = not ("&"? not)*
    not    = "!" not | "(" or ")" | term
    term   = "~" NAME [VALUE] | WORD | STRING
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from conductor.errors import UsageError, a, did_you_mean, one_line
from conductor.record.turns.model import Change, Row

Body = Callable[[int], str]
"""The text of an event, by its number: it is read only where a filter asks for it."""
Matches = Callable[[Row, Body], bool]

_LONGEST: Final = 1_000
_DEEPEST: Final = 50
# A word may end in a number in parentheses, as `Proxy(0)`, a name in traces of the reference.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<sign>[()&|!])|~(?P<term>[A-Za-z_]*)|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<word>[^\s()&|!"]+(?:\([0-9]+\))?))"""
)
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)?")
_UNITS: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, None: 1.0}
_ESCAPE: Final = re.compile(r"\\(.)")


class Filter(NamedTuple):
    """Chooses events."""

    text: str
    matches: Matches
    """Whether it chooses an event."""


class Term(NamedTuple):
    """A term of the language."""

    value: str
    """The word for the term's value, as shown in help; empty: the term has no value."""
    what: str
    make: Callable[[str], Matches]
    """Takes the value. Raises `ValueError`."""


def _name(get: Callable[[Row], tuple[str, ...]]) -> Callable[[str], Matches]:
    """A term whose value is a name, or a pattern with `*`."""

    def make(value: str) -> Matches:
        pattern = value.lower().replace("[", "[[]").replace("?", "[?]")
        return lambda row, body: any(fnmatchcase(name.lower(), pattern) for name in get(row))

    return make


def _test(test: Callable[[Row], bool]) -> Callable[[str], Matches]:
    return lambda value: lambda row, body: test(row)


def _slow(value: str) -> Matches:
    found = _TIME.fullmatch(value)
    if found is None:
        raise ValueError("a time is written like `200ms` or `1.5s`")
    least = float(found[1]) * _UNITS[found[2]]
    return lambda row, body: max(row.ms, row.ms_in) >= least


def _turn(value: str) -> Matches:
    if not value.isascii() or not value.isdigit():
        raise ValueError("a turn is a number")
    number = int(value)
    return lambda row, body: row.turn == number


def _text(value: str) -> Matches:
    # In a line, which is JSON, words may be spelled with escapes.
    spelled = {value, *(json.dumps(value, ensure_ascii=ascii_)[1:-1] for ascii_ in (False, True))}
    wanted = [each.lower() for each in spelled]

    def matches(row: Row, body: Body) -> bool:
        text = body(row.n).lower()
        return any(each in text for each in wanted)

    return matches


_CHANGED: Final = {
    *(Change.CHANGED, Change.ANSWERED, Change.ORIGINATED, Change.DROPPED),
    *("reordered", "rebound"),  # of an audit
}

TERMS: Final = {
    "method": Term("METHOD", "has this method; a response has the method of its request", _name(
        lambda row: (row.method,))),
    "component": Term("NAME",
        "sent or received by this component, or refused to this component", _name(
        lambda row: (row.source, row.target))),
    "from": Term("NAME", "sent by this component", _name(lambda row: (row.source,))),
    "to": Term("NAME", "received by this component", _name(lambda row: (row.target,))),
    "session": Term("ID", "of this session", _name(lambda row: (row.session,))),
    "type": Term("TYPE", "`request`, `response`, `notification`, `verdict`, `would` or `notice`; "
        "of an audit also `effect`", _name(lambda row: (row.kind,))),
    "change": Term("CHANGE", "`changed`, `answered`, `originated` or `dropped` by a component; of "
        "an audit also `reordered` or `rebound`", _name(lambda row: (row.change,))),
    "turn": Term("NUMBER", "of this turn", _turn),
    "slow": Term("TIME", "answered or passed on after this time or later", _slow),
    "text": Term("WORDS", "holds these words", _text),
    "changed": Term("", "changed, answered or made by a component", _test(
        lambda row: row.change in _CHANGED)),
    "refused": Term("", "refused by conductor", _test(lambda row: row.kind == "verdict")),
    "would": Term("",
        "only watched: conductor would have refused the act, or the component would have changed a "
        "message", _test(
        lambda row: row.kind == "would")),
    "mcp": Term("", "a message of MCP", _test(lambda row: row.protocol == "mcp")),
    "error": Term("", "an error", _test(
        lambda row: row.kind == "response" and bool(row.error))),
}  # fmt: skip

TOGETHER: Final = (
    ("`A & B`, `A B`", "both"),
    ("`A | B`", "one of the two, or both; `&` binds closer"),
    ("`!A`", "not A"),
    ("`(A | B) & C`", "parentheses, as in arithmetic"),
    ('`hello`, `"two words"`', "holds these words, as `~text` does"),
    (
        "`session/*`",
        "in a METHOD, NAME, ID, TYPE or CHANGE, `*` stands for anything; case does not count",
    ),
    ("`200ms`, `1.5s`, `2m`", "a TIME; a bare number is milliseconds"),
)
"""How terms are put together, in Markdown: docs/reference.md has the same table."""


def parse(text: str) -> Filter:
    """Reads a filter; an empty text chooses everything. Raises `UsageError`."""
    if len(text) > _LONGEST:
        raise UsageError(f"a filter has at most {_LONGEST} characters", "write a shorter one")
    return Filter(text, _Parser(text).whole())


class _Token(NamedTuple):
    kind: str
    """`sign`, `term`, `word` (also a word in quotes) or `end`."""
    text: str
    at: int


class _Parser:
    """Reads one filter by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._read()
        self._place = 0
        self._depth = 0

    def _read(self) -> list[_Token]:
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong("a quote is open", text.index('"', at))
            kind = found.lastgroup or ""
            word = found[kind]
            if kind == "quoted":
                kind, word = "word", _ESCAPE.sub(r"\1", word)
            tokens.append(_Token(kind, word, found.start(found.lastgroup or 0)))
            at = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _wrong(self, why: str, at: int, hint: str = "") -> UsageError:
        where = f"at character {at + 1} of the filter `{one_line(self._text)}`"
        return UsageError(f"{why}, {where}", hint or "`conductor help filters` has the language")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, sign: str) -> bool:
        if self._next.kind == "sign" and self._next.text == sign:
            self._place += 1
            return True
        return False

    def whole(self) -> Matches:
        """The whole filter."""
        if self._next.kind == "end":
            return lambda row, body: True
        found = self._or()
        if self._next.kind != "end":
            raise self._wrong(f"`{self._next.text}` has nothing to close", self._next.at)
        return found

    def _or(self) -> Matches:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("too many parentheses", self._next.at)
        choices = [self._and()]
        while self._take("|"):
            choices.append(self._and())
        self._depth -= 1
        if len(choices) == 1:
            return choices[0]
        return lambda row, body: any(one(row, body) for one in choices)

    def _and(self) -> Matches:
        parts = [self._not()]
        while self._take("&") or self._begins():
            parts.append(self._not())
        if len(parts) == 1:
            return parts[0]
        return lambda row, body: all(one(row, body) for one in parts)

    def _begins(self) -> bool:
        token = self._next
        return token.kind in ("term", "word") or (token.kind == "sign" and token.text in "(!")

    def _not(self) -> Matches:
        negated = False
        while self._take("!"):
            negated = not negated
        token = self._next
        if self._take("("):
            found = self._or()
            if not self._take(")"):
                raise self._wrong("a `)` is missing", self._next.at)
        elif token.kind == "word":
            self._place += 1
            found = _text(token.text)
        elif token.kind == "term":
            self._place += 1
            found = self._term(token)
        else:
            raise self._wrong("a term is missing", token.at)
        if not negated:
            return found
        return lambda row, body: not found(row, body)

    def _term(self, token: _Token) -> Matches:
        term = TERMS.get(token.text)
        if term is None:
            known = ", ".join(f"~{name}" for name in TERMS)
            hint = did_you_mean(token.text, TERMS, f"terms are: {known}", prefix="~")
            raise self._wrong(f"there is no term `~{token.text}`", token.at - 1, hint)
        value = ""
        if term.value:
            if self._next.kind != "word":
                why = f"`~{token.text}` needs {a(term.value)} behind it"
                raise self._wrong(why, self._next.at)
            value = self._next.text
            self._place += 1
        try:
            return term.make(value)
        except ValueError as error:
            raise self._wrong(str(error), self._tokens[self._place - 1].at) from None
