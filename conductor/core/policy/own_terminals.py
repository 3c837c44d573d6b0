"""Terminals of the editor's: a component uses those that it has opened, and no others; those of an
agent that has ended are released.

The peer that has opened a terminal owns its id in that session, until the owner releases it,
somebody else gets that id, or the session ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core.guards.reading import as_object, value_of
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import session_of
from conductor.core.session import Session
from conductor.core.state import Follower, Lane, Visit

if TYPE_CHECKING:
    from conductor.core.parts import Parts

CREATE: Final = "terminal/create"
RELEASE: Final = "terminal/release"
FOLLOWED: Final = frozenset((CREATE, RELEASE))
"""The requests that open a terminal, and end it."""
_ID: Final = "terminalId"
_MOST: Final = 1024
"""The most terminals of one owner in one session; the first one is forgotten first."""


class Opening(Follower, msgspec.Struct):
    """Somebody asks for a terminal, by this lane."""

    lane: Lane
    session: Session
    starts: int
    """How often the asker has been started: another instance of an agent has other terminals."""


def asked(parts: Parts, lane: Lane, method: str, params: Params, pending: Visit) -> None:
    """A request of `FOLLOWED` goes on: the agent's, of a component's own, or of a program."""
    exchange, peer = parts.exchange, lane.peer
    session = exchange.sessions.at(parts.names.outermost(lane, session_of(params) or ""))
    if method == CREATE:
        pending.followers = (*pending.followers, Opening(lane, session, peer.starts))
        return
    terminal = as_object(value_of(params)).get(_ID)
    if isinstance(terminal, str) and session.terminals.get(terminal) is peer:
        del session.terminals[terminal]


def opened(parts: Parts, asked: Opening, member: bytes, body: bytes) -> None:
    """A `terminal/create` is answered."""
    terminal = as_object(value_of(body)).get(_ID) if member == b"result" else None
    if not isinstance(terminal, str):
        return
    peer, known = asked.lane.peer, asked.session.terminals
    if peer.agent_sessions is not None and (peer.restarting or peer.starts != asked.starts):
        parts.reviving.release(asked.lane, asked.session, terminal)  # who asked is gone by now
        return
    known[terminal] = peer
    theirs = [one for one, owner in known.items() if owner is peer]
    if len(theirs) > _MOST:
        del known[theirs[0]]
