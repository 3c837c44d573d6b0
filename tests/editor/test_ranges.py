"""Exact ranges: what the places of a comment mean in the text of its file."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editor.messages import Position
from conductor.editor.ranges import resolve

TEXT = "one 🙂\nthree🙂\r\n\rlast"


@pytest.mark.parametrize(
    ("start", "end", "exact"),
    [
        (Position(1), None, (1, 1, 1, 6)),
        (Position(1, 3), None, (1, 3, 1, 6)),
        (Position(1), Position(2), (1, 1, 2, 7)),
        (Position(1, 2), Position(2, 3), (1, 2, 2, 3)),
        (Position(3), None, (3, 1, 3, 1)),
        (Position(2, 99), None, (2, 7, 2, 7)),
        (Position(99), None, (4, 5, 4, 5)),
        (Position(2, 3), Position(1, 1), (2, 3, 2, 3)),
    ],
)
def test_the_forms_of_a_range(
    start: Position, end: Position | None, exact: tuple[int, int, int, int]
) -> None:
    assert resolve(TEXT, start, end) == exact


PLACES = st.builds(Position, st.integers(1, 9), st.none() | st.integers(1, 9))


@given(st.text("a\n\r🙂", max_size=12), PLACES, st.none() | PLACES)
def test_a_range_is_always_in_the_text_and_in_order(
    text: str, start: Position, end: Position | None
) -> None:
    lines = re.split("\r\n|\n|\r", text)
    first_line, first, last_line, last = resolve(text, start, end)
    assert (1, 1) <= (first_line, first) <= (last_line, last)
    for line, column in ((first_line, first), (last_line, last)):
        assert line <= len(lines)
        assert column <= len(lines[line - 1]) + 1
