"""What passes at a port: between a component and its peer agent, beside the chain.

A component is the client of its peer agent. A component with a policy may do there what it may in
sessions of its own: it opens sessions in the folders of the client's sessions, prompts in them, and
serves MCP servers of its own to them. No user is there, so what that agent asks to be permitted is
answered as cancelled.
"""

from __future__ import annotations

from typing import Final

from conductor.core.dialects import ROLES
from conductor.core.effects import Effects
from conductor.core.exchange import Exchange
from conductor.core.guards.paths import inside, is_absolute
from conductor.core.guards.reading import as_object, value_of
from conductor.core.guards.servers import own_only
from conductor.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Malformed, Params
from conductor.core.own_prompts import OwnPrompts
from conductor.core.policy.key_table import PERMISSION, PROMPT, SETUP, STOP, Direction
from conductor.core.policy.turns import NOT_GIVEN
from conductor.core.state import Lane, Peer, PendingRequest

_NEW: Final = SETUP[0]
_LETS: Final = frozenset({_NEW, PROMPT, "session/close", STOP})
"""What a component with a policy may send its peer agent, beside MCP."""
_MCP: Final = ("mcp/", "_mcp/")
_MEMBERS: Final = frozenset({"cwd", "additionalDirectories", "mcpServers"})


class Ports:
    """The part of a router that knows what may pass at ports."""

    def __init__(self, exchange: Exchange, own_prompts: OwnPrompts) -> None:
        self._exchange = exchange
        self._own_prompts = own_prompts

    def ask(
        self, lane: Lane, method: str, params: Params, pending: PendingRequest, out: Effects
    ) -> None:
        """Sends a request on across a port; `Malformed` where it may not pass."""
        assert lane.across is not None
        if lane.direction is Direction.DOWN:
            # Its id is its own: of the requests that pass a host of guests, it is none.
            pending.originated = True
            wrong = self._wrong(lane, method, params)
            if wrong is not None:
                raise Malformed(INVALID_REQUEST, wrong)
            self._own_prompts.at_port(lane, params, pending, out)
        elif method == PERMISSION and _policed(lane.across):
            text = f"`{lane.peer.name}` asks for a permission, and no user is there: cancelled"
            self._exchange.log(out, "info", lane.across.peer, text)
            self._exchange.reply(pending, b"result", NOT_GIVEN, out)
            return
        self._exchange.forward(lane.across, method, params, pending, out)

    def passes(self, lane: Lane, method: str, out: Effects) -> bool:
        """Whether a notification passes at a port."""
        if lane.direction is Direction.UP or not _policed(lane) or _lets(method):
            return True
        text = f"`{method}` dropped: {_refused(lane)}"
        self._exchange.log(out, "warning", lane.peer, text)
        return False

    def _wrong(self, lane: Lane, method: str, params: Params) -> str | None:
        """Why a request of a component does not go on to its peer agent; None: it does."""
        if not _policed(lane):
            return None
        if not _lets(method):
            return f"`{method}`: {_refused(lane)}"
        return self._misplaced(params) if method == _NEW else None

    def _misplaced(self, params: Params) -> str | None:
        """What is wrong with the session that a component with a policy wants to open."""
        members = as_object(value_of(params))
        if surplus := sorted(members.keys() - _MEMBERS):
            return f"a session with a peer agent has no {surplus[0]!a:.80}"
        more = members.get("additionalDirectories", [])
        folders = [members.get("cwd"), *(more if isinstance(more, list) else [more])]
        known = self._exchange.sessions.folders
        if not all(isinstance(f, str) and is_absolute(f) and inside(f, known) for f in folders):
            return "a session with a peer agent works in folders of the client's sessions"
        servers = members.get("mcpServers", [])
        if not isinstance(servers, list):
            return "a session with a peer agent has a list of MCP servers"
        return next((text for text, _ in own_only(servers)), None)


def port_of(peer: Peer, name: str, method: str) -> Lane:
    """The lane of an envelope's `peer`. Raises `Malformed`."""
    port = peer.ports.get(name)
    if port is None:
        known = ", ".join(f"`{one}`" for one in peer.ports) or "none"
        text = f"{peer.label} has no peer agent `{name:.80}`; it has {known}"
        hint = "give it one: `--peer NAME=COMMAND`, and `,peers=NAME` behind the component"
        raise Malformed(INVALID_PARAMS, f"{text}\nhint: {hint}")
    if method in ROLES:
        raise Malformed(INVALID_REQUEST, f"conductor itself initializes peer agent `{name}`")
    return port


def _policed(port: Lane) -> bool:
    return port.peer.component.ports[port.port]


def _lets(method: str) -> bool:
    return method in _LETS or method.startswith(_MCP)


def _refused(lane: Lane) -> str:
    may = "open sessions, prompt in them and cancel"
    return f"{lane.peer.label} has a policy, so with `{lane.port}` it may only {may}"
