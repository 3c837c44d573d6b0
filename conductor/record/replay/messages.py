"""Recorded lines as messages on a component's sides, whatever dialect it speaks. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from conductor.core import json_text, jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import Malformed
from conductor.core.message import Message
from conductor.record import sides
from conductor.record.replay.recording import Line

SIDES: Final = {"p": "predecessor", "s": "successor", "c": "conductor"}

_LAUNCHES: Final = "_scp/proxy"


class SidedMessage(NamedTuple):
    """One message to or from a component."""

    side: str
    """`p`, `s` or `c`: which neighbour, or the conductor."""
    kind: str
    """`request`, `response`, `notification`; or `text` for a line that is none of these."""
    id: str | None
    method: str
    """Of a response: that of its request."""
    member: str
    """`params`, `result` or `error`."""
    body: bytes
    session: str | None
    id_space: str
    """The side whose ids its id is one of; empty for those of the one connection there is."""
    line: Line

    @property
    def key(self) -> tuple[str, str]:
        """Its id among all of the component's."""
        return self.id_space, self.id or ""

    @property
    def stream(self) -> tuple[str, str | None]:
        """Messages of one side and session stay in order."""
        return self.side, self.session

    def content(self, cancels: str | None = None) -> bytes:
        """What is compared, as JSON: all but the id of a request.

        `cancels`: the id that a cancellation names, in place of its own.
        """
        if self.kind == "text":
            return self.line.text if self.line.is_message else json_text.encode(
                self.line.text.decode("utf-8", "backslashreplace")
            )  # fmt: skip
        body = self.body
        if cancels is not None:
            held = read_members(body) or {}
            body = bytes(write_members({**held, "requestId": msgspec.Raw(cancels.encode())}))
        if self.kind == "response":
            head = b'{"id":%b' % (self.id or "null").encode()
        else:
            head = b'{"method":%b' % json_text.encode(self.method)
        if not body:
            return head + b"}"
        return head + b',"%b":%b}' % (self.member.encode(), body)

    @property
    def cancelled(self) -> tuple[str, str] | None:
        """Which of the sender's requests it cancels."""
        if self.method != CANCEL:
            return None
        raw = (read_members(self.body) or {}).get("requestId")
        return None if raw is None else (self.id_space, _canonical(bytes(raw)))


class _Request(NamedTuple):
    side: str
    method: str
    session: str | None


class MessageReader:
    """Reads the lines of one instance, in order."""

    def __init__(self) -> None:
        self._pending: dict[bool, dict[tuple[str, str], _Request]] = {True: {}, False: {}}
        """Requests from (true) and to the component, by id."""
        self.launches = False
        """Whether it launches its successor itself."""

    def read(self, line: Line, *, sent: bool) -> SidedMessage:
        """One line that the component sent, or got."""
        try:
            message = jsonrpc.parse(line.text) if line.is_message else None
        except Malformed:
            message = None
        if not isinstance(message, Message):
            side = line.side or "p"
            return SidedMessage(side, "text", None, "", "", line.text, None, line.side, line)
        if isinstance(message.method, str):
            return self._call(line, message, message.method, sent=sent)
        return self._response(line, message, sent=sent)

    def _call(self, line: Line, message: Message, method: str, *, sent: bool) -> SidedMessage:
        side, params = line.side, message.params
        if not side:
            self.launches = self.launches or method == _LAUNCHES
            side, method, params = sides.opened(method, params)
        id_ = _id(message)
        body = _raw(params)
        session = _session(body)
        kind = "notification" if id_ is None else "request"
        call = SidedMessage(side, kind, id_, method, "params", body, session, line.side, line)
        if id_ is not None:
            self._pending[sent][call.key] = _Request(side, method, session)
        return call

    def _response(self, line: Line, message: Message, *, sent: bool) -> SidedMessage:
        id_ = _id(message) or "null"
        unknown = _Request(line.side or "p", "", None)
        request = self._pending[not sent].pop((line.side, id_), unknown)
        is_result = isinstance(message.result, msgspec.Raw)
        return SidedMessage(
            request.side,
            "response",
            id_,
            request.method,
            "result" if is_result else "error",
            _raw(message.result if is_result else message.error),
            request.session,
            line.side,
            line,
        )


def _raw(value: msgspec.Raw | msgspec.UnsetType) -> bytes:
    return bytes(value) if isinstance(value, msgspec.Raw) else b""


def _id(message: Message) -> str | None:
    return _canonical(bytes(message.id)) if isinstance(message.id, msgspec.Raw) else None


def _canonical(raw: bytes) -> str:
    return (jsonrpc.canonical_id(raw) or raw).decode("utf-8", "backslashreplace")


def _session(body: bytes) -> str | None:
    if b'"sessionId"' not in body:
        return None
    raw = bytes((read_members(body) or {}).get("sessionId", b""))
    return raw.decode("utf-8", "backslashreplace") if raw[:1] == b'"' else None
