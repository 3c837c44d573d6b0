"""`initialize` where policies are: how a component may change it, and its answer."""

from __future__ import annotations

from typing import Final

from conductor.core.dialects import INITIALIZE
from conductor.core.guards import Violation
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part
from conductor.core.policy import changes
from conductor.core.policy.checks import HOLD, IDENTITY, passes
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.key_table import AMEND, ANSWER, CARRY, Direction
from conductor.core.policy.own_answers import signed
from conductor.core.state import Handshake, Lane, PassedOn, Peer, Visit

_DOWN: Final = Direction.DOWN
_HEADING: Final = Heading(INITIALIZE, None)


class PolicedHandshake(Part):
    """The part of a router that handles `initialize` of policed components."""

    @staticmethod
    def takes_part(peer: Peer) -> bool:
        """Whether `initialize` goes through a peer; else it is initialized with a copy."""
        if peer.component.initialize_passes:
            return False
        return peer.policy_state is None or bool(
            peer.policy_state.rights(_DOWN, INITIALIZE) & CARRY
        )

    def goes_without(self, peer: Peer, text: str) -> bool:
        """Whether `initialize` goes on without a peer that holds it for too long."""
        policy_state = peer.policy_state
        if (
            policy_state is None
            or not policy_state.enforced
            or policy_state.policy.fails == "closed"
        ):
            return False
        self.held(peer, text)
        return True

    def held(self, peer: Peer, text: str) -> None:
        """Reports that a peer held `initialize`, or its answer, for too long."""
        self._parts.checks.report(peer.s, _HEADING, Violation(HOLD, text))

    def forwarded(self, lane: Lane, params: Params, pending: Visit) -> Params | None:
        """The `initialize` a component passes on, as it may go on; None if it may not."""
        peer = lane.peer.launched_by or lane.peer
        policy_state, handshake = peer.policed, peer.handshake
        if handshake is None or handshake.onward is not None:
            if not policy_state.enforced:
                message = Message(INITIALIZE, params, _HEADING)
                changes.originated(self._exchange, lane, message, pending)
                return params
            text = f"sent an `{INITIALIZE}` that it was not given"
            self._parts.checks.refuse(peer.s, _HEADING, Violation(IDENTITY, text), pending)
            return None
        handshake.onward = pending
        if pending.traced is not None:
            pending.traced.passes = handshake.pending.number
        pending.followers = (*pending.followers, PassedOn(lane.peer, handshake))
        carried = self._carried(peer, handshake)
        violation = self._parts.checks.forwards(peer.s, carried, params, carried.rights)
        if violation is None:
            params = passes(policy_state, handshake.params, params, carried.rights)
            changes.request(self._exchange, carried, params, pending)
            return params
        self._parts.checks.report(peer.s, _HEADING, violation)
        return handshake.params

    @staticmethod
    def came_back(handshake: Handshake, member: bytes, body: bytes) -> None:
        """The `initialize` that a component has passed on is answered."""
        handshake.upstream = (member, body)
        if handshake.answer_goes_past:
            _goes_past(handshake)

    @staticmethod
    def may_answer(peer: Peer) -> bool:
        """Whether the component's own answer to `initialize` may go back."""
        return peer.policy_state is None or bool(peer.policed.rights(_DOWN, INITIALIZE) & ANSWER)

    def answered(
        self, peer: Peer, handshake: Handshake, answer: tuple[bytes, bytes]
    ) -> tuple[bytes, bytes] | None:
        """A component's answer to `initialize` as it may go back; None: it may not answer yet."""
        upstream, carried = handshake.upstream, self._carried(peer, handshake)
        if handshake.answer_goes_past:  # the component could not take it
            _goes_past(handshake)
            return upstream
        violation = self._parts.checks.answers(carried, *answer)
        if violation is not None:
            self._parts.checks.report(peer.s, _HEADING, violation)
        elif upstream is None or carried.rights & AMEND:
            if handshake.pending.traced is not None and handshake.onward is not None:
                handshake.pending.traced.answers = handshake.onward.answer_number
            changes.answer(self._exchange, carried, *answer)
            member, body = answer
            return answer if upstream == answer else (member, signed(carried, member, body, body))
        if upstream is not None:
            _goes_past(handshake)
        return upstream

    @staticmethod
    def _carried(peer: Peer, handshake: Handshake) -> Visit:
        """A handshake as a request that is carried."""
        message = Message(INITIALIZE, handshake.params, _HEADING)
        rights = peer.policed.rights(_DOWN, INITIALIZE)
        asked = handshake.pending
        carried = Visit(asked.origin, asked.raw_id, asked.key, asked.flow, method=INITIALIZE)
        carried.carry(peer.p, message, rights)
        carried.number, carried.upstream = handshake.number, handshake.upstream
        return carried


def _goes_past(handshake: Handshake) -> None:
    """The answer to the `initialize` that a component passed on answers the one it was given."""
    pending, onward = handshake.pending, handshake.onward
    assert onward is not None
    pending.answer_number = onward.answer_number
    if pending.traced is not None:
        pending.traced.past = True
