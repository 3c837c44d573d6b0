"""The lines that each component got and sent, for `conductor log replay`.

A record is JSON: the `component`, which instance of it (`run`), which delivery (`delivery`, of
guests), when (`ts`), and the lines, each as `[SIDE, MESSAGE]`. SIDE is the side byte, or empty on
a connection without any. A line that is no message is `[SIDE, null, TEXT]`. `left_out` counts lines
that have too many values, `failed` has the reason why the delivery ended the component.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import Entry, dialects, json_text, jsonrpc
from conductor.core.dialects import ENVELOPES
from conductor.core.json_text import read_members, too_many_values, write_members
from conductor.core.jsonrpc import Malformed, Params
from conductor.core.message import Message
from conductor.record import sides
from conductor.record.frames import clean_members, stands_once, written
from conductor.record.turns.line import Line, read_line
from conductor.spec.redaction import MOST_VALUES, REDACTED, is_secret, redacted

if TYPE_CHECKING:
    from conductor.record.trace.chain import ChainComponent

FORMAT: Final = 1
"""Of records; goes up when older readers would misunderstand them."""

_SIDES: Final = ("p", "s", "c")
_HEADERS: Final = frozenset(
    {
        "age", "allow", "cache-control", "content-encoding", "content-language", "content-length",
        "content-type", "date", "etag", "expires", "last-modified", "retry-after", "vary",
    }
)  # fmt: skip
"""Headers of a fetched answer that are never a secret, and that programs read."""

_encode: Final = json_text.encode
_text: Final = json_text.Decoder(str)
_MOST_OPEN: Final = 4096
"""Requests for services that may be pending here: a component may never be answered."""
_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")


def text_lines(data: bytes) -> Iterable[str]:
    """Lines as text: neither side of a report may believe that a guest's lines are JSON."""
    if not data:
        return ()
    return (
        line.decode("utf-8", "backslashreplace") for line in data.removesuffix(b"\n").split(b"\n")
    )


class ServiceCall(msgspec.Struct):
    """A call of a service of the conductor."""

    service: str
    secret: bool
    """Whether the value it is about is a secret, by its key."""


class Conversation:
    """Makes records of the lines of an instance of a component."""

    def __init__(self, name: str, run: int, gather: Callable[[bytes], None], content: str) -> None:
        """`run`: which instance of the component, from 1. `gather` takes records."""
        self.name = name
        self.run = run
        self._gather = gather
        self._redact = content == "redacted"
        self._calls: dict[str, ServiceCall] = {}
        """Pending requests for services, by id."""
        self._delivery = 0

    def delivered(self, ts: float, given: bytes, sent: bytes, failed: str) -> None:
        """A delivery to a guest."""
        if given:  # else its lines at the start, which answer no delivery
            self._delivery += 1
        self.write(ts, text_lines(given), text_lines(sent), self._delivery, failed)

    def write(
        self,
        ts: float,
        given: Iterable[str],
        sent: Iterable[str],
        delivery: int | None = None,
        failed: str = "",
    ) -> None:
        """Writes down lines that the component got (`given`) and sent (`sent`)."""
        got = [self.line(line, sent=False) for line in given]
        returned = [self.line(line, sent=True) for line in sent]
        left_out = got.count(None) + returned.count(None)
        if not (got or returned or left_out or failed):
            return
        record = b'{"component":%b,"run":%d,"ts":%.6f' % (_encode(self.name), self.run, ts)
        if delivery is not None:
            record += b',"delivery":%d' % delivery
        for name, lines in ((b"given", got), (b"said", returned)):
            if kept := [line for line in lines if line is not None]:
                record += b',"%b":[%b]' % (name, b",".join(kept))
        if left_out:
            record += b',"left_out":%d' % left_out
        if failed:
            record += b',"failed":' + _encode(failed)
        self._gather(record + b"}")

    # -- one line ------------------------------------------------------------------------------

    def line(self, line: str, *, sent: bool) -> bytes | None:
        """A line in the form of a record; None if that costs too much: more memory than there is,
        or more than `MOST_VALUES` values."""
        try:
            return self._line(line, sent=sent)
        except MemoryError:
            return None

    def _line(self, line: str, *, sent: bool) -> bytes | None:
        side = line[:1] if line[:1] in _SIDES else ""
        text = line[len(side) :].encode("utf-8", "backslashreplace")
        if too_many_values(text, MOST_VALUES):
            return None
        try:
            message = jsonrpc.parse(text)
        except Malformed:
            return b'["%b",null,%b]' % (side.encode(), _encode(text.decode()))
        if self._redact and isinstance(message, Message):
            text = self._message(side, message, text, sent=sent)
        elif self._redact:
            text = redacted(text)
        # A line end outside of strings is only space, and inside of them there is none.
        if b"\n" in text or b"\r" in text:
            text = text.translate(_ONE_LINE)
        return b'["%b",%b]' % (side.encode(), text)

    def _message(self, side: str, message: Message, text: bytes, *, sent: bool) -> bytes:
        """A message without secrets."""
        call = self._service_call(side, message, sent=sent)
        cleaned = {
            name: _cleaned(message, bytes(value), call)
            for name in ("params", "result", "error")
            if isinstance(value := getattr(message, name), msgspec.Raw)
        }
        return clean_members(text, cleaned)

    def _service_call(self, side: str, message: Message, *, sent: bool) -> ServiceCall | None:
        """The service call that a message makes or answers; None for all other messages."""
        if isinstance(message.method, str):
            name = message.method if side == "c" else sides.called_service(message.method)
            if name is None or side in ("p", "s"):
                return None
            call = ServiceCall(name, _is_secret_value(name, message.params))
            if sent and isinstance(message.id, msgspec.Raw) and len(self._calls) < _MOST_OPEN:
                self._calls[bytes(message.id).decode()] = call
            return call
        if sent or not isinstance(message.id, msgspec.Raw) or side not in ("c", ""):
            return None
        return self._calls.pop(bytes(message.id).decode(), None)


def _cleaned(message: Message, value: bytes, call: ServiceCall | None) -> bytes:
    if call is not None:
        return clean_service(value, call)
    method = message.method if isinstance(message.method, str) else None
    return _cleaned_envelope(value) if method in ENVELOPES else redacted(value, method)


def called_service(entry: Entry, params: bytes) -> ServiceCall | None:
    """The call that an entry with these params is; None: it is none."""
    if entry.target:
        return None
    return ServiceCall(entry.method, _is_secret_value(entry.method, params))


def _is_secret_value(service: str, params: Params | bytes) -> bool:
    if service not in ("kv/get", "kv/set"):
        return False
    held = read_members(params) or {}
    try:
        return is_secret(_text.decode(held.get("key", msgspec.Raw(b'""'))))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def clean_service(value: bytes, call: ServiceCall) -> bytes:
    """Params or an outcome of a service without secrets."""
    cleaned = redacted(value)
    if not call.secret and call.service != "fetch":
        return cleaned
    held, before = read_members(cleaned), read_members(value)
    if held is None or before is None:
        return cleaned
    if call.secret and "value" in held:
        held["value"] = msgspec.Raw(REDACTED)
    if call.service == "fetch" and "status" in held:
        headers = read_members(before.get("headers")) or {}
        kept = {k: v if k in _HEADERS else msgspec.Raw(REDACTED) for k, v in headers.items()}
        held["headers"] = write_members(kept)
    return value if held == before else bytes(write_members(held))


def _cleaned_envelope(value: bytes) -> bytes:
    """The params of an envelope: what is a secret depends on the method of the message in it."""
    try:
        method, _, nested, _ = dialects.unwrap(msgspec.Raw(value))
    except Malformed:
        return redacted(value)
    if not nested:
        return _cleaned_params(value, method)
    held = read_members(value) or {}
    held["message"] = msgspec.Raw(_cleaned_params(bytes(held["message"]), method))
    return bytes(write_members(held))


def _cleaned_params(value: bytes, method: str) -> bytes:
    held = read_members(value) or {}
    if "params" not in held:
        return redacted(value)
    params = bytes(held["params"])
    members = {name: bytes(each) for name, each in held.items()}
    cleaned = {**members, "params": redacted(params, method)}
    return value if cleaned == members and stands_once(value, members) else written(cleaned)


def header(
    content: str,
    components: Iterable[str],
    began: float,
    chain: Sequence[ChainComponent] = (),
    ring: Mapping[str, object] | None = None,
) -> Line:
    """The first line of a trace: how its records are written, of which components, in which
    process the chain runs, and when it began, in seconds of Unix time. `ring`: of which ring it is
    the file."""
    line: dict[str, object] = {
        "type": "_conductor",
        "format": FORMAT,
        "content": content,
        "components": list(components),
        "began": round(began, 6),
        "process": os.getpid(),
    }
    line |= {"chain": chain} if chain else {}
    line |= {"ring": ring} if ring is not None else {}
    raw = _encode(line) + b"\n"
    head = read_line(raw)
    assert head is not None
    head.raw = raw
    return head
