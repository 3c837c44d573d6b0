"""`initialize` where policies are: what a component may make of it, and of its answer."""

from __future__ import annotations

from functools import partial

from conductor.core.detection import Handshake
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Effect
from conductor.core.gate import MODIFY, ORIGINATE
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.policy import Direction
from conductor.core.tokens import Params
from conductor.core.verdicts import Verdicts, lacks


class PolicedInitialize:
    """The part of an enforcer that handles `initialize`."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def forwarded(
        self, lane: Lane, params: Params, pending: Pending, out: list[Effect]
    ) -> Params | None:
        """The `initialize` a component forwards, as it may go on; None if it may not."""
        peer = lane.peer.launched_by or lane.peer
        assert peer.gate is not None
        handshake = peer.handshake
        if handshake is None or handshake.onward is not None:
            wrong = self._verdicts.originates(peer.gate, Direction.DOWN, INITIALIZE, params)
            wrong = wrong or lacks(ORIGINATE, INITIALIZE)
            self._verdicts.refuse(peer, Direction.DOWN, INITIALIZE, wrong, pending, out)
            return None
        handshake.onward = pending
        pending.watchers = (*pending.watchers, partial(self._came_back, handshake))
        given = handshake.params
        wrong = self._verdicts.forwards(peer.gate, Direction.DOWN, INITIALIZE, given, params)
        if wrong is None:
            return params if peer.gate.verbs(Direction.DOWN, INITIALIZE) & MODIFY else given
        self._verdicts.report(peer, Direction.DOWN, INITIALIZE, wrong, out)
        return given

    @staticmethod
    def _came_back(handshake: Handshake, member: bytes, body: bytes, out: list[Effect]) -> None:
        handshake.upstream = (member, body)
        if handshake.when_back is not None:
            handshake.when_back(member, body, out)

    def answered(
        self, peer: Peer, handshake: Handshake, answer: tuple[bytes, bytes], out: list[Effect]
    ) -> tuple[bytes, bytes] | None:
        """A component's answer to `initialize` as it may go back; None: it may not answer yet."""
        gate = peer.gate
        assert gate is not None
        upstream = handshake.upstream
        wrong = self._verdicts.initialized(gate, handshake.params, answer, upstream)
        if wrong is None:
            changes = upstream is None or gate.verbs(Direction.UP, INITIALIZE) & MODIFY
            return answer if changes else upstream
        self._verdicts.report(peer, Direction.DOWN, INITIALIZE, wrong, out)
        return upstream
