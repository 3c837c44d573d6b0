"""Lines from a byte stream: fed whole, byte by byte, and with trailing data."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.transports.framing import LINE_LIMIT, LineSplitter
from conductor.transports.remote.sse import EventParser

CASES: list[tuple[bytes, list[bytes], bytes]] = [
    (b"", [], b""),
    (b"\n\n\n", [], b""),
    (b"a\n", [b"a"], b""),
    (b"a\nb", [b"a"], b"b"),
    (b"a\r\nb\r\n", [b"a\r", b"b\r"], b""),
    (b"\na\n\nb\n", [b"a", b"b"], b""),
    (b"\xff\xfe\n\x00\n", [b"\xff\xfe", b"\x00"], b""),
    (b'{"a":"\\n"}\n', [b'{"a":"\\n"}'], b""),
]


@pytest.mark.parametrize(("stream", "lines", "rest"), CASES)
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_lines_however_the_chunks_fall(
    stream: bytes, lines: list[bytes], rest: bytes, step: int
) -> None:
    splitter = LineSplitter()
    found: list[bytes] = []
    for at in range(0, len(stream), step):
        found += splitter.feed(stream[at : at + step])
    assert found == lines
    assert splitter.end() == rest
    assert splitter.end() == b""


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 30), min_size=1))
def test_any_chunking_gives_the_same_lines(chunks: list[bytes], steps: list[int]) -> None:
    stream = b"\n".join(chunks)
    whole = LineSplitter()
    expected = [*whole.feed(stream), whole.end()]
    pieces = LineSplitter()
    found: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        step = steps[turn % len(steps)]
        found += pieces.feed(stream[at : at + step])
        at, turn = at + step, turn + 1
    found.append(pieces.end())
    assert found == expected


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 200])
def test_large_chunks_of_long_lines_and_of_short_ones(number: int) -> None:
    long = b"x" * 100_000
    lines = [long, *[b"y%d" % n for n in range(number)], long]
    splitter = LineSplitter()
    assert splitter.feed(b"\n".join([*lines, b"\nrest"])) == lines
    assert splitter.blank == 1
    assert splitter.feed(long) == []
    assert splitter.feed(b"\n".join([b"", *lines, b""])) == [b"rest" + long, *lines]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_line_over_the_limit_is_skipped_and_the_stream_goes_on(step: int) -> None:
    stream = b'{"a":1}\n' + b'{"id":7,' + b"x" * 100 + b"\n" + b'{"b":2}\n' + b"y" * 64 + b"\nz"
    splitter = LineSplitter(limit=64)
    found: list[bytes] = []
    for at in range(0, len(stream), step):
        found += splitter.feed(stream[at : at + step])
    assert found == [b'{"a":1}', b'{"b":2}', b"y" * 64]
    assert len(splitter.oversized) == 1
    assert splitter.oversized[0].startswith(b'{"id":7,')
    assert splitter.end() == b"z"


def test_an_endless_line_is_not_kept() -> None:
    splitter = LineSplitter(limit=1000)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            assert splitter.feed(b"x" * 100) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000  # of a million bytes
    assert len(splitter.oversized) == 1
    assert splitter.feed(b"\nok\n") == [b"ok"]


def test_the_last_line_over_the_limit_is_reported_at_the_end() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"0123456789") == []
    assert splitter.end() == b"0123456789"
    assert splitter.feed(b"0123456789ab") == []
    assert splitter.end() == b""
    assert len(splitter.oversized) == 1


def test_a_line_in_small_parts_takes_little_more_than_its_bytes() -> None:
    parts = [b"%02d" % (number % 100) for number in range(4_000)]
    for reader in (LineSplitter(), EventParser(LINE_LIMIT)):
        tracemalloc.start()
        for part in parts:
            assert reader.feed(part) == []
        assert tracemalloc.get_traced_memory()[0] < 4 * 2 * len(parts)
        tracemalloc.stop()
    splitter = LineSplitter()
    splitter.feed(b"".join(parts[:1]))
    for part in parts[1:]:
        splitter.feed(part)
    assert splitter.feed(b"\n") == [b"".join(parts)]
