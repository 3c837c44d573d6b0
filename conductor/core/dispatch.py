"""What peers say: frames read, and each message sent the way it goes.

Everything a peer sends takes this one path in arrival order, answers included, so nothing overtakes
(`docs/architecture.md` walks one message through it).
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, UnsetType

from conductor.core import answers, dialects, jsonrpc, turns
from conductor.core.dialects import CANCEL, ENVELOPES, PACP
from conductor.core.effects import Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.json_text import too_many_values
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Message
from conductor.core.oversize import skipped
from conductor.core.peer import Lane, Peer
from conductor.core.pending import Batch
from conductor.core.policy.notifications import PolicedNotifications
from conductor.core.policy.rules import UPDATE
from conductor.core.refusals import refuse, refuse_frame, refuse_message
from conductor.core.requests import (
    NOT_STRUCTURED,
    ONE_HOP,
    ROLES,
    STRUCTURED,
    Requests,
)
from conductor.core.roles.initialize import Initializer
from conductor.core.services import Services, called
from conductor.core.trail import Source, take_mark

_SPECIAL: Final = frozenset({CANCEL, *ROLES, *ENVELOPES})
_CONDUCTORS: Final = ("_", ONE_HOP)
"""How methods begin that may be the conductor's to deal with."""
_VERSION: Final = '`jsonrpc` must be "2.0"'
_NEITHER: Final = "a message must have a `method`, or a `result` or `error`"
_BOTH: Final = "a message with a `method` must have neither `result` nor `error`"
_LONG_METHOD: Final = 1024
_ENTRIES: Final = 1000
"""Messages in one array: all of them are routed at once."""
_NO_BATCHES: Final = "JSON-RPC batches are not supported; send each message individually"


class Intake:
    """The part of a router that takes frames. `max_depth`: how deep one may nest."""

    def __init__(
        self,
        exchange: Exchange,
        initializer: Initializer,
        services: Services,
        requests: Requests,
        policed: PolicedNotifications,
        max_depth: int,
    ) -> None:
        self._exchange = exchange
        self._peers = exchange.peers
        self._initializer = initializer
        self._services = services
        self._requests = requests
        self._policed = policed
        self._max_depth = max_depth

    def receive(self, name: str, frame: bytes) -> list[Effect]:
        """Routes one frame (no newline needed) of the peer `name`. Never raises."""
        out: list[Effect] = []
        peer = self._peers[name]
        if peer.closure is not None:
            return out
        exchange = self._exchange
        exchange.number = peer.heard = exchange.count = exchange.count + 1
        if peer.gate is not None:
            most = peer.component.allowance.json_values
            if too_many_values(frame, most):
                self._too_costly(peer, frame, most, out)
                return out
        lane = peer.p
        if peer.sideband:
            side = peer.sides.get(frame[:1])
            if side is None:
                self._on_other_side(peer, frame, out)
                return out
            lane, frame = side, frame[1:]
            if peer.mark:
                exchange.number, peer.mark = peer.mark, 0
        try:
            message = jsonrpc.parse(frame, self._max_depth)
        except Malformed as error:
            refuse_frame(self._exchange, lane, frame, error, out)
            return out
        if type(message) is Message:
            self._dispatch(lane, message, None, out)
        else:
            assert isinstance(message, list)
            self._batch(lane, message, out)
        return out

    def _too_costly(self, peer: Peer, frame: bytes, most: int, out: list[Effect]) -> None:
        """A line of a component that is judged, traced or audited, and has more values than it
        may."""
        why = (
            f"a line with more than {most} JSON values was skipped (limit json_values)\n"
            "hint: raise the component's json_values if this is intended"
        )
        self._exchange.note(out, "warning", peer, f"{why}: {frame[:60]!r}")
        skipped(self._exchange, peer, frame, why, out)

    def _batch(self, lane: Lane, entries: list[Raw], out: list[Effect]) -> None:
        """Serves an older peer's array in order and answers with one array (never sends one)."""
        if len(entries) > _ENTRIES:
            text = f"an array has at most {_ENTRIES} messages, this one has {len(entries)}"
            refuse(self._exchange, lane, Malformed(INVALID_REQUEST, text), None, out)
            return
        if not entries or self._exchange.version == 2:
            body = jsonrpc.error_object(INVALID_REQUEST, "Invalid request", _NO_BATCHES)
            out.append(Send(lane.peer.name, lane.writer.answer(b"null", b"error", body)))
            return
        batch = Batch(len(entries))
        for entry in entries:
            self._exchange.number = self._exchange.own_number()
            try:
                message = jsonrpc.parse(bytes(entry), self._max_depth)
                if not isinstance(message, Message):
                    raise Malformed(INVALID_REQUEST, "a batch inside a batch")
            except Malformed as error:
                refuse(self._exchange, lane, error, batch, out)
            else:
                self._dispatch(lane, message, batch, out)

    def _on_other_side(self, peer: Peer, frame: bytes, out: list[Effect]) -> None:
        """A guest's message to the conductor itself (side `c`), or a line of no side at all."""
        if frame[:1] != b"c":
            if frame[:1] == b"#" and peer.numbers is not None:
                take_mark(peer, frame)
            elif frame and not frame.isspace():
                self._exchange.note(out, "warning", peer, f"line without a side: {frame[:60]!r}")
            return
        try:
            message = jsonrpc.parse(frame[1:], self._max_depth)
        except Malformed as error:
            refuse_frame(self._exchange, peer.c, frame[1:], error, out)
            return
        if isinstance(message, Message) and (message.method is UNSET) != message.answers:
            text = _BOTH if message.answers else _NEITHER
            refuse_message(self._exchange, peer.c, message, text, None, out)
        elif not isinstance(message, Message) or isinstance(message.method, UnsetType):
            text = "only single requests and notifications on side c"
            self._exchange.note(out, "warning", peer, text)
        elif message.id is UNSET:
            self._services.ask(peer.c, message.method, message.params, None, out)
        else:
            pending = self._requests.accept(peer.c, message.method, message, None, out)
            if pending is not None:
                self._services.ask(peer.c, message.method, message.params, pending, out)

    # -- one message -----------------------------------------------------------------------------

    def _dispatch(
        self, lane: Lane, message: Message, batch: Batch | None, out: list[Effect]
    ) -> None:
        method = message.method
        if isinstance(method, UnsetType):
            if not answers.take(self._exchange, lane, message, out):
                refuse_message(self._exchange, lane, message, _NEITHER, batch, out)
                return
        elif len(method) > _LONG_METHOD:
            text = f"a method has at most {_LONG_METHOD} characters, this one has {len(method)}"
            refuse_message(self._exchange, lane, message, text, batch, out)
            return
        elif message.jsonrpc != "2.0":
            refuse_message(self._exchange, lane, message, _VERSION, batch, out)
            return
        elif message.answers:
            refuse_message(self._exchange, lane, message, _BOTH, batch, out)
            return
        elif message.id is UNSET:
            self._notification(lane, method, message.params, out)
        else:
            pending = self._requests.accept(lane, method, message, batch, out)
            if pending is not None:
                self._requests.route(lane, method, message.params, pending, out)
            return
        if batch is not None:
            self._exchange.add_to_batch(lane, batch, None, out)

    def _notification(
        self, lane: Lane, method: str, params: Raw | UnsetType, out: list[Effect]
    ) -> None:
        if isinstance(params, Raw) and memoryview(params)[0] not in STRUCTURED:
            if bytes(params) != b"null":
                self._exchange.note(
                    out, "warning", lane.peer, f"`{method}` dropped: {NOT_STRUCTURED}"
                )
                return
            params = UNSET
        if lane.peer.turns is not None and method == UPDATE:
            turns.reported(lane.peer, params)
        if method in _SPECIAL:
            self._special_notification(lane, method, params, out)
            return
        if method.startswith(_CONDUCTORS):
            if method.startswith(ONE_HOP):
                text = f"`{method}` dropped: it concerns one connection, and is not known here"
                self._exchange.note(out, "warning", lane.peer, text)
                return
            if (service := called(lane, method)) is not None:
                self._services.ask(lane, service, params, None, out)
                return
        target = lane.across
        if target is None or not lane.peer.admitted:
            self._exchange.note(out, "debug", lane.peer, f"`{method}` before `initialize` dropped")
            return
        if lane.policed:
            self._policed.notify(lane, method, params, out)
        elif target.peer.ready and not self._exchange.tracing:
            out.append(Send(target.peer.name, target.writer.notification(method, params)))
        else:
            source = Source(lane, self._exchange.number)
            self._exchange.notify(target, method, params, source, out)

    def _special_notification(
        self, lane: Lane, method: str, params: Raw | UnsetType, out: list[Effect]
    ) -> None:
        peer = lane.peer
        if method in ENVELOPES and lane.wraps:
            try:
                inner, held, nested = dialects.unwrap(params)
            except Malformed as error:
                self._exchange.note(out, "warning", peer, f"`{method}` dropped: {error.text}")
                return
            if peer.unsettled:
                form = PACP if nested else ENVELOPES[method]
                self._initializer.envelope_seen(peer, form, inner, out)
            if inner not in ENVELOPES:
                self._notification(peer.s, inner, held, out)
                return
        elif method == CANCEL:
            self._requests.cancel(lane, params, out)
            return
        self._exchange.note(out, "warning", peer, f"misplaced `{method}` notification dropped")
