"""Messages at a port: between a component and its peer agent, beside the chain.

A component is the client of its peer agent. A component with a policy may do there all that
`prompt:unseen` lets it do in the chain: it opens sessions in the folders of the client's sessions,
prompts in them, and serves MCP servers of its own to them. The guards judge its messages as they do
in the chain, by the peer agent's own reports on its sessions. No user is there, so the conductor
answers each request for a permission as cancelled.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Raw

from conductor.core import guards
from conductor.core.dialects import ROLES
from conductor.core.effects import Reached
from conductor.core.guards import Violation
from conductor.core.guards.paths import inside, is_absolute
from conductor.core.guards.reading import as_object, value_of
from conductor.core.guards.servers import own_only
from conductor.core.json_text import holds, read_members, write_members
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Malformed,
    Params,
    error_object,
)
from conductor.core.parts import Part, Parts
from conductor.core.policy.checks import WATCH, error, refusal
from conductor.core.policy.headings import addresses, heading, session_of
from conductor.core.policy.key_table import (
    COMMANDS_KIND,
    PERMISSION,
    PROMPT,
    SESSION_NAMES,
    SETUP,
    STOP,
    UPDATE,
    Direction,
)
from conductor.core.policy.rules import Grants
from conductor.core.policy.sessions import MAKES_ONE, Sessions
from conductor.core.policy.turns import NOT_GIVEN
from conductor.core.state import AtPort, Lane, Peer, Visit

_NEW: Final = SETUP[0]
_CLOSE: Final = "session/close"
_SESSION: Final = SESSION_NAMES[0]
_ASKS: Final = frozenset({_NEW, PROMPT, _CLOSE})
"""The requests that a component with a policy may send its peer agent, beside MCP."""
_TELLS: Final = frozenset({STOP})
"""The notifications that it may send there. No method of a request: nobody would count that."""
_MCP: Final = ("mcp/", "_mcp/")
_MEMBERS: Final = {
    _NEW: frozenset({"cwd", "additionalDirectories", "mcpServers"}),
    _CLOSE: frozenset({_SESSION}),
    STOP: frozenset({_SESSION}),
}
"""All members that these messages may have: an agent may take any other member for an option."""
_GRANTS: Final = Grants(sessions="own")
"""The grants of a component at each of its ports: its grants in the chain hold in the chain
only."""
_COMMANDS: Final = COMMANDS_KIND.encode()


class Ports(Part):
    """The part of a router that knows which messages may pass at ports."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sessions: dict[str, Sessions] = {}
        """By port: the sessions with its peer agent. Another agent may use the same ids."""

    @staticmethod
    def named(peer: Peer, name: str, method: str) -> Lane:
        """The lane of an envelope's `peer`. Raises `Malformed`."""
        port = peer.ports.get(name)
        if port is None:
            known = ", ".join(f"`{one}`" for one in peer.ports) or "none"
            text = f"{peer.label} has no peer agent `{name:.80}`; it has {known}"
            hint = (
                "give it one: `-c peer.NAME=COMMAND`, and `,allow=peer:NAME` behind the component"
            )
            raise Malformed(INVALID_PARAMS, f"{text}\nhint: {hint}")
        if method in ROLES:
            raise Malformed(INVALID_REQUEST, f"conductor itself initializes peer agent `{name}`")
        return port

    def ask(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request on across a port; `Malformed` where it may not pass."""
        assert lane.across is not None
        if lane.direction is Direction.DOWN:
            # The request is the component's own: it is none of those that pass a host of guests.
            pending.flow.own = True
            wrong = self._wrong(lane, method, params)
            if wrong is not None:
                raise Malformed(INVALID_REQUEST, wrong)
            violation = self._violation(lane, method, params)
            if violation is not None:
                told = heading(method, params)
                self._parts.checks.report(lane, told, violation)
                raise refusal(lane.peer, violation)
            self._parts.own_turns.own_prompts.at_port(lane, params, pending)
            self._follow(lane, method, params, pending)
        elif method == PERMISSION and _policed(lane.across):
            text = f"`{lane.peer.name}` asks for a permission, and no user is there: cancelled"
            self._exchange.log("info", lane.across.peer, text)
            self._exchange.reply(pending, b"result", NOT_GIVEN)
            return
        elif _judged(lane.across):
            pending.rewriters = (*pending.rewriters, AtPort(lane.across, params))
        self._exchange.forward(lane.across, method, params, pending)

    def passes(self, lane: Lane, method: str, params: Params) -> bool:
        """Whether a notification passes at a port."""
        if lane.direction is Direction.UP:
            if method == UPDATE and isinstance(params, Raw) and holds(bytes(params), _COMMANDS):
                self.sessions(lane.across).learn(params)
            return True
        if not _policed(lane):
            return True
        wrong = _surplus(method, params) if _lets(method, _TELLS) else _refused(lane)
        violation = self._violation(lane, method, params) if wrong is None else None
        if violation is not None:
            told = heading(method, params)
            self._parts.checks.report(lane, told, violation)
        elif wrong is not None:
            self._exchange.log("warning", lane.peer, f"`{method}` dropped: {wrong}")
        return wrong is None and violation is None

    def _wrong(self, lane: Lane, method: str, params: Params) -> str | None:
        """Why a request of a component does not go on to its peer agent; None: it does."""
        if not _policed(lane):
            return None
        if not _lets(method, _ASKS):
            return f"`{method}`: {_refused(lane)}"
        return _surplus(method, params) or (self._misplaced(params) if method == _NEW else None)

    def _misplaced(self, params: Params) -> str | None:
        """The fault of a session that a component with a policy wants to open; None: it has
        none."""
        members = as_object(value_of(params))
        more = members.get("additionalDirectories", [])
        folders = [members.get("cwd"), *(more if isinstance(more, list) else [more])]
        known = self._exchange.sessions.folders
        if not all(isinstance(f, str) and is_absolute(f) and inside(f, known) for f in folders):
            return "a session with a peer agent works in folders of the client's sessions"
        servers = members.get("mcpServers", [])
        if not isinstance(servers, list):
            return "a session with a peer agent has a list of MCP servers"
        return next((text for text, _ in own_only(servers)), None)

    # -- the guards ------------------------------------------------------------------------------

    def _violation(self, lane: Lane, method: str, params: Params) -> Violation | None:
        """The violation of a message to a peer agent; None: there is none. A prompt may be a change
        of a prompt that the component holds: then the user's own words stay."""
        if not _judged(lane):
            return None
        if lane.peer.policy_state is not None and lane.peer.policy_state.policy.watched:
            return Violation(WATCH, f"would send `{method}` to its peer agent `{lane.port}`")
        session = session_of(params)
        context = self._context(lane, session, addresses(method, params))
        if not method.startswith(_MCP) and method != _NEW and not context.own:
            text = f"{session or ''!a:.80} is no session that it has opened with `{lane.port}`"
            return Violation("own-sessions", text)
        found = guards.originated(context, "down", method, params)
        if found is None or method != PROMPT:
            return found
        for held in _held_prompts(lane.peer, params):
            if guards.forwarded(context, "down", PROMPT, held, params) is None:
                return None
        return found

    def answers(
        self, asked: AtPort, pending: Visit, member: bytes, body: bytes
    ) -> tuple[bytes, bytes]:
        """A component's answer to its peer agent, or the error in its place."""
        lane, method, request = asked.port, pending.method, asked.params
        context = self._context(lane, session_of(request), addresses(method, request))
        found = guards.answered(context, "up", method, request, member, body, None)
        if found is None:
            wrong = self._parts.own_turns.own_prompts.samples(lane, Raw(body), pending, here=True)
            if wrong is None:
                return member, body
            return b"error", error_object(wrong.code, wrong.text, wrong.data)
        self._parts.checks.report(lane.other, heading(method, request), found)
        return b"error", error(lane.peer, found)

    def answered(self, port: Lane, pending: Visit, member: bytes, body: bytes) -> None:
        """An MCP server of a component's has answered its peer agent."""
        if member == b"result" and not self._exchange.topology.hosted:
            name, method = port.peer.name, pending.method
            self._exchange.emit(Reached(name, method, port.port, len(body), ""))

    def _context(self, lane: Lane, session: str | None, servers: tuple[str, ...]) -> guards.Context:
        """The guards' context of a message at a port. All MCP servers there are the component's
        own."""
        state, known = lane.peer.policed, self.sessions(lane)
        held = known.find(session)
        return guards.Context(
            version=self._exchange.version,
            component=state.name,
            grants=_GRANTS,
            prompts=True,
            servers=frozenset(servers),
            known=session in known,
            folders=held.folders or self._exchange.sessions.folders,
            commands=held.commands,
            sessions=known,
            own=session is not None and known.client(session) == state.name,
            own_sessions=known.own(state.name),
            names=state.names_of_others,
        )

    # -- sessions with peer agents ---------------------------------------------------------------

    def sessions(self, lane: Lane | None) -> Sessions:
        """The sessions with the peer agent of a port."""
        assert lane is not None
        return self._sessions.setdefault(f"{lane.peer.name}/{lane.port}", Sessions())

    def _follow(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A component opens a session with its peer agent, or ends it; `Malformed` if it has too
        many."""
        known = self.sessions(lane)
        if method == _CLOSE:
            known.closes(session_of(params), pending)
        elif method in MAKES_ONE:
            most = lane.peer.component.allowance.own_sessions
            if _judged(lane) and known.opened(lane.peer.name) >= most:
                text = f"{lane.peer.label} has {most} sessions with `{lane.port}` open"
                raise Malformed(INVALID_REQUEST, f"{text}\nhint: close those that it needs no more")
            known.follow(method, params, pending, payer=self._exchange.sessions.latest)


def _held_prompts(peer: Peer, params: Params) -> list[Raw]:
    """The prompts that a component holds, as they would be in the session that `params` name:
    beside the blocks, they have only members that are sent."""
    sent = read_members(params) or {}
    held = []
    for carried in peer.s.in_flight.requests.values():
        given = read_members(carried.params) if carried.method == PROMPT else None
        if given is not None:
            same = {name: given[name] for name in given if name in sent or name == "prompt"}
            named = {_SESSION: sent[_SESSION]} if _SESSION in sent else {}
            held.append(write_members({**same, **named}))
    return held


def _policed(port: Lane) -> bool:
    return port.peer.component.ports[port.port]


def _judged(port: Lane) -> bool:
    """Whether the guards judge the component's messages here: those of a guest are judged in its
    host, which knows the prompts that the guest holds."""
    return _policed(port) and not port.peer.component.hosts


def _surplus(method: str, params: Params) -> str | None:
    """The fault in the members of a message to a peer agent; None: there is none."""
    known = _MEMBERS.get(method)
    if known is None or not (surplus := sorted(as_object(value_of(params)).keys() - known)):
        return None
    return f"`{method}` to a peer agent has no {surplus[0]!a:.80}"


def _lets(method: str, beside: AbstractSet[str]) -> bool:
    return method in beside or method.startswith(_MCP)


def _refused(lane: Lane) -> str:
    may = "open sessions, prompt in them and cancel"
    return f"{lane.peer.label} has a policy, so with `{lane.port}` it may only {may}"
