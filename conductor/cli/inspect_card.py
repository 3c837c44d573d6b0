"""The card of `conductor inspect`: what a component is and may do, in eight lines.

Its sentences come from the tables that the policy is enforced by. Of the component's author it has
the name, the version, the description, and names within what the component asks for, each short.
"""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from conductor.cli.inspect_lock import ALARMING
from conductor.core.policy.rules import Policy
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.errors import one_line, visible_path
from conductor.spec import policy_text
from conductor.spec.consent.question import named, quoted

if TYPE_CHECKING:
    from conductor.cli.inspect_ import Facts

Items: TypeAlias = list[tuple[str, str]]
"""What stands on a line: each in a long form, and in a short one where there is no room."""
Rows: TypeAlias = list[tuple[str, Items | list[str]]]
"""The labels of lines, and what stands there."""

_LABEL: Final = 12
"""Columns of the labels, with what stands before and behind them."""
_NARROWEST: Final = 40
_LONGEST_WORD: Final = 40
_DIGITS: Final = 16
"""Of a digest, as elsewhere."""
_MISSED: Final = 3
"""Kinds of messages that it does not see: the card names no more."""
_ALL: Final = "--all"

_NOTHING: Final = "nothing"
_NOT: Final = "NOT"
_INSIDE: Final = "no files, network, programs or environment"
_THROUGH: Final = "nothing outside it but what it gets"
_REACHING: Final = frozenset({"files", "fetch", "kv", "write"})
"""Services by which it reaches what is outside of it."""
_OUTSIDE: Final = "NO: it runs with all your rights: files, network, other programs"
_ELSEWHERE: Final = "NO: it runs elsewhere, at "
_TRUSTED: Final = "no rule limits it"
_AGENT: Final = "it is the agent"
_IDLE: Final = "does nothing without a setting"
_CLOSED: Final = "NO CHAIN STARTS WITH IT"


def lines(
    facts: Facts, width: int, *, source: str = "", signer: str = "", state: str = ""
) -> list[str]:
    """The card, no line wider than `width` but for a command that a user copies.

    Args:
        facts: The component, with what the user has agreed to.
        width: Columns of the terminal.
        source: Where it comes from, if it is about to be installed: nothing runs it yet, and what
            it asks for has as many lines as it needs, since nothing else shows it.
        signer: Who has signed it.
        state: How it compares with what was there before: `CHANGED since it was installed`.
    """
    width = max(width, _NARROWEST)
    if facts.problems:
        file: Rows = [("file", [one_line(visible_path(facts.file), 1000)])] if facts.file else []
        return [_refusal(facts, width), *_rows([*file, _identity(facts, signer, state)], width)]
    rows: Rows = [("from", [one_line(visible_path(source), 1000)])] if source else []
    rows += [
        ("sandbox", _sandbox(facts)),
        ("sees", _sees(facts)),
        ("changes", _changes(facts)),
        ("asks for", _asks(facts)),
        ("gets", _gets(facts)),
        _identity(facts, signer, state, new=bool(source)),
    ]
    run = [] if source else [f"  {'run':<{_LABEL - 2}}{one_line(_command(facts), 1000)}"]
    return [_heading(facts, width), *_rows(rows, width, whole=bool(source)), *run]


# -- lines of a bounded width ----------------------------------------------------------------------


def _rows(rows: Rows, width: int, *, whole: bool = False) -> list[str]:
    lines = []
    for label, items in rows:
        head, pairs = f"  {label:<{_LABEL - 2}}", [_pair(item) for item in items]
        text = "; ".join(long for long, _ in pairs) if whole else _fitted(pairs, width - _LABEL)
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=head,
            subsequent_indent=" " * _LABEL,
            break_on_hyphens=False,
            break_long_words=False,
        )
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


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return (
        textwrap.shorten(text, width, placeholder="…")
        if " " in text[:width]
        else (f"{text[: width - 1]}…")
    )


# -- what they say ---------------------------------------------------------------------------------


def _heading(facts: Facts, width: int) -> str:
    version = f" {one_line(facts.version, 20)}" if facts.version else ""
    name = f"{one_line(facts.name, _LONGEST_WORD)}{version}"
    if not facts.description:
        return f"{name}: {facts.kind}"
    words = one_line(facts.description, 1000).replace('"', "'")
    return f'{name}: "{_cut(words, width - len(name) - 4)}"'


def _refusal(facts: Facts, width: int) -> str:
    """Why conductor refuses it; what it says of itself is not worth reading then."""
    why = facts.problems[0].removeprefix("refused: ")
    file, _, rest = why.partition(": ")
    why = rest if os.path.basename(file) == facts.name else why
    return _cut(f"REFUSED: {one_line(facts.name, _LONGEST_WORD)}: {one_line(why, 1000)}", width)


def _sandbox(facts: Facts) -> list[str]:
    if not facts.sandboxed:
        return [_OUTSIDE if facts.address is None else _ELSEWHERE + one_line(facts.address, 1000)]
    what = "sandboxed Python" if facts.carrier == "python" else "WebAssembly"
    reaches = {each.name.partition(":")[0] for each in facts.services if each.granted}
    return [f"yes: {what}, {_THROUGH if reaches & _REACHING else _INSIDE}"]


def _sees(facts: Facts) -> list[str]:
    if facts.policy is None:
        return [f"your prompts, and what the editor shows it: {_AGENT}"]
    if not facts.policy.enforced:
        return [f"every message: {_TRUSTED}"]
    missed = facts.policy.unseen[:_MISSED]
    not_ = [f"not {_joined(missed, 'or')}"] if missed else []
    return [*(facts.policy.sees or ["no message"]), *not_]


def _changes(facts: Facts) -> list[str]:
    if facts.policy is None:
        return [f"what it answers, and what the editor lets it write: {_AGENT}"]
    if not facts.policy.enforced:
        return [f"any message: {_TRUSTED}"]
    peers = [f"may {policy_text.peers(facts.peers)}"] if facts.peers else []
    return [*peers, *facts.policy.changes] or [_NOTHING]


def _asks(facts: Facts) -> Items:
    wants = facts.wants
    return _powers(wants.profile, wants.services, wants.grants, wants.rights) or [(_NOTHING,) * 2]


def _gets(facts: Facts) -> Items:
    """What it has of what it asks for: its profile, what it lacks, what it has besides."""
    wants, policy = facts.wants, facts.policy
    has = [("all your rights on this machine",) * 2]
    if facts.sandboxed or facts.address is not None:
        has = []
    if policy is None or (not facts.sandboxed and not policy.enforced):
        return has
    lacking = None if wants.profile_granted else wants.profile
    lacks = _powers(lacking, wants.not_granted, wants.grants_not_given, wants.rights_not_granted)
    implied = f"turns={Policy(policy.profile).turns}"
    services = [each.name for each in facts.services if each.granted and facts.sandboxed]
    grants = [grant for grant in policy.grants if grant != implied]
    given = _powers(policy.profile, services, grants)
    asked = _asks(facts)
    if facts.idle:
        has.append((facts.idle.partition(": ")[0].removeprefix("it "), _IDLE))
    if lacks:
        closed = [(_CLOSED,) * 2] if policy.fails == "closed" else []
        return [*has, *closed, *given[:1], *_marked(_NOT, lacks), *given[1:]]
    if asked[0][0] == _NOTHING:
        return [*has, *given]
    more = [each for each in given if each not in asked]
    return [*has, ("all that it asks for",) * 2, *_marked("also", more)]


def _powers(
    profile: str | None,
    services: Iterable[str],
    grants: Iterable[str] = (),
    rights: Iterable[str] = (),
) -> Items:
    """A profile, services, named grants and single rights: what they let it do, and how they are
    written. What every component may do is worth no word."""
    order = list(policy_text.SERVICES)
    uses = [name for name in services if name.partition(":")[0] not in ALWAYS_GRANTED]
    uses.sort(key=lambda name: order.index(name.partition(":")[0]))
    items = [(f"profile {profile}",) * 2] if profile else []
    items += [(f"to {policy_text.service(name, named)}", quoted(name)) for name in uses]
    items += [(f"to {policy_text.grant(word, named)}", quoted(word)) for word in grants]
    return [*items, *((f"the right {quoted(rule)}", quoted(rule)) for rule in rights)]


def _marked(word: str, items: Items) -> Items:
    return [
        (f"{word} {long}".replace(f"{_NOT} to", f"may {_NOT}"), f"{word} {short}")
        for long, short in items
    ]


def _identity(facts: Facts, signer: str, state: str, *, new: bool = False) -> tuple[str, Items]:
    """What exactly it is, whether that has changed, and who vouches for it."""
    receipt = facts.receipt
    digest = facts.sha256 or (facts.lock.sha256 if facts.lock is not None else None)
    if receipt is not None:
        digest = receipt.content  # of all its files, as `list` and `update` show it
        signer = signer or str(receipt.signer or "")
    items = [f"sha256:{digest[:_DIGITS]}" if digest else "none"]
    if facts.recorded_sha256 not in (None, facts.sha256):
        items[0] += " is NOT what its manifest records"
    signed = "bundled" if facts.bundled else "not signed"
    items.append(f"signed by {one_line(signer, _LONGEST_WORD)}" if signer else signed)
    items[1:1] = [state] if state else []
    if (lock := facts.lock) is not None and (not new or lock.state in ALARMING):
        items.insert(1 if lock.state in ALARMING else len(items), lock.sentence())
    return "digest", [(item, item.partition(": ")[0]) for item in items]


def _command(facts: Facts) -> str:
    word = shlex.quote(facts.component)
    last = "" if facts.policy is None else " demo"
    return f"conductor exec {word}{last} -p hello"


def _joined(words: Sequence[str], before_last: str) -> str:
    *first, last = words
    return f"{', '.join(first)} {before_last} {last}" if first else last
