"""Observers get copies: the original has gone past them, whatever they do with the copy.

A component may pass a copy on under its id, as it would the original: that request is answered as
the original is. Its own answer to a copy is ignored.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.core.parts import Part
from conductor.core.policy.entries import Notification, WaitingInOrder, meant
from conductor.core.policy.headings import Message
from conductor.core.policy.key_table import ORIGINATE, PROMPT, STAMP
from conductor.core.policy.sessions import guest_of
from conductor.core.state import Lane, Next, Peer, Visit, Waiting, copy_of

_MOST_WAITING: Final = 4096
_MOST_BYTES_WAITING: Final = 32 * 1024 * 1024
"""The most copies, and bytes of them, that wait for a component that is still being initialized."""


class Observers(Part):
    """The copies that components get, and those that they pass on."""

    # -- notifications -------------------------------------------------------------------------

    def notification(
        self,
        lane: Lane,
        message: Message,
        held: WaitingInOrder | None = None,
        *,
        must: bool = False,
    ) -> None:
        """Sends the component at `lane` a copy of a notification; `held` waits for its round with
        the copy. `must`: also if the component is too slow for copies."""
        peer, policy_state = lane.peer, lane.peer.policed
        if not peer.ready:
            if held is not None:
                held.ready = True
            self._defer(peer, Waiting(Next.COPY, lane, None, message))
            return
        notification = Notification(*message, "", 0, policy_state.round)
        notification.held = held
        lane.other.in_flight.copied_notifications.add(notification)
        frame = lane.writer.notification(message.method, message.params)
        self._exchange.deliver(peer, frame, copy=policy_state.watches_only and not must)

    # -- requests ------------------------------------------------------------------------------

    def request(self, lane: Lane, message: Message, original: Visit) -> Visit:
        """Sends the component at `lane` a copy of a request. The copy of a component's own prompt
        names that component."""
        by = _sender(original) if message.method == PROMPT else ""
        copy = self.follow(original, _of(by, message) if by else message)
        self.give(lane, copy, original)
        return copy

    def follow(self, original: Visit, message: Message) -> Visit:
        """A copy that is answered as `original` is; the caller sends it."""
        copy = copy_of(message)
        original.copies = (*original.copies, copy)
        return copy

    def give(self, lane: Lane, copy: Visit, original: Visit) -> None:
        """Sends a copy of a request to the component at `lane`: now, or once it is ready."""
        peer = lane.peer
        if not peer.ready:
            self._defer(peer, Waiting(Next.COPY, lane, (copy, original), copy.message))
            return
        copy.target, copy.target_id = lane, lane.requests.fresh_id()
        lane.requests.ignore(copy.target_id, copy)
        copy.round = peer.policed.round
        lane.other.in_flight.show(copy.target_id, copy)
        frame = lane.writer.request(copy.target_id, copy.method, copy.params)
        self._exchange.deliver(peer, frame, copy=peer.policed.watches_only)
        if original.cancelled:
            self._exchange.cancel_hop(copy)

    def sees_first(self, prompt: Visit) -> None:
        """A prompt waits for a component that has copies of set-ups. The component gets the answers
        to these once it has passed them on, and is to know a session before it is prompted
        there."""
        lane = prompt.lane
        lane.peer.backlog.append(Waiting(Next.GIVEN, lane, prompt))
        self._parts.deadlines.round(lane.other, prompt)

    def seen(self, copy: Visit) -> None:
        """A component has passed a copy on, or has answered it: messages that wait for this go
        on."""
        if copy.target is not None:  # `initialize` has none
            copy.target.other.in_flight.set_ups.pop(copy, None)
            self.prompts_go_on(copy.target.other)
        self._parts.waits.ready(copy.held)

    def prompts_go_on(self, lane: Lane) -> None:
        """Prompts for the component that sends by `lane` go on, if it has seen all set-ups."""
        if lane.peer.backlog and lane.peer.ready and not lane.in_flight.set_ups:
            self._parts.waits.resume(lane.peer)

    @staticmethod
    def _defer(peer: Peer, waiting: Waiting) -> None:
        """A copy for a component that is not ready waits until it is, if there is room."""
        waits = peer.closure is None and peer.handshake is not None
        if waits and not peer.wait(waiting, (_MOST_WAITING, _MOST_BYTES_WAITING)):
            peer.policed.lost += 1

    @staticmethod
    def unseen(peer: Peer) -> bool:
        """Whether an observer has not passed on its copy of a request that has been answered."""
        return any(
            copy.upstream is not None and not copy.is_taken
            for lane in (peer.p, peer.s)
            for copy in lane.in_flight.copies.values()
        )

    def answered(self, copy: Visit, member: bytes, body: bytes) -> None:
        """The original has its answer."""
        copy.upstream = (member, body)
        for pending in copy.passed_on_by:
            self._exchange.reply(pending, member, body, copy=True)

    def take(self, lane: Lane, message: Message, pending: Visit) -> Visit | None:
        """The copy that a component passes on by `lane`; None: its message is no copy."""
        in_flight, policy_state = lane.in_flight, lane.peer.policed
        if lane.peer.sideband or policy_state.policy.ids == "kept":
            copy = in_flight.copies.get(pending.key)
            return copy if copy is not None and copy.method == message.method else None
        may_be_own = bool(lane.other.rights_on(message.heading) & ORIGINATE)
        left = [copy for copy in in_flight.copies.values() if not copy.is_taken]
        return meant(left, message.method, message.params, exactly=may_be_own)

    def passed_on(self, copy: Visit, pending: Visit) -> None:
        """A component passes on a copy: it is answered as the original is."""
        copy.passed_on_by = (*copy.passed_on_by, pending)
        if copy.upstream is not None:
            self._exchange.reply(pending, *copy.upstream, copy=True)
        self.seen(copy)


def _sender(prompt: Visit) -> str:
    """The component that has sent a prompt of its own; empty: it is the client's."""
    flow = prompt.flow
    hosts = flow.lane is not None and flow.lane.peer.component.hosts
    return (guest_of(flow.key) if hosts else "") or flow.by


def _of(name: str, message: Message) -> Message:
    """A prompt, with the name of its component."""
    members = read_members(message.params) or {}
    meta = read_members(members.get("_meta", Raw(b"{}"))) or {}
    stamped = write_members({**meta, STAMP: Raw(json_text.encode(name))})
    return Message(message.method, write_members({**members, "_meta": stamped}), message.heading)
