"""The three routes by which an untrusted component can act, each checked against the table.

Nothing here raises, whatever the bytes; nothing remembers anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conductor.core.guards import (
    capabilities,
    common,
    lists,
    methods,
    modes,
    permissions,
    prompts,
    servers,
    setup,
    table,
    updates,
)
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.extensions import EXTENSIONS
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Ambiguous,
    Document,
    Json,
    Object,
    Params,
    Unreadable,
    as_object,
    read,
)
from conductor.core.guards.rules import (
    Answer,
    Change,
    Found,
    Origin,
    Rules,
    not_originated,
    sealed,
    unchanged,
)
from conductor.core.guards.table import DUPLICATE_KEYS

_LONGEST_POINTER: Final = 500
MOST_JUDGED: Final = 25_000
"""Values of a message that a component may change or send of its own: to judge each takes time."""

_SEALED: Final = sealed(table.SEALED)
"""What holds for every method that no row below opens."""

_SETUP: Final = Rules((setup.settled,), (setup.proposed,), (setup.reported,))
_MCP: Final = Rules((servers.passed_on,), (servers.used,), (servers.served,))
_LISTS: Final = Rules(
    (unchanged(table.SESSION_LISTS),),
    (not_originated(table.SESSION_LISTS),),
    (lists.shortened,),
)
_CHOICES: Final = Rules(
    (unchanged(table.SESSION_MODE),), (modes.chosen,), (modes.obeyed,), (modes.denied,)
)

RULES: Final[dict[str, Rules]] = {
    **dict.fromkeys(
        methods.INITIALIZE, Rules((capabilities.offered,), (), (capabilities.promised,))
    ),
    **dict.fromkeys(methods.SETUP, _SETUP),
    methods.PROMPT: Rules((prompts.rewritten,), (prompts.written,), (prompts.ended,)),
    methods.UPDATE: Rules((updates.shown,), (updates.made_up,), _SEALED.answered),
    methods.PERMISSION: Rules(
        (permissions.narrowed,),
        (not_originated(table.PERMISSION_REQUESTS),),
        (permissions.refused,),
    ),
    **dict.fromkeys(methods.MODES, _CHOICES),
    **dict.fromkeys(methods.LISTS, _LISTS),
    methods.STOP: Rules(_SEALED.forwarded, (), _SEALED.answered),
    methods.SCP_MCP: _MCP,
}
"""The rules of single methods. Whose turns a component may stop is for the engine to say."""

FAMILIES: Final[dict[str, Rules]] = {"mcp/": _MCP, "_mcp/": _MCP}
"""The rules of all methods with a prefix."""


def rules_for(method: str) -> Rules:
    """The rules of a method by its recognised name; where none opens it, it is sealed."""
    found = RULES.get(method)
    if found is not None:
        return found
    prefix = methods.family(method)
    if prefix is not None:
        return FAMILIES.get(prefix, _SEALED)
    return EXTENSIONS if method.startswith("_") else _SEALED


def forwarded(
    context: Context, direction: str, method: str, original: Params, sent: Params
) -> Violation | None:
    """What is wrong with a component passing on `original` as `sent`; None if nothing is.

    `direction` is the message's, `down` or `up`. Both params are without envelope, and without the
    role offer of older dialects. The same bytes are always right.
    """
    if original == sent:
        return None
    name = methods.recognised(method)
    return _first(_forwarded(context, direction, name, original, sent))


def _forwarded(
    context: Context, direction: str, method: str, original: Params, sent: Params
) -> Found:
    before, after = _document(original), _document(sent)
    yield from _readable(before, after)
    yield from _params(before, "came")
    yield from _params(after, "were sent")
    old, new = as_object(before.value), as_object(after.value)
    change = Change(context, direction, method, old, new)
    for rule in rules_for(method).forwarded:
        yield from rule(change)
    yield from common.session(old, new)
    yield from common.spelling(old, new)
    yield from common.meta(old, new)
    if rules_for(method) is not _MCP:
        yield from common.metas(before.value, after.value)


def originated(context: Context, direction: str, method: str, params: Params) -> Violation | None:
    """What is wrong with a component sending a message of its own; None if nothing is.

    Cancelling (`$/cancel_request`) is about the sender's own requests, which the router knows, so
    it is let be. So are services asked of the conductor, which must not come here.
    """
    if method == methods.CANCEL:
        return None
    return _first(_originated(context, direction, method, params))


def _originated(context: Context, direction: str, method: str, params: Params) -> Found:
    yield from _method(method)
    name = methods.recognised(method)
    sent = _document(params)
    yield from _readable(None, sent)
    yield from _params(sent, "were sent")
    held = as_object(sent.value)
    origin = Origin(context, direction, name, held)
    for rule in rules_for(name).originated:
        yield from rule(origin)
    yield from common.spelling({}, held)
    yield from common.meta({}, held)
    if rules_for(name) is not _MCP:
        yield from common.one_session(held)
        yield from common.metas(ABSENT, held)


def _method(method: str) -> Found:
    shown = f"{method!a:.80}"
    if methods.is_misspelled(method):
        text = f"method {shown} is spelled as no method is, but may be taken for one"
        yield Violation(table.METHOD_SPELLING, text)
    if methods.is_conductors(methods.recognised(method)):
        text = f"method {shown} is the conductor's own and may not be originated"
        yield Violation(table.CONDUCTOR_METHODS, text)
    if methods.is_unknown(methods.recognised(method)):
        text = f"method {shown} is unknown and may not be originated; hint: extensions start with _"
        yield Violation(table.UNKNOWN_METHODS, text)


def answered(
    context: Context,
    direction: str,
    method: str,
    request: Params,
    member: bytes,
    body: bytes,
    upstream: tuple[bytes, bytes] | None,
) -> Violation | None:
    """What is wrong with a component's answer to a request it was given; None if nothing is.

    `direction` and `request` (its params) are the request's, as the component received it. `member`
    is `b"result"` or `b"error"`, `upstream` the member and body that came back for the request from
    the other side; None if the component never passed it on. The same bytes as `upstream`'s are
    always right. A result that came back stays a result and an error an error; where nothing did,
    an error denies, which is right but for what `Rules.denied` says.
    """
    if upstream is not None and upstream[0] == member and upstream[1] == body:
        return None
    name = methods.recognised(method)
    return _first(_answered(context, direction, name, request, (member, body), upstream))


def _answered(
    context: Context,
    direction: str,
    method: str,
    request: Params,
    answer: tuple[bytes, bytes],
    upstream: tuple[bytes, bytes] | None,
) -> Found:
    if upstream is not None and upstream[0] != answer[0]:
        was, now = ("a result", "an error")[:: -1 if upstream[0] == b"error" else 1]
        text = f"{was} of `{method:.80}` may not be turned into {now} on its way back"
        yield Violation(table.OUTCOMES, text)
    given = None if upstream is None else _document(upstream[1])
    sent = _document(answer[1])
    yield from _readable(given, sent)
    relayed: Json | Absent = ABSENT
    if given is not None and upstream is not None and upstream[0] == answer[0]:
        relayed = given.value
    if answer[0] == b"error":
        if not isinstance(sent.value, dict | Ambiguous):
            yield Violation(DUPLICATE_KEYS, "an error must be an object")
        yield from common.error(relayed, sent.value)
        for rule in rules_for(method).denied if upstream is None else ():
            yield from rule(Answer(context, direction, method, request, None, ABSENT))
        return
    held: Object = as_object(sent.value)
    if relayed is not ABSENT:
        yield from common.session(as_object(relayed), held)
    for rule in rules_for(method).answered:
        yield from rule(Answer(context, direction, method, request, sent.value, relayed))
    yield from common.spelling(as_object(relayed), held)
    yield from common.meta(as_object(relayed), held)
    if rules_for(method) is not _MCP:
        yield from common.metas(relayed, sent.value)


class _Broken(Document, frozen=True):
    """Stands for what could not be read."""

    reason: str = ""


def _document(raw: Params) -> Document:
    try:
        return read(raw, MOST_JUDGED)
    except Unreadable as error:
        return _Broken(None, (), str(error))


def _readable(before: Document | None, after: Document) -> Found:
    for document in (before, after):
        if isinstance(document, _Broken):
            text = f"the message cannot be looked at, so it may not be changed: {document.reason}"
            yield Violation(DUPLICATE_KEYS, text)
    yield from common.ambiguities(before, after)


def _params(document: Document, how: str) -> Found:
    """Params are an object of distinct members, null, or absent."""
    if document.value is not None and not isinstance(document.value, dict):
        text = f"params must be an object of distinct members, and these {how} otherwise"
        yield Violation(DUPLICATE_KEYS, text)


def _first(found: Iterator[Violation]) -> Violation | None:
    try:
        first = next(found, None)
    except RecursionError:
        return Violation(DUPLICATE_KEYS, "the message nests too deeply to be looked at")
    if first is not None and len(first.pointer) > _LONGEST_POINTER:
        # Names of members are the component's choice, and this goes into errors and logs.
        end = first.pointer.rfind("/", 0, _LONGEST_POINTER)
        return Violation(first.guard, first.text, first.pointer[:end])
    return first
