"""An agent is started again behind the editor, and gets where it was.

It gets the same `initialize`, takes each open session up again under the same id, one after the
other, and gets the settings that were made there since. Nobody knows its terminals any more, so
they are released in its place. Its updates of these sessions meanwhile are the conversation so far,
and reach nobody. But an agent with several clients may have gone on without this client: the
updates that the client has missed follow. Prompts and all other messages for the agent wait.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator

from msgspec import Raw

from conductor.core import json_text
from conductor.core.adaptation import untaken
from conductor.core.agent_sessions import LOGINS, UNABLE, AgentSessions, opens_by
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure
from conductor.core.json_text import read_members
from conductor.core.jsonrpc import AUTH_REQUIRED, Params, read_error
from conductor.core.parts import Part, Parts
from conductor.core.policy.key_table import UPDATE
from conductor.core.policy.own_terminals import RELEASE
from conductor.core.roles.initialize_params import version_of
from conductor.core.session import Session, Standing, Work
from conductor.core.state import AnswerTo, Lane, Life, Peer, Straight, Visit

_Script = Generator[tuple[str, Params], tuple[bytes, bytes], None]
"""Requests, one after the other; the generator gets the answer to each."""


class Reviving(Part):
    """The part of a router that brings an agent back."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._asked: Visit | None = None
        """The request that the present process has not answered; those to former processes are
        over."""
        self._script: _Script
        """The requests that the agent is still to get."""

    # -- it is gone ------------------------------------------------------------------------------

    def leaving(self, peer: Peer, reason: Closure) -> None:
        """An agent is gone, and is being started again: open requests are answered."""
        if peer.closure is not None:
            return
        self._asked = None
        if peer.admitted:
            self._parts.held.on += 1
            peer.admitted = False
        self._parts.endings.leaving(peer, reason)
        self._forget_closed(peer)
        self._release_terminals(peer)
        for known in self._exchange.sessions:
            if known.work is not Work.IDLE and self._parts.names.is_at(peer, known):
                # Its prompt has its answer: the client is told why.
                self._parts.endings.complains(peer, known, reason)
                self._parts.endings.stopped(peer, known)

    def _forget_closed(self, peer: Peer) -> None:
        """Sessions that components have ended need not go on."""
        exchange, known = self._exchange, _known(peer)
        for session in known.open:
            outermost = self._parts.names.outermost(peer.p, session)
            if exchange.sessions.get(outermost).standing is Standing.CLOSED:
                known.forgets(session)
        known.returning = deque(known.open)

    # -- it is back ------------------------------------------------------------------------------

    def returned(self, peer: Peer) -> None:
        """The agent's process is there again."""
        if peer.closure is None:
            self._script = self._way_back(peer)
            self._ask(peer, *next(self._script))

    def _ask(self, peer: Peer, method: str, params: Params) -> None:
        """Sends the agent a request."""
        self._asked = pending = self._exchange.own_request(method)
        pending.answer_to = AnswerTo.CONDUCTOR
        pending.followers = (Straight(peer),)
        if method not in LOGINS:  # for a login the user may be needed
            self._parts.initializer.has_time(peer, pending)
        self._exchange.send(peer.p, method, params, pending)

    def answered(self, peer: Peer, pending: Visit, member: bytes, body: bytes) -> None:
        """The agent has answered a request of its way back."""
        if pending is self._asked and peer.closure is None:
            with contextlib.suppress(StopIteration):
                self._ask(peer, *self._script.send((member, body)))

    def _way_back(self, peer: Peer) -> _Script:
        """All requests that an agent gets until it is where it was."""
        known, logged_in = _known(peer), False
        member, body = yield INITIALIZE, known.initialize
        why = _misfit(known, member, body)
        if why:
            text = f"{peer.label} was started again, and the chain cannot go on with it: {why}"
            hint = "see whether its program was changed meanwhile, and start the chain anew"
            self._parts.endings.closed(peer, Closure(text, hint, {"component": peer.name}))
            return
        known.initialized(known.initialize, body)
        peer.untaken = untaken(body)
        while known.returning:
            session = known.returning[0]
            member, body = yield known.opening(session)
            error = read_error(body) if member == b"error" else None
            if error is None:
                for params in known.missed(session):
                    self._parts.notifications.send_for(peer.p, UPDATE, params)
                yield from self._settings(peer, session, body)
            elif error.code == AUTH_REQUIRED and known.login is not None and not logged_in:
                logged_in = True  # as the client has made it before; then it is asked again
                yield known.login
                continue
            else:
                known.refused(session, error.message)
                what = f"did not take session `{session:.80}` up: {error.message}"
                self._complain(peer, f"was started again and {what}")
            known.returning.popleft()
        peer.handshake, peer.admitted = None, True
        peer.move(Life.READY)
        self._exchange.log("info", peer, f"{peer.label} is back where it was")
        self._parts.waits.resume(peer)
        self._parts.held.release()

    def _settings(self, peer: Peer, session: str, body: bytes) -> _Script:
        """Makes the settings that are not as they were, in a session that the agent has taken
        up."""
        for step in _known(peer).settings(session, body):
            member, answer = yield step
            if member == b"error":
                what = f"did not set `{step.method}` in session `{session:.80}` again"
                self._complain(peer, f"{what}: {read_error(answer).message}")

    def _complain(self, peer: Peer, text: str) -> None:
        self._exchange.log("error", peer, f"{peer.label} {text}")

    # -- its terminals -----------------------------------------------------------------------------

    def _release_terminals(self, peer: Peer) -> None:
        for known in self._exchange.sessions:
            for terminal in [one for one, owner in known.terminals.items() if owner is peer]:
                del known.terminals[terminal]
                self.release(peer.p, known, terminal)

    def release(self, lane: Lane, session: Session, terminal: str) -> None:
        """Releases a terminal in the agent's place, by the way that its own messages go."""
        below = self._parts.names.below(lane.peer, session)
        params = Raw(json_text.encode({"sessionId": below, "terminalId": terminal}))
        pending = self._exchange.own_request(RELEASE)
        pending.answer_to = AnswerTo.CONDUCTOR
        self._parts.requests.send_out(lane, RELEASE, params, pending)


def _misfit(known: AgentSessions, member: bytes, body: bytes) -> str:
    """Why a chain cannot go on with an agent that answers `initialize` so; empty: it can."""
    version = version_of(read_members(body) or {})
    if member == b"error":
        return f"it refused `{INITIALIZE}`: {read_error(body).message}"
    if version != known.version:
        return f"it now speaks ACP {version}, and this chain version {known.version}"
    return "" if opens_by(body) else UNABLE


def _known(peer: Peer) -> AgentSessions:
    assert peer.agent_sessions is not None
    return peer.agent_sessions
