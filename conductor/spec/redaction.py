"""Takes texts that look like a secret out of a JSON payload before it is written to a file.

Names give secrets away (`apiKey`, `env`), and shapes do, in any text
(`conductor.secret_shapes`). Works on raw JSON: a payload without anything suspicious is
returned byte for byte. Otherwise only the containers around a secret are written anew. This is
no general sanitizer: the rest of prompts, answers and file contents stays.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.json_text import hide_surrogates, show_surrogates
from conductor.errors import MARK, without_shapes
from conductor.secret_shapes import HINTS, WORDS

_RARE: Final = "_-:/KSIYJHAPkjxzbgwvc"
"""Letters and signs that are rare in messages, the rarest first."""


def _sought(hint: str) -> str:
    """A pattern that finds a hint by its rarest letter: most text is then passed over quickly."""
    at = min(range(len(hint)), key=lambda at: f"{_RARE}{hint[at]}".index(hint[at]))
    before, behind = re.escape(hint[: at + 1]), re.escape(hint[at + 1 :])
    return f"{re.escape(hint[at])}(?<={before}){behind}"


def _finder(hints: Iterable[str]) -> Callable[[bytes], re.Match[bytes] | None]:
    """Finds any of some hints in a text."""
    return re.compile("|".join(map(_sought, hints)).encode()).search


_shaped: Final = _finder((*HINTS, r":\/"))
"""Whether a JSON text may hold a secret of known shape, apart from secrets that follow a word or
are written with escapes: a match, or None."""

_SHAPED_BEHIND: Final = tuple(word.encode() for word in WORDS)
"""Words behind which a secret of known shape stands."""


def may_hold(text: bytes) -> bool:
    """Whether a JSON text may hold a secret of known shape."""
    if _shaped(text) or b"\\u00" in text:
        return True
    lower = text.lower()
    return any(word in lower for word in _SHAPED_BEHIND)


REDACTED: Final = f'"{MARK}"'.encode()
"""The text in place of a secret."""

MOST_VALUES: Final = 100_000
"""Values of a payload for which it is still cheap enough to look through it."""

_SECRET: Final = (
    "secret", "password", "passwd", "passphrase", "apikey", "api_key", "api-key", "privatekey",
    "private_key", "private-key", "credential", "authorization", "cookie",
)  # fmt: skip
_TOKEN: Final = ("token", "bearer")
"""Under such a name a text is a secret, but a number is a count (`inputTokens`)."""

_ADDRESSES: Final = frozenset({"url", "uri"})
_PAIRS: Final = frozenset({"env", "headers"})
"""Names of lists of `{name, value}` and of maps whose every value may be a secret."""

_ACCOUNTS: Final = "accounts"
"""The names and addresses of people in an `auth/status`, to be shown only."""

LOGIN: Final = frozenset({"authenticate", "auth/login"})
"""Methods of whose params nothing is shown but how the user logs in."""
_LOGIN_KEPT: Final = frozenset({"methodId"})

_hinted: Final = _finder(
    (
        "secret", "passw", "passphrase", "key", "credential", "authorization", "cookie", "token",
        "bearer", '"env"', '"headers"', '"url"', '"uri"', '"args"', '"accounts"', r"\u00",
    )
)  # fmt: skip
"""A payload without any of these, in lower case, holds no secret we would recognise. The search
spares most payloads from being read. `\\u00` may spell any of them."""

_BINARY: Final = frozenset({"data", "blob"})
"""Members whose text is Base64."""

_KEYED: Final = ("token", "key", "secret", "passw", "pwd", "auth", "bearer", "sig", "credential")
"""Parts of the names of secrets in the query of a URL."""
_QUERY: Final = re.compile(r"([?&;])([^=&;#?]*+)=[^&;#]*+")
_USER: Final = re.compile(r"(://)[^/?#]*@")
_NAMED: Final = re.compile(r"[^=:\s]*[=:]").match
_DEEPEST: Final = 24
"""Levels; a suspicious container below them is replaced as a whole."""
_RESCAN: Final = 16
"""A container so many times smaller than the suspicious one around it is searched by itself: most
are harmless then, and to search each level would take time with the square of the depth."""
MOST_READ: Final = 1024 * 1024
"""Bytes of suspicious texts that are searched in one payload while a chain waits; the rest is
replaced."""

_SHORT: Final = 8
"""Characters that a secret of known shape has at least."""

_list = json_text.Decoder(list[Raw])
_members = json_text.Decoder(dict[str, Raw])
_text = json_text.Decoder(str)
_encode = json_text.encode

_Value = Raw | bytes

T = TypeVar("T")


def redacted(payload: bytes, method: str | None = None, *, most: int = MOST_READ) -> bytes:
    """`payload` (JSON) without secrets; `method` is the method of its message, and `most` bounds
    the suspicious texts that are searched.

    Never raises: a payload that cannot be read is replaced as a whole.
    """
    login = method in LOGIN
    if not login and not _suspicious(payload):
        return payload.strip()
    hidden = hide_surrogates(payload) if b"\\u" in payload else None
    text = payload.strip() if hidden is None else hidden.strip()
    cleaned = _login(text) if login else bytes(_Pass(most).clean(text, 0, len(text)))
    return cleaned if hidden is None else show_surrogates(cleaned)


def clean_name(name: str) -> str:
    """A name of a member, of a method or of a session, without secrets of known shape."""
    return without_shapes(name) if may_hold(name.encode(errors="replace")) else name


def clean_id(raw: bytes) -> bytes:
    """An id, or the name of a session, as raw JSON: likewise."""
    return redacted(raw) if raw[:1] == b'"' and may_hold(raw) else raw


def _login(value: bytes) -> bytes:
    held = _decoded(_members, value)
    if held is None:
        return REDACTED
    shown = {k: clean_id(bytes(v)) if k in _LOGIN_KEPT else _blank(v) for k, v in held.items()}
    return _object({clean_name(k): v for k, v in shown.items()})


def is_secret(name: str) -> bool:
    """Whether a value under such a name is taken out."""
    return _holds(name, _SECRET) or _holds(name, _TOKEN)


def _holds(name: str, words: tuple[str, ...]) -> bool:
    folded = name.casefold()
    return any(word in folded for word in words)


def _suspicious(value: bytes) -> bool:
    return bool(_shaped(value) or _hinted(value.lower()))


class _Pass:
    """Takes the secrets out of one payload."""

    def __init__(self, most: int) -> None:
        self._left = most

    def clean(self, value: _Value, level: int, searched: int) -> _Value:
        """A value under a harmless name; the same object if it holds no secret.

        `searched`: bytes of the suspicious container around it.
        """
        first = _first(value)
        if first not in (b"{", b"["):
            return self._text(value) if first == b'"' else value
        view = memoryview(value)
        if view.nbytes * _RESCAN <= searched or level == _DEEPEST:
            searched = view.nbytes
            if not _suspicious(bytes(value)):
                return value
        return REDACTED if level == _DEEPEST else self._container(value, level + 1, searched)

    def _container(self, value: _Value, level: int, searched: int) -> _Value:
        if _first(value) == b"[":
            entries = _decoded(_list, value)
            if entries is None:
                return REDACTED
            cleaned = [self.clean(entry, level, searched) for entry in entries]
            if all(new is old for new, old in zip(cleaned, entries, strict=True)):
                return value
            return b"[" + b",".join(cleaned) + b"]"
        held = _decoded(_members, value)
        if held is None:
            return REDACTED
        members = {k: self._member(k, v, level, searched) for k, v in held.items()}
        names = {name: self._name(name) for name in held}
        same = all(members[name] is held[name] and names[name] == name for name in held)
        # Of a name that stands twice only the last value has been searched: then write it anew.
        if same and is_whole(value, held):
            return value
        return _object({names[name]: member for name, member in members.items()})

    def _name(self, name: str) -> str:
        """A name of a member."""
        if len(name) < _SHORT:
            return name
        self._left -= len(name)
        return clean_name(name) if self._left >= 0 else MARK

    def _member(self, name: str, value: Raw, level: int, searched: int) -> _Value:
        if name in _PAIRS:
            return _pairs(value)
        if name in _ADDRESSES:
            return self._url(value)
        if name == "args":
            return self._arguments(value)
        if name == _ACCOUNTS:
            value = self._accounts(value)
        if _holds(name, _SECRET):
            return _blank(value)
        first = _first(value)
        if _holds(name, _TOKEN) and first in (b'"', b"{", b"["):
            return _blank(value)
        if name in _BINARY and first == b'"':
            return value
        return self.clean(value, level, searched)

    def _accounts(self, value: Raw) -> Raw:
        """Accounts of `auth/status` without their texts; any other value unchanged."""
        entries = _decoded(_list, value) or []
        accounts = [held for one in entries if "label" in (held := _decoded(_members, one) or {})]
        if len(accounts) < len(entries) or not entries:
            return value
        shown = (
            {name: REDACTED if _first(one) == b'"' else one for name, one in held.items()}
            for held in accounts
        )
        return Raw(b"[" + b",".join(map(_object, shown)) + b"]")

    def _read(self, value: _Value) -> str | None:
        """A text to be searched; None for another value, or if too much was searched already."""
        self._left -= memoryview(value).nbytes
        return _decoded(_text, value) if self._left >= 0 else None

    def _text(self, value: _Value) -> _Value:
        if not may_hold(bytes(value)):
            return value
        text = self._read(value)
        if text is None:
            return REDACTED
        cleaned = without_shapes(text)
        return value if cleaned == text else _encode(cleaned)

    def _url(self, value: Raw) -> _Value:
        text = self._read(value)
        if text is None:
            return _blank(value)
        cleaned = without_shapes(clean_url(text))
        return value if cleaned == text else _encode(cleaned)

    def _arguments(self, value: Raw) -> _Value:
        """A command's arguments: `--token=X`, `--token X` and `--header "Authorization: X"`."""
        entries = _decoded(_list, value) if _first(value) == b"[" else None
        if entries is None:
            return _blank(value)
        cleaned: list[_Value] = []
        before, next_is_secret = "", False
        for entry in entries:
            text = None if next_is_secret else self._read(entry)
            next_is_secret = False
            if text is None:
                cleaned.append(REDACTED)
                continue
            shown, next_is_secret = _argument(text)
            option = f"{before} " if before in _USER_OPTIONS else ""
            shown = _without_user_password(option + shown)[len(option) :]
            before = text
            shown = without_shapes(shown)
            cleaned.append(entry if shown == text else _encode(shown))
        return b"[" + b",".join(cleaned) + b"]"


def _first(value: _Value) -> bytes:
    return bytes(memoryview(value)[:1])


def is_whole(value: _Value, held: Mapping[str, _Value]) -> bool:
    """Whether an object has only the text of these members: no member stands there twice."""
    texts = sum(len(_encode(name)) + memoryview(raw).nbytes + 2 for name, raw in held.items())
    return memoryview(value).nbytes == texts + 1


def _blank(value: Raw | bytes) -> bytes:
    """A mark in place of a value; `null` stays, since it is no secret."""
    return b"null" if bytes(value) == b"null" else REDACTED


def _pairs(value: Raw) -> _Value:
    """Environment variables or headers: the names stay."""
    first = _first(value)
    if first == b"{":
        held = _decoded(_members, value)
        return REDACTED if held is None else _object({clean_name(k): REDACTED for k in held})
    entries = _decoded(_list, value) if first == b"[" else None
    if entries is None:
        return _blank(value)
    cleaned = []
    for entry in entries:
        held = _decoded(_members, entry)
        if held is None:
            cleaned.append(REDACTED)
        else:
            shown = {k: clean_id(bytes(v)) if k == "name" else REDACTED for k, v in held.items()}
            cleaned.append(_object({clean_name(k): v for k, v in shown.items()}))
    return b"[" + b",".join(cleaned) + b"]"


def clean_url(url: str) -> str:
    """A URL without user, password and the query values whose names look like secrets'."""
    url = _USER.sub(rf"\1{MARK}@", url)
    return _QUERY.sub(_without_value, url) if _holds(url, _KEYED) else url


def clean_text(text: str) -> str:
    """A line that a program wrote for people, without texts that look like a secret: values behind
    names of secrets, the word after `Bearer`, tokens of well-known shape, and the parts that
    `redacted` and `clean_url` take out of JSON and of URLs."""
    before, brace, rest = text.partition("{")
    payload = (brace + rest).encode(errors="surrogateescape")
    if brace and _decoded(_members, payload) is not None:
        return _clean_words(before) + redacted(payload).decode(errors="surrogateescape")
    return _clean_words(text)


def _clean_words(text: str) -> str:
    text = _ADDRESS.sub(lambda found: clean_url(found[0]), text)
    text = _SHORT_OPTION.sub(rf"\1{MARK}", _without_user_password(_VALUE.sub(_without_named, text)))
    return _without_key_end(without_shapes(text))


def _without_user_password(text: str) -> str:
    """A command without the password of an option such as `-u NAME:PASSWORD`."""
    return _USER_PASSWORD.sub(
        lambda found: found[0] if found[2].isdigit() else f"{found[1]}{MARK}", text
    )


def _without_key_end(text: str) -> str:
    """A text without the last lines of a private key whose first ones are not in it."""
    before, end, behind = text.partition("-----END ")
    return f"{before.rstrip(_KEY_SIGNS)}{MARK}{end}{behind}" if end else text


def _without_named(found: re.Match[str]) -> str:
    name, between, value = found[1], found[2], found[3]
    # A sentence, no option, and no word that a machine has made.
    says = not between.strip() and not name.startswith("-") and not _RANDOM(value)
    counts = value.isdigit() and not _holds(name, _SECRET)
    return found[0] if says or counts else f"{name}{between}{MARK}"


_KEY_SIGNS: Final = f"{string.ascii_letters}{string.digits}+/=|\\ \t\r\n"
_WORDS: Final = "|".join((*_SECRET, *_TOKEN, "auth-key", "authkey"))
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]{0,15}://[^\s\"'<>]+")
# Each part is bounded, and begins where a word begins: else a long word would take time with its
# square.
_VALUE: Final = re.compile(
    rf"""(?<![\w.-])([\w.-]{{0,64}}?(?:{_WORDS})[\w.-]{{0,64}})"""
    r"""(["']?[ \t]{0,4}[:=][ \t]{0,4}["']?(?:(?:bearer|basic|token)[ \t]{1,4})?|[ \t]{1,4})"""
    r"""(?!\[redacted)([^\s"',;&}\])]{4,})""",
    re.IGNORECASE,
)

_RANDOM: Final = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w+=-]{12,}[.:]?\Z").match
_USER_OPTIONS: Final = ("-u", "--user", "--proxy-user")
"""Options with a name and a password, as of curl."""
_USER_PASSWORD: Final = re.compile(
    rf"""((?<![\w-])(?:{"|".join(_USER_OPTIONS)})(?:=|[ \t]{{1,4}})["']?[^\s:"'/=]{{1,64}}:)"""
    r"""(?!/|\[redacted)([^\s"']{4,})"""
)
_SHORT_OPTION: Final = re.compile(
    r"(\b(?:mysql|mariadb)\w{0,16}\s(?:[^\n|;&]{0,256}?\s)?-p|\bsshpass[ \t]{1,4}-p[ \t]{0,4})"
    r"(?!\[redacted)[^\s-]\S*"
)
"""The password of programs that take it right behind `-p`."""


def _without_value(item: re.Match[str]) -> str:
    return f"{item[1]}{item[2]}={MARK}" if _holds(item[2], _KEYED) else item[0]


def _argument(text: str) -> tuple[str, bool]:
    """An argument as it is shown, and whether the argument after it is a secret."""
    if "://" in text:
        return clean_url(text), False
    named = _NAMED(text)
    name = named[0] if named else text
    if not is_secret(name):
        looks = is_secret(text)
        return (name + MARK, False) if named and looks else (text, False)
    if named:
        return name + MARK, False
    return (text, True) if text.startswith("-") else (MARK, False)


def _decoded(decoder: json_text.Decoder[T], value: _Value) -> T | None:
    """A value, one level deep; None if it is of another type, or nests too deeply."""
    try:
        return decoder.decode(value)
    except UnicodeDecodeError:
        pass  # lone surrogates are marked in it
    except (msgspec.DecodeError, RecursionError):
        return None
    try:
        return decoder.decode(show_surrogates(bytes(value)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _object(held: Mapping[str, _Value]) -> bytes:
    return b"{" + b",".join([b"".join((_encode(k), b":", v)) for k, v in held.items()]) + b"}"
