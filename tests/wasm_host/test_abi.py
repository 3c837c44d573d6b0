"""The checks on lines: depth by an exact count, whatever stands in strings; excerpts."""

from __future__ import annotations

import json
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_host import GuestError, LimitRefused, Limits, too_deep
from wasm_host.abi import check_inbox, check_outbox, depth_of, excerpt

Json: TypeAlias = "int | str | list[Json] | dict[str, Json] | None"

VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from(["[[[", "}", '"', "\\", '\\"{', "]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=40,
)


def depth(value: Json) -> int:
    """Nesting of a JSON value, the slow and obvious way."""
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_depth_is_that_of_the_value(value: Json, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
    assert depth_of(text) == depth(value)


@given(VALUES, st.integers(0, 6))
def test_too_deep_is_deeper_than_the_limit(value: Json, limit: int) -> None:
    text = json.dumps(value).encode()
    assert too_deep(text, limit) == (depth(value) > limit)


@given(st.lists(VALUES, max_size=60), st.integers(1, 6))
def test_both_directions_find_the_deep_line_among_many(values: list[Json], limit: int) -> None:
    lines = b"".join(b"p" + json.dumps(value).encode() + b"\n" for value in values)
    limits = Limits(json_depth=limit)
    if max(map(depth, values), default=0) > limit:
        with pytest.raises(LimitRefused):
            check_inbox(lines, limits)
        with pytest.raises(GuestError):
            check_outbox(lines, limits, "deliver", "it")
    else:
        check_inbox(lines, limits)
        check_outbox(lines, limits, "deliver", "it")


@pytest.mark.parametrize("size", [0, 1500, 5000, 40_000, 200_000])
@pytest.mark.parametrize("deep", [127, 128, 129, 5000])
def test_depth_at_every_size_of_text(size: int, deep: int) -> None:
    # Each size goes through another of the quick tests before the exact one.
    filler = b'"' + b"x" * size + b'"'
    line = b"p" + b"[" * deep + filler + b"]" * deep + b"\n"
    many = b'p{"a":[{}]}\n' * 50 + line + b'p{"a":[{}]}\n' * 50
    for lines in (line, many):
        if deep > 128:
            with pytest.raises(LimitRefused, match=f"nested {deep} deep"):
                check_inbox(lines, Limits())
        else:
            check_inbox(lines, Limits())


def test_many_shallow_siblings_are_not_deep() -> None:
    line = b"p[" + b",".join([b'{"a":{"b":[]}}'] * 100_000) + b"]\n"
    check_inbox(line, Limits(json_depth=4))
    with pytest.raises(LimitRefused, match="nested 4 deep"):
        check_inbox(line, Limits(json_depth=3))


def test_an_unclosed_text_counts_what_it_opens() -> None:
    assert depth_of(b"[" * 300) == 300
    assert depth_of(b'{"a":"[[[') == 1
    assert depth_of(b"]]]][") <= 1


def test_a_lone_line_is_checked_like_any_other() -> None:
    for bad in (b"\n", b"p\n", b"x1\n", b"p1"):
        with pytest.raises(GuestError, match="broke the channel contract"):
            check_outbox(bad, Limits(), "deliver", "it")
    check_outbox(b"p1\n", Limits(), "deliver", "it")
    check_outbox(b"", Limits(), "deliver", "it")


def test_lines_without_sides_may_be_anything() -> None:
    check_outbox(b"\nx\n\xff\n", Limits(), "deliver", "it", sides=False)


def test_excerpts_are_short_and_printable() -> None:
    assert excerpt(b"a\x00\xff\n") == r"'a\x00\xff\n'"
    assert excerpt(b"x" * 100) == "'" + "x" * 60 + "'…"
