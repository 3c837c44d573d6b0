"""What every part of the router does with requests: send, answer, refuse, cancel, withdraw.

The state the parts share is here: the peers (`conductor.core.chain`), and whether the chain has
failed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.chain import Chain
from conductor.core.dialects import CANCEL, Dialect
from conductor.core.effects import Closure, Effect, Fail, Note, Send
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Malformed
from conductor.core.peer import Component, Lane, Peer
from conductor.core.pending import Batch, Pending
from conductor.core.policy.key_table import PROMPT
from conductor.core.policy.keys import session_of, size_of
from conductor.core.policy.sessions import Sessions
from conductor.core.topology import Role
from conductor.core.trail import Source, Traces, Trail, with_number
from conductor.errors import marked

if TYPE_CHECKING:
    from conductor.core.policy.enforcer import Enforcer

_OWN_ID: Final = '"c{}"'
"""How the requests are called that a host of guests sends of their own, to the conductor above."""
_ALL_NUMBERS: Final = 1 << 62


class Exchange:
    """The requests between the peers of one chain."""

    def __init__(
        self,
        components: Sequence[Component],
        upstream: Dialect | None,
        *,
        tracing: bool,
        audited: Collection[str] = (),
        reserved: Collection[str] = (),
        first_number: int = 0,
    ) -> None:
        """`reserved`: names that are nobody's MCP servers' but their owner's."""
        self.tracing = tracing
        """Whether `Trace` effects are made."""
        self.audited = frozenset(audited)
        """The components of which `Changed` effects are made."""
        self.version: int | None = None
        """The ACP version the chain settled on, once `initialize` has been answered."""
        watched = {component.name for component in components} if tracing else self.audited
        told = range(_ALL_NUMBERS) if first_number else None
        self.chain = Chain(components, upstream, watched, told)
        self.peers = self.chain.peers
        self.upstream = self.chain.upstream
        taken = frozenset(reserved)
        for component in components:
            taken |= {component.name} | component.known_as
        for component in components:
            gate = self.peers[component.name].gate
            if gate is not None:
                gate.names_of_others = taken - {component.name} - component.known_as
        self.sessions = Sessions()
        self.count = first_number
        """The last number that was given here."""
        self.number = first_number
        """Of the message that is routed now: every message has one, rising, from where it was read
        first."""
        self.traces = Traces(self)
        self.enforcer: Enforcer
        """The engine of policies; it enters itself here."""
        self._own_ids = 0
        self._failed = False

    def own_number(self) -> int:
        """The number of a message of the conductor's own, or of one within an array."""
        self.count += 1
        return self.count

    def say(
        self, peer: Peer, frame: bytes, number: int, out: list[Effect], *, copy: bool = False
    ) -> None:
        """Has a message written to a peer, with its number where that is to know it."""
        if peer.numbers is not None and number:
            frame = with_number(peer, number, frame)
        out.append(Send(peer.name, frame, copy))

    # -- requests ------------------------------------------------------------------------------

    def own_request(self, method: str) -> Pending:
        """A request of the conductor's own."""
        pending = Pending(None, b"null", b"null", method)
        if self.tracing:
            pending.number, pending.trail = self.own_number(), Trail(None)
        return pending

    def forward(
        self,
        lane: Lane,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Sends a request out on `lane`: now, or once its peer is ready for it."""
        peer = lane.peer
        if peer.ready:
            self.send(lane, method, params, pending, out)
        elif peer.closure is not None:
            self.fail(pending, peer.closure, out)
        elif peer.handshake is None:
            error = Malformed(INVALID_REQUEST, f"{peer.label} has not been initialized")
            self.refuse(pending, error, out)
        else:
            peer.backlog.append(lambda out: self._resume(lane, method, params, pending, out))

    def notify(
        self,
        lane: Lane,
        method: str,
        params: Raw | UnsetType,
        source: Source,
        out: list[Effect],
    ) -> None:
        """Sends a notification of `source` out on `lane`: now, or once its peer is ready for it."""
        peer = lane.peer
        if peer.ready:
            self.say(peer, lane.writer.notification(method, params), source.number, out)
            if self.tracing:
                self.traces.notified(source, lane, method, params, out)
        elif peer.closure is None and peer.handshake is not None:
            later = partial(self.notify, lane, method, params, source)
            if not peer.hold(later, size_of(params)):
                text = f"`{method}` dropped: {peer.label} is not ready, and too much waits for it"
                self.note(out, "warning", source.lane.peer, text)
        else:
            text = f"`{method}` dropped: {peer.label} is not there for it"
            self.note(out, "debug", source.lane.peer, text)

    def _resume(
        self,
        lane: Lane,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        if pending.wanted:  # else: whoever asked is gone, or has been answered
            self.forward(lane, method, params, pending, out)

    def send(
        self,
        lane: Lane,
        method: str,
        params: Raw | bytes | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Writes a request now, and remembers what its answer belongs to."""
        link = lane.link
        pending.target = lane
        pending.target_id = id_ = self._id(lane, pending)
        link.sent[id_] = pending
        if method == PROMPT and lane.peer.role is Role.AGENT and not isinstance(params, bytes):
            pending.session = session_of(params)
        if pending.trail is not None:
            self.traces.asked(pending, lane, method, params, out)
        self.say(lane.peer, lane.writer.request(id_, method, params), pending.number, out)
        if pending.cancelled:
            self._send_cancel(pending, lane, out)

    def _id(self, lane: Lane, pending: Pending) -> bytes:
        """The id a request is written under: a fresh one, but in a host of guests the one that the
        conductor above has given it, on its whole way through."""
        origin, link = pending.origin, lane.link
        if not self.chain.hosted or origin is None or not origin.peer.sideband:
            return link.fresh_id()
        passes = origin.peer is self.upstream or pending.key in origin.other.link.sent
        if passes and not pending.own and pending.key.isdigit() and pending.key not in link.sent:
            return pending.key
        if lane.peer is not self.upstream:
            return link.fresh_id()
        self._own_ids += 1
        return _OWN_ID.format(self._own_ids).encode()

    def cancel(self, pending: Pending, out: list[Effect], source: Source | None = None) -> None:
        """Passes a cancellation on to where the request went, once; without `source` it is the
        conductor's own."""
        if not pending.cancelled:
            pending.cancelled, pending.stopped = True, source
            target = pending.target
            if target is not None and target.peer.closure is None:
                self._send_cancel(pending, target, out)
            self.enforcer.cancelled(pending, out)
            for follower in pending.followers:
                self.cancel(follower, out, source)

    def _send_cancel(self, pending: Pending, lane: Lane, out: list[Effect]) -> None:
        number = 0
        if pending.trail is not None:
            params = b'{"requestId":%b}' % pending.target_id
            source, about = pending.stopped, pending.number
            number = self.traces.notified(source, lane, CANCEL, params, out, about)
        self.say(lane.peer, lane.writer.cancel(pending.target_id), number, out)

    def withdraw(self, peer: Peer, out: list[Effect]) -> None:
        """Cancels what a peer that is gone had asked for; nobody will read the answers."""
        for link in peer.links():
            for pending in list(link.received.values()):
                if pending.passes is None or not pending.passes.pending.wanted:
                    self.cancel(pending, out)
                pending.origin = None
            link.received.clear()
            link.size = 0

    # -- answers -------------------------------------------------------------------------------

    def complete(
        self, pending: Pending, member: bytes, body: Raw | bytes, out: list[Effect]
    ) -> None:
        """Takes the answer of the peer a request went to."""
        hook, past = pending.hook, pending.past
        # What a component makes of what it carries is looked at first.
        if (
            past
            and pending.given is None
            and self.enforcer.must_wait(pending, member, bytes(body), out)
        ):
            return
        if hook is None:
            self.reply(pending, member, body, out)
            return
        # What the hook leads to leads back to it, and may be large: it shall not have to wait for
        # the garbage collector. Whoever asks again sets it anew.
        pending.hook = pending.given = None
        if pending.trail is not None:
            pending.trail.said = member, bytes(body)
        hook(pending, member, bytes(body), out)

    def reply(
        self,
        pending: Pending,
        member: bytes,
        body: Raw | bytes,
        out: list[Effect],
        *,
        copy: bool = False,
    ) -> None:
        """Answers `pending`'s origin, if it is still there and has no answer yet, and tells the
        answer to whoever else waits for it. `copy`: it is an observer's request."""
        watchers = pending.watchers
        if not watchers:
            self._answer(pending, member, body, out, copy)
            return
        pending.watchers = ()
        self._answer(pending, member, body, out, copy)
        for watcher in watchers:
            watcher(member, bytes(body), out)

    def _answer(
        self,
        pending: Pending,
        member: bytes,
        body: Raw | bytes,
        out: list[Effect],
        copy: bool,
    ) -> None:
        if pending.trail is not None:
            self.traces.answered(pending, member, body, out)
        origin = pending.origin
        if origin is None:
            return
        del origin.link.received[pending.key]
        origin.link.size -= pending.size
        pending.origin = pending.passes = None
        pending.followers = ()
        frame = origin.writer.answer(pending.raw_id, member, body)
        if pending.batch is None:
            self.say(origin.peer, frame, pending.answer, out, copy=copy)
        else:
            self.add_to_batch(origin, pending.batch, frame, out)

    @staticmethod
    def add_to_batch(lane: Lane, batch: Batch, frame: bytes | None, out: list[Effect]) -> None:
        """Notes the answer to one entry of an array (None: it has none)."""
        tag = lane.writer.tag
        whole = batch.add(frame[len(tag) :] if frame is not None else None)
        if whole is not None:
            out.append(Send(lane.peer.name, tag + whole))

    def refuse(self, pending: Pending, error: Malformed, out: list[Effect]) -> None:
        """Answers `pending` with an error of the conductor's own."""
        body = jsonrpc.error_object(error.code, error.text, error.data)
        pending.answer = 0
        self.reply(pending, b"error", body, out)

    def fail(self, pending: Pending, reason: Closure, out: list[Effect]) -> None:
        """Answers `pending` with the reason a component is gone."""
        text, hint = marked(reason.text), marked(reason.hint)
        text = f"{text}\nhint: {hint}" if hint else text
        self.refuse(pending, Malformed(INTERNAL_ERROR, text, data=reason.data or None), out)

    # -- reports -------------------------------------------------------------------------------

    def chain_fails(self, peer: Peer, reason: Closure, out: list[Effect]) -> None:
        """Reports, once, that the chain cannot go on."""
        if not self._failed:
            self._failed = True
            out.append(Fail(peer.name, reason))

    @staticmethod
    def note(out: list[Effect], level: str, peer: Peer, text: str) -> None:
        """Puts a line in the log."""
        out.append(Note(level, peer.name, text))
