"""JSON-RPC 2.0 as ACP uses it: one JSON text a line, ids compared as raw JSON.

A frame is the bytes of one line without its newline. `parse` turns it into a `Message` (or a list
of raw batch entries) and raises `Malformed` for everything else; nothing here knows about ACP
methods, peers or direction.

Payloads stay `msgspec.Raw`: what nobody touches leaves byte for byte as it came.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
UNSUPPORTED_VERSION: Final = -32022

MAX_DEPTH: Final = 512
"""Deepest nesting of arrays and objects a frame may have."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One JSON-RPC object as it stood on the wire; members that were absent are `UNSET`."""

    jsonrpc: str = ""
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Malformed(Exception):  # noqa: N818 - names the frame's state, as in DESIGN's vocabulary
    """A frame that is no valid JSON-RPC message.

    `code` and `text` are what a requester may be told; `id` is the raw id the frame carried where
    one could still be read, else None.
    """

    def __init__(self, code: int, text: str, id: bytes | None = None) -> None:  # noqa: A002
        super().__init__(text)
        self.code = code
        self.text = text
        self.id = id


_message = msgspec.json.Decoder(Message)
_batch = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

_ESCAPE = re.compile(rb"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_INT = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})")


def parse(frame: bytes, max_depth: int = MAX_DEPTH) -> Message | list[Raw]:
    """Reads one frame; a JSON array comes back as its raw entries.

    Raises `Malformed`: -32700 for what is not UTF-8 or not JSON, -32600 for JSON that is no
    JSON-RPC object or nests deeper than `max_depth`.
    """
    if len(frame) > 2 * max_depth and too_deep(frame, max_depth):
        raise Malformed(INVALID_REQUEST, f"message nests deeper than {max_depth} levels")
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError as error:
            raise Malformed(PARSE_ERROR, f"message is not UTF-8 (byte {error.start})") from None
    try:
        return _message.decode(frame)
    except msgspec.ValidationError:
        return _unusual(frame)
    except msgspec.DecodeError as error:
        return _with_lone_surrogates(frame, error)
    except RecursionError:
        raise Malformed(INVALID_REQUEST, "message nests too deeply") from None


def _unusual(frame: bytes) -> list[Raw]:
    """Sorts JSON that is no JSON-RPC object: a batch is returned, the rest raises."""
    try:
        return _batch.decode(frame)
    except msgspec.ValidationError:
        pass  # not an array: fall through to the object's members
    except RecursionError:
        raise Malformed(INVALID_REQUEST, "message nests too deeply") from None
    try:
        members = _members.decode(frame)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        raise Malformed(INVALID_REQUEST, "message is not a JSON object") from None
    found = members.get("id")
    raw = canonical_id(found) if found is not None else None
    raise Malformed(INVALID_REQUEST, "`jsonrpc` and `method` must be strings", raw)


def _with_lone_surrogates(frame: bytes, error: msgspec.DecodeError) -> Message:
    """Second try for a frame that msgspec refuses only because of `\\ud800`-like escapes.

    JSON allows them and editors send them (half an emoji). Each is replaced by an escape of the
    same length whose first digit no other escape of the frame has, and put back afterwards.
    """
    lone = _lone_surrogates(frame) if b"\\u" in frame else []
    used = {m.group(0)[2:3].lower() for m in re.finditer(rb"\\u[0-9a-fA-F]", frame)}
    free = [bytes((d,)) for d in b"123456789abc" if bytes((d,)) not in used]
    if not lone or len(free) < 2:
        raise Malformed(PARSE_ERROR, f"message is not JSON: {error}") from None
    stand_in = {b"d": free[0], b"D": free[1]}
    patched = bytearray(frame)
    for at in lone:
        patched[at + 2 : at + 3] = stand_in[frame[at + 2 : at + 3]]
    try:
        message = _message.decode(patched)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as again:
        raise Malformed(PARSE_ERROR, f"message is not JSON: {again}") from None
    if isinstance(message.method, str) and not message.method.isascii():
        raise Malformed(INVALID_REQUEST, "`method` is not well-formed Unicode")
    original = {stand: digit for digit, stand in stand_in.items()}
    marker = re.compile(rb"\\(?:u([" + b"".join(original) + rb"])([0-9a-fA-F]{3})|.)", re.DOTALL)

    def back(raw: Raw | UnsetType) -> Raw | UnsetType:
        if not isinstance(raw, Raw):
            return UNSET
        return Raw(
            marker.sub(
                lambda m: b"\\u" + original[m.group(1)] + m.group(2) if m.group(1) else m.group(0),
                bytes(raw),
            )
        )

    return Message(
        message.jsonrpc,
        back(message.id),
        message.method,
        back(message.params),
        back(message.result),
        back(message.error),
    )


def _lone_surrogates(frame: bytes) -> list[int]:
    """Offsets of surrogate escapes that do not form a pair."""
    lone: list[int] = []
    high: int | None = None
    for match in _ESCAPE.finditer(frame):
        digits, at = match.group(1), match.start()
        is_low = digits is not None and digits[1:2].lower() in b"cdef"
        if high is not None:
            if is_low and at == high + 6:
                high = None
                continue
            lone.append(high)
            high = None
        if is_low:
            lone.append(at)
        elif digits is not None:
            high = at
    if high is not None:
        lone.append(high)
    return lone


def canonical_id(raw: Raw | bytes) -> bytes | None:
    """The raw JSON of a request id in the one spelling used for comparing, or None if it is none.

    Ids are null, a signed 64-bit integer or a string (ACP v1); `1`, `1.0` and `"1"` differ. Only
    string escapes are normalised, so that a peer may answer `"\u0061"` for `"a"`.
    """
    text = bytes(raw)
    first = text[:1]
    if first == b'"':
        if b"\\" not in text:
            return text
        try:
            return _encode(_any.decode(text))
        except (msgspec.DecodeError, UnicodeEncodeError):
            return text  # a lone surrogate: nothing to normalise it to
    if text == b"null":
        return text
    if _INT.fullmatch(text) and text != b"-0" and -(2**63) <= int(text) < 2**63:
        return text
    return None


def too_deep(frame: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; brackets inside strings do not count."""
    if frame.count(b"{") + frame.count(b"[") <= limit:
        return False
    brackets = _STRING.sub(b"", frame).translate(_AS_SQUARE, _NOT_BRACKETS)
    for _ in range(limit):
        shorter = brackets.replace(b"[]", b"")  # one level of nesting a pass
        if len(shorter) == len(brackets):
            return False  # nothing left, or unbalanced: then the parser will say so
        brackets = shorter
    return bool(brackets)


def is_structured(params: Raw) -> bool:
    """Whether `params` are an object or an array, the only forms JSON-RPC allows."""
    return bytes(params)[:1] in (b"{", b"[")


_METHODS: dict[str, bytes] = {}


def encode_method(method: str) -> bytes:
    """`method` as JSON text; remembered, since a conversation uses few of them."""
    known = _METHODS.get(method)
    if known is None:
        known = _encode(method)
        if len(_METHODS) < 1024 and len(known) < 256:
            _METHODS[method] = known
    return known


def request(id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
    """A request frame, newline included."""
    if params is UNSET:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}\n' % (id, encode_method(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (
        id,
        encode_method(method),
        params,
    )


def notification(method: str, params: Raw | bytes | UnsetType) -> bytes:
    """A notification frame, newline included."""
    if params is UNSET:
        return b'{"jsonrpc":"2.0","method":%b}\n' % encode_method(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encode_method(method), params)


def answer(id: bytes, member: bytes, body: Raw | bytes) -> bytes:  # noqa: A002
    """A response frame, newline included; `member` is `b"result"` or `b"error"`."""
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}\n' % (id, member, body)


def error_object(code: int, message: str, data: object = None) -> bytes:
    """The JSON text of an error object; `data` is left out when None."""
    body: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return _encode(body)
