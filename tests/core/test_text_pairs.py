"""Texts put in pairs by what they share."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.text_pairs import SIMILAR, align, similarity


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b"", b"", 0.0),
        (b"a", b"", 0.0),
        (b"abcd", b"abcd", 1.0),
        (b"abcd", b"abXd", 0.75),
        (b"abcd", b"abcdefgh", 1.0),
        (b"aaaa", b"aa", 1.0),
        (b"abcd", b"wxyz", 0.0),
        (b"abcd", b"wbcz", 0.0),
    ],
)
def test_similarity_is_the_beginning_and_the_end_they_share(
    one: bytes, other: bytes, expected: float
) -> None:
    assert similarity(one, other) == similarity(other, one) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], []),
        ([b"one"], [], []),
        ([], [b"one"], [None]),
        ([b"aaa1", b"bbb1"], [b"aaa2", b"bbb2"], [0, 1]),
        ([b"aaa1", b"bbb1"], [b"bbb2"], [1]),
        ([b"bbb1"], [b"aaa1", b"bbb2"], [None, 0]),
        ([b"aaa1", b"bbb1"], [b"bbb2", b"aaa2"], [None, 0]),
        ([b"aaaa", b"aaaa"], [b"aaaa"], [0]),
        ([b"xxxx"], [b"aaaa"], [None]),
    ],
)
def test_versions_find_each_other(
    before: list[bytes], after: list[bytes], expected: list[int | None]
) -> None:
    assert align(before, after) == expected


TEXTS = st.lists(st.sampled_from([b"", b"aaa", b"aab", b"bbb", b"bba", b"ccc"]), max_size=6)


@given(TEXTS, TEXTS)
def test_partners_are_in_order_alike_and_nobodys_else(
    before: list[bytes], after: list[bytes]
) -> None:
    found = align(before, after)
    assert len(found) == len(after)
    places = [at for at in found if at is not None]
    assert all(one < other for one, other in pairwise(places))
    pairs = [(before[at], text) for at, text in zip(found, after, strict=True) if at is not None]
    assert all(similarity(*pair) >= SIMILAR for pair in pairs)
