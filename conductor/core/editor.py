"""Panels, comments and operations of the editor: who sent a message of these, and who gets one.

A component sends them up the chain like all it says. Where one comes in, the router writes the
component's name into it, so that the editor's desk knows whose it is (docs/editors.md). What the
editor sends the owner goes straight there, past all others.
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
        """Whether a message of this name, which comes from a peer, may be of that component.

        A host writes the names of its guests. Others pass on what those behind them have asked, and
        hold that until it is answered; but for log lines, which nobody answers. A conductor as a
        proxy does not know what lies behind it: the one around it does. Of a policed component a
        guard has looked at the name.
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
        """Sends the owner a message of the editor's; False where it names none, which only an
        outer conductor that knows nothing of owners sends.

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
    """The members of `_meta`; none of them where there is none; None: it is no object."""
    raw = (members or {}).get("_meta", Raw(b"{}"))
    return {} if bytes(raw) == b"null" else read_members(raw)


def _name(raw: Raw | UnsetType | None) -> str | None:
    """The component that a message names; None: none, or it is no text."""
    return text_of(raw) if isinstance(raw, Raw) else None
