"""MCP servers in a session's set-up, and who may talk to and for them (docs/architecture.md).

An *address* names a server or a connection in a message of any generation: an id, an `acp:` URL,
with and without the scheme, the name of an `scp` server, or a connection's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from conductor.core.guards.every_message import meta
from conductor.core.guards.names import SCP_MCP, folded, head, lookalike, recognised
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    Params,
    as_object,
    difference,
    member,
    pairs,
    token,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches, Context, relayed_only, unchanged
from conductor.core.policy.key_table import SETUP
from conductor.patterns import lazy_pattern

LISTS: Final = ("mcpServers", "mcp_servers")
HOLDER: Final = "tools"
"""The member in which the oldest generation keeps its `mcpServers`."""

_CONNECT: Final = ("mcp/connect", "_mcp/connect")
_CONNECTION_NAMES: Final = ("connectionId", "connection_id")
_ADDRESS_NAMES: Final = (*_CONNECTION_NAMES, "serverId", "acpId", "acp_id", "acp_url", "url")
_SCP_NAMES: Final = ("name",)

_ACP_URL: Final = "acp:"
_acp_url = lazy_pattern(r"acp:[A-Za-z0-9._:-]{1,256}")
_LONGEST: Final = 256


def declared(method: str, params: Params) -> frozenset[str]:
    """The addresses of all MCP servers that the params of a session's set-up declare.

    Empty for other methods. A component itself declared those that it sent and did not receive.
    Never raises: params that cannot be read declare nothing.
    """
    if recognised(method) not in SETUP:
        return frozenset()
    entries = _entries(value_of(params))
    return frozenset(a for _, name, entry in entries for a in _addresses(name, entry))


def named(params: Json) -> tuple[str, ...]:
    """The names of all MCP servers that the params of a session's set-up declare."""
    return tuple(dict.fromkeys(n for _, key, entry in _entries(params) for n in _names(key, entry)))


def connected(method: str, result: Params) -> frozenset[str]:
    """The address of the connection that the result of a connect request opens; at most one.

    It belongs to `Context.servers` of the component that gave the answer, and to `foreign` of all
    others, until it is disconnected. Empty for other methods. Never raises.
    """
    if recognised(method) not in _CONNECT:
        return frozenset()
    return frozenset(_connections(as_object(value_of(result))))


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
    """Ids with the scheme and without: another generation may ask for the same server."""
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
    return any(head(text.removeprefix(_ACP_URL)) in names for text in texts)


_Server: TypeAlias = tuple[str, str | None, Json]
"""Pointer to a server that is declared, the name it is keyed by, and its entry."""


def appended(attempt: Attempt) -> Breaches:
    """The servers of others stay; only servers that may be added follow them."""
    old, new = (dict(_containers(params)) for params in (attempt.old, attempt.new))
    added: list[_Server] = []
    for at in {**old, **new}:
        more = _added(at, old.get(at, ABSENT), new.get(at, ABSENT))
        if more is None:
            yield "MCP servers of others may not be changed, moved or removed", at
        else:
            added += more
    yield from _fit(attempt.context, attempt.old, added)


def _fit(context: Context, before: Object, added: list[_Server]) -> Breaches:
    """Added servers are of the one form, under names and addresses that nobody else has."""
    entries = [(keyed_by, entry) for _, keyed_by, entry in _entries(before)]
    theirs = {name for server in entries for name in _names(*server)}
    others = frozenset(map(folded, theirs | context.names))
    names = set(others)
    taken = {address for server in entries for address in _addresses(*server)}
    for pointer, keyed_by, entry in added:
        reason = _unfit(keyed_by, entry)
        if reason is not None:
            yield f"an MCP server may not be added: {reason}", pointer
        called = set(_names(keyed_by, entry))
        own = set(map(folded, called))
        if names & own or _begins(called, others):
            text = (
                "an MCP server may not be added under a name that is taken, or looks like one "
                "or like one of its tools"
            )
            yield text, pointer
        addresses = set(_addresses(keyed_by, entry))
        known = taken & addresses or not context.foreign.isdisjoint(addresses)
        if known or _begins(addresses, others):
            text = (
                "an MCP server may not be added under an id or URL of somebody else's, or one "
                "that begins with somebody else's name"
            )
            yield text, pointer
        names |= own
        taken |= addresses


def own_only(servers: list[Json]) -> Breaches:
    """The servers of a session that has none of others: each of the one form, no name or id twice.

    The pointers are into the list.
    """
    added: list[_Server] = [(token(i), None, entry) for i, entry in enumerate(servers)]
    yield from _fit(Context(), {}, added)
    for at, _, entry in added:
        yield from meta({}, as_object(entry), at)


def metas_namespaced(attempt: Attempt) -> Breaches:
    """`_meta` of a server that a component adds holds namespaced keys only."""
    old, new = (dict(_containers(params)) for params in (attempt.old, attempt.new))
    for at in {**old, **new}:
        for pointer, _, entry in _added(at, old.get(at, ABSENT), new.get(at, ABSENT)) or ():
            yield from meta({}, as_object(entry), pointer)


def _added(at: str, old: Json | Absent, new: Json | Absent) -> list[_Server] | None:
    """The servers of `new` beyond `old`; None: `new` lacks something of `old`."""
    if old == new:
        return []
    if isinstance(new, list) and (old is None or isinstance(old, list | Absent)):
        first = old if isinstance(old, list) else []
        if new[: len(first)] != first:
            return None
        return [(at + token(i), None, new[i]) for i in range(len(first), len(new))]
    if isinstance(new, dict) and (old is None or isinstance(old, dict | Absent)):
        kept = as_object(old)
        if any(member(new, name) != value for name, value in kept.items()):
            return None
        return [(at + token(name), name, new[name]) for name in new if name not in kept]
    return None


def _unfit(keyed_by: str | None, entry: Json) -> str | None:
    """Why a component may not add an entry; None where it may.

    It has known members only, each of its one form: anything else might start or reach something
    in some agent.
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
    if any(address.startswith(2 * _ACP_URL) for address in _addresses(keyed_by, entry)):
        return "an id may not begin with `acp:`"
    return None if fits else "only servers reached over ACP may be, by id or `acp:` URL"


def _form(held: Object) -> tuple[Object, bool]:
    """The members that do not belong to the form of an entry, and whether the others have the right
    values."""
    match held:
        case {"type": "acp", "serverId": ident, **rest} | {"type": "acp", "id": ident, **rest}:
            return rest, _is_text(ident)
        case {"type": "scp", **rest}:
            return rest, True
        case {"url": url, **rest}:
            beside = {n: v for n, v in rest.items() if (n, v) not in _ACP_HTTP}
            is_acp = isinstance(url, str) and _acp_url.fullmatch(url) is not None
            return beside, is_acp and not {"type", "transport"} <= set(held)
        case _:
            return held, False


_ACP_HTTP: Final[tuple[tuple[str, Json], ...]] = (
    ("type", "http"),
    ("transport", "http"),
    ("headers", []),
    ("headers", {}),
)
"""The members that may stand beside an `acp:` URL."""


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _is_own(context: Context, method: str, params: Object) -> bool:
    """Whether every address in the params of an MCP message is one of the component's own."""
    names = _SCP_NAMES if method == SCP_MCP else _ADDRESS_NAMES
    used = [params[name] for name in names if name in params]
    return (
        bool(used)
        and lookalike(params, names) is None
        and all(
            isinstance(address, str)
            and address in context.servers
            and address not in context.foreign
            for address in used
        )
    )


def passed_on(attempt: Attempt) -> Breaches:
    """An MCP message may change only between own servers.

    With `change:mcp` other messages may change too, but not the server that they are for.
    """
    context, method, old, new = attempt.context, attempt.method, attempt.old, attempt.new
    if all(_is_own(context, method, params) for params in (old, new)):
        return
    if not context.grants.mcp:
        yield from unchanged(attempt)
        return
    names = (*_SCP_NAMES, *_ADDRESS_NAMES) if method == SCP_MCP else _ADDRESS_NAMES
    for name in names:
        at = difference(member(old, name), member(new, name), token(name))
        if at is not None:
            yield "an MCP message stays with its server", at
    odd = lookalike(new, names, old)
    if odd is not None:
        yield f"member {odd!a:.80} could be taken for an address", token(odd)


def used(attempt: Attempt) -> Breaches:
    """An MCP message of a component's own uses its own connections."""
    if not _is_own(attempt.context, attempt.method, attempt.new):
        yield f"`{attempt.method:.80}` may only use MCP servers and connections of its own", ""


def served(attempt: Attempt) -> Breaches:
    """The result of an MCP message is of an own server, or as the other side gave it.

    With `change:mcp` the result may be anything, but a connection of somebody else's stays theirs.
    A result opens one connection at most, and none that could be somebody else's one day.
    """
    context = attempt.context
    request = as_object(value_of(attempt.request))
    if not _is_own(context, attempt.method, request) and not context.grants.mcp:
        yield from relayed_only(attempt)
        return
    opened = set(_connections(attempt.new))
    new = opened - set(_connections(attempt.old))
    if attempt.method not in _CONNECT or not new:
        return
    if len(opened) > 1:
        yield "a result opens one MCP connection, not two", ""
    if not context.foreign.isdisjoint(new) or _begins(new, set(map(folded, context.names))):
        text = (
            "a new MCP connection may not have the id of somebody else's, or one that begins with "
            "somebody else's name"
        )
        yield text, ""
