"""The messages that a parser reads on a connection."""

from __future__ import annotations

import pytest

from conductor.http import limits
from conductor.http.parser import Parser, Part
from conductor.http.request import Refused

POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


def read(parser: Parser, data: bytes) -> bytes:
    """The body of the request that comes, as far as it is there."""
    parser.unread += data
    body = b""
    while parser.unread and parser.part is not Part.NONE:
        if parser.part is Part.BODY:
            body += parser.body()
        elif parser.head() is None:
            break
    return body


def refusal(sent: bytes, size: int) -> int:
    """With which status something is refused that comes in pieces; 0: with none."""
    parser = Parser()
    try:
        for at in range(0, len(sent), size):
            read(parser, sent[at : at + size])
    except Refused as why:
        return why.status
    return 0


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_body_in_chunks_however_it_is_cut(size: int) -> None:
    parser, body = Parser(), b""
    sent = b"3;x=y\r\none\r\n4\r\n two\r\n0\r\nlast: 1\r\n\r\n"
    read(parser, CHUNKED)
    for at in range(0, len(sent), size):
        body += read(parser, sent[at : at + size])
    assert (body, parser.part, parser.keeps) == (b"one two", Part.NONE, True)


def test_behind_a_length_nothing_is_read_before_its_request_is_answered() -> None:
    parser, other = Parser(), POST + b"content-length: 1\r\n\r\nb"
    assert read(parser, POST + b"content-length: 1\r\n\r\na" + other) == b"a"
    assert (parser.part, parser.unread, parser.keeps) == (Part.NONE, other, True)
    parser.part = Part.HEAD
    assert read(parser, b"") == b"b"


UPGRADE = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
CONNECT = b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("other", [CHUNKED, UPGRADE, CONNECT, b"\r\n\r\n", b"GARBAGE \0"])
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0;x=y\r\nlast: 1\r\n\r\n"])
def test_behind_a_body_in_chunks_nothing_is_read(end: bytes, size: int, other: bytes) -> None:
    parser, body = Parser(), b""
    sent = CHUNKED + b"9\r\na\r\n\r\n\r\nbc\r\n" + end + other
    for at in range(0, len(sent), size):
        body += read(parser, sent[at : at + size])
    assert body == b"a\r\n\r\n\r\nbc"
    assert (parser.part, parser.unread, parser.keeps) == (Part.NONE, other, True)


def test_http_1_0_knows_no_upgrade() -> None:
    parser = Parser()
    parser.unread = UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0")
    head = parser.head()
    assert head is not None
    assert "upgrade" not in head.headers


@pytest.mark.parametrize(
    "empty", [b"0\r\n" + b"x: y\r\n" * 9_000, b"0\r\nx: " + b"y" * 50_000, b"1;" + b"x" * 50_000]
)
def test_what_brings_no_byte_of_a_body_is_bounded(empty: bytes) -> None:
    parser = Parser()
    read(parser, CHUNKED)
    assert parser.unread == b""
    with pytest.raises(Refused) as refused:
        read(parser, empty)
    assert refused.value.status == 431
    assert len(empty) - len(parser.unread) <= 2 * limits.HEAD_BYTES


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\nhost: x\n\n",
        b"GET / HTTP/1.1\nhost: x\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\n\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\ry: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\0\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01",
        b"GET / RTSP/1.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"SOURCE / ICE/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        POST + b"connection: upgrade\r\nupgrade: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n",
        POST + b"content-length: 1\r\ncontent-length: 1\r\n\r\n",
        POST + b"content-length: +1\r\n\r\n",
        POST + b"content-length: 1, 1\r\n\r\n",
        POST + b"content-length: 99999999999999999999\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n",
        POST + b"transfer-encoding: chunked, chunked\r\n\r\n",
        POST + b"transfer-encoding: gzip, chunked\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
        CHUNKED + b"0x1\r\na\r\n",
        CHUNKED + b"-1\r\na\r\n",
        CHUNKED + b"1\r\nab\r\n",
        CHUNKED + b"1\na\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n",
    ],
)
def test_what_two_readers_could_read_differently_is_refused(sent: bytes) -> None:
    for size in (1, len(sent)):
        assert refusal(sent, size) in (400, 501)
