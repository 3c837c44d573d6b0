"""Terminals that an agent has opened at its client: when the agent is started again, nobody knows
them any more, and they are released in its place.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.agent_sessions import AgentSessions
from conductor.core.json_text import member_at, read_members, text_of
from conductor.core.jsonrpc import Params
from conductor.core.parts import Parts
from conductor.core.policy.own_terminals import RELEASE
from conductor.core.state import AgentTerminal, AnswerTo, Lane, Peer, Visit

_MOST: Final = 1024
"""Terminals of one agent; the first one is forgotten first."""


class Terminals:
    """The part of a router that knows the terminals of agents that may be started again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange

    def asked(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """An agent opens a terminal, or releases one."""
        known, members = _known(lane.peer), read_members(params) or {}
        session = text_of(members.get("sessionId"))
        if method == RELEASE:
            known.terminals.pop((session, text_of(members.get("terminalId"))), None)
            return
        asked = AgentTerminal(lane, session, known.terminals)
        pending.followers = (*pending.followers, asked)

    def opened(self, asked: AgentTerminal, member: bytes, body: bytes) -> None:
        """The client has answered."""
        terminal = text_of(member_at(body, "terminalId"))
        if member == b"error" or not terminal:
            return
        if asked.open is not _known(asked.lane.peer).terminals:  # who asked is gone by now
            self._release(asked.lane, asked.session, terminal)
            return
        asked.open[asked.session, terminal] = None
        if len(asked.open) > _MOST:
            del asked.open[next(iter(asked.open))]

    def gone(self, peer: Peer) -> None:
        """An agent is gone, and is being started again."""
        known = _known(peer)
        terminals, known.terminals = known.terminals, {}
        for session, terminal in terminals:
            self._release(peer.p, session, terminal)

    def _release(self, lane: Lane, session: str, terminal: str) -> None:
        """Releases a terminal in the agent's place, by the way that its own messages go."""
        params = Raw(json_text.encode({"sessionId": session, "terminalId": terminal}))
        pending = self._exchange.own_request(RELEASE)
        pending.answer_to = AnswerTo.CONDUCTOR
        if lane.policed:
            self._parts.policed.ask(lane, RELEASE, params, pending)
        else:
            assert lane.across is not None  # else it could not have asked for a terminal
            self._exchange.forward(lane.across, RELEASE, params, pending)


def _known(peer: Peer) -> AgentSessions:
    assert peer.agent_sessions is not None
    return peer.agent_sessions
