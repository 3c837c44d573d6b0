"""The services of the conductor: proxies call them on side `c`, or as `_conductor/NAME`.

The core grants or refuses a call; the shell performs it, on a `Serve` effect.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.component import KEPT_ALIASES, Role
from conductor.core.effects import Reached, Serve
from conductor.core.json_text import member_at, read_members, text_of, write_members
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Malformed,
    Params,
)
from conductor.core.parts import Part, Parts
from conductor.core.policy import words
from conductor.core.policy.headings import size_of
from conductor.core.policy.word_table import FAMILIES
from conductor.core.service_table import (
    ALIASES,
    ALWAYS_GRANTED,
    CALLS,
    CONFIG,
    HERE,
    INTERNAL,
    KEEP,
    PAYLOAD_READ,
    PREFIX,
    REBIND,
    SHOWN_GRANTS,
    TURN_BEGIN,
    TURN_END,
    USE_AGENT,
)
from conductor.core.state import Lane, Peer, Visit

_MOST_LOOKED_AT: Final = 8 * 1024 * 1024
"""The most bytes of params in which the target of a call is looked for."""
_MOST_WHERE: Final = 2000
"""The most characters of that target."""

_LONGEST_AGENT: Final = 64
"""Characters of an agent's name in a hint."""

_SHOWN: Final = 80
"""Characters of a name chosen by a component that an error repeats."""


def called(lane: Lane, method: str) -> str | None:
    """The call that `method` names when it comes in on `lane`; None: it is for somebody else.

    The old names are the conductor's only if a proxy sends them plainly: in an envelope they are
    for its successor.
    """
    if method.startswith(PREFIX):
        return method[len(PREFIX) :]
    if lane.peer.role is Role.PROXY and lane is lane.peer.p:
        return ALIASES.get(method)
    return None


def too_large(name: str, size: int, service_bytes: int) -> str | None:
    """Why a call with `size` bytes of params is refused before they are read; None: it is not."""
    own = CALLS[name].most if name in CALLS else None
    most = service_bytes if own is None else own
    if name in INTERNAL or size <= most:
        return None
    if own is not None:
        hint = f"send less at a time: {own:,} bytes are the most for everybody"
    else:
        hint = f"raise it with `,limit.service_bytes={size}` behind the component"
    limit = "" if own is not None else " (limit `service_bytes`)"
    return f"`{name}` takes at most {most:,} bytes of params{limit}, not {size:,}\nhint: {hint}"


def where_of(name: str, params: Params) -> str:
    """The place outside of the chain where a call has its effect; empty: its params do not say."""
    known = size_of(params) <= _MOST_LOOKED_AT
    return text_of(member_at(params, CALLS[name].outside))[:_MOST_WHERE] if known else ""


def _service_of(name: str) -> str:
    """The service in the data of an error: a component may have made up the name."""
    return CALLS[name].service if name in CALLS else name[:_SHOWN]


class Services(Part):
    """Grants and refuses calls, and answers those that the shell has performed."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._open: dict[int, Visit] = {}
        """The calls that the shell performs, by token."""
        self._tokens = count(1)

    def ask(self, lane: Lane, name: str, params: Params, pending: Visit | None) -> None:
        """Has a call performed, or refuses it.

        Args:
            name: a name in `CALLS`, `HERE`, `REBIND`, `USE_AGENT` or `INTERNAL`.
            pending: None: it is a notification.
        """
        peer = lane.peer
        if self._exchange.logs:
            self._exchange.entries.called(lane, name, params, pending)
        refused = _refusal(peer, name, params)
        if refused is not None:
            self._kept_from(peer, name, params, refused)
            self._exchange.log("info", peer, refused)
            if pending is not None:
                data = {"service": _service_of(name)}
                self._exchange.refuse(pending, Malformed(METHOD_NOT_FOUND, refused, data=data))
            return
        wrong = too_large(name, size_of(params), peer.component.allowance.service_bytes)
        if wrong is not None:
            self._kept_from(peer, name, params, wrong)
            self._decline(peer, name, wrong, pending)
            return
        self._take(peer, name, params, pending)

    def _take(self, peer: Peer, name: str, params: Params, pending: Visit | None) -> None:
        """A call that may be made: a few are taken here, the shell performs all others."""
        if name == CONFIG:
            self._config(peer, pending)
        elif name == KEEP:
            self._keep(peer, params, pending)
        elif name == PAYLOAD_READ:
            self._read(peer, params, pending)
        elif name == TURN_BEGIN:
            self._begin_turn(peer, params, pending)
        elif name == TURN_END:
            self._parts.own_turns.end(peer, params, pending)
        elif name == REBIND:
            self._parts.rebinding.ask(peer, params, pending)
        elif name == USE_AGENT:
            self._use_agent(peer, params, pending)
        else:
            self.perform(peer, name, params, pending)

    def _kept_from(self, peer: Peer, name: str, params: Params, why: str) -> None:
        """Reports a call that would have had an effect outside of the chain."""
        if name in CALLS and CALLS[name].outside:
            where = where_of(name, params)
            self._exchange.emit(
                Reached(peer.name, name, where, size_of(params), why.partition("\n")[0])
            )

    def perform(self, peer: Peer, name: str, params: Params, pending: Visit | None) -> None:
        """Has the shell perform a call."""
        token = None
        if pending is not None:
            token = next(self._tokens)
            self._open[token] = pending
        raw = None if isinstance(params, UnsetType) else bytes(params)
        self._exchange.emit(Serve(peer.name, name, token, raw))

    def _config(self, peer: Peer, pending: Visit | None) -> None:
        if pending is not None:
            self._exchange.reply(pending, b"result", configuration(peer) or b"{}")

    def _use_agent(self, peer: Peer, params: Params, pending: Visit | None) -> None:
        if not self._exchange.topology.hosted:
            self._parts.moving.ask(peer, peer.name, params, pending)
            return
        members = read_members(params) or {}  # the conductor above has the agents
        named = text_of(members.get("sessionId"))
        outer = self._parts.names.outermost(peer.p, named)
        known = write_members({**members, "sessionId": Raw(json_text.encode(outer))})
        self.perform(peer, USE_AGENT, known, pending)

    def _begin_turn(
        self, peer: Peer, params: Params, pending: Visit | None, guest: str = ""
    ) -> None:
        if pending is not None:  # else nobody would learn which turn it is
            self._parts.own_turns.begin(peer, params, pending, guest)

    def relayed(self, peer: Peer, guest: str, name: str, params: bytes, token: int | None) -> None:
        """See `conductor.core.router.Router.relayed`."""
        pending = None if token is None else self._open.pop(token)
        if name == REBIND:
            self._parts.rebinding.relayed(peer, guest, Raw(params), pending)
        elif name == USE_AGENT:
            self._parts.moving.ask(peer, guest, Raw(params), pending)
        elif name == TURN_END:
            self._parts.own_turns.end(peer, Raw(params), pending, guest)
        else:
            self._begin_turn(peer, Raw(params), pending, guest)

    def _read(self, peer: Peer, params: Params, pending: Visit | None) -> None:
        try:
            if peer.payloads is None:
                raise ValueError("it gets no references: its limit `text_bytes` is off")
            part = peer.payloads.read(params)
        except ValueError as error:
            self._decline(peer, PAYLOAD_READ, f"`{PAYLOAD_READ}`: {error}", pending)
        else:
            if pending is not None:
                self._exchange.reply(pending, b"result", part)

    def _keep(self, peer: Peer, params: Params, pending: Visit | None) -> None:
        members = read_members(params)
        if members is not None and KEPT_ALIASES in members:
            self._decline(peer, KEEP, f"`{KEPT_ALIASES}` is the conductor's own", pending)
            return
        if isinstance(params, UnsetType) or not peer.kept.update(params):
            self._decline(peer, KEEP, f"`{KEEP}` takes an object: the value to keep", pending)
            return
        self._exchange.emit(Serve(peer.name, KEEP, None, bytes(params)))
        if pending is not None:
            self._exchange.reply(pending, b"result", b"{}")

    def _decline(self, peer: Peer, name: str, wrong: str, pending: Visit | None) -> None:
        """Refuses a call with wrong params."""
        self._exchange.log("warning", peer, f"{peer.label}: {wrong}")
        if pending is not None:
            data = {"service": _service_of(name)}
            self._exchange.refuse(pending, Malformed(INVALID_PARAMS, wrong, data=data))

    def served(self, token: int, result: bytes | None, error: bytes | None) -> None:
        """Answers the call of a `Serve` effect, if the peer is still there."""
        pending = self._open.pop(token)
        if result is not None:
            self._exchange.reply(pending, b"result", result)
        elif error is not None:
            self._exchange.reply(pending, b"error", error)
        else:
            text = f"service `{pending.method}` had no answer"
            self._exchange.refuse(pending, Malformed(INTERNAL_ERROR, text))

    def configure(self, peer: Peer) -> None:
        """The `configure` notification, which a proxy gets before anything else."""
        params = configuration(peer)
        if params is not None:
            self.tell(peer, "configure", params)

    def tell(self, peer: Peer, name: str, params: bytes) -> None:
        """A notification from the conductor itself."""
        method = name if peer.sideband else PREFIX + name
        self._exchange.deliver(peer, peer.c.writer.notification(method, params))
        if self._exchange.logs and not peer.component.hosts:
            self._exchange.entries.notified(None, peer.c, name, params)


def _refusal(peer: Peer, name: str, params: Params) -> str | None:
    """Why a component may not make a call; None: it may."""
    if peer.role is not Role.PROXY:
        return f"Method not found: `{PREFIX}{name[:_SHOWN]}` is for proxies only"
    granted = peer.component.services
    if name in INTERNAL and granted is not None and name in granted:
        return None
    if name in HERE:
        return None
    if name in (REBIND, USE_AGENT):
        return _refusal_of_sessions(peer, name, params)
    if name not in CALLS:
        return f"Method not found: the conductor has no service `{name[:_SHOWN]}`"
    service = CALLS[name].service
    if granted is None or service in granted or service in ALWAYS_GRANTED:
        return None
    word = SHOWN_GRANTS.get(service, service)
    return _not_granted(peer, f"service `{service}`", words.cure(word, peer.component.denied))


def _refusal_of_sessions(peer: Peer, name: str, params: Params) -> str | None:
    """Why a component may have no session go on elsewhere by this call; None: it may."""
    state = peer.policy_state
    enforced = state is not None and state.enforced
    if state is not None and enforced and state.policy.watched:
        return f"Method not found: `{name}`: {peer.label} is only watched"
    may = bool(peer.component.agents)
    if name == REBIND:
        may = state is None or not enforced or bool(state.policy.grants.sessions)
    if may:
        return None
    if name == REBIND:
        return _not_granted(peer, f"`{name}`", words.cure("prompt:unseen", peer.component.denied))
    agent = text_of((read_members(params) or {}).get("agent"))
    if len(agent) > _LONGEST_AGENT or not re.fullmatch(FAMILIES["agent"].pattern, agent):
        agent = "NAME"
    cure = words.cure(f"agent:{agent}", peer.component.denied)
    return _not_granted(peer, f"`{name}`", f"{cure}, with `-c peer.{agent}=COMMAND`")


def _not_granted(peer: Peer, what: str, cure: str) -> str:
    return f"Method not found: {what} is not granted to {peer.label}\nhint: {cure}"


def configuration(peer: Peer) -> bytes | None:
    """The params of `configure`; None: there is nothing to send.

    They are the settings, and the peer agents of the component. An instance that is not the first
    also learns its number, and gets the members that former instances kept.
    """
    component = peer.component
    instance = component.instance
    if peer.starts > 1:
        instance = f"{instance or 1}.{peer.starts}"
    # A component that kept something gets it back, even if it has no settings.
    reaches = list(component.ports) if not component.hosts else []
    settings = component.configure
    if settings is None and (peer.kept or reaches):
        settings = b"{}"
    members = read_members(settings) if instance or reaches else None
    if members is None:
        return component.configure
    if reaches:
        members["peers"] = Raw(json_text.encode(reaches))
    if instance:
        members["instance"] = Raw(json_text.encode(instance))
        if peer.kept:
            members["kept"] = Raw(peer.kept.to_json())
    return bytes(write_members(members))
