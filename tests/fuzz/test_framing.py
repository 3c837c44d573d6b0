"""The line splitter against a plain model of it, over damaged conversations in any chunks."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.transports.framing import LineSplitter
from tests.fuzz.material import CONVERSATIONS, CORPUS, strange

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
SAID = [said for conversation in CONVERSATIONS.values() for said in conversation]
FRAMES = strange(SAID) | st.binary(max_size=40)
"""The last kind may hold newlines of its own."""


def model(stream: bytes, limit: int) -> tuple[list[bytes], list[bytes]]:
    """The lines of a whole stream, and those that are too long."""
    lines = [line for line in stream.split(b"\n") if line]
    return [x for x in lines if len(x) <= limit], [x for x in lines if len(x) > limit]


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(FRAMES, max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.integers(1, 300),
)
def test_lines_are_what_the_model_says(frames: list[bytes], steps: list[int], limit: int) -> None:
    stream = b"\n".join(frames)
    splitter = LineSplitter(limit)
    found: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        step = steps[turn % len(steps)]
        found += splitter.feed(stream[at : at + step])
        at, turn = at + step, turn + 1
    last = splitter.end()
    expected, long = model(stream, limit)
    assert [*found, *([last] if last else [])] == expected
    assert len(splitter.oversized) == len(long)
    for head, line in zip(splitter.oversized, long, strict=True):
        assert line.startswith(head)
        assert len(head) > min(limit, 4095)


def test_the_corpus_is_one_frame_a_file() -> None:
    assert len(CORPUS) >= 20
    assert all(frame and b"\n" not in frame for frame in CORPUS.values())
