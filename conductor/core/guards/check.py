"""The three acts of an untrusted component, each checked against the table of guards.

Nothing here raises, whatever the bytes; nothing remembers anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec import UnsetType

from conductor.core.guards import metas, names, plain_text
from conductor.core.guards.reading import MOST_JUDGED, Document, Params, Unreadable, read
from conductor.core.guards.rules import (
    EVERY,
    OTHERS,
    Attempt,
    Context,
    Rule,
    Violation,
)
from conductor.core.guards.table import GUARDS
from conductor.core.guards.updates import key_of
from conductor.core.policy.key_table import PROMPT, UPDATE

_LONGEST_POINTER: Final = 500

_Route: TypeAlias = Literal["forwarded", "originated", "answered", "denied"]
_Checks: TypeAlias = tuple[tuple[str, Rule], ...]
"""Rules with the names of their guards."""


# From the longest to the shortest: a method falls under the longest prefix that it has.
_PATTERNS: Final = sorted(
    {method for guard in GUARDS for rules in guard.rules for method in rules.methods}
    - {*EVERY, *OTHERS},
    key=len,
    reverse=True,
)
_PREFIXES: Final = tuple(name[:-1] for name in _PATTERNS if name.endswith("*"))
# A method that is written like a pattern is none of those that the pattern is about.
_METHODS: Final = frozenset(name for name in _PATTERNS if name[-1] not in "*]")


@cache
def _checks(route: _Route, pattern: str) -> _Checks:
    """The rules for the methods of one pattern of the table, in the order of the table.

    A method that no row opens is closed: without a rule of its own, it gets those of `OTHERS`.
    """
    wanted = {pattern, pattern.partition("[")[0]}
    rows: list[tuple[str, tuple[str, ...], Rule]] = [
        (guard.name, rules.methods, rule)
        for guard in GUARDS
        for rules in guard.rules
        if (rule := getattr(rules, route)) is not None
    ]
    opened = any(pattern in methods for _, methods, _ in rows)
    wanted |= {*EVERY} if opened else {*EVERY, *OTHERS}
    return tuple((name, rule) for name, methods, rule in rows if not wanted.isdisjoint(methods))


_PLAINLY: Final = plain_text.ANSWERED.issuperset(rule for _, rule in _checks("forwarded", PROMPT))
"""Whether plain text breaks no rule for prompts."""


def _pattern(route: _Route, attempt: Attempt) -> str:
    """The pattern of the table that an attempt falls under."""
    method = attempt.method
    if method in _METHODS:
        return method if method != UPDATE or route in ("answered", "denied") else key_of(attempt)
    prefix = next((start for start in _PREFIXES if method.startswith(start)), None)
    return "" if prefix is None else prefix + "*"


def forwarded(
    context: Context, direction: str, method: str, original: Params, sent: Params
) -> Violation | None:
    """The violation of a component that passes on `original` as `sent`; None: there is none.

    `direction` is the message's, `down` or `up`. Both params are without envelope, and without the
    role offer of older dialects. The same bytes are always right.
    """
    if original == sent:
        return None
    name = names.recognised(method)
    given, passed = _document(original), _document(sent)
    if context.grants.texts:
        passed = metas.as_given(name, given, passed)
    return _first("forwarded", Attempt(context, direction, name, passed, given))


def changed_plainly(commands: AbstractSet[str], original: Params, sent: Params) -> bool:
    """Whether a prompt of plain texts is passed on as another such prompt: then `forwarded` finds
    nothing, whatever else is known. `commands`: those that the session's agent lists."""
    return _PLAINLY and plain_text.alone(commands, _bytes(original), _bytes(sent))


def originated(context: Context, direction: str, method: str, params: Params) -> Violation | None:
    """The violation of a component that sends a message of its own; None: there is none.

    Cancelling (`$/cancel_request`) is about the sender's own requests, which the router knows, so
    it is not checked here. Requests for the conductor's services must not come here either.
    """
    if method == names.CANCEL:
        return None
    name = names.recognised(method)
    return _first(
        "originated", Attempt(context, direction, name, _document(params), spelled=method)
    )


def answered(
    context: Context,
    direction: str,
    method: str,
    request: Params,
    member: bytes,
    body: bytes,
    upstream: tuple[bytes, bytes] | None,
) -> Violation | None:
    """The violation of a component's answer to a request that it was given; None: there is none.

    `direction` and `request` (its params) are the request's, as the component received it. `member`
    is `b"result"` or `b"error"`, `upstream` the member and body that came back for the request from
    the other side; None if the component never passed it on. The same bytes as `upstream`'s are
    always right.
    """
    if upstream is not None and upstream[0] == member and upstream[1] == body:
        return None
    attempt = Attempt(
        context,
        direction,
        names.recognised(method),
        _document(body),
        None if upstream is None else _document(upstream[1]),
        request=request,
        outcome=member,
        came_back=b"" if upstream is None else upstream[0],
    )
    return _first("denied" if member == b"error" else "answered", attempt)


def _bytes(raw: Params) -> bytes:
    return b"" if isinstance(raw, UnsetType) else bytes(raw)


def _document(raw: Params | bytes | UnsetType) -> Document:
    try:
        return read(raw, MOST_JUDGED)
    except Unreadable as error:
        return Document(None, unreadable=str(error))


def _first(route: _Route, attempt: Attempt) -> Violation | None:
    try:
        first = next(_violations(route, attempt), None)
    except RecursionError:
        return Violation(GUARDS[0].name, "the message nests too deeply to be looked at")
    if first is not None and len(first.pointer) > _LONGEST_POINTER:
        # Names of members are the component's choice, and the pointer goes into errors and logs.
        end = first.pointer.rfind("/", 0, _LONGEST_POINTER)
        return Violation(first.guard, first.text, first.pointer[:end])
    return first


def _violations(route: _Route, attempt: Attempt) -> Iterator[Violation]:
    """All violations, in the order of the table; callers take the first."""
    for guard, rule in _checks(route, _pattern(route, attempt)):
        for text, pointer in rule(attempt):
            yield Violation(guard, text, pointer)
