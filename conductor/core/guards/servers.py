"""MCP servers in a session's setup, and who may talk to and for them (docs/architecture.md).

An *address* is what a message names a server or a connection by, whatever the generation: an id, an
`acp:` URL, with and without the scheme, the name of an `scp` server, or a connection's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from conductor.core.guards.common import meta
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.methods import SCP_MCP, SETUP, lookalike, recognised
from conductor.core.guards.names import folded, head
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    Params,
    Unreadable,
    as_object,
    difference,
    member,
    pairs,
    read,
    token,
)
from conductor.core.guards.rules import Answer, Change, Found, Origin, relayed_only, unchanged
from conductor.core.guards.table import MCP_CONNECTIONS, MCP_SERVERS

LISTS: Final = ("mcpServers", "mcp_servers")
HOLDER: Final = "tools"
"""Where the oldest generation keeps its `mcpServers`."""

_CONNECT: Final = ("mcp/connect", "_mcp/connect")
_CONNECTION_NAMES: Final = ("connectionId", "connection_id")
_ADDRESS_NAMES: Final = (*_CONNECTION_NAMES, "serverId", "acpId", "acp_id", "acp_url", "url")
_SCP_NAMES: Final = ("name",)

_ACP_URL: Final = "acp:"
_acp_url = re.compile(r"acp:[A-Za-z0-9._:-]{1,256}").fullmatch
_LONGEST: Final = 256


def declared(method: str, params: Params) -> frozenset[str]:
    """The addresses of all MCP servers that the params of a session's setup declare.

    Empty for other methods. What a component itself declared is the difference between what it
    sent and what it was given. Never raises: what cannot be read declares nothing.
    """
    if recognised(method) not in SETUP:
        return frozenset()
    try:
        value = read(params).value
    except Unreadable:
        return frozenset()
    return frozenset(a for _, name, entry in _entries(value) for a in _addresses(name, entry))


def connected(method: str, result: Params) -> frozenset[str]:
    """The address of the connection that the result of a connect request opens; at most one.

    It belongs to `Context.servers` of the component that gave the answer, and to `foreign` of all
    others, until it is disconnected. Empty for other methods. Never raises.
    """
    if recognised(method) not in _CONNECT:
        return frozenset()
    try:
        value = read(result).value
    except Unreadable:
        return frozenset()
    return frozenset(_connections(as_object(value)))


def _connections(result: Object) -> Iterator[str]:
    for name in _CONNECTION_NAMES:
        value = result.get(name)
        if isinstance(value, str):
            yield value


def _containers(params: Json) -> Iterator[tuple[str, Json]]:
    for name, value in pairs(params):
        if name in LISTS:
            yield token(name), value
        if name == HOLDER:
            inside = ((n, v) for n, v in pairs(value) if n in LISTS)
            yield from ((token(name) + token(n), v) for n, v in inside)


def _entries(params: Json) -> Iterator[tuple[str, str | None, Json]]:
    """Pointer of the container, name it is keyed by, and entry, of every server declared."""
    for at, container in _containers(params):
        if isinstance(container, list):
            yield from ((at, None, entry) for entry in container)
        yield from ((at, name, entry) for name, entry in pairs(container))


def _addresses(keyed_by: str | None, entry: Json) -> Iterator[str]:
    """Ids with the scheme and without: a server of one generation may be asked for in another."""
    texts = [(name, value) for name, value in pairs(entry) if isinstance(value, str)]
    urls = (value for name, value in texts if name == "url" and value.startswith(_ACP_URL))
    idents = [url.removeprefix(_ACP_URL) for url in urls]
    if ("type", "acp") in texts:
        idents += (value for name, value in texts if name in ("serverId", "id"))
    if ("type", "scp") in texts:
        idents += (value for name, value in texts if name == "name")
        if keyed_by is not None:
            idents.append(keyed_by)
    for ident in idents:
        yield from (ident, _ACP_URL + ident)


def _names(keyed_by: str | None, entry: Json) -> Iterator[str]:
    if keyed_by is not None:
        yield keyed_by
    yield from (v for n, v in pairs(entry) if n == "name" and isinstance(v, str))


def _begins(texts: AbstractSet[str], names: AbstractSet[str]) -> bool:
    """Whether a name or an address begins with a folded name, or is it."""
    return any(head(one.removeprefix(_ACP_URL)) in names for one in texts)


def appended(context: Context, before: Object, after: Object) -> Found:
    """The servers of `before` are in `after`, followed by none but such as may be added."""
    theirs = {n for _, key, entry in _entries(before) for n in _names(key, entry)}
    others = frozenset(map(folded, theirs | context.names))
    names = set(others)
    taken = {a for _, key, entry in _entries(before) for a in _addresses(key, entry)}
    old, new = dict(_containers(before)), dict(_containers(after))
    for at in {**old, **new}:
        added = _added(at, old.get(at, ABSENT), new.get(at, ABSENT))
        if isinstance(added, Violation):
            yield added
            continue
        for pointer, key, entry in added:
            reason = _unfit(key, entry)
            if reason is not None:
                yield Violation(MCP_SERVERS, f"an MCP server may not be added: {reason}", pointer)
            yield from meta({}, as_object(entry), pointer)
            called = set(_names(key, entry))
            mine = set(map(folded, called))
            if names & mine or _begins(called, others):
                text = (
                    "an MCP server may not be added under a name that is taken, or looks like one "
                    "or like one of its tools"
                )
                yield Violation(MCP_SERVERS, text, pointer)
            addresses = set(_addresses(key, entry))
            known = taken & addresses or not context.foreign.isdisjoint(addresses)
            if known or _begins(addresses, others):
                text = (
                    "an MCP server may not be added under an id or URL of somebody else's, or one "
                    "that begins with somebody else's name"
                )
                yield Violation(MCP_SERVERS, text, pointer)
            names |= mine
            taken |= addresses


def _added(
    at: str, old: Json | Absent, new: Json | Absent
) -> list[tuple[str, str | None, Json]] | Violation:
    """Pointer, key and value of what `new` has beyond `old`; a violation if it lacks something."""
    differs = Violation(
        MCP_SERVERS, "MCP servers of others may not be changed, moved or removed", at
    )
    if old == new:
        return []
    if isinstance(new, list) and (old is None or isinstance(old, list | Absent)):
        first = old if isinstance(old, list) else []
        if new[: len(first)] != first:
            return differs
        return [(at + token(i), None, new[i]) for i in range(len(first), len(new))]
    if isinstance(new, dict) and (old is None or isinstance(old, dict | Absent)):
        kept = as_object(old)
        if any(member(new, name) != value for name, value in kept.items()):
            return differs
        return [(at + token(n), n, entry) for n, entry in new.items() if n not in kept]
    return differs


def _unfit(keyed_by: str | None, entry: Json) -> str | None:
    """Why an entry is none that a component may add; None where it is.

    Known members only, and each of its one form: anything else might start or reach something in
    some agent.
    """
    if not isinstance(entry, dict):
        return "it is no plain object"
    held = {name: value for name, value in entry.items() if name != "_meta"}
    name = held.pop("name", keyed_by)
    if not _is_text(name) or (keyed_by is not None and name != keyed_by):
        return "it needs one name, of printable ASCII"
    if not str(name).isascii():
        return "its name must be printable ASCII"
    rest, fits = _form(held)
    if rest:
        return f"member {next(iter(rest))!a:.80} is none of a server reached over ACP"
    if any(one.startswith(2 * _ACP_URL) for one in _addresses(keyed_by, entry)):
        return "an id may not begin with `acp:`"
    return None if fits else "only servers reached over ACP may be, by id or `acp:` URL"


def _form(held: Object) -> tuple[Object, bool]:
    """What is no part of the form an entry has, and whether what is has the right values."""
    match held:
        case {"type": "acp", "serverId": ident, **rest} | {"type": "acp", "id": ident, **rest}:
            return rest, _is_text(ident)
        case {"type": "scp", **rest}:
            return rest, True
        case {"url": url, **rest}:
            beside = {n: v for n, v in rest.items() if (n, v) not in _ACP_HTTP}
            is_acp = isinstance(url, str) and _acp_url(url) is not None
            return beside, is_acp and not {"type", "transport"} <= set(held)
        case _:
            return held, False


_ACP_HTTP: Final[tuple[tuple[str, Json], ...]] = (
    ("type", "http"),
    ("transport", "http"),
    ("headers", []),
    ("headers", {}),
)
"""What may stand beside an `acp:` URL."""


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _is_own(context: Context, method: str, params: Object) -> bool:
    """Whether every address in the params of an MCP message is one of the component's own."""
    names = _SCP_NAMES if method == SCP_MCP else _ADDRESS_NAMES
    used = [params[name] for name in names if name in params]
    return (
        bool(used)
        and lookalike(params, names) is None
        and all(isinstance(address, str) and _owns(context, address) for address in used)
    )


def _owns(context: Context, address: str) -> bool:
    return address in context.servers and address not in context.foreign


_unchanged = unchanged(MCP_CONNECTIONS)
_relayed_only = relayed_only(MCP_CONNECTIONS)


def passed_on(change: Change) -> Found:
    """Rule for an MCP message on its way: only one between own servers may change.

    With `mcp=others` all else may, but not whom it is for.
    """
    context, method = change.context, change.method
    own = (_is_own(context, method, side) for side in (change.before, change.after))
    if all(own):
        return
    if not context.grants.mcp:
        yield from _unchanged(change)
        return
    names = (*_SCP_NAMES, *_ADDRESS_NAMES) if method == SCP_MCP else _ADDRESS_NAMES
    for name in names:
        at = difference(member(change.before, name), member(change.after, name), token(name))
        if at is not None:
            yield Violation(MCP_CONNECTIONS, "an MCP message stays with its server", at)
    odd = lookalike({n: v for n, v in change.after.items() if n not in change.before}, names)
    if odd is not None:
        text = f"member {odd!a:.80} could be taken for an address"
        yield Violation(MCP_CONNECTIONS, text, token(odd))


def used(origin: Origin) -> Found:
    """Rule for an MCP message of a component's own: over its own connections."""
    if not _is_own(origin.context, origin.method, origin.params):
        text = f"`{origin.method:.80}` may only use MCP servers and connections of its own"
        yield Violation(MCP_CONNECTIONS, text)


def served(answer: Answer) -> Found:
    """Rule for the result of an MCP message: of an own server, or as the other side gave it.

    With `mcp=others` it may be anything, but a connection of somebody else's stays that. It opens
    one at most, and none that could be somebody else's one day.
    """
    try:
        request = as_object(read(answer.request).value)
    except Unreadable:
        request = {}
    context, result = answer.context, as_object(answer.result)
    if not _is_own(context, answer.method, request) and not context.grants.mcp:
        yield from _relayed_only(answer)
        return
    opened = set(_connections(result))
    new = opened - set(_connections(as_object(answer.relayed)))
    if answer.method not in _CONNECT or not new:
        return
    if len(opened) > 1:
        yield Violation(MCP_CONNECTIONS, "a result opens one MCP connection, not two")
    if not context.foreign.isdisjoint(new) or _begins(new, set(map(folded, context.names))):
        text = (
            "a new MCP connection may not have the id of somebody else's, or one that begins with "
            "somebody else's name"
        )
        yield Violation(MCP_CONNECTIONS, text)
