"""An agent is started again behind the editor, and gets where it was.

It gets the same `initialize`, takes each open session up again under the same id, one after the
other, and gets what has been set there since. Nobody knows its terminals any more, and they are
released in its place. What it says of those sessions meanwhile, the
conversation so far, reaches nobody; but an agent with several clients may have gone on without this
one, and what was missed of it follows. Prompts wait, and so does whatever else comes for it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.adaptation import untaken
from conductor.core.agent_sessions import LOGINS, UNABLE, AgentSessions, Step, opens_by
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure
from conductor.core.json_text import member_at, read_members, text_of
from conductor.core.jsonrpc import AUTH_REQUIRED, Params, read_error
from conductor.core.parts import Parts
from conductor.core.policy.key_table import STATE_KIND, UPDATE
from conductor.core.policy.own_terminals import RELEASE
from conductor.core.roles.initialize_params import version_of
from conductor.core.state import AgentTerminal, AnswerTo, Lane, Life, Peer, Straight, Visit

_MOST_TERMINALS: Final = 1024
"""Terminals of one agent; the first one is forgotten first."""


class Reviving:
    """The part of a router that brings an agent back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange
        self._asked: Visit | None = None
        """What the present process has not answered: what an earlier one has not, is over."""
        self._steps: deque[Step] = deque()
        """What is to be set yet in the session that the agent has taken up last."""
        self._logged_in = False
        """Whether the present process was asked to log in."""

    # -- it is gone ------------------------------------------------------------------------------

    def leaving(self, peer: Peer, reason: Closure) -> None:
        """An agent is gone, and is being started again: what was open is answered."""
        if peer.closure is not None:
            return
        self._asked = None
        if peer.admitted:
            self._parts.held.on += 1
            peer.admitted = False
        self._parts.endings.leaving(peer, reason)
        self._forget_closed(peer)
        self._release_terminals(peer)
        turns, peer.turns = peer.turns or {}, {}
        for session in turns:
            self._end_turn(peer, session, reason)

    def _forget_closed(self, peer: Peer) -> None:
        """Sessions that components have ended need not go on."""
        exchange, known = self._exchange, _known(peer)
        for session in list(known.open):
            if exchange.sessions.find(exchange.outermost(peer.p, session)).closed:
                del known.open[session]
        known.returning = deque(known.open)

    def _end_turn(self, peer: Peer, session: str, reason: Closure) -> None:
        """Version 2: a turn is over whose prompt has its answer; the client is told why."""
        notice = {"sessionUpdate": "notice", "severity": "error", "title": reason.text}
        notice["description"] = reason.hint
        idle = {"sessionUpdate": STATE_KIND, "state": "idle", "stopReason": "cancelled"}
        for update in (notice, idle):
            params = Raw(json_text.encode({"sessionId": session, "update": update}))
            self._parts.notifications.send_for(peer.p, UPDATE, params)
        known = self._exchange.sessions.get(self._exchange.outermost(peer.p, session))
        self._parts.own_turns.queue.reported(known, "idle")

    # -- it is back ------------------------------------------------------------------------------

    def returned(self, peer: Peer) -> None:
        """The agent's process is there again."""
        if peer.closure is not None:
            return
        self._logged_in = False
        params = _known(peer).initialize
        self._ask(peer, INITIALIZE, params)

    def _ask(self, peer: Peer, method: str, params: Params) -> None:
        """Sends the agent a request."""
        self._asked = pending = self._exchange.own_request(method)
        pending.answer_to = AnswerTo.CONDUCTOR
        pending.followers = (Straight(peer),)
        if method not in LOGINS:  # for a login the user may be needed
            self._parts.initializer.has_time(peer, pending)
        self._exchange.send(peer.p, method, params, pending)

    def answered(self, peer: Peer, pending: Visit, member: bytes, body: bytes) -> None:
        """The agent has answered one."""
        if pending is not self._asked or peer.closure is not None:
            return
        if pending.method == INITIALIZE:
            self._initialized(peer, member, body)
        elif pending.method in LOGINS:
            self._next(peer)
        elif pending.method == _known(peer).opens_by:
            self._opened(peer, member, body)
        else:
            self._is_set(peer, pending.method, member, body)

    def _initialized(self, peer: Peer, member: bytes, body: bytes) -> None:
        known, why = _known(peer), ""
        version = version_of(read_members(body) or {})
        if member == b"error":
            why = f"it refused `{INITIALIZE}`: {read_error(body).message}"
        elif version != known.version:
            why = f"it now speaks ACP {version}, and this chain version {known.version}"
        elif not opens_by(body):
            why = UNABLE
        if why:
            text = f"{peer.label} was started again, and the chain cannot go on with it: {why}"
            hint = "see whether its program was changed meanwhile, and start the chain anew"
            self._parts.endings.closed(peer, Closure(text, hint, {"component": peer.name}))
            return
        known.initialized(known.initialize, body)
        peer.untaken = untaken(body)
        self._next(peer)

    def _next(self, peer: Peer) -> None:
        """The next session, or what waited."""
        known = _known(peer)
        if known.returning:
            self._ask(peer, *known.opening(known.returning[0]))
            return
        peer.handshake, peer.admitted = None, True
        peer.move(Life.READY)
        self._exchange.log("info", peer, f"{peer.label} is back where it was")
        self._parts.waits.resume(peer)
        self._parts.held.release()

    def _opened(self, peer: Peer, member: bytes, body: bytes) -> None:
        """The agent has taken a session up again, or refused to."""
        known = _known(peer)
        session = known.returning[0]
        if member == b"result":
            for params in known.missed(session):
                self._parts.notifications.send_for(peer.p, UPDATE, params)
            self._steps = deque(known.settings(session, body))
            self._set(peer)
            return
        error = read_error(body)
        if error.code == AUTH_REQUIRED and known.login is not None and not self._logged_in:
            self._logged_in = True  # as the client has made it before; then it is asked again
            self._ask(peer, *known.login)
            return
        why = error.message
        known.refused(session, why)
        text = f"{peer.label} was started again and did not take session `{session:.80}` up: {why}"
        self._exchange.log("error", peer, text)
        self._over(peer)

    def _set(self, peer: Peer) -> None:
        """Sets what is not as it was."""
        if self._steps:
            self._ask(peer, *self._steps.popleft())
        else:
            self._over(peer)

    def _is_set(self, peer: Peer, method: str, member: bytes, body: bytes) -> None:
        """The agent has set that, or refused to."""
        if member == b"error":
            what = f"did not set `{method}` in session `{_known(peer).returning[0]:.80}` again"
            text = f"{peer.label} {what}: {read_error(body).message}"
            self._exchange.log("error", peer, text)
        self._set(peer)

    def _over(self, peer: Peer) -> None:
        """A session is where it was, or is lost."""
        _known(peer).returning.popleft()
        self._next(peer)

    # -- its terminals -----------------------------------------------------------------------------

    def asks(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """An agent opens a terminal at its client, or releases one."""
        known, members = _known(lane.peer), read_members(params) or {}
        session = text_of(members.get("sessionId"))
        if method == RELEASE:
            known.terminals.pop((session, text_of(members.get("terminalId"))), None)
            return
        asked = AgentTerminal(lane, session, known.terminals)
        pending.followers = (*pending.followers, asked)

    def has_terminal(self, asked: AgentTerminal, member: bytes, body: bytes) -> None:
        """The client has opened a terminal, or refused to."""
        terminal = text_of(member_at(body, "terminalId"))
        if member == b"error" or not terminal:
            return
        if asked.open is not _known(asked.lane.peer).terminals:  # who asked is gone by now
            self._release(asked.lane, asked.session, terminal)
            return
        asked.open[asked.session, terminal] = None
        if len(asked.open) > _MOST_TERMINALS:
            del asked.open[next(iter(asked.open))]

    def _release_terminals(self, peer: Peer) -> None:
        known = _known(peer)
        terminals, known.terminals = known.terminals, {}
        for session, terminal in terminals:
            self._release(peer.p, session, terminal)

    def _release(self, lane: Lane, session: str, terminal: str) -> None:
        """Releases a terminal in the agent's place, by the way that its own messages go."""
        params = Raw(json_text.encode({"sessionId": session, "terminalId": terminal}))
        pending = self._exchange.own_request(RELEASE)
        pending.answer_to = AnswerTo.CONDUCTOR
        self._parts.requests.send_out(lane, RELEASE, params, pending)


def _known(peer: Peer) -> AgentSessions:
    assert peer.agent_sessions is not None
    return peer.agent_sessions
