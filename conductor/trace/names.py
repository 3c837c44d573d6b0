"""Who a message in a trace comes from and goes to, where the router only knows a host of guests.

A host of several guests is one peer to the router. Which of them is concerned follows from what
each may do: a message goes to the first that may change or answer it. Which of them has sent what
leaves the host it reports itself, just before that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Raw

from conductor.core import UPSTREAM, Trace
from conductor.core.launching import successor_name
from conductor.core.policy.keys import heading
from conductor.core.policy.rights import CARRY, Direction, Policy
from conductor.guest_spec import Hop

CONDUCTOR: Final = "conductor"
"""What a trace calls the conductor itself, where it offers services."""

_ENDS: Final = frozenset({"client", "agent", CONDUCTOR})
"""The names of what is before the chain, behind it, and around it."""

_MOST: Final = 10_000
"""Reports that wait for what they are about."""

_Mark = tuple[str, str | None, int]


def proxy(name: str) -> str:
    """How a proxy is called; never as the ends of the chain are."""
    return f"{name} (proxy)" if name in _ENDS else name


class Names:
    """The names of one chain."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, str]] = {UPSTREAM: ("client", "agent")}
        self._gates: dict[str, list[tuple[str, Policy | None]]] = {}
        self._left: dict[tuple[str, str], deque[tuple[_Mark, str]]] = defaultdict(
            lambda: deque(maxlen=_MOST)
        )
        """What hosts say of messages that are about to leave them, by host and side."""
        self.guests: dict[str, frozenset[str]] = {}
        """The guests of each peer."""
        self.agent = ""
        """The last peer, which may be the agent."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], Sequence[Policy | None]]]) -> None:
        """Names the chain's peers in order, each with its guests and what those may do."""
        for name, guests, policies in chain:
            inside = [proxy(one) for one in guests] or [proxy(name)]
            self._names[name] = self._names[successor_name(name)] = inside[0], inside[-1]
            self.guests[name] = frozenset(guests)
            if len(guests) > 1:
                held = zip(guests, policies, strict=True)
                self._gates[name] = list(held)
            self.agent = name

    def leaving(self, host: str, hop: Hop) -> None:
        """A host reports which of its guests has sent what is about to leave it."""
        self._left[host, hop.side].append(((hop.kind, hop.method, hop.size), hop.source))

    def ends(self, trace: Trace, mode: str) -> tuple[str, str]:
        """Who a request or notification comes from, and goes to."""
        source = self.end(trace.source, trace.source_side, mode)
        target = self.end(trace.target, trace.target_side, mode)
        if trace.source in self._gates:
            source = self._sender(trace) or source
        if trace.target in self._gates:
            target = self._receiver(trace) or target
        return source, target

    def end(self, peer: str, side: str, mode: str) -> str:
        """The name of what is next to the others on a side of a peer."""
        if mode == "agent" and peer == self.agent:
            return "agent"
        return self._names[peer][side == "s"]

    def _sender(self, trace: Trace) -> str | None:
        left = self._left[trace.source, trace.source_side]
        mark = trace.kind, trace.method, len(trace.payload or b"")
        for at, (known, guest) in enumerate(left):
            if known == mark:
                for _ in range(at + 1):  # what is before it did not get far
                    left.popleft()
                return proxy(guest)
        return None

    def _receiver(self, trace: Trace) -> str | None:
        down = trace.target_side == "p"
        gates = self._gates[trace.target]
        direction = Direction.DOWN if down else Direction.UP
        payload = UNSET if trace.payload is None else Raw(trace.payload)
        found = heading(trace.method or "", payload)
        for guest, policy in gates if down else reversed(gates):
            if policy is None or policy.rights(direction, found.key) & CARRY:
                return proxy(guest)
        return None
