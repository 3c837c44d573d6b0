"""What each component was given and has said, line by line, for `conductor replay`.

A record is JSON: who (`component`), which instance of it (`run`), which delivery (`delivery`, of
guests), when (`ts`), and the lines, each as `[SIDE, MESSAGE]`. SIDE is the side byte, or empty on
a connection without any. A line that is no message is `[SIDE, null, TEXT]`. `left_out` counts lines
that were too long for a report or have too many values, `failed` says why the component ended of a
delivery.

What is asked of the conductor itself, and answered by it, is handed on to be written as an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core import Trace, dialects, jsonrpc, members
from conductor.core.depth import too_many_values
from conductor.core.dialects import ENVELOPES
from conductor.core.jsonrpc import Malformed, Message
from conductor.core.services import ALIASES, PREFIX
from conductor.record.redaction import MOST_VALUES, REDACTED, is_secret, redacted
from conductor.record.trace.names import CONDUCTOR, proxy
from conductor.run.report_lines import Delivered, text_lines

FORMAT: Final = 1
"""Of records; goes up when older readers would misunderstand them."""

_SIDES: Final = ("p", "s", "c")
_HEADERS: Final = frozenset(
    {
        "age", "allow", "cache-control", "content-encoding", "content-language", "content-length",
        "content-type", "date", "etag", "expires", "last-modified", "retry-after", "vary",
    }
)  # fmt: skip
"""Headers of what was fetched that are never a secret, and that programs look at."""

_encode: Final = msgspec.json.Encoder().encode
_text: Final = msgspec.json.Decoder(str)
_MOST_OPEN: Final = 4096
_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")

Event = Callable[[Trace, str, str, int], None]
"""Writes what passed between a component and the conductor: it, from, to, and its size."""


class _Asked(msgspec.Struct):
    service: str
    secret: bool
    """Whether the value it asks for is one, by its key."""


class Conversation:
    """What one instance of a component is given and says, as it is to be written down."""

    def __init__(
        self, name: str, run: int, gather: Callable[[bytes], None], event: Event, content: str
    ) -> None:
        """`run`: which instance of the component, from 1."""
        self.name = name
        self.run = run
        self._shown = proxy(name)
        self._gather = gather if content != "none" else None
        self._event = event
        self._redact = content == "redacted"
        self._asked: dict[str, _Asked] = {}
        """Services it waits for, by the id it asked under."""
        self._delivery = 0

    def reported(self, told: Delivered, ts: float) -> None:
        """A host of guests reports a delivery, or a part of one."""
        self.write(ts, told.given, told.said, told.number, told.left_out, told.failed)

    def delivered(self, ts: float, given: bytes, said: bytes, failed: str) -> None:
        """A delivery to a guest in this process; what it said at its start has no lines before."""
        if given:
            self._delivery += 1
        self.write(ts, text_lines(given), text_lines(said), self._delivery, 0, failed)

    def write(
        self,
        ts: float,
        given: Iterable[str],
        said: Iterable[str],
        delivery: int | None = None,
        left_out: int = 0,
        failed: str = "",
    ) -> None:
        """Writes down lines that were given and lines that were said."""
        came = [self.line(line, said=False) for line in given]
        went = [self.line(line, said=True) for line in said]
        left_out += came.count(None) + went.count(None)
        if self._gather is None or not (came or went or left_out or failed):
            return
        record = b'{"component":%b,"run":%d,"ts":%.6f' % (_encode(self.name), self.run, ts)
        if delivery is not None:
            record += b',"delivery":%d' % delivery
        for name, lines in ((b"given", came), (b"said", went)):
            if kept := [line for line in lines if line is not None]:
                record += b',"%b":[%b]' % (name, b",".join(kept))
        if left_out:
            record += b',"left_out":%d' % left_out
        if failed:
            record += b',"failed":' + _encode(failed)
        self._gather(record + b"}")

    # -- one line ------------------------------------------------------------------------------

    def line(self, line: str, *, said: bool) -> bytes | None:
        """One line that was given or said, as it is written down; None where that costs too much:
        it takes more memory than there is, or has more than `MOST_VALUES` values."""
        try:
            return self._line(line, said=said)
        except MemoryError:
            return None

    def _line(self, line: str, *, said: bool) -> bytes | None:
        side = line[:1] if line[:1] in _SIDES else ""
        text = line[len(side) :].encode("utf-8", "backslashreplace")
        if too_many_values(text, MOST_VALUES):
            return None
        try:
            message = jsonrpc.parse(text)
        except Malformed:
            return b'["%b",null,%b]' % (side.encode(), _encode(text.decode()))
        if isinstance(message, Message):
            text = self._message(side, message, text, said=said)
        elif self._redact:
            text = redacted(text)
        # A line end outside of strings is only space, and inside of them there is none.
        return b'["%b",%b]' % (side.encode(), text.translate(_ONE_LINE))

    def _message(self, side: str, message: Message, text: bytes, *, said: bool) -> bytes:
        """A message as it is written down; one to or of the conductor is an event as well."""
        asked = self._service(side, message, said=said)
        kept = {
            name: bytes(value)
            for name in ("params", "result", "error")
            if isinstance(value := getattr(message, name), msgspec.Raw)
        }
        cleaned = {name: self._cleaned(message, value, asked) for name, value in kept.items()}
        if asked is not None:
            self._tell(message, asked, kept, cleaned, said=said)
        if cleaned == kept:
            return text
        held = members.read(text) or {}
        return bytes(members.write({**held, **{k: msgspec.Raw(v) for k, v in cleaned.items()}}))

    def _service(self, side: str, message: Message, *, said: bool) -> _Asked | None:
        """What a message says to, or is told by, the conductor itself; None for all others."""
        if isinstance(message.method, str):
            name = message.method
            if side != "c":
                name = ALIASES.get(name, name.removeprefix(PREFIX))
                if side or name == message.method:
                    return None
            asked = _Asked(name, _of_secret(name, message))
            if said and isinstance(message.id, msgspec.Raw) and len(self._asked) < _MOST_OPEN:
                self._asked[bytes(message.id).decode()] = asked
            return asked
        if said or not isinstance(message.id, msgspec.Raw) or side not in ("c", ""):
            return None
        return self._asked.pop(bytes(message.id).decode(), None)

    def _cleaned(self, message: Message, value: bytes, asked: _Asked | None) -> bytes:
        if not self._redact:
            return value
        if asked is not None:
            return _cleaned_service(value, asked)
        method = message.method if isinstance(message.method, str) else None
        if method in ENVELOPES:
            return _cleaned_envelope(value)
        return redacted(value, method)

    def _tell(
        self,
        message: Message,
        asked: _Asked,
        kept: dict[str, bytes],
        cleaned: dict[str, bytes],
        *,
        said: bool,
    ) -> None:
        is_call = isinstance(message.method, str)
        has_id = isinstance(message.id, msgspec.Raw)
        kind = ("request" if has_id else "notification") if is_call else "response"
        name = "params" if is_call else "error" if "error" in kept else "result"
        source, target = (self._shown, CONDUCTOR) if said else (CONDUCTOR, self._shown)
        trace = Trace(
            kind,
            self.name if said else CONDUCTOR,
            CONDUCTOR if said else self.name,
            bytes(message.id).decode() if isinstance(message.id, msgspec.Raw) else None,
            asked.service,
            cleaned.get(name),
            name == "error",
            "c",
            "c",
        )
        self._event(trace, source, target, len(kept.get(name, b"")))


def _of_secret(service: str, message: Message) -> bool:
    if service not in ("kv/get", "kv/set"):
        return False
    held = members.read(message.params) or {}
    try:
        return is_secret(_text.decode(held.get("key", msgspec.Raw(b'""'))))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _cleaned_service(value: bytes, asked: _Asked) -> bytes:
    """Params or an outcome of a service without secrets."""
    cleaned = redacted(value)
    if not asked.secret and asked.service != "fetch":
        return cleaned
    held, before = members.read(cleaned), members.read(value)
    if held is None or before is None:
        return cleaned
    if asked.secret and "value" in held:
        held["value"] = msgspec.Raw(REDACTED)
    if asked.service == "fetch" and "status" in held:
        headers = members.read(before.get("headers")) or {}
        kept = {k: v if k in _HEADERS else msgspec.Raw(REDACTED) for k, v in headers.items()}
        held["headers"] = members.write(kept)
    return value if held == before else bytes(members.write(held))


def _cleaned_envelope(value: bytes) -> bytes:
    """The params of an envelope: the message in it is looked at by its own method."""
    try:
        method, _, nested = dialects.unwrap(msgspec.Raw(value))
    except Malformed:
        return redacted(value)
    held = members.read(value) or {}
    if nested:
        held["message"] = msgspec.Raw(_cleaned_params(bytes(held["message"]), method))
        cleaned = bytes(members.write(held))
    else:
        cleaned = _cleaned_params(value, method)
    return cleaned


def _cleaned_params(value: bytes, method: str) -> bytes:
    held = members.read(value) or {}
    if "params" not in held:
        return redacted(value)
    params = bytes(held["params"])
    cleaned = redacted(params, method)
    if cleaned == params:
        return value
    return bytes(members.write({**held, "params": msgspec.Raw(cleaned)}))


def header(content: str, components: Iterable[str]) -> bytes:
    """The first line of a trace: how its records are written, and of whom there may be any."""
    names = list(components)
    told = {"type": "_conductor", "format": FORMAT, "content": content, "components": names}
    return _encode(told) + b"\n"
