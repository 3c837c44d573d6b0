"""A line of a trace, ours or the reference's, as far as it is understood.

Lines are written as the reference conductor writes them, so that its viewer shows them
(docs/log.md, "Traces"), with our own members below `_conductor`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.policy.key_table import PERMISSION, STAMP
from conductor.record.turns.messages import Update, read_update

QUESTIONS: Final = frozenset({PERMISSION, "elicitation/create"})
"""Requests that a person answers."""
FORMAT: Final = 1
"""Of traces; goes up when older readers would misunderstand them."""

CLIENT: Final = "client"
AGENT: Final = "agent"
CONDUCTOR: Final = "conductor"
ENDS: Final = frozenset({CLIENT, AGENT, CONDUCTOR})
"""Names in a trace that are no proxy's."""
KINDS: Final = frozenset({"request", "response", "notification"})

_THEIRS: Final = {"Client": CLIENT, "Agent": AGENT}
"""The reference's names for the ends of a chain."""
_LATEST: Final = 1e9
"""Seconds. No trace is 30 years long."""
LONGEST: Final = 200
"""Characters of a name or an id that are kept while a trace is read."""


_NULL: Final = msgspec.Raw(b"null")


class Own(msgspec.Struct, gc=False, omit_defaults=True):
    """Our own members of an event (docs/log.md, "Traces"); members with defaults are missing."""

    bytes: int = msgspec.field(default_factory=int)  # written, also where it is 0
    id: msgspec.Raw = _NULL
    n: int = 0
    of: int = 0
    passes: int = 0
    carrier: str = ""
    method: str = ""
    session: Any = None
    protocol: str = ""
    ms: float | None = None
    way: float = 0.0
    past: bool = False
    lost: bool = False
    by: str = ""
    code: int | None = None
    sha256: str = ""
    hidden: str = ""


class _Member(msgspec.Struct, gc=False):
    """A component of the chain, as the header describes it."""

    name: str = ""
    role: str = ""


class Ring(msgspec.Struct, gc=False):
    """The header of a ring's file, as far as it describes the ring."""

    why: str = ""
    began: str = ""
    forgotten: bool = False


class Line(msgspec.Struct, gc=False):
    """A line of a trace."""

    type: str = ""
    ts: float = 0.0
    protocol: str = "acp"
    source: str = msgspec.field(name="from", default="")
    target: str = msgspec.field(name="to", default="")
    id: msgspec.Raw = _NULL
    method: str = ""
    session: Any = None
    params: msgspec.Raw = _NULL
    payload: msgspec.Raw = _NULL
    is_error: bool = False
    error_domain: str = ""
    own: Own | None = msgspec.field(name="_conductor", default=None)
    # Of lines of type `_conductor`:
    format: int | None = None
    content: str = ""
    components: list[str] | None = None
    chain: list[_Member] | None = None
    ring: Ring | None = None
    full: int | None = None
    gap: str = ""
    verdict: dict[str, Any] | None = None
    happened: dict[str, Any] | None = None
    process: int | None = None
    began: float | None = None
    unwatched: dict[str, bool] | None = None
    ended: str | None = None
    raw: bytes = b""
    """The whole line as it is written, where it says more than is understood of it."""

    @property
    def is_event(self) -> bool:
        """Whether it is a message that passed between two components."""
        return self.type in KINDS and bool(self.source and self.target)

    @property
    def left(self) -> float:
        """When it left its sender, in seconds since the trace began."""
        way = self.own.way if self.own is not None else 0.0
        return max(self.ts - way / 1000, 0.0) if way > 0 else self.ts

    @property
    def body(self) -> msgspec.Raw:
        """The event's params, result or error."""
        return self.payload if self.type == "response" else self.params

    @property
    def update(self) -> Update | None:
        """The update of a session that it is; None: it is another message."""
        return read_update(self.method, self.params) if self.type == "notification" else None

    @property
    def names_session(self) -> str:
        """The session that it names; empty: none."""
        session = self.session or (self.own.session if self.own is not None else None)
        if session is None and self.own is None and b'"sessionId"' in bytes(self.params):
            session = _session_in(self.params)
        return session[:LONGEST] if isinstance(session, str) else ""

    @property
    def fingerprint(self) -> int:
        """A hash of the event's body, or of its size and digest if the trace lacks the body."""
        own = self.own
        if own is None or bytes(self.body) != b"null":
            return hash((bytes(self.body), self.hidden))
        return hash((own.bytes, own.sha256))

    @property
    def hidden(self) -> str:
        """A digest of the whole message, if secrets were taken out of it for the trace."""
        return self.own.hidden[:LONGEST] if self.own is not None else ""

    @property
    def key(self) -> bytes:
        """The event's id, or a digest of a long id."""
        raw = bytes(self.id)
        return raw if len(raw) <= LONGEST else hashlib.sha256(raw).digest()


class _Session(msgspec.Struct):
    id: str = msgspec.field(name="sessionId", default="")


class Error(msgspec.Struct):
    """An error of JSON-RPC, as far as it is understood."""

    code: int | None = None
    message: Any = None
    data: Any = None


class _Tokens(msgspec.Struct):
    inputTokens: int | None = None  # noqa: N815 - ACP's names
    outputTokens: int | None = None  # noqa: N815
    thoughtTokens: int | None = None  # noqa: N815
    cachedReadTokens: int | None = None  # noqa: N815
    cachedWriteTokens: int | None = None  # noqa: N815


class Prompted(msgspec.Struct):
    """The result of a prompt."""

    stop: str = msgspec.field(name="stopReason", default="")
    meta: Any = msgspec.field(name="_meta", default=None)
    message: str = msgspec.field(name="messageId", default="")
    usage: _Tokens | None = None

    @property
    def ends(self) -> bool:
        """Whether it ends its turn. One of ACP v2 may say that the prompt was inserted."""
        return bool(self.stop or not self.message)

    @property
    def ended(self) -> str:
        """How the turn has ended, and which component has ended it so, as far as that is said."""
        by = self.meta.get(STAMP) if isinstance(self.meta, dict) else None
        if self.stop == "refusal" and isinstance(by, str):
            return f"refused by {by}"
        return self.stop or "ended"


_decode: Final = json_text.Decoder(Line).decode
_any: Final = json_text.Decoder().decode
_encode: Final = json_text.encode
_sorted: Final = json_text.encode_sorted
_session: Final = json_text.Decoder(_Session).decode
_error: Final = json_text.Decoder(Error).decode
_prompted: Final = json_text.Decoder(Prompted).decode
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_line(line: bytes) -> Line | None:
    """Reads a line, with our names for its ends. None: no event, or its time is impossible."""
    try:
        read = _decode(line)
    except _BAD:
        return None
    read.source, read.target = _name(read.source), _name(read.target)
    if not 0 <= read.ts < _LATEST or (read.own is not None and not _lasts(read.own)):
        return None
    return read


_ABOUT: Final = ("verdict", "happened", "unwatched", "ended")
"""The members of a line of type `_conductor`, apart from the member for a gap."""
_RESPONSE: Final = (
    b'{"type":"response","ts":%.6f,"from":%b,"to":%b,"id":%b,"is_error":%b,"payload":%b,'
    b'"_conductor":%b}\n'
)
_CALL: Final = (
    b'{"type":"%b","ts":%.6f,"protocol":"%b","from":%b,"to":%b,%b"method":%b,%b"params":%b,'
    b'"_conductor":%b}\n'
)


def written(line: Line) -> bytes:
    """A line of ours as it stands in a trace."""
    own = line.own
    if line.raw:
        return line.raw
    if own is None:
        said = {name: held for name in _ABOUT if (held := getattr(line, name)) is not None}
        about = _encode(said or {"gap": line.gap})
        return b'{"type":"_conductor","ts":%.6f,%b\n' % (line.ts, about[1:])
    source, target = _encode(line.source), _encode(line.target)
    if line.type == "response":
        error = b"false"
        if line.is_error:
            error = b'true,"error_domain":"%b"' % line.error_domain.encode()
        held = (line.ts, source, target, line.id, error, line.payload, _encode(own))
        return _RESPONSE % held
    id_ = b'"id":%b,' % line.id if line.type == "request" else b""
    session = b'"session":%b,' % _encode(line.session) if line.session is not None else b""
    return _CALL % (
        line.type.encode(), line.ts, line.protocol.encode(), source, target, id_,
        _encode(line.method), session, line.params, _encode(own),
    )  # fmt: skip


def _lasts(own: Own) -> bool:
    """Whether the times of an event are possible."""
    most = _LATEST * 1000
    return own.way < most and (own.ms or 0.0) < most


def _name(name: str) -> str:
    return _THEIRS.get(name) or name[:LONGEST]


def _session_in(params: msgspec.Raw) -> str | None:
    """The session that params name: the reference does not write it beside them."""
    try:
        return _session(params).id or None
    except _BAD:
        return None


def prompted(line: Line) -> Prompted:
    """The result of a prompt."""
    try:
        return _prompted(line.payload)
    except _BAD:
        return Prompted()


def error_of(line: Line) -> Error:
    """The error that a response is; its code is known also where the trace has no content."""
    try:
        error = _error(line.payload)
    except _BAD:
        error = Error()
    if error.code is None and line.own is not None:
        error.code = line.own.code
    return error


def error_text(error: Error) -> str:
    """Code and text of an error."""
    words = error.message[:200] if isinstance(error.message, str) else ""
    return " ".join(part for part in (str(error.code or ""), words) if part) or "error"


def plain(method: str) -> str:
    """A method as any component gets it: proxies are initialized in a way of their own."""
    return "initialize" if method.endswith("proxy/initialize") else method[:LONGEST]


def same_value(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    """Whether two JSON texts hold the same value: spelling and order of members do not count."""
    if one == other:
        return True
    try:
        return bytes(_sorted(_any(one))) == bytes(_sorted(_any(other)))
    except (*_BAD, msgspec.EncodeError, ValueError):
        return False
