"""Takes what looks like a secret out of a JSON payload before it is written to a file.

Works on raw JSON: what holds nothing suspicious is returned as it is, byte for byte; of what does,
only the containers on the way to a secret are written anew. This is no general sanitizer: prompts,
answers and file contents stay.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import members

REDACTED: Final = b'"[redacted]"'
"""What stands in place of a secret."""

_MARK: Final = "[redacted]"
_SECRET: Final = re.compile(
    r"secret|passw(?:or)?d|passphrase|api[_-]?key|private[_-]?key|credential|authorization|cookie",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile("token|bearer", re.IGNORECASE)
"""Under such a name a text is a secret, but a number is a count (`inputTokens`)."""

_PAIRS: Final = frozenset({"env", "headers"})
"""Names of lists of `{name, value}` and of maps whose every value may be a secret."""

_LOGIN: Final = frozenset({"authenticate", "auth/login"})
_LOGIN_KEPT: Final = frozenset({"methodId"})

_HINTS: Final = (
    b"secret", b"passw", b"passphrase", b"key", b"credential", b"authorization", b"cookie",
    b"token", b"bearer", b'"env"', b'"headers"', b'"url"', b'"args"', b"\\u00",
)  # fmt: skip
"""A payload without any of these, in lower case, holds nothing to be taken out."""

_QUERY: Final = re.compile(
    r"([?&;][^=&;#]{0,64}(?:token|key|secret|passw|pwd|auth|bearer|sig|credential)"
    r"[^=&;#]{0,64}=)[^&;#]*",
    re.IGNORECASE,
)
_USER: Final = re.compile(r"(://)[^/?#]*@")
_LARGE: Final = 64 * 1024
_DEEPEST: Final = 64
"""Below this many levels a suspicious container is replaced as a whole."""

_list = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode


def redacted(payload: bytes, method: str | None = None) -> bytes:
    """`payload` (JSON) without secrets; `method` is that of the message it belongs to.

    Never raises: what cannot be read is replaced as a whole.
    """
    try:
        if method not in _LOGIN:
            return _clean(payload, 0)
        held = members.read(payload)
    except RecursionError:
        return REDACTED
    if held is None:
        return REDACTED
    return _object({k: bytes(v) if k in _LOGIN_KEPT else _blank(v) for k, v in held.items()})


def is_secret(name: str) -> bool:
    """Whether a value under such a name is taken out."""
    return bool(_SECRET.search(name) or _TOKEN.search(name))


def _suspicious(value: bytes) -> bool:
    lower = value.lower()
    return any(hint in lower for hint in _HINTS)


def _clean(value: bytes, level: int) -> bytes:
    """A value under a harmless name."""
    value = value.strip()
    if value[:1] not in (b"{", b"[") or b"{" not in value:
        return value
    large = len(value) >= _LARGE
    if not large and not _suspicious(value):
        return value
    if level == _DEEPEST:
        return REDACTED
    cleaned = _container(value, level + 1)
    # A large value is opened before it is searched: what makes it large is mostly one text.
    return value if large and cleaned != value and not _suspicious(value) else cleaned


def _container(value: bytes, level: int) -> bytes:
    if value[:1] == b"[":
        entries = _entries(value)
        if entries is None:
            return REDACTED
        return b"[" + b",".join([_clean(one, level) for one in entries]) + b"]"
    held = members.read(value)
    if held is None:
        return REDACTED
    return _object({k: _member(k, bytes(v), level) for k, v in held.items()})


def _member(name: str, value: bytes, level: int) -> bytes:
    if name in _PAIRS:
        return _pairs(value)
    if name == "url":
        return _url(value)
    if name == "args":
        return _arguments(value)
    if _SECRET.search(name):
        return _blank(value)
    if _TOKEN.search(name) and value[:1] in (b'"', b"{", b"["):
        return _blank(value)
    return _clean(value, level)


def _blank(value: Raw | bytes) -> bytes:
    """A mark in place of a value; that there is none is no secret."""
    return b"null" if bytes(value) == b"null" else REDACTED


def _pairs(value: bytes) -> bytes:
    """Environment variables or headers: the names stay."""
    if value[:1] == b"{":
        held = members.read(value)
        return REDACTED if held is None else _object(dict.fromkeys(held, REDACTED))
    entries = _entries(value) if value[:1] == b"[" else None
    if entries is None:
        return _blank(value)
    cleaned = []
    for entry in entries:
        held = members.read(entry)
        if held is None:
            cleaned.append(REDACTED)
        else:
            kept = {k: bytes(v) if k == "name" else REDACTED for k, v in held.items()}
            cleaned.append(_object(kept))
    return b"[" + b",".join(cleaned) + b"]"


def _url(value: bytes) -> bytes:
    text = _string(value)
    if text is None:
        return _blank(value)
    cleaned = clean_url(text)
    return value if cleaned == text else _encode(cleaned)


def clean_url(url: str) -> str:
    """A URL without user, password and the query values whose names look like secrets'."""
    return _QUERY.sub(rf"\1{_MARK}", _USER.sub(rf"\1{_MARK}@", url))


def _arguments(value: bytes) -> bytes:
    """A command's arguments: `--token=X`, `--token X` and `--header "Authorization: X"`."""
    entries = _entries(value) if value[:1] == b"[" else None
    if entries is None:
        return _blank(value)
    cleaned = []
    next_is_secret = False
    for entry in entries:
        text = _string(entry)
        if text is None or next_is_secret:
            cleaned.append(REDACTED)
            next_is_secret = False
            continue
        shown, next_is_secret = _argument(text)
        cleaned.append(entry if shown == text else _encode(shown))
    return b"[" + b",".join(cleaned) + b"]"


def _argument(text: str) -> tuple[str, bool]:
    """What is shown of an argument, and whether the one after it is a secret."""
    if "://" in text:
        return clean_url(text), False
    named = re.match(r"[^=:\s]*[=:]", text)
    name = named[0] if named else text
    if not (_SECRET.search(name) or _TOKEN.search(name)):
        looks = _TOKEN.search(text) or _SECRET.search(text)
        return (name + _MARK, False) if named and looks else (text, False)
    if named:
        return name + _MARK, False
    return (text, True) if text.startswith("-") else (_MARK, False)


def _entries(value: bytes) -> list[bytes] | None:
    try:
        return [bytes(one) for one in _list.decode(value)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _string(value: bytes) -> str | None:
    try:
        return _text.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _object(held: dict[str, bytes]) -> bytes:
    parts = [_encode(name) + b":" + value for name, value in held.items()]
    return b"{" + b",".join(parts) + b"}"
