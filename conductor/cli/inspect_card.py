"""The card of `conductor inspect`: the identity and rights of a component, in few lines.

Its sentences come from the tables by which the policy is enforced. From the component's author it
has the name, the version, the description, and names within the rights asked for, each short.
"""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from conductor.cli import pages
from conductor.cli.inspect_lock import ALARMING, Locked
from conductor.core.policy import words
from conductor.errors import one_line, visible_path
from conductor.spec import policy_text
from conductor.spec.consent.question import named, quoted

if TYPE_CHECKING:
    from conductor.cli.inspect_ import Facts

Items: TypeAlias = list[tuple[str, str]]
"""The items of a line: each in a long form, and in a short form for narrow lines."""
Rows: TypeAlias = list[tuple[str, Items | list[str]]]
"""The labels of lines, with their items."""

_LABEL: Final = 12
"""The columns of the labels, with the blanks before and behind them."""
_NARROWEST: Final = 40
_LONGEST_WORD: Final = 40
_DIGITS: Final = 16
"""Of a digest, as elsewhere."""
_SHORT: Final = len("sha256:") + _DIGITS
_ALL: Final = "--all"
_WRAPPED: Final = ("sees", "may", "tools")
"""The lines about harm to a person: they are wrapped, since a cut would hide it."""
_TALLEST: Final = 8

_NOTHING: Final = "nothing"
_NOT: Final = "NOT"
_INSIDE: Final = "no files, network, programs or environment"
_THROUGH: Final = "nothing outside the sandbox except by its rights"
_REACHING: Final = frozenset({"read", "web", "storage", "write"})
"""Verbs of rights by which a component reaches files, hosts or stores."""
_OUTSIDE: Final = "NO: it runs with all your rights: files, network, other programs"
_ELSEWHERE: Final = "NO: it runs elsewhere, at "
_TRUSTED: Final = "no rule limits it"
_AGENT: Final = "it is the agent"
_LOCKED: Final = {
    Locked(state="not in it").sentence(): "not locked",
    Locked(state="as locked").sentence(): "as locked",
}
"""Sentences about a lock file, in short."""
_CLOSED: Final = "NO CHAIN STARTS WITH IT"


def lines(
    facts: Facts, width: int, *, source: str = "", signer: str = "", state: str = ""
) -> list[str]:
    """The card, no line wider than `width` but for a command that a user copies.

    Args:
        facts: The component, with the rights that the user has agreed to.
        width: Columns of the terminal.
        source: Its source, if it is about to be installed: nothing runs it yet, and its wish has
            as many lines as it needs, since no other page shows the wish.
        signer: Who has signed it.
        state: The comparison with the former version: `CHANGED since it was installed`.
    """
    width = max(width, _NARROWEST)
    if facts.problems:
        file: Rows = [("file", [one_line(visible_path(facts.file), 1000)])] if facts.file else []
        return [_refusal(facts, width), *_rows([*file, _identity(facts, signer, state)], width)]
    rows: Rows = [("from", [one_line(visible_path(source), 1000)])] if source else []
    rows += [
        ("sandbox", _sandbox(facts)),
        ("sees", _sees(facts)),
        ("may", _may(facts)),
        ("asks for", _asks(facts)),
        ("gets", _gets(facts)),
        *([("tools", [*facts.tools])] if facts.tools else []),
        _identity(facts, signer, state, new=bool(source)),
    ]
    run = [] if source else [f"  {'run':<{_LABEL - 2}}{one_line(_command(facts), 1000)}"]
    end = [] if facts.policy is None else [f"  {policy_text.THROUGH}"]
    return [_heading(facts, width), *_rows(rows, width, whole=bool(source)), *end, *run]


# -- lines of a bounded width ----------------------------------------------------------------------


def _rows(rows: Rows, width: int, *, whole: bool = False) -> list[str]:
    lines = []
    for label, items in rows:
        head, pairs = f"  {label:<{_LABEL - 2}}", [_pair(item) for item in items]
        if whole:
            text = "; ".join(long for long, _ in pairs)
        elif label in _WRAPPED:
            text = _spread([long for long, _ in pairs], width - _LABEL)
        else:
            text = _fitted(pairs, width - _LABEL)
        lines += pages.hanging(head, text, width)
    return lines


def _pair(item: str | tuple[str, str]) -> tuple[str, str]:
    return (item, item) if isinstance(item, str) else item


def _fitted(pairs: Items, width: int) -> str:
    """The items, as many as fit on a line, and how many there are besides. If all fit in their
    short form, the first have their long form, as far as there is room."""
    texts = [short for _, short in pairs]
    if len("; ".join(texts)) <= width:
        for at, (long, _) in enumerate(pairs):
            longer = [*texts[:at], long, *texts[at + 1 :]]
            texts = longer if len("; ".join(longer)) <= width else texts
        return "; ".join(texts)
    for shown in range(len(pairs) - 1, 0, -1):
        left = len(pairs) - shown
        text = f"{'; '.join(texts[:shown])}; and {left} more: {_ALL}"
        if len(text) <= width:
            return text
    return _cut(texts[0], width)


def _spread(texts: list[str], width: int) -> str:
    """The items, as many as fit on `_TALLEST` lines, and how many there are besides."""
    for shown in range(len(texts), 0, -1):
        left = len(texts) - shown
        more = f"; and {left} more: {_ALL}" if left else ""
        text = "; ".join(texts[:shown]) + more
        if len(textwrap.wrap(text, width)) <= _TALLEST:
            return text
    return _cut(texts[0], (_TALLEST - 1) * width)


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return (
        textwrap.shorten(text, width, placeholder="…")
        if " " in text[:width]
        else (f"{text[: width - 1]}…")
    )


# -- the texts of the lines ------------------------------------------------------------------------


def _heading(facts: Facts, width: int) -> str:
    version = f" {one_line(facts.version, 20)}" if facts.version else ""
    name = f"{one_line(facts.name, _LONGEST_WORD)}{version}"
    if not facts.description:
        return f"{name}: {facts.kind}"
    words = one_line(facts.description, 1000).replace('"', "'")
    return f'{name}: "{_cut(words, width - len(name) - 4)}"'


def _refusal(facts: Facts, width: int) -> str:
    """Why conductor refuses it; its own words are not worth reading then."""
    why = facts.problems[0].removeprefix("refused: ")
    file, _, rest = why.partition(": ")
    why = rest if os.path.basename(file) == facts.name else why
    return _cut(f"REFUSED: {one_line(facts.name, _LONGEST_WORD)}: {one_line(why, 1000)}", width)


def _sandbox(facts: Facts) -> list[str]:
    if not facts.sandboxed:
        return [_OUTSIDE if facts.address is None else _ELSEWHERE + one_line(facts.address, 1000)]
    what = "sandboxed Python" if facts.carrier == "python" else "WebAssembly"
    held = facts.policy.rights if facts.policy is not None else ()
    reaches = {name.partition(":")[0] for name in words.services(held)}
    return [f"yes: {what}, {_THROUGH if reaches & _REACHING else _INSIDE}"]


def _sees(facts: Facts) -> list[str]:
    if facts.policy is None:
        return [f"your prompts, and all that the editor shows: {_AGENT}"]
    if not facts.policy.enforced:
        return [f"every message: {_TRUSTED}"]
    return facts.policy.sees or ["no message"]


def _may(facts: Facts) -> list[str]:
    if facts.policy is None:
        return [f"answer you, and write all that the editor allows: {_AGENT}"]
    trusted = [] if facts.policy.enforced else [f"do anything to the conversation: {_TRUSTED}"]
    return [*trusted, *facts.policy.may] or [_NOTHING]


def _asks(facts: Facts) -> Items:
    return _powers(facts.wants.rights or ()) or [(_NOTHING,) * 2]


def _gets(facts: Facts) -> Items:
    """The rights that it lacks of its wish, and those that it has besides."""
    policy = facts.policy
    has = [("all your rights on this machine",) * 2]
    if facts.sandboxed or facts.address is not None:
        has = []
    if policy is None:
        return has
    if policy.enforce in _WATCHED:
        has.append((_WATCHED[policy.enforce],) * 2)
    if not facts.sandboxed and not policy.enforced:
        return has
    if facts.idle:
        said = facts.idle.partition(": ")[0].removeprefix("it ")
        has.append((said, said.replace("the setting ", "")))
    given, lacks = _powers(policy.rights), _powers(facts.wants.lacking)
    if lacks:
        closed = [(_CLOSED,) * 2] if policy.fails == "closed" else []
        return [*has, *closed, *_marked(_NOT, lacks), *given]
    asked = _asks(facts)
    if asked[0][0] == _NOTHING:
        return [*has, *given]
    more = [each for each in given if each not in asked]
    return [*has, ("all that it asks for",) * 2, *_marked("also", more)]


_WATCHED: Final = {
    "watch": "ONLY WATCHED: none of its changes, answers and messages takes effect",
    "watch-rights": "ITS RIGHTS ARE ONLY WATCHED: acts that they forbid take effect",
}


def _powers(rights: Iterable[str]) -> Items:
    """Rights: the effect of each, with its word, and the word alone."""
    return [(f"{quoted(name)}, to {policy_text.says(name, named)}", quoted(name))
            for name in rights]  # fmt: skip


def _marked(word: str, items: Items) -> Items:
    return [
        (f"{word} {long}".replace(f"{_NOT} to", f"may {_NOT}"), f"{word} {short}")
        for long, short in items
    ]


def _identity(facts: Facts, signer: str, state: str, *, new: bool = False) -> tuple[str, Items]:
    """Its digest, whether the digest has changed, and who vouches for it."""
    receipt = facts.receipt
    digest = facts.sha256 or (facts.lock.sha256 if facts.lock is not None else None)
    of = os.path.basename(facts.file) if facts.file and facts.sha256 else ""
    if receipt is not None:
        digest, of = receipt.content, "all its files"  # as `list` and `update` show it
        signer = signer or str(receipt.signer or "")
    items = [f"sha256:{digest[:_DIGITS]}" if digest else "none"]
    if facts.recorded_sha256 not in (None, facts.sha256):
        items[0] += " is NOT the digest in its manifest"
    signed = "bundled" if facts.bundled else "not signed"
    items.append(f"signed by {one_line(signer, _LONGEST_WORD)}" if signer else signed)
    items[1:1] = [state] if state else []
    if (lock := facts.lock) is not None and (not new or lock.state in ALARMING):
        items.insert(1 if lock.state in ALARMING else len(items), lock.sentence())
    pairs = [(item, _LOCKED.get(item, item.partition(": ")[0])) for item in items]
    if digest and of:
        # A package, a file of it and its archive have a digest each.
        shown = f" of {one_line(visible_path(of), _LONGEST_WORD)}"
        short = items[0]
        pairs[0] = (short[:_SHORT] + shown + short[_SHORT:], short)
    return "digest", pairs


def _command(facts: Facts) -> str:
    word = shlex.quote(facts.component)
    last = "" if facts.policy is None else " demo"
    return f"conductor exec {word}{last} -p hello"
