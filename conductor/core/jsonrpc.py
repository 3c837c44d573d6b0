"""JSON-RPC 2.0 as ACP uses it: one JSON text a line, ids compared as JSON values.

A frame is the bytes of one line without its newline. `parse` turns it into a `Message` (or a list
of raw batch entries) and raises `Malformed` for everything else. This module knows nothing of ACP
methods, peers or directions.

Payloads stay `msgspec.Raw`: a payload that nobody changes leaves byte for byte as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.json_text import (
    Decoder,
    encode,
    hide_surrogates,
    show_surrogates,
    too_deep,
    too_many_values,
)
from conductor.errors import hidden_json_line
from conductor.patterns import lazy_pattern

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
UNSUPPORTED_VERSION: Final = -32022
REQUEST_CANCELLED: Final = -32800
RESOURCE_NOT_FOUND: Final = -32002
AUTH_REQUIRED: Final = -32000
"""The agent's error if the user has to log in first; editors then show its login."""
REFUSED: Final = -31900
"""A component's error if it stops a message. `data` has the name of the component as
`component`."""

Params = Raw | UnsetType
"""Raw params of a message; `UNSET`: it has none."""
_STRUCTURED: Final = b"{["
"""The first bytes of params that JSON-RPC allows."""

MAX_DEPTH: Final = 512
"""Deepest nesting of arrays and objects a frame may have."""

MAX_UNUSUAL: Final = 250_000
"""The most values of a batch, or of a message with members of odd types: each becomes an object."""

_FEW: Final = 10
"""The most requests that a line of the log names."""


class Malformed(Exception):  # noqa: N818 - names the frame's state, as in DESIGN's vocabulary
    """A frame that is no valid JSON-RPC message, or a request that is refused.

    `code`, `text` and `data` go into the error; `id` is the raw id of the frame, if one could still
    be read.
    """

    def __init__(
        self,
        code: int,
        text: str,
        id: bytes | None = None,  # noqa: A002 - the wire's name
        data: object = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.id = id
        self.data = data


_ABSENT: Final = (UNSET, Raw(b"null"))


class Message(msgspec.Struct, frozen=True, gc=False):
    """One JSON-RPC object as it stood on the wire; members that were absent are `UNSET`.

    `jsonrpc` is empty where it was absent or no string.
    """

    jsonrpc: str = ""
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def answers(self) -> bool:
        """Whether it has a member of responses. A message that also has a `method` is malformed;
        but null beside a `method` does not count: some peers write all members in each message."""
        if self.result is UNSET and self.error is UNSET:
            return False
        return self.method is UNSET or self.result not in _ABSENT or self.error not in _ABSENT


class ErrorObject(msgspec.Struct, frozen=True):
    """The members that are read of an error object; a default stands for one that cannot be
    read."""

    code: int = 0
    message: str = "an error"


_message = msgspec.json.Decoder(Message)
_batch = msgspec.json.Decoder(list[Raw])
_members = Decoder(dict[str, Raw])
_text = Decoder(str)

_NULL: Final = Raw(b"null")
_VERSION: Final = Raw(b'"2.0"')
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before their first line; it has no meaning."""
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_INT: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})")
_WHOLE: Final = lazy_pattern(
    rb"(-?)(0|[1-9][0-9]{0,18})(?:\.([0-9]{1,40}))?(?:[eE]([+-]?[0-9]{1,2}))?"
)


def parse(frame: bytes, max_depth: int = MAX_DEPTH) -> Message | list[Raw]:
    """Reads one frame.

    Returns:
        The message, or the raw entries of a JSON array.

    Raises:
        Malformed: -32700 for a frame that is not UTF-8 or not JSON, -32600 for JSON that is no
        JSON-RPC object or nests deeper than `max_depth`.
    """
    # Each level takes two bytes, so most frames are too short to be looked at.
    if len(frame) > 2 * max_depth and too_deep(frame, max_depth):
        raise Malformed(INVALID_REQUEST, f"message nests deeper than {max_depth} levels")
    # JSON allows line breaks between tokens. A peer that reads lines would find a message between
    # two of them that nobody before has seen: they become blanks.
    if frame.find(b"\r") >= 0 or frame.find(b"\n", 0, -1) >= 0:
        frame = frame.translate(_BREAKS)
    if not frame.isascii():
        # msgspec does not check text that it skips, and a raw payload is skipped.
        try:
            frame.decode()
        except UnicodeDecodeError as error:
            raise Malformed(PARSE_ERROR, f"message is not UTF-8 (byte {error.start})") from None
    try:
        return _message.decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return _unusual(frame)


def message_of(frame: bytes) -> Message | None:
    """The message of a frame; None: it is malformed or a batch, which others have to judge."""
    try:
        message = parse(frame)
    except Malformed:
        return None
    return message if isinstance(message, Message) else None


def _unusual(frame: bytes) -> Message | list[Raw]:
    """Reads a frame that the fast path refused: with a batch, odd members, lone surrogates, or a
    byte order mark in front."""
    frame = frame.removeprefix(BOM)
    try:
        try:
            return _decode(frame)
        except msgspec.DecodeError:
            marked = hide_surrogates(frame)
            if marked is None:
                raise
            return _decode(marked, hidden=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(PARSE_ERROR, f"message is not JSON: {error}") from None
    except RecursionError:
        raise Malformed(INVALID_REQUEST, "message nests too deeply") from None


def _decode(frame: bytes, *, hidden: bool = False) -> Message | list[Raw]:
    """Decodes a message or an array. `hidden`: its lone surrogates are marked."""

    def shown(raw: Raw | UnsetType) -> Params:
        return Raw(show_surrogates(bytes(raw))) if hidden and isinstance(raw, Raw) else raw

    try:
        message = _message.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # No object, or its members are not of the expected types: a mark is no text.
        if not (hidden or isinstance(error, msgspec.ValidationError)):
            raise
    else:
        raws = map(shown, (message.params, message.result, message.error))
        return Message(message.jsonrpc, shown(message.id), message.method, *raws)
    if too_many_values(frame, MAX_UNUSUAL):
        raise Malformed(INVALID_REQUEST, f"a batch, or odd, with over {MAX_UNUSUAL:,} values")
    try:
        entries = _batch.decode(frame)
    except msgspec.ValidationError:
        pass  # no array either
    else:
        return [Raw(show_surrogates(bytes(entry))) for entry in entries] if hidden else entries
    try:
        members = _members.decode(show_surrogates(frame) if hidden else frame)
    except msgspec.ValidationError:
        raise Malformed(INVALID_REQUEST, "message is not a JSON object") from None
    return _odd(members)


def _odd(members: dict[str, Raw]) -> Message:
    """A message whose `method` or `jsonrpc` is no string; such a `jsonrpc` becomes empty.

    A `method` of null counts as absent: some agents write all members in each message.
    """
    id_ = members.get("id", UNSET)
    method: str | UnsetType = UNSET
    if members.get("method", _NULL) != _NULL:
        try:
            method = _text.decode(members["method"])
        except msgspec.DecodeError:
            raw = canonical_id(id_) if isinstance(id_, Raw) else None
            raise Malformed(INVALID_REQUEST, "`method` must be a string", raw) from None
    version = "2.0" if members.get("jsonrpc") == _VERSION else ""
    params, result = members.get("params", UNSET), members.get("result", UNSET)
    return Message(version, id_, method, params, result, members.get("error", UNSET))


def structured(params: Params) -> Params:
    """Params as JSON-RPC allows them, an object or an array; null, which older peers send, counts
    as none. Raises `Malformed` for anything else."""
    if not isinstance(params, Raw) or memoryview(params)[0] in _STRUCTURED:
        return params
    if bytes(params) != b"null":
        raise Malformed(INVALID_PARAMS, "JSON-RPC params must be an object or array")
    return UNSET


def or_empty(params: Raw | bytes | UnsetType) -> Raw | bytes:
    """The params of a message, or an empty object where it has none."""
    return b"{}" if isinstance(params, UnsetType) else params


def canonical_id(raw: Raw | bytes) -> bytes | None:
    r"""The raw JSON of a request id in the spelling used for comparing, or None if it is no id.

    Ids are null, a signed 64-bit integer or a string (ACP v1); `1` and `"1"` differ. A peer may
    answer `"\u0061"` for `"a"`, and `1.0` for `1`: it may know no integers.
    """
    text = bytes(raw)
    if text.isdigit() and len(text) < 19 and (text[0] != 0x30 or len(text) == 1):
        return text  # nearly all are
    if text[:1] == b'"':
        if b"\\" not in text:
            return text
        return encode(_text.decode(text))
    if text == b"null":
        return text
    whole = int(text) if _INT.fullmatch(text) else _whole(text)
    return b"%d" % whole if whole is not None and -(2**63) <= whole < 2**63 else None


def _whole(text: bytes) -> int | None:
    """The integer that a number with a fraction or an exponent is; None for any other."""
    number = _WHOLE.fullmatch(text)
    if number is None:
        return None
    sign, before, behind, exponent = number.groups(b"")
    digits, places = int(before + behind), int(exponent or b"0") - len(behind)
    whole, rest = divmod(digits * 10 ** max(places, 0), 10 ** max(-places, 0))
    return None if rest else -whole if sign else whole


_METHODS: dict[str, bytes] = {}


def encode_method(method: str) -> bytes:
    """`method` as JSON text."""
    # A conversation uses few methods; but peers choose them, so the memory is bounded.
    known = _METHODS.get(method)
    if known is None:
        known = encode(method)
        if len(_METHODS) < 1024 and len(known) < 256:
            _METHODS[method] = known
    return known


def request(id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
    """A request frame, newline included."""
    head = b'{"jsonrpc":"2.0","id":%b,"method":' % id
    return head + _named(method, params)


def notification(method: str, params: Raw | bytes | UnsetType) -> bytes:
    """A notification frame, newline included."""
    return b'{"jsonrpc":"2.0","method":' + _named(method, params)


def _named(method: str, params: Raw | bytes | UnsetType) -> bytes:
    name = encode_method(method)
    if isinstance(params, UnsetType):
        return name + b"}\n"
    return b"".join((name, b',"params":', params, b"}\n"))


def answer(id: bytes, member: bytes, body: Raw | bytes) -> bytes:  # noqa: A002
    """A response frame, newline included; `member` is `b"result"` or `b"error"`."""
    # Joined, not formatted: formatting copies a big payload thirty times as slowly.
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"', member, b'":', body, b"}\n"))


def outcome(message: Message) -> tuple[bytes, Raw] | None:
    """The member of an answer that counts, and its body: some peers write both, one of them null.

    None: there is neither a result nor an error.
    """
    if isinstance(message.error, Raw) and message.error != _NULL:
        return b"error", message.error
    return (b"result", message.result) if isinstance(message.result, Raw) else None


def dropped(key: bytes | None, methods: Iterable[str]) -> str:
    """The line of the log about an answer to no request. `key`: its id, as `canonical_id` reads it.
    `methods`: those of the requests that stay without an answer."""
    what = "no request is open under its id" if key is not None else "it has no valid id"
    names = [f"`{method:.80}`" for method in islice(methods, _FEW + 1)]
    stays = f"; without an answer: {', '.join(names[:_FEW])}" if names else ""
    more = " and more" if len(names) > _FEW else ""
    return f"answer dropped: {what}{stays}{more}"


def error_object(code: int, message: str, data: object = None) -> bytes:
    """The JSON text of an error object; `data` is left out when None."""
    body: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    # The error may quote a text of a component, and the text a secret of the component's settings.
    return hidden_json_line(encode(body))


_error = Decoder(ErrorObject)


def read_error(body: bytes) -> ErrorObject:
    """The code and message of an error object."""
    return _error.find(body) or ErrorObject()


def unknown_method(error: ErrorObject) -> bool:
    """Whether an error may mean that the peer does not know the request."""
    return error.code in (METHOD_NOT_FOUND, INVALID_REQUEST)
