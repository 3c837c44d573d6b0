"""Panels, comments and operations of the editor: who has sent such a message, and who gets it.

A component sends these messages up the chain like all others. Where a message comes in, the router
writes the component's name into it, so that the editor's desk knows the owner (docs/editors.md). A
message of the editor to the owner goes straight there, past all others.
"""

from __future__ import annotations

from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.aliases import renamed
from conductor.core.component import Role
from conductor.core.json_text import read_members, text_of, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Malformed, Params
from conductor.core.parts import Parts
from conductor.core.policy.key_table import LOG, OF_EDITOR, STAMP, Direction
from conductor.core.state import Lane, Peer, Renamed, Straight, Visit
from conductor.core.topology import onward


class EditorMessages:
    """The part of a router that knows the messages of the editor's desk."""

    def __init__(self, parts: Parts) -> None:
        self._exchange = parts.exchange

    def named(self, lane: Lane, method: str, params: Params) -> Params:
        """The params of a message that comes in on a lane, with the name of its component.

        Raises:
            Malformed: it comes from a peer agent, which has no editor.
        """
        if lane.direction is Direction.DOWN:
            return params
        if lane.port:
            raise Malformed(METHOD_NOT_FOUND, f"`{method}`: a peer agent has no editor")
        members = read_members(params)
        meta = _meta(members)
        if members is None or meta is None or lane.peer is self._exchange.upstream:
            return params
        name, was = lane.peer.name, _name(meta.get(STAMP))
        if was is not None:
            if self._keeps(lane.peer, method, was):
                return params
            name = f"{name}/{was}"
        meta[STAMP] = Raw(json_text.encode(name))
        return write_members({**members, "_meta": write_members(meta)})

    def _keeps(self, peer: Peer, method: str, name: str) -> bool:
        """Whether a message with this name, which comes from a peer, may be of the component so
        named.

        A host writes the names of its guests. Other peers pass on requests of components behind
        them, and hold these requests until the answer; nobody answers log lines. A conductor in
        proxy mode does not know the components behind it: the outer conductor does. A guard has
        checked the name that a policed component writes.
        """
        first = name.partition("/")[0]
        if peer.component.hosts and first in peer.component.known_as:
            return True
        policed = peer.policy_state is not None and peer.policy_state.enforced
        if self._exchange.topology.mode == "proxy" or (policed and not peer.component.hosts):
            return True
        if not any(_is(there.peer, first) for _, there in onward(peer.s)):
            return False
        return method == LOG or any(
            held.target is peer.s and held.method.startswith(OF_EDITOR)
            for held in peer.s.requests.sent.values()
        )

    def deliver(self, method: str, params: Params, pending: Visit) -> bool:
        """Sends the owner a message of the editor's. False: it names no owner; only an outer
        conductor that knows nothing of owners sends such a message.

        Raises:
            Malformed: the owner is not there.
        """
        members = read_members(params)
        meta = _meta(members)
        owner = None if meta is None else _name(meta.pop(STAMP, None))
        if members is None or meta is None or owner is None:
            if self._exchange.topology.mode == "agent":
                raise Malformed(INVALID_PARAMS, f"`{method}` names no owner")
            return False
        first, _, inner = owner.partition("/")
        ids: list[dict[str, str]] = []
        for here, there in onward(self._exchange.upstream.p):
            ids.append(dict(here.renames or {}))
            peer = there.peer
            paused = peer.policy_state is not None and peer.policy_state.paused
            if _is(peer, first) and peer.closure is None and not paused:
                break
            ids += [dict(one.down) for one in peer.inside]
        else:
            raise Malformed(METHOD_NOT_FOUND, f"`{method}`: `{first:.80}` is not there")
        if peer.component.hosts or inner:
            rest = owner if peer.component.hosts else inner
            meta[STAMP] = Raw(json_text.encode(rest))
        if meta:
            members["_meta"] = write_members(meta)
        else:
            members.pop("_meta", None)
        text = bytes(write_members(members))
        for one in filter(None, ids):
            text = renamed(text, one)
            back = {below: above for above, below in one.items()}
            pending.rewriters = (*pending.rewriters, Renamed(back))
        pending.rewriters = (*pending.rewriters, Straight(peer))
        self._exchange.forward(there, method, Raw(text), pending)
        return True


def _is(peer: Peer, name: str) -> bool:
    """Whether a component has this name, or hosts the guest that has it."""
    if peer.role not in (Role.PROXY, Role.AGENT):
        return False
    return peer.name == name or (peer.component.hosts and name in peer.component.known_as)


def _meta(members: dict[str, Raw] | None) -> dict[str, Raw] | None:
    """The members of `_meta`; empty: there is no `_meta`; None: it is no object."""
    raw = (members or {}).get("_meta", Raw(b"{}"))
    return {} if bytes(raw) == b"null" else read_members(raw)


def _name(raw: Raw | UnsetType | None) -> str | None:
    """The component that a message names, empty where that is no text; None: it names none."""
    return text_of(raw) if isinstance(raw, Raw) else None
