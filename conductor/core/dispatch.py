"""The path of every message: a frame is read, and dispatched by its kind.

All messages of a peer take this path in order of arrival, answers included, so none overtakes
(`docs/architecture.md` walks one message through it).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import adaptation, agent_turns, jsonrpc
from conductor.core.component import Role
from conductor.core.dialects import CANCEL, ENVELOPES, ROLES
from conductor.core.json_text import too_many_values
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Malformed,
    Message,
    Params,
)
from conductor.core.parts import Part, Parts
from conductor.core.policy.entries import Entry, Notification
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import OF_EDITOR, STOP, UPDATE
from conductor.core.requests import ONE_HOP
from conductor.core.service_table import PREFIX
from conductor.core.services import called
from conductor.core.state import Batch, Lane, Peer, Source, Visit
from conductor.core.tracing import read_number

_SPECIAL: Final = frozenset({CANCEL, *ROLES, *ENVELOPES})
_CONDUCTORS: Final = ("_", ONE_HOP)
"""The prefixes of methods that may be for the conductor itself."""
_SIDE_AND_NEWLINE: Final = 2
_VERSION: Final = '`jsonrpc` must be "2.0"'
_NEITHER: Final = "a message must have a `method`, or a `result` or `error`"
_BOTH: Final = "a message with a `method` must have neither `result` nor `error`"
_FLATTER: Final = "\nhint: send the deep value as a text, or in fewer levels"
_LONGEST_METHOD: Final = 1024
_MOST_ENTRIES: Final = 1000
"""The most messages in one array: all of them are routed at once."""
_NO_BATCHES: Final = "JSON-RPC batches are not supported; send each message individually"


class Dispatcher(Part):
    """The part of a router that takes frames. `max_depth`: how deep a frame may nest."""

    def __init__(self, parts: Parts, max_depth: int) -> None:
        super().__init__(parts)
        self._max_depth = max_depth

    def read(self, peer: Peer, frame: bytes) -> None:
        """Takes one frame of a peer; never raises."""
        exchange = self._exchange
        exchange.number = exchange.count = number = exchange.count + 1
        peer.last_number = number
        if peer.policy_state is not None:
            # Before it is parsed: values cost memory as soon as they are objects.
            most = peer.component.allowance.json_values
            if len(frame) > most and too_many_values(frame, most):
                self._too_costly(peer, frame, most)
                return
        lane, whole = peer.p, frame
        if peer.sideband:
            side = peer.sides.get(frame[:1])
            if side is None:
                self._on_other_side(peer, frame)
                return
            lane, frame, in_flight = side, frame[1:], side.in_flight
            # A host announces its messages' numbers, so that a trace knows them on their whole way.
            if peer.next_number:
                exchange.number, peer.next_number = peer.next_number, 0
            entry = in_flight.queue[0] if in_flight.queue else in_flight.shown
            # The same bytes, but for the side byte, and perhaps without the newline.
            if (
                entry is not None
                and entry.frame.startswith(frame, 1)
                and len(entry.frame) - len(frame) <= _SIDE_AND_NEWLINE
                and self._returned(lane, entry)
            ):
                return
        try:
            message = jsonrpc.parse(frame, self._max_depth)
        except Malformed as error:
            self._unreadable(lane, whole, frame, error)
            return
        if type(message) is Message:
            self._dispatch(lane, message, None)
        else:
            assert isinstance(message, list)
            self._batch(lane, frame, message)

    def _returned(self, lane: Lane, entry: Entry) -> bool:
        """A component returns, as it came, the next message that is to leave it by `lane`: nothing
        has to be read or judged. False: the message is taken like any other."""
        if type(entry) is Visit:
            if entry.lane is lane:
                return self._parts.answers.answered_as_it_came(lane, entry)
            return self._parts.requests.passed_as_it_came(lane, entry)
        assert type(entry) is Notification
        if lane.in_flight.unforwarded.items or not lane.peer.streams:
            return False
        self._parts.notifications.passed_on(lane, entry)
        return True

    def _unreadable(self, lane: Lane, whole: bytes, frame: bytes, error: Malformed) -> None:
        """Rejects a frame; a frame that nests too deeply still tells its request or answer.

        Args:
            whole: the frame with its side.
        """
        deep, why = error.code == INVALID_REQUEST and error.id is None, f"{error.text}{_FLATTER}"
        if deep and self._parts.oversize.skipped(lane.peer, whole, why, whole=True):
            self._exchange.log("warning", lane.peer, f"{error.text}: {frame[:120]!r}")
        else:
            self._parts.rejections.reject_frame(lane, frame, error)

    def _too_costly(self, peer: Peer, frame: bytes, most: int) -> None:
        """Skips a line with too many values: a check or a record makes an object of each."""
        why = (
            f"a line with more than {most} JSON values was skipped (limit json_values)\n"
            "hint: raise the component's json_values if this is intended"
        )
        self._exchange.log("warning", peer, f"{why}: {frame[:60]!r}")
        self._parts.oversize.skipped(peer, frame, why, whole=True)

    def _batch(self, lane: Lane, frame: bytes, entries: list[Raw]) -> None:
        """Serves an older peer's array in order and answers with one array (never sends one).

        An array of a component that holds no object is junk, as a line of text is: programs print
        such lines too. Of any other array, only the requests are answered.
        """
        exchange, is_upstream = self._exchange, lane.peer is self._exchange.upstream
        if len(entries) > _MOST_ENTRIES:
            text = f"an array has at most {_MOST_ENTRIES} messages, this one has {len(entries)}"
            self._parts.rejections.reject_frame(lane, frame, Malformed(INVALID_REQUEST, text))
            return
        holds_any = entries if is_upstream else any(bytes(entry)[:1] == b"{" for entry in entries)
        if not holds_any or (exchange.version == 2 and is_upstream):
            text = "Invalid request" if is_upstream else "an array that holds no message"
            error = Malformed(INVALID_REQUEST, text, None, _NO_BATCHES)
            self._parts.rejections.reject_frame(lane, frame, error)
            return
        batch = Batch(len(entries))
        for entry in entries:
            # In a trace each entry is a message of its own.
            exchange.number = exchange.next_number()
            try:
                message = jsonrpc.parse(bytes(entry), self._max_depth)
                if not isinstance(message, Message):
                    raise Malformed(INVALID_REQUEST, "a batch inside a batch")
                if not is_upstream and message.method is UNSET and not message.answers:
                    raise Malformed(INVALID_REQUEST, _NEITHER)
            except Malformed as error:
                error.id = error.id if is_upstream else None
                self._parts.rejections.reject(lane, error, batch)
            else:
                self._dispatch(lane, message, batch)

    def _on_other_side(self, peer: Peer, frame: bytes) -> None:
        """A guest's message to the conductor itself (side `c`), or a line of no side at all."""
        exchange, lane = self._exchange, peer.c
        if frame[:1] != b"c":
            if frame[:1] == b"#" and peer.numbers is not None:
                exchange.count -= 1  # it is no message
                read_number(peer, frame)
            elif frame and not frame.isspace():
                exchange.log("warning", peer, f"line without a side: {frame[:60]!r}")
            return
        try:
            message = jsonrpc.parse(frame[1:], self._max_depth)
        except Malformed as error:
            self._unreadable(lane, frame, frame[1:], error)
            return
        if isinstance(message, Message) and (message.method is UNSET) != message.answers:
            text = _BOTH if message.answers else _NEITHER
            self._parts.rejections.reject_message(lane, message, text, None)
        elif not isinstance(message, Message) or isinstance(message.method, UnsetType):
            text = "only single requests and notifications on side c"
            exchange.log("warning", peer, text)
        elif message.id is UNSET:
            self._parts.services.ask(lane, message.method, message.params, None)
        else:
            pending = self._parts.requests.accept(lane, message.method, message, None)
            if pending is not None:
                self._parts.services.ask(lane, message.method, message.params, pending)

    # -- one message -----------------------------------------------------------------------------

    def _dispatch(self, lane: Lane, message: Message, batch: Batch | None) -> None:
        if lane.peer.payloads is not None:
            restored = self._restored(lane.peer, message)
            if isinstance(restored, Malformed):
                self._forged(lane, message, restored, batch)
                return
            message = restored
        if lane.peer.names is not None:
            known = self._parts.moving.comes(lane, message, batch)
            if known is None:
                return
            message = known
        method = message.method
        if isinstance(method, UnsetType):
            if not self._parts.answers.answer(lane, message):
                self._parts.rejections.reject_message(lane, message, _NEITHER, batch)
                return
        elif len(method) > _LONGEST_METHOD or message.jsonrpc != "2.0" or message.answers:
            self._parts.rejections.reject_message(lane, message, _malformed(message, method), batch)
            return
        elif message.id is UNSET:
            self._notification(lane, method, message.params)
        else:
            pending = self._parts.requests.accept(lane, method, message, batch)
            if pending is not None:
                self._parts.requests.route(lane, method, message.params, pending)
            return
        if batch is not None:
            self._exchange.add_to_batch(lane, batch, None)

    @staticmethod
    def _restored(peer: Peer, message: Message) -> Message | Malformed:
        """A message with the long texts that its sender refers to, but for calls of services."""
        assert peer.payloads is not None
        params, result = message.params, message.result
        try:
            if isinstance(params, Raw) and not str(message.method).startswith(PREFIX):
                params = peer.payloads.restore(params)
            if isinstance(result, Raw):
                result = peer.payloads.restore(result)
        except ValueError as error:
            key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
            return Malformed(INVALID_PARAMS, f"{peer.label}: {error}", key)
        if params is message.params and result is message.result:
            return message
        return msgspec.structs.replace(message, params=params, result=result)

    def _forged(self, lane: Lane, message: Message, error: Malformed, batch: Batch | None) -> None:
        """A message with a reference that its sender does not have: whoever waits gets an error."""
        if error.id is not None and message.method is not UNSET:
            self._parts.rejections.reject(lane, error, batch)
            return
        self._exchange.log("warning", lane.peer, error.text)
        if message.method is UNSET:
            body = Raw(jsonrpc.error_object(INTERNAL_ERROR, error.text))
            answer = msgspec.structs.replace(message, result=UNSET, error=body)
            self._parts.answers.answer(lane, answer)
        if batch is not None:
            self._exchange.add_to_batch(lane, batch, None)

    def _notification(self, lane: Lane, method: str, params: Params) -> None:
        try:
            params = jsonrpc.structured(params)
        except Malformed as error:
            self._exchange.log("warning", lane.peer, f"`{method}` dropped: {error.text}")
            return
        # Before `lane.across` is looked at: an envelope leaves by another lane than it came in by,
        # and a cancellation is about this connection alone.
        if method in _SPECIAL:
            self._special_notification(lane, method, params)
            return
        if method.startswith(_CONDUCTORS):
            named = self._conductors(lane, method, params)
            if named is None:
                return
            params = named
        target = self._target(lane, method, params)
        if target is None or (lane.port and not self._parts.ports.passes(lane, method, params)):
            return
        if method == STOP and lane is self._exchange.upstream.p:
            session = session_of(params)
            self._parts.held.stopped(session)
            self._parts.own_turns.stopped(session)
        if lane.policed:
            self._parts.notifications.notify(lane, method, params)
        else:
            source = Source(lane, self._exchange.number)
            self._exchange.notify(target, method, params, source)
        if not lane.peer.streams and method == UPDATE:
            if lane.peer.role is Role.AGENT:
                adaptation.spoke(lane.peer, params)
            else:
                self._parts.own_turns.says(lane.peer, params)
        # Last: messages that a state lets go on must not overtake the update.
        known = lane.peer.agent_sessions
        if method == UPDATE and (known is not None or self._exchange.version == 2):
            self._agent_reports(lane, params)

    def _conductors(self, lane: Lane, method: str, params: Params) -> Params | None:
        """The params with which a method of the conductor's goes on; None: it ends here."""
        if method.startswith(ONE_HOP):
            text = f"`{method}` dropped: it concerns one connection, and is not known here"
            self._exchange.log("warning", lane.peer, text)
            return None
        if (service := called(lane, method)) is not None:
            self._parts.services.ask(lane, service, params, None)
            return None
        if method.startswith(OF_EDITOR):
            try:
                return self._parts.editor.named(lane, method, params)
            except Malformed as error:
                self._exchange.log("warning", lane.peer, error.text)
                return None
        return params

    def _target(self, lane: Lane, method: str, params: Params) -> Lane | None:
        """The lane on which a notification of this lane leaves; None: nobody gets it now."""
        target, known = lane.across, lane.peer.agent_sessions
        if target is None or (known is None and not lane.peer.admitted):
            # Only logged for debugging: JSON-RPC forbids an answer to a notification.
            self._exchange.log("debug", lane.peer, f"`{method}` before `initialize` dropped")
            return None
        if known is not None and not lane.peer.admitted and method == UPDATE:
            # Everybody has seen the updates that the agent shows again, but for those missed.
            return None if known.shows_again(session_of(params), params) else target
        return target

    def _agent_reports(self, lane: Lane, params: Params) -> None:
        """An update, which in version 2 may say that the agent has begun or ended a turn."""
        if isinstance(params, UnsetType) or self._exchange.topology.hosted:
            return
        if lane.peer.role is Role.AGENT or lane is self._exchange.upstream.s:
            known, is_second = lane.peer.agent_sessions, self._exchange.version == 2
            if known is not None:
                known.updated(params)
            if not (is_second or (known is not None and known.is_exact)):
                return  # nobody asks which session it is of
            session, state = agent_turns.reported_state(params)
            if known is not None:
                known.showed(session, params)
            if state is not None and is_second:
                works = self._parts.names.at_agent(lane, session)
                self._parts.own_turns.queue.reported(works, state)

    def _special_notification(self, lane: Lane, method: str, params: Params) -> None:
        if method in ENVELOPES:
            try:
                lane, inner, params = self._parts.requests.unwrap(lane, method, params)
            except Malformed as error:
                text = f"`{method}` notification dropped: {error.text}"
                self._exchange.log("warning", lane.peer, text)
                return
            self._notification(lane, inner, params)
        elif method == CANCEL:
            self._parts.cancellations.cancel_request(lane, params)
        else:
            text = f"misplaced `{method}` notification dropped"
            self._exchange.log("warning", lane.peer, text)


def _malformed(message: Message, method: str) -> str:
    """The fault of a malformed message that has a method."""
    if len(method) > _LONGEST_METHOD:
        return f"a method has at most {_LONGEST_METHOD} characters, this one has {len(method)}"
    return _VERSION if message.jsonrpc != "2.0" else _BOTH
