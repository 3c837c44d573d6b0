"""How the agents outside the chain are initialized: by the conductor, as soon as the chain is.

They are given the client's name and the version of the chain, and no capability of a client: the
component that reaches such an agent serves it no files and no terminals. An agent with which
sessions of the client may go on gets the params that the chain's agent has got.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.adaptation import untaken
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import Params, or_empty, read_error
from conductor.core.parts import Part
from conductor.core.roles.initialize_params import version_of
from conductor.core.state import AnswerTo, Life, Peer, Visit

LISTED: Final = "conductor/peers"
"""The member of `_meta` that lists the peer agents, in the role request of a component."""
_META: Final = "_meta"
_INFO: Final[tuple[str, ...]] = ("clientInfo", "info")


class PeerAgents(Part):
    """The part of a router that initializes peer agents."""

    def greet(self) -> None:
        """The chain is initialized: its peer agents are initialized too, once."""
        exchange = self._exchange
        if exchange.version is None:
            return
        for peer in exchange.topology.peer_agents:
            if peer.initialize is None and peer.closure is None:
                params = self._params(exchange.version)
                if peer.names is not None and peer.p.across is not None:
                    known = exchange.topology.agent.agent_sessions
                    assert known is not None
                    params = Raw(bytes(or_empty(known.initialize)))
                pending = exchange.own_request(INITIALIZE)
                pending.answer_to = AnswerTo.PEER_AGENT
                peer.initialize = params
                handshake = peer.begin_handshake(pending, params)  # messages for it wait
                self._parts.initializer.has_time(peer, handshake)
                exchange.send(peer.p, INITIALIZE, params, pending)

    def _params(self, version: int) -> Raw:
        given = read_members(self._exchange.upstream.passed) or {}
        info = {name: given[name] for name in _INFO if name in given}
        capabilities = "capabilities" if version > 1 else "clientCapabilities"
        version_and_name: dict[str, Raw] = {"protocolVersion": Raw(b"%d" % version), **info}
        return write_members({**version_and_name, capabilities: Raw(b"{}")})

    def answered(self, pending: Visit, member: bytes, body: bytes) -> None:
        """A peer agent has answered `initialize`."""
        assert pending.target is not None
        peer, version = pending.target.peer, self._exchange.version
        peer.handshake = None
        if member == b"error":
            self._fails(peer, f"refused `{INITIALIZE}`: {read_error(body).message}")
        elif (spoken := version_of(read_members(body) or {})) != version:
            self._fails(peer, f"speaks ACP {spoken}, and this chain version {version}")
        else:
            peer.move(Life.READY)
            peer.untaken, peer.answered = untaken(body), (member, body)
        self._parts.waits.resume(peer)

    def _fails(self, peer: Peer, why: str) -> None:
        reason = Closure(f"{peer.label} {why}", data={"component": peer.name})
        peer.move(Life.GONE, reason)
        text = f"{reason.text}; the chain goes on without this peer agent"
        self._exchange.log("error", peer, text)


def with_peers(params: Params, names: Iterable[str]) -> Params:
    """The params of a role request, with the list of the component's peer agents."""
    members = read_members(params)
    meta = read_members((members or {}).get(_META, Raw(b"{}")))
    if members is None or meta is None:
        return params
    meta[LISTED] = Raw(json_text.encode(list(names)))
    members[_META] = write_members(meta)
    return write_members(members)


def without_peers(params: Params, given: Params) -> Params:
    """Params without the list of peer agents, as the component passes them on.

    Args:
        given: the params before the list was added to them.
    """
    members = read_members(params)
    meta = read_members((members or {}).get(_META))
    if members is None or meta is None or meta.pop(LISTED, None) is None:
        return params
    if meta or _META in (read_members(given) or {}):
        members[_META] = write_members(meta)
    else:
        del members[_META]
    return write_members(members)
