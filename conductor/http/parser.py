"""Makes requests of a connection's bytes, by `httptools`. Pure.

Each request is read by a parser of its own. This parser gets no byte behind the head, and of a body
in chunks no byte behind its end: so no request hides in another.
"""

from __future__ import annotations

import enum
import re
from collections import deque
from typing import Final

import httptools

from conductor.http import limits
from conductor.http.headers import Headers
from conductor.http.request import Refused

_PIECE: Final = 16 * 1024
"""Bytes of a body in chunks that are read in one go: a chunk may have one byte."""
_END: Final = b"\r\n\r\n"
_LINE: Final = re.compile(rb"[!-~]+ [!-~]+ HTTP/(\d\.\d)\r\n")
"""The first line of a request; a parser takes more blanks, and requests of RTSP."""
_ABSOLUTE: Final = re.compile("https?://([^/?]*)(.*)", re.IGNORECASE)
"""A target as clients of proxies write it, with the name of the server."""


class Part(enum.Enum):
    """The part of a request that comes next."""

    HEAD = "head"
    BODY = "body"
    NONE = "none"
    """The request is whole: nothing of the next request is read before the answer."""


class Head:
    """The part of a request that a parser has read.

    Attributes:
        target: The target of the request.
        method: As the client wrote it.
        headers: Its headers.
        chunks: Pieces of a body in chunks that were read, and not taken.
        begun: Requests that have begun: a second request stands behind the head.
        is_whole: Whether the body is whole.
    """

    method: str
    headers: Headers

    def __init__(self) -> None:
        self.target = ""
        self.fields: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.begun = 0
        self.is_whole = False

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.target += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_body(self, data: bytes) -> None:
        self.chunks.append(data)

    def on_message_complete(self) -> None:
        self.is_whole = True


class Parser:
    """The requests of one connection, one after the other.

    Attributes:
        part: The part of a request that comes next; after the answer it is a head again.
        unread: Bytes that have come and are not read yet.
        is_new: Whether the request is one of HTTP/1.1.
        keeps: Whether the connection may go on after the answer.
        waits: Whether the client waits for a word before it sends the body.
    """

    _head: Head
    _parser: httptools.HttpRequestParser
    _missing: int | None
    """The bytes of the body that are to come; None: the body comes in chunks."""
    _empty: int
    """The bytes of chunks so far that have brought no content."""

    def __init__(self) -> None:
        self.part = Part.HEAD
        self.unread = b""
        self.is_new = self.keeps = True
        self.waits = False

    def head(self) -> Head | None:
        """The head of the next request; None: it is not there yet. Raises `Refused`."""
        unread = self.unread
        if unread[0] < ord("!"):  # no method begins so
            raise Refused(400)
        end = unread.find(_END, 0, limits.HEAD_BYTES)
        if end >= 0:
            end += len(_END)
            self.unread = unread[end:]
            return self._read(unread[:end])
        if len(unread) > limits.HEAD_BYTES:
            raise Refused(431)
        if unread.count(b"\n") != unread.count(b"\r\n"):
            raise Refused(400)  # its client may wait: it means something else by an empty line
        return None

    def _read(self, data: bytes) -> Head:
        self._head = head = Head()
        self._parser = parser = httptools.HttpRequestParser(head)
        line = _LINE.match(data)
        why = 400 if line is None else 0 if line[1] in (b"1.0", b"1.1") else 505
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the handler of the request decides about the upgrade
        except httptools.HttpParserError:
            why = why or 400
        head.method = parser.get_method().decode("latin-1")
        head.headers = headers = Headers(head.fields)
        self.is_new = parser.get_http_version() == "1.1"
        if not self.is_new:
            headers.pop("upgrade", None)  # HTTP/1.0 knows none, so nobody may follow it
        if why := self._refusal(head, why):
            raise Refused(why)
        if named := _ABSOLUTE.fullmatch(head.target):
            headers["host"], target = named.groups()
            head.target = target if target.startswith("/") else f"/{target}"
        words = headers.get("connection", "").lower().split(",")
        self.keeps = self.is_new and "close" not in (word.strip() for word in words)
        self.waits = self.is_new and headers.get("expect", "").lower() == "100-continue"
        is_chunked = "transfer-encoding" in headers
        self._missing = None if is_chunked else int(headers.get("content-length", 0))
        self._empty = 0
        self.part = Part.NONE if self._missing == 0 else Part.BODY
        return head

    def _refusal(self, head: Head, why: int) -> int:
        """The status that refuses a head; 0: none. `why`: the status that its parser found."""
        headers = head.headers
        if headers.get("transfer-encoding", "chunked").lower() != "chunked":
            return 501
        if why:
            return why
        if headers.get("content-encoding", "identity").lower() != "identity":
            return 415  # nobody here unpacks a body
        if len(head.fields) > limits.HEADERS:
            return 431
        if head.method == "CONNECT":
            return 405
        lacks_host = self.is_new and ("host" not in headers or headers.repeated(("host",)))
        # HTTP/1.0 knows no `Transfer-Encoding`; with `Upgrade` a parser reads no chunks.
        is_odd = "transfer-encoding" in headers and (not self.is_new or head.is_whole)
        return 400 if lacks_host or is_odd or head.begun != 1 else 0

    def body(self) -> bytes:
        """A part of the body; empty: nothing of it is there. Raises `Refused`."""
        if self._missing is None:
            return self._chunks(self._head)
        data, self.unread = self.unread[: self._missing], self.unread[self._missing :]
        self._missing -= len(data)
        if not self._missing:
            self.part = Part.NONE
        return data

    def _chunks(self, head: Head) -> bytes:
        while self.unread and not head.chunks and not head.is_whole:
            piece, self.unread = self.unread[:_PIECE], self.unread[_PIECE:]
            parts = deque(_parts(piece))
            try:
                while parts and not head.is_whole:
                    self._parser.feed_data(parts.popleft())
            except httptools.HttpParserError:
                raise Refused(400) from None
            self.unread = b"".join(parts) + self.unread
            self._empty = 0 if head.chunks else self._empty + len(piece)
            if self._empty > limits.HEAD_BYTES:
                raise Refused(431)
        if head.is_whole:
            self.part = Part.NONE
        data = b"".join(head.chunks)
        head.chunks.clear()
        return data


def _parts(piece: bytes) -> list[bytes]:
    """A piece of a body in chunks, in parts: a part ends where the body may end, behind an empty
    line. The line may have begun in the piece before, so the first bytes are parts of their own."""
    first = len(_END) - 1
    *ends, last = piece[first:].split(_END)
    singles = (piece[at : at + 1] for at in range(len(piece[:first])))
    return [*singles, *(part + _END for part in ends), *([last] if last else [])]
