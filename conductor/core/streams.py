"""Streams: updates that go on as they came, taken many at a time.

An agent's answer comes as hundreds of updates, and where nobody has a say in them each leaves byte
for byte as it came: in a chain without policies, and past components that neither carry updates of
its kind nor get copies. Such lines are checked to be JSON and go on; the way of all other messages
(`conductor.core.dispatch`) costs three times as much, and does the same with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.exchange import Exchange
from conductor.core.json_text import too_deep
from conductor.core.jsonrpc import notification
from conductor.core.policy.headings import heading
from conductor.core.policy.key_table import CARRY, COPY, UPDATE
from conductor.core.policy.sessions import LEARNT_FROM
from conductor.core.state import Lane, Peer

_BEFORE: Final = notification(UPDATE, Raw(b""))[:-2]
"""How such a line begins, up to its params, where the router would write it the same."""

_params: Final = msgspec.json.Decoder(Raw).decode


class Streams:
    """The part of a router that takes streams. `max_depth`: how deep a frame may nest."""

    def __init__(self, exchange: Exchange, max_depth: int) -> None:
        self._exchange = exchange
        self._max_depth = max_depth

    def take(self, name: str, frames: Sequence[bytes]) -> tuple[str, list[bytes]] | None:
        """Routes the first of some frames of the peer `name`, as many as are updates that nobody
        changes, judges or traces.

        Returns:
            The name of the peer that gets them, and what it gets, a line for each; None: the first
            is none of them.
        """
        peer = self._exchange.peers[name]
        lane, side = peer.p, b""
        if peer.sideband:
            side = frames[0][:1]
            if side not in peer.sides:
                return None
            lane = peer.sides[side]
        before = side + _BEFORE
        if not frames[0].startswith(before) or not self._learns_nothing(peer, lane):
            return None
        way = self._way(lane)
        if way is None:
            return None
        target, past = way
        taken: list[bytes] = []
        free: dict[str, bool] = {}
        for frame in frames:
            if not frame.startswith(before) or not self._is_sound(frame, len(before)):
                break
            if past and not _goes_past(past, frame[len(before) : -1], free):
                break
            try:
                taken.append(target.writer.tag + frame[len(side) :] + b"\n")
            except MemoryError:  # the way of all others knows what to do
                break
        self._exchange.count += len(taken)
        self._exchange.number = self._exchange.count
        return (target.peer.name, taken) if taken else None

    def _learns_nothing(self, peer: Peer, lane: Lane) -> bool:
        """Whether the router need not look at updates that come in on a lane: a trusted peer sends
        them, and nobody traces or audits."""
        exchange = self._exchange
        return (
            not (lane.port or exchange.tracing or exchange.audited or exchange.version == 2)
            and (peer.admitted and peer.streams and lane.renames is None)
            and (peer.closure is None and peer.turns is None and peer.payloads is None)
            and not exchange.may_keep
            and not (peer.policy_state is not None or peer.next_number)
        )

    @staticmethod
    def _way(lane: Lane) -> tuple[Lane, list[Lane]] | None:
        """Where updates that come in on a lane go out, if they go past all components with a
        policy, and the lanes of these; None: nobody can tell before they are read."""
        past: list[Lane] = []
        while (target := lane.across) is not None:
            peer, policy_state, lane = target.peer, target.peer.policy_state, target.other
            if policy_state is None:
                fits = peer.ready and peer.numbers is None and target.writer.plain
                return (target, past) if fits else None
            renamed = target.aliases is not None or lane.aliases is not None or lane.renames
            if renamed or policy_state.paused or policy_state.prompts or lane.in_flight.queue:
                return None
            past.append(target)
        return None

    def _is_sound(self, frame: bytes, start: int) -> bool:
        """Whether a frame, which begins as it should, is valid, and has nothing behind the params
        but its end."""
        # White space around them would not be written again.
        if frame[start : start + 1] not in (b"{", b"[") or frame[-2:] not in (b"}}", b"]}"):
            return False
        if len(frame) > 2 * self._max_depth and too_deep(frame, self._max_depth):
            return False
        try:
            if not frame.isascii():
                frame.decode()
            _params(memoryview(frame)[start:-1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True


def _goes_past(past: Sequence[Lane], params: bytes, free: dict[str, bool]) -> bool:
    """Whether an update goes past all of these components. `free` has what is known, by key."""
    read = heading(UPDATE, Raw(params))
    goes = free.get(read.key)
    if goes is None:
        rights = [lane.rights_on(read) & (CARRY | COPY) for lane in past]
        goes = free[read.key] = not any(rights) and read.key not in LEARNT_FROM
    return goes
