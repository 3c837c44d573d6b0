"""Long texts that a component gets as references, and that replace these in its own messages.

A reference is a text in place of a text: `conductor-payload:sha256:DIGEST:BYTES`. So a message
keeps its form, and a component that puts words before a long text need not have read the text.
Nobody can fake a reference: a text of others that looks like one is itself replaced by a reference,
and a component may name only references that it was given.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Container
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.json_text import read_members
from conductor.patterns import lazy_pattern

_PREFIX: Final = b"conductor-payload:sha256:"
_reference: Final = lazy_pattern(_PREFIX + rb"([0-9a-f]{64}):(\d{1,15})")
_string: Final = lazy_pattern(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?', re.DOTALL)
"""A string, and the colon behind it if it is the name of a member."""
SHORTEST: Final = 128
"""Bytes of a text that is no longer than a reference."""
_ESCAPED: Final = b"\\u00"
"""The start of an escape, which may stand for a letter of the prefix."""
MOST: Final = 256 * 1024 * 1024
"""The most bytes of texts to which one component has references; beyond these it gets texts whole.
Texts of notifications have a quarter of it; beyond that the oldest are forgotten."""
_MOST_RESTORED: Final = 64 * 1024 * 1024
"""The most bytes of a message with its texts: a component may repeat a reference."""
_PART: Final = 64 * 1024
_MOST_PART: Final = 1024 * 1024
"""Bytes of one answer to `payload/read`: by default, and at most."""

_SWEPT: Final = 8
"""Open requests that are looked at for each message, on average: so many of them cost little."""

_text: Final = json_text.Decoder(str).decode


class Text(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """A long text. Components share it."""

    digest: bytes
    """SHA-256 of its UTF-8, in hexadecimal digits."""
    raw: bytes
    """The text as JSON, without its quotes."""
    size: int
    """Bytes of its UTF-8."""


_known: Final[WeakValueDictionary[bytes, Text]] = WeakValueDictionary()
"""All texts that any component has a reference to, by digest."""


class Payloads:
    """The long texts of one component.

    Args:
        longest: bytes of a text that it gets as it is.
        most: bytes of the texts that it has references to.
    """

    def __init__(self, longest: int, most: int = MOST) -> None:
        self._longest = max(longest, SHORTEST)
        self._most = most
        self.spaces: list[Container[bytes]] = []
        """The ids of the requests that it has, by id space."""
        self._texts: dict[bytes, Text] = {}
        self._uses: Counter[bytes] = Counter()
        """How many messages, of those in `_open` and `_passing`, refer to a text."""
        self._open: dict[bytes, list[Text]] = {}
        """The texts of each request that it has, by the id of the request."""
        self._unswept = 0
        """Messages since the last search for requests that nobody waits for."""
        self._passing: deque[Text] = deque()
        """The texts of the last notifications."""
        self._bytes = self._passing_bytes = 0
        self._read: tuple[Text, bytes] | None = None
        """The text that it read last, and the UTF-8 of this text."""

    def __len__(self) -> int:
        """How many texts it has references to."""
        return len(self._texts)

    # -- to the component ------------------------------------------------------------------------

    def refer(self, params: Raw | bytes | UnsetType, request: bytes | None) -> Any:
        """The params of a message for the component, with references for long texts.

        Args:
            request: the id of the request; None: it is a notification.
        """
        if isinstance(params, UnsetType):
            return params
        whole = bytes(params)
        if len(whole) <= self._longest and _PREFIX not in whole and _ESCAPED not in whole:
            return params
        self._unswept += 1
        if self._unswept * _SWEPT >= len(self._open):
            self._unswept = 0
            for id_ in [id_ for id_ in self._open if not any(id_ in ids for ids in self.spaces)]:
                self.answered(id_)
        given: list[Text] = []
        pieces, end = [], 0
        for match in _string.finditer(whole):
            text = self._referred(match[1], is_name=match[2] is not None)
            if text is not None:
                given.append(text)
                reference = b'"%b%b:%d"%b' % (_PREFIX, text.digest, text.size, match[2] or b"")
                pieces += [whole[end : match.start()], reference]
                end = match.end()
        if request is None:
            for text in given:
                self._passing.append(text)
                self._passing_bytes += text.size
            while self._passing_bytes > self._most // 4 and len(self._passing) > 1:
                oldest = self._passing.popleft()
                self._passing_bytes -= oldest.size
                self._drop(oldest)
        elif given:
            self._open[request] = given
        return Raw(b"".join([*pieces, whole[end:]]))

    def _referred(self, string: bytes, *, is_name: bool) -> Text | None:
        """The text of a JSON string that a reference replaces; None: the string stays. The name of
        a member stays unless it looks like a reference."""
        long = not is_name and len(string) > self._longest
        if not long and _PREFIX not in string and _ESCAPED not in string:
            return None
        try:
            utf8 = _text(string).encode()
        except (msgspec.DecodeError, UnicodeError):
            return None  # half an emoji: no text, and no reference
        long = long and len(utf8) > self._longest and self._bytes + len(utf8) <= self._most
        if not long and _PREFIX not in utf8:
            return None
        text = self._kept(utf8, string)
        self._uses[text.digest] += 1
        return text

    def _kept(self, utf8: bytes, string: bytes) -> Text:
        import hashlib  # loads OpenSSL, which an editor would wait for

        digest = hashlib.sha256(utf8).hexdigest().encode()
        text = self._texts.get(digest)
        if text is None:
            text = _known.get(digest) or Text(digest, string[1:-1], len(utf8))
            self._texts[digest] = _known[digest] = text
            self._bytes += text.size
        return text

    # -- from the component ----------------------------------------------------------------------

    def restore(self, payload: Raw) -> Raw:
        """A payload of the component with the texts that it refers to; the same if it refers to
        none.

        Raises:
            ValueError: it names a text that the component was not given, or that belongs to no
            open message any more, or too many texts.
        """
        whole = bytes(payload)
        if _PREFIX not in whole:
            return payload
        left = _MOST_RESTORED - len(whole)

        def text(match: re.Match[bytes]) -> bytes:
            nonlocal left
            known = self._texts.get(match[1])
            if known is None or known.size != int(match[2]):
                raise ValueError(f"it names a payload that it does not have: {match[0].decode()}")
            left -= len(known.raw)
            if left < 0:
                raise ValueError(f"with its payloads it is longer than {_MOST_RESTORED:,} bytes")
            return known.raw

        return Raw(_reference.sub(text, whole))

    def answered(self, request: bytes) -> None:
        """The component has answered a request, or nobody waits for the answer."""
        for text in self._open.pop(request, ()):
            self._drop(text)

    def _drop(self, text: Text) -> None:
        self._uses[text.digest] -= 1
        if not self._uses[text.digest]:
            del self._texts[text.digest], self._uses[text.digest]
            self._bytes -= text.size
            if self._read is not None and self._read[0] is text:
                self._read = None

    def read(self, params: Raw | UnsetType) -> bytes:
        """The answer to `payload/read`, as JSON. Raises `ValueError`."""
        members = read_members(params) or {}
        digest = _member(members, "digest", str, "").removeprefix("sha256:")
        offset, most = _member(members, "offset", int, 0), _member(members, "maxBytes", int, _PART)
        text = self._texts.get(digest.encode(errors="replace"))
        if text is None:
            raise ValueError(f"it has no payload {digest[:64]!a}")
        if not 0 <= offset <= text.size or not 4 <= most <= _MOST_PART:
            raise ValueError(f"`offset` is 0 to {text.size}, `maxBytes` is 4 to {_MOST_PART}")
        utf8 = self._utf8(text)
        end = min(offset + most, text.size)
        while end < text.size and utf8[end] & 0xC0 == 0x80:
            end -= 1  # not within a character
        try:
            part = utf8[offset:end].decode()
        except UnicodeDecodeError:
            raise ValueError(f"`offset` {offset} is within a character") from None
        return json_text.encode({"text": part, "bytes": end - offset, "more": end < text.size})

    def _utf8(self, text: Text) -> bytes:
        """The UTF-8 of a text: decoded once, not for each part that is read of it."""
        if b"\\" not in text.raw:
            return text.raw
        if self._read is None or self._read[0] is not text:
            self._read = text, _text(b'"%b"' % text.raw).encode()
        return self._read[1]


def _member(members: dict[str, Raw], name: str, kind: type[Any], default: Any) -> Any:
    try:
        return json_text.decode(members[name], type=kind) if name in members else default
    except msgspec.DecodeError:
        raise ValueError(f"`{name}` is no {kind.__name__}") from None
