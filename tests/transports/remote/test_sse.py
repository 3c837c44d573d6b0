"""Server-sent events, however they are written and however the chunks fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.transports.remote.sse import Event, EventParser

LIMIT = 100
TEXT = st.characters(codec="utf-8", exclude_characters="\r\n\0")


def read(*chunks: bytes, limit: int = LIMIT) -> list[Event]:
    """The events of a stream."""
    parser = EventParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def data(*chunks: bytes) -> list[bytes]:
    """The data of the events of a stream."""
    return [event.data for event in read(*chunks)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b": comment\n\n:\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nretry: 3\nfoo\nfoo: bar\ndata: a\n\n", [b"a"]),
        (b"data\n\n", []),
        (b"data: a\n", []),
        (b"\n\n\ndata: a\n\n\n", [b"a"]),
        ("data: {\"t\":\"ünï\u2028\"}\n\n".encode(), ["{\"t\":\"ünï\u2028\"}".encode()]),
    ],
)  # fmt: skip
def test_events_are_read_by_the_rules_of_html(text: bytes, wanted: list[bytes], end: bytes) -> None:
    whole = text.replace(b"\n", end)
    if end == b"\r":
        whole += b":"  # a CR at the very end may be half of a CRLF; it still ends the line
    assert data(whole) == wanted
    assert data(*(whole[at : at + 1] for at in range(len(whole)))) == wanted
    assert data(b"\xef\xbb\xbf" + whole) == wanted
    assert data(b"\xef", b"\xbb", b"\xbf" + whole) == wanted


def test_a_cr_ends_its_line_at_once() -> None:
    assert data(b"data: a\r\r") == [b"a"]
    assert data(b"data: a\r\n\r") == [b"a"]
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_what_looks_like_a_bom_later_is_none() -> None:
    assert data(b"\xef\xbbdata: a\n\n") == []
    assert data(b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n") == [b"a"]


def test_ids_stay_until_the_next_one() -> None:
    parser = EventParser(LIMIT)
    assert parser.feed(b"id: 0\n\n") == []
    assert parser.last_id == "0"
    first, second = parser.feed(b"id: 7\ndata: a\n\ndata: b\n\n")
    assert (first.id, second.id) == ("7", "7")
    parser.feed(b"id: 8\0\n\nid: " + b"9" * 2000 + b"\n\n")
    assert parser.last_id == "7"
    for none in ("\x01", "a\x1bb", "\x7f", "\u2028", "é"):  # no header carries these
        parser.feed(f"id: {none}\n\n".encode())
        assert parser.last_id == "7"
    parser.feed(b"id\n\n")
    assert parser.last_id == ""


def test_an_event_that_is_cut_off_was_not_the_last_one() -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"id: 7\ndata: a\n\nid: 8\ndata: b\n")
    assert parser.last_id == "7"
    parser.feed(b"\n")
    assert parser.last_id == "8"


def test_comments_show_that_a_server_keeps_streams_alive() -> None:
    parser = EventParser(LIMIT)
    parser.feed(b"data: a\n\n")
    assert not parser.has_comments
    parser.feed(b":\n")
    assert parser.has_comments


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_an_event_that_is_too_long_is_skipped_and_its_beginning_kept(pieces: int) -> None:
    head = b'{"id":1,"x":"'
    whole = b"data: " + head + b"y" * 20_000 + b'"}\n\ndata: after\n\n'
    parser = EventParser(LIMIT)
    events = [
        event
        for at in range(0, len(whole), pieces)
        for event in parser.feed(whole[at : at + pieces])
    ]
    assert [event.data for event in events] == [b"after"]
    (kept,) = parser.oversized
    assert kept.startswith(head)
    assert len(kept) <= 4096


def test_many_lines_that_are_too_long_together_are_skipped() -> None:
    parser = EventParser(LIMIT)
    assert parser.feed(b"data: 0123456789\n" * 20 + b"\ndata: after\n\n") == [Event(b"after", "")]
    assert len(parser.oversized) == 1
    assert parser.feed(b"data: " + b"x" * LIMIT + b"\n\n") == [Event(b"x" * LIMIT, "")]


@given(
    st.lists(st.text(TEXT, min_size=1, max_size=20), max_size=8),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.sampled_from(["\n", "\r\n", "\r"]),
)  # fmt: skip
def test_chunks_may_fall_anywhere(texts: list[str], sizes: list[int], end: str) -> None:
    whole = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    chunks, at, number = [], 0, 0
    while at < len(whole):
        size = sizes[number % len(sizes)]
        chunks.append(whole[at : at + size])
        at, number = at + size, number + 1
    assert data(*chunks) == [text.encode() for text in texts]


def test_lines_without_end_of_one_event_are_skipped() -> None:
    parser = EventParser(LIMIT)
    for _ in range(10 * LIMIT):
        assert parser.feed(b"data:\n") == []
    assert parser.feed(b"\ndata: a\n\n") == [Event(b"a", "")]
    assert len(parser.oversized) == 1
