"""The call `agent/use`: a session of the client's goes on with another agent of the chain.

The further agents stand beside the chain's agent, joined to the same neighbour: their messages go
the way of its messages. All other peers know a session by the id of the chain's agent. A further
agent has an id of its own for the session, which is changed where messages are read from this agent
and written to it (`conductor.core.aliases.Names`).

A session moves while the component that asks holds a prompt of the user's there, and nothing else
is open in it. The session is opened with the new agent as it was with the chain's, and gets the
settings that the user has made. With an agent that has had the session before, it goes on where it
was. An agent's notifications about a session that is at another agent are dropped, and its requests
there are refused.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.agent_sessions import AgentSessions
from conductor.core.aliases import renamed
from conductor.core.effects import Closure
from conductor.core.guards import connected
from conductor.core.guards.modes import SET_OPTION, Refused, choice
from conductor.core.json_text import holds, write_members
from conductor.core.jsonrpc import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Malformed,
    Message,
    Params,
    canonical_id,
    read_error,
)
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import addresses, session_of, size_of
from conductor.core.policy.key_table import (
    CLOSING,
    COMMANDS_KIND,
    MCP_FAMILIES,
    PROMPT,
    SETTINGS,
    SETUP,
    UPDATE,
)
from conductor.core.rebinding import MARK
from conductor.core.service_table import USE_AGENT
from conductor.core.session import Said, Work
from conductor.core.state import AnswerTo, Batch, Lane, Noted, Peer, Step, Visit

_NEW, _LOAD, _RESUME, _FORK = SETUP
_SET_UP_BY: Final[tuple[str, ...]] = ("cwd", "additionalDirectories", "mcpServers")
"""The members of a set-up that mean the same to every agent."""
_COMMANDS: Final = COMMANDS_KIND.encode()
_MOST: Final = 1024
"""The most sessions that further agents have, and the most lists of commands that are kept."""
_MOST_BYTES: Final = 64 * 1024
"""The most bytes of one such list."""
_MOST_CONNECTIONS: Final = 16_384
_SHOWN: Final = 80

_Script = Generator[tuple[str, Params], tuple[bytes, bytes], None]
"""Requests to the new agent, one after the other; the generator gets the answer to each."""


class _Wanted(msgspec.Struct):
    sessionId: str  # noqa: N815 - a name of the wire
    agent: str = ""


_wanted: Final = json_text.Decoder(_Wanted)


class Place(msgspec.Struct):
    """The place of a session that further agents have had."""

    agent: Peer
    """The agent with which it goes on now."""
    said: dict[str, Said] = {}
    """The reports of each other agent that has the session, by the agent's name."""


class Move(msgspec.Struct, eq=False):
    """A session is to go on with another agent."""

    peer: Peer
    """The component that asks, or its host."""
    named: str
    """The component's id of the session."""
    session: str
    """The id that the chain's agent has for it."""
    to: Peer
    pending: Visit | None
    agents: list[str]
    """The agents among which the component may choose."""
    prompt: Visit | None
    """The user's prompt that the component holds."""
    script: _Script | None = None
    step: Step | None = None
    """The step that the new agent has not answered."""
    refused: Refused = {}


class Moving(Part):
    """The part of a router that knows which agent each session goes on with."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._agent = parts.exchange.topology.agent
        """The chain's agent."""
        self._places: dict[str, Place] = {}
        """By the ids of the chain's agent, as in the fields below."""
        self._moves: dict[str, Move] = {}
        """The moves that are not over."""
        self._commands: dict[tuple[str, str], Raw] = {}
        """The commands that each agent has listed last in each session."""
        self._connections: dict[str, Lane] = {}
        """MCP connections of further agents."""

    @property
    def _known(self) -> AgentSessions:
        """The sessions of the chain's agent: how they were set up, and their settings since."""
        assert self._agent.agent_sessions is not None
        return self._agent.agent_sessions

    def agent(self, session: str) -> Peer:
        """The agent with which a session goes on."""
        place = self._places.get(session)
        return self._agent if place is None else place.agent

    # -- the call --------------------------------------------------------------------------------

    def ask(self, peer: Peer, guest: str, params: Params, pending: Visit | None) -> None:
        """A component calls `agent/use`. `guest`: the component; `peer`: it, or its host."""
        wanted = _wanted.find(params)
        agents = [name for name, by in peer.component.agents.items() if by == guest]
        agents.insert(0, self._agent.name)
        if wanted is None:
            self._decline(peer, "takes the id of a session, and the name of an agent", pending)
            return
        outer = self._parts.names.outermost(peer.p, wanted.sessionId)
        session = self._parts.names.innermost(self._exchange.upstream.p, outer)
        here = self.agent(session)
        to = next((name for name in agents if name == wanted.agent), here.name)
        move = Move(
            *(peer, wanted.sessionId, session, self._exchange.peers[to], pending, agents),
            next((one for one in self._open if one.method == PROMPT and one.names == outer), None),
        )
        if wanted.agent and (wanted.agent not in agents or len(agents) == 1):
            known = ", ".join(f"`{name}`" for name in agents)
            text = f"there is no agent `{wanted.agent[:_SHOWN]}` for it; there is {known}"
            self._decline(peer, f"{text}\nhint: add one: `-c peer.NAME=COMMAND`", pending)
        elif move.to is here:
            self._reply(move)
        elif (wrong := self._unfit(move)) is not None:
            self._decline(peer, wrong, pending)
        else:
            self._moves[session] = move
            move.script = self._way(move)
            self._next(move, None)

    def _unfit(self, move: Move) -> str | None:
        """Why a session may not go on with another agent now; None: it may."""
        to, outer = move.to, self._parts.names.outermost(move.peer.p, move.named)
        open_ = self._parts.rebinding.open_in(move.peer, {outer})
        if not self._is_asked(move):
            return "the user has not asked for it: it takes a prompt that waits for the component"
        if open_ is not None:
            return f"{open_} is open in the session\nhint: wait until that is over"
        other = self._moves.get(move.session)
        if other not in (None, move) and self._is_asked(other):
            return f"the session moves to `{other.to.name}` already"
        if to.closure is not None:
            hint = f"\nhint: {to.closure.hint}" if to.closure.hint else ""
            return f"{to.closure.text}{hint}"
        if self._known.setup(move.session) is None:
            return "nobody has seen how the session was set up\nhint: load it, or begin a new one"
        if len(self._places) >= _MOST and move.session not in self._places:
            return f"{_MOST} sessions have had other agents\nhint: close those that are done"
        return None

    @property
    def _open(self) -> list[Visit]:
        """The client's requests without an answer, the latest first."""
        return [*self._exchange.upstream.p.requests.received.values()][::-1]

    def _is_asked(self, move: Move) -> bool:
        """Whether the component holds the user's prompt still."""
        lane = move.peer.p.other
        return self._parts.own_turns.holds_still(move.prompt, lane, move.named)

    def _decline(self, peer: Peer, wrong: str, pending: Visit | None) -> None:
        self._exchange.log("warning", peer, f"{peer.label}: `{USE_AGENT}`: {wrong}")
        if pending is not None:
            data = {"service": USE_AGENT}
            self._exchange.refuse(pending, Malformed(INVALID_PARAMS, wrong, data=data))

    def _reply(self, move: Move) -> None:
        unset = [f"{method}: {why}" for (method, _), why in move.refused.items()]
        told = {"agent": move.to.name, "agents": move.agents, "unset": unset}
        if move.pending is not None:
            self._exchange.reply(move.pending, b"result", json_text.encode(told))

    # -- the new agent ---------------------------------------------------------------------------

    def answered(self, step: Step, pending: Visit, member: bytes, body: bytes) -> None:
        """The new agent has answered a step. If nobody waits any more for a session that the agent
        has opened, the agent is to close the session."""
        move = self._moves.get(step.session)
        opened = session_of(Raw(body)) if pending.method == _NEW and member == b"result" else None
        if move is not None and move.step is step:
            self._next(move, (member, body))
        elif opened is not None and pending.target is not None:
            agent = pending.target.peer
            self._parts.endings.end_session(agent.p, agent.answered, opened)

    def _next(self, move: Move, answer: tuple[bytes, bytes] | None) -> None:
        script, exchange = move.script, self._exchange
        assert script is not None
        try:
            method, params = next(script) if answer is None else script.send(answer)
        except StopIteration:
            del self._moves[move.session]
            return
        pending = exchange.own_request(method)
        pending.answer_to = AnswerTo.CONDUCTOR
        move.step = Step(move.session)
        pending.followers = (move.step,)
        exchange.go(move.to.p, method, params, pending)

    def _way(self, move: Move) -> _Script:
        session, to, known = move.session, move.to, self._known.setup(move.session)
        place = self._places.get(session) or Place(self._agent)
        assert known is not None
        if to.name not in place.said:
            given = {name: known.setup[name] for name in _SET_UP_BY if name in known.setup}
            member, body = yield _NEW, write_members(given)
            wrong = self._opened(place, move, member, body)
            if wrong is not None:
                self._decline(move.peer, wrong, move.pending)
                return
        said = place.said[to.name]
        for which, value in list(known.choices.items()):
            offered = which in said.settings and (which[0] == SET_OPTION or value in said.modes)
            if not offered or said.settings[which] == value:
                continue
            member, body = yield which[0], choice(session, which, value, self._exchange.version)
            if member == b"error":
                move.refused[which] = read_error(body).message
            else:
                said.settings = {**said.settings, which: value}
                self._exchange.sessions.hears(said, body)
        wrong = self._unfit(move)
        if wrong is not None:
            self._decline(move.peer, wrong, move.pending)
        else:
            self._goes_on(place, move)

    def _opened(self, place: Place, move: Move, member: bytes, body: bytes) -> str | None:
        """Takes the new agent's answer to `session/new`; returns its fault, or None."""
        to, id_ = move.to, session_of(Raw(body)) if member == b"result" else None
        if member == b"error":
            error = read_error(body)
            login = "\nhint: log in to it first, as `conductor agents` says"
            hint = login if error.code == AUTH_REQUIRED else ""
            return f"{to.label} opens no session: {error.message}{hint}"
        assert to.names is not None
        if id_ is None or id_ in to.names.up:
            return f"{to.label} answered `{_NEW}` without the id of a new session"
        to.names.bind(move.session, id_)
        place.said[to.name] = self._exchange.sessions.said(body)
        self._places[move.session] = place
        return None

    def _goes_on(self, place: Place, move: Move) -> None:
        """The session is the new agent's from now on: the user's client learns the agent's name."""
        session, to, rebinding = move.session, move.to, self._parts.rebinding
        now = place.said.pop(to.name)
        was = self._exchange.sessions.goes_on(session, now)
        place.said[place.agent.name], place.agent = was, to
        self._shows_place(session, to)
        rebinding.tell_settings(to, session, was, now)
        listed = self._commands.get((to.name, session))
        if listed is None:
            self._parts.notifications.shows(to, session, COMMANDS_KIND, availableCommands=[])
        else:
            self._parts.notifications.send_for(to.p, UPDATE, listed)
        facts = [f"; without what you set by `{m}`: {w}" for (m, _), w in move.refused.items()]
        text = f"`{to.name}` goes on with this session{''.join(facts)}"
        rebinding.say(move.peer, move.named, text, "info")
        self._reply(move)

    def _shows_place(self, session: str, to: Peer) -> None:
        """Tells in the agent's place with which agent a session goes on, so components learn it
        too."""
        meta = {MARK: {"agent": to.name}}
        self._parts.notifications.shows(to, session, "session_info_update", _meta=meta)

    # -- where messages go -----------------------------------------------------------------------

    def leads(self, lane: Lane, method: str, params: Params, pending: Visit | None) -> Lane:
        """The lane of the agent that gets a message to the chain's agent. Raises `Malformed` for a
        request that no agent can do."""
        if pending is not None and any(type(one) is Step for one in pending.followers):
            return lane
        if method.startswith(MCP_FAMILIES):
            named = (self._connections.get(one) for one in addresses(method, params))
            return next((one for one in named if one is not None), lane)
        session = session_of(params) or ""
        if method in CLOSING or method in (_LOAD, _RESUME):
            self._leaves(session)
            return lane
        place = self._places.get(session)
        if place is not None and place.agent is not self._agent:
            if method == _FORK:
                hint = f"hint: go on with `{self._agent.name}` first, which has the beginning"
                text = f"`{place.agent.name}` goes on with this session, which cannot be forked"
                raise Malformed(INVALID_REQUEST, f"{text}\n{hint}")
            if method in SETTINGS and pending is not None:
                pending.followers = (*pending.followers, Noted(params, self._known))
            return place.agent.p
        return lane

    def _leaves(self, session: str) -> None:
        """The client ends a session, or sets it up again: the chain's agent alone has it."""
        agent, peers = self._agent, self._exchange.peers
        move, place = self._moves.pop(session, None), self._places.pop(session, None)
        if move is not None:
            wrong = "the client has ended the session, or set it up again"
            self._decline(move.peer, wrong, move.pending)
        if place is None:
            return
        for name in {place.agent.name, *place.said} - {agent.name}:
            names = peers[name].names
            assert names is not None
            if peers[name].ready:
                self._parts.endings.end_session(peers[name].p, peers[name].answered, session)
            names.forget(session)
        if place.agent is not agent:
            self._exchange.sessions.goes_on(session, place.said[agent.name])
            self._shows_place(session, agent)

    def connected(self, lane: Lane, method: str, member: bytes, body: bytes) -> None:
        """A further agent has opened an MCP connection."""
        if member == b"result" and lane.peer is not self._agent:
            for one in connected(method, Raw(body)):
                self._connections[one] = lane
            while len(self._connections) > _MOST_CONNECTIONS:
                del self._connections[next(iter(self._connections))]

    # -- messages of agents ----------------------------------------------------------------------

    def comes(self, lane: Lane, message: Message, batch: Batch | None) -> Message | None:
        """A message of an agent, with the ids that all others know; None: it goes nowhere, since
        the session is at another agent."""
        peer, method = lane.peer, message.method
        assert peer.names is not None
        if isinstance(message.params, Raw) and peer.names.up:
            params = Raw(renamed(bytes(message.params), peer.names.up))
            message = msgspec.structs.replace(message, params=params)
        session = session_of(message.params)
        if session is None:
            return message
        if method == UPDATE and isinstance(message.params, Raw):
            self._hears(peer, session, message.params)
        here = self.agent(session)
        is_its_own = session not in self._places and session not in self._exchange.sessions
        if here is peer or (peer is not self._agent and is_its_own):  # as one of its sub-agents
            return message
        text = f"`{method}`: session `{session:.{_SHOWN}}` is not at {peer.label} now"
        key = canonical_id(message.id) if isinstance(message.id, Raw) else None
        if key is not None:
            self._parts.rejections.reject(lane, Malformed(INVALID_REQUEST, text, key), batch)
        else:
            self._exchange.log("debug", peer, f"{text}; dropped")
            if batch is not None:
                self._exchange.add_to_batch(lane, batch, None)
        return None

    def _hears(self, peer: Peer, session: str, params: Raw) -> None:
        """Keeps the facts of an update for the time when the session is at this agent again."""
        place, listed = self._places.get(session), self._commands
        if holds(bytes(params), _COMMANDS) and size_of(params) <= _MOST_BYTES:
            listed.pop((peer.name, session), None)
            listed[peer.name, session] = Raw(bytes(params))
            if len(listed) > _MOST:
                del listed[next(iter(listed))]
        if place is not None and peer.name in place.said:
            self._exchange.sessions.hears(place.said[peer.name], params)

    def gone(self, peer: Peer, reason: Closure) -> None:
        """A further agent has ended. Version 2: turns whose prompt has its answer are over."""
        for session, place in self._places.items():
            known = self._exchange.sessions.at(self._parts.names.outermost(peer.p, session))
            if place.agent is peer and known.work is not Work.IDLE:
                self._parts.endings.complains(peer, known, reason)
                self._parts.endings.stopped(peer, known)
