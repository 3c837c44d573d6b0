"""Lines of one component as messages on its sides, whatever dialect it speaks. Pure.

A component on one connection wraps what concerns its successor, and asks the conductor itself by
methods of their own; a guest has side bytes for all that. Here both become the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from conductor.core import dialects, jsonrpc, members
from conductor.core.dialects import CANCEL, ENVELOPES
from conductor.core.jsonrpc import Malformed, Message
from conductor.core.services import ALIASES, PREFIX
from conductor.record.replay.recording import Line

SIDES: Final = {"p": "predecessor", "s": "successor", "c": "conductor"}

_LAUNCHES: Final = "_scp/proxy"


class Told(NamedTuple):
    """One message, given or said."""

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
    space: str
    """Which ids its id is one of: those of a side, or of the whole connection (empty)."""
    line: Line

    @property
    def key(self) -> tuple[str, str]:
        """Its id among all of the component's."""
        return self.space, self.id or ""

    @property
    def lane(self) -> tuple[str, str | None]:
        """Messages of one side and session stay in order."""
        return self.side, self.session

    def shown(self, cancels: str | None = None) -> bytes:
        """What counts of it, as JSON: of a request not its id. `cancels`: the id it should name."""
        if self.kind == "text":
            return self.line.text if self.line.is_message else msgspec.json.encode(
                self.line.text.decode("utf-8", "backslashreplace")
            )  # fmt: skip
        body = self.body
        if cancels is not None:
            held = members.read(body) or {}
            body = bytes(members.write({**held, "requestId": msgspec.Raw(cancels.encode())}))
        if self.kind == "response":
            head = b'{"id":%b' % (self.id or "null").encode()
        else:
            head = b'{"method":%b' % msgspec.json.encode(self.method)
        if not body:
            return head + b"}"
        return head + b',"%b":%b}' % (self.member.encode(), body)

    @property
    def cancelled(self) -> tuple[str, str] | None:
        """Which of the sender's requests it takes back."""
        if self.method != CANCEL:
            return None
        raw = (members.read(self.body) or {}).get("requestId")
        return None if raw is None else (self.space, _canonical(bytes(raw)))


class _Asked(NamedTuple):
    side: str
    method: str
    session: str | None


class Wire:
    """Reads the lines of one instance, in order."""

    def __init__(self) -> None:
        self._asked: dict[bool, dict[tuple[str, str], _Asked]] = {True: {}, False: {}}
        """Requests that were said (true) and given, by id."""
        self.launches = False
        """Whether it launches its successor itself."""

    def read(self, line: Line, *, said: bool) -> Told:
        """One line, given or said."""
        try:
            message = jsonrpc.parse(line.text) if line.is_message else None
        except Malformed:
            message = None
        if not isinstance(message, Message):
            return Told(line.side or "p", "text", None, "", "", line.text, None, line.side, line)
        if isinstance(message.method, str):
            return self._call(line, message, message.method, said=said)
        return self._response(line, message, said=said)

    def _call(self, line: Line, message: Message, method: str, *, said: bool) -> Told:
        side, params = line.side or "p", message.params
        if not line.side:
            if method == _LAUNCHES:
                self.launches = True
            if method in ENVELOPES:
                try:
                    method, params, _ = dialects.unwrap(params)
                    side = "s"
                except Malformed:
                    pass  # then it is what it looks like
            elif method in ALIASES or method.startswith(PREFIX):
                method, side = ALIASES.get(method, method.removeprefix(PREFIX)), "c"
        id_ = _canonical(bytes(message.id)) if isinstance(message.id, msgspec.Raw) else None
        body = bytes(params) if isinstance(params, msgspec.Raw) else b""
        session = _session(body)
        kind = "notification" if id_ is None else "request"
        told = Told(side, kind, id_, method, "params", body, session, line.side, line)
        if id_ is not None:
            self._asked[said][told.key] = _Asked(side, method, session)
        return told

    def _response(self, line: Line, message: Message, *, said: bool) -> Told:
        id_ = _canonical(bytes(message.id)) if isinstance(message.id, msgspec.Raw) else "null"
        unknown = _Asked(line.side or "p", "", None)
        asked = self._asked[not said].pop((line.side, id_), unknown)
        member = "result" if isinstance(message.result, msgspec.Raw) else "error"
        body = message.result if member == "result" else message.error
        raw = bytes(body) if isinstance(body, msgspec.Raw) else b""
        return Told(
            asked.side, "response", id_, asked.method, member, raw, asked.session, line.side, line
        )


def _canonical(raw: bytes) -> str:
    found = jsonrpc.canonical_id(raw)
    return (raw if found is None else found).decode("utf-8", "backslashreplace")


def _session(body: bytes) -> str | None:
    if b'"sessionId"' not in body:
        return None
    raw = bytes((members.read(body) or {}).get("sessionId", b""))
    return raw.decode("utf-8", "backslashreplace") if raw[:1] == b'"' else None
