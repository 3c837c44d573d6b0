"""Answers of a component's own: an error or a refusal that somebody is shown names the component.

The name is in the error's `data` and in front of its words, so that neither an editor nor a person
takes it for the agent's or the conductor's. A prompt that is answered with the stop reason
`refusal` has the name in the `_meta` of its result. The guests of a host are named by the host.
A prompt of version 2 that a component answers without a stop reason gets one.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import guards, json_text
from conductor.core.agent_turns import only_begun
from conductor.core.component import setters
from conductor.core.guards.reading import value_of
from conductor.core.json_text import holds, member_at, read_members, text_of, write_members
from conductor.core.jsonrpc import INTERNAL_ERROR, error_object, read_error
from conductor.core.policy.key_table import PROMPT, STAMP
from conductor.core.state import Peer, Visit
from conductor.errors import visible

_REFUSAL: Final = "refusal"
_encode = json_text.encode


def unsigned(carried: Visit, member: bytes, body: bytes) -> bytes:
    """The answer of a host of guests, without the name of the guest that has refused a prompt: the
    guards look at the guest's own answer."""
    hosts = carried.lane.peer.component.hosts and carried.policy_state.enforced
    if not hosts or member != b"result" or carried.method != PROMPT or not holds(body, _STAMP):
        return body
    members = read_members(Raw(body)) or {}
    meta = read_members(members.get("_meta", Raw(b"{}"))) or {}
    if meta.pop(STAMP, None) is None:
        return body
    rest = {name: held for name, held in members.items() if name != "_meta"}
    return bytes(write_members({**rest, "_meta": write_members(meta)} if meta else rest))


def signed(carried: Visit, member: bytes, body: bytes, said: bytes) -> bytes:
    """An answer with its component's name, where it is the component's own. `said`: the answer as
    it came, with the name that a host has written."""
    # The client of an MCP server knows the owner of the server.
    if not carried.policy_state.enforced or type(carried.heading.detail) is tuple:
        return body
    if member == b"error":
        return _error(carried, body)
    return _result(carried, body, said) if carried.method == PROMPT else body


def ending(carried: Visit, version: int | None, member: bytes, body: bytes) -> bytes:
    """The answer of a component to a prompt that it has not passed on. Nobody would ever end a turn
    that only began: the agent has no such prompt, and no policy lets a component report `idle`."""
    own = carried.upstream is None and carried.policy_state.enforced
    if own and carried.method == PROMPT and only_begun(version, member, body):
        return _ENDS
    return body


def _error(carried: Visit, body: bytes) -> bytes:
    upstream = carried.upstream
    if upstream is not None and read_error(upstream[1]).code == read_error(body).code:
        return body  # the agent's, in other words perhaps
    return named(carried.lane.peer, body)


def plain(peer: Peer, body: bytes) -> bytes:
    """An error that no guard has looked at, as a client may have it: named, and no login."""
    body = named(peer, body)
    held = value_of(Raw(body))
    # Too long to be looked at, or a login.
    if held is None or guards.every_message.asks_login(held):
        return named(peer, error_object(INTERNAL_ERROR, read_error(body).message))
    return body


def event_answer(peer: Peer, member: bytes, body: bytes) -> bytes:
    """The answer of a component to an event of the editor about the component's panel."""
    policed = peer.policy_state is not None and peer.policy_state.enforced
    return plain(peer, body) if policed and member == b"error" else body


def named(peer: Peer, body: bytes) -> bytes:
    """An error with the name of its component; if the component has refused to start, also with who
    set the setting that it refuses."""
    members = read_members(Raw(body)) or {}
    raw = members.get("data")
    data = read_members(raw) if raw is not None else {}
    if data is None:
        data = {} if raw is None or bytes(raw) == b"null" else {"said": raw}
    name = _name(peer, text_of(data.get("component")))
    message = visible(text_of(members.get("message")))
    if not message.startswith((f"{name}: ", f"proxy `{name}`")):
        message = f"{name}: {message}"
    if peer.starting:
        message += setters(peer.component.set_by.get(name, {}), message, starting=True)
    words = {"message": Raw(_encode(message)), "data": write_members({**data, **_of(name)})}
    return bytes(write_members({**members, **words}))


def _of(name: str) -> dict[str, Raw]:
    return {"component": Raw(_encode(name))}


def _result(carried: Visit, body: bytes, said: bytes) -> bytes:
    if not _refuses(body) or (carried.upstream is not None and _refuses(carried.upstream[1])):
        return body
    members = read_members(Raw(body)) or {}
    meta = read_members(members.get("_meta", Raw(b"{}"))) or {}
    name = _name(carried.lane.peer, text_of(member_at(said, "_meta", STAMP)))
    stamped = write_members({**meta, STAMP: Raw(_encode(name))})
    return bytes(write_members({**members, "_meta": stamped}))


def _refuses(body: bytes) -> bool:
    return holds(body, _STOPS) and text_of(member_at(body, "stopReason")) == _REFUSAL


_ENDS: Final = b'{"stopReason":"end_turn"}'
_STAMP: Final = f'"{STAMP}"'.encode()
_STOPS: Final = f'"{_REFUSAL}"'.encode()


def _name(peer: Peer, said: str) -> str:
    """The component's name, or that of the guest for which its host speaks."""
    if peer.component.hosts and said in peer.component.known_as:
        return said
    return (peer.launched_by or peer).name
