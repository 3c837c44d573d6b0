"""The ids of each session where messages pass, and the table that has the session."""

from __future__ import annotations

from msgspec import Raw

from conductor.core.aliases import Aliases, to_json
from conductor.core.component import KEPT_ALIASES, Role
from conductor.core.effects import Serve
from conductor.core.json_text import write_members
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import Direction
from conductor.core.policy.sessions import Sessions
from conductor.core.session import Session
from conductor.core.state import Lane, Peer, Visit
from conductor.core.topology import join, onward


class SessionNames(Part):
    """The part of a router that knows the ids of sessions at each lane."""

    def alias(self, peer: Peer, aliases: Aliases) -> None:
        """A component has these aliases from now on."""
        lane = peer.p.other
        lane.aliases = aliases if aliases.down else None
        self._exchange.sessions.adopted(peer.name, aliases)
        if lane.across is not None and lane.across.across is lane:
            join(lane, lane.across)
        # So another instance goes on with the aliases, also in another host.
        kept = bytes(write_members({KEPT_ALIASES: Raw(to_json(lane.aliases))}))
        peer.kept.update(kept)
        self._exchange.emit(Serve(peer.name, "keep", None, kept))

    def is_set_aside(self, lane: Lane, session: str | None) -> bool:
        """Whether an id, on the successor side of a component, names a session of others as it was
        before it went on as the component's own. To a policed component such an id names nothing.
        """
        aliases = lane.aliases
        if session is None or aliases is None or not aliases.sets_aside(session):
            return False
        return self._exchange.sessions.client(aliases.down[session]) != lane.peer.name

    @staticmethod
    def outermost(lane: Lane, session: str) -> str:
        """The client's id of a session that has this id where messages go up by `lane`."""
        for here, there in onward(lane):
            session = (here.renames or {}).get(session, session)
            if there.peer.role is Role.PROXY:
                for aliases in reversed(there.peer.inside):
                    session = aliases.up.get(session, session)
        return session

    def sessions_of(self, agent: Peer) -> Sessions:
        """The table with the sessions of an agent: of the chain's, or of a peer agent."""
        if agent.p.port:
            return self._parts.ports.sessions(agent.p.across)
        return self._exchange.sessions

    def is_at(self, agent: Peer, session: Session) -> bool:
        """Whether a session is at this agent now, and not at another with which it goes on."""
        return agent.names is None or self._parts.moving.agent(self.below(agent, session)) is agent

    def at_agent(self, lane: Lane, session: str) -> Session:
        """The session that has this id with the agent that sends by `lane`."""
        return self.sessions_of(lane.peer).at(self.outermost(lane, session))

    def below(self, agent: Peer, session: Session) -> str:
        """An agent's id of a session."""
        client = self._exchange.upstream.p
        return session.name if agent.p.port else self.innermost(client, session.name)

    @staticmethod
    def innermost(lane: Lane, session: str) -> str:
        """The agent's id of a session that has this id where messages go down by `lane`."""
        for here, there in onward(lane):
            session = (here.renames or {}).get(session, session)
            for aliases in there.peer.inside:
                session = aliases.down.get(session, session)
        return session

    def follow(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A request that sets a session up, or something in it, leaves by `lane`."""
        session = session_of(params)
        below = None if session is None else self.innermost(lane, session)
        client = lane is self._exchange.upstream.p
        self._exchange.sessions.follow(method, params, pending, below, client=client)

    def known_as(self, origin: Lane, session: str) -> str:
        """The client's id of a session that a message names which came in on this lane."""
        if origin is self._exchange.upstream.p:
            return session
        up = origin
        if origin.direction is Direction.DOWN:
            up = origin.other
            for aliases in reversed(origin.peer.inside):
                session = aliases.up.get(session, session)
        return self.outermost(up, session)
