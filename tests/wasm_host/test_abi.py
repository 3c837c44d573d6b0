"""The checks on lines: depth by an exact count, whatever stands in strings; excerpts."""

import json
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_host import GuestError, LimitRefused, Limits, too_deep
from wasm_host.carriers.abi import check_inbox, check_outbox, depth_of, excerpt, too_many_values

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


def values(value: Json) -> int:
    """Values as they are counted: an empty array or object as if there were one in it."""
    if isinstance(value, list):
        return 1 + max(1, sum(map(values, value)))
    if isinstance(value, dict):
        return 1 + max(1, sum(map(values, value.values())))
    return 1


@given(VALUES, st.booleans(), st.integers(1, 12))
def test_too_many_values_are_more_than_the_limit(value: Json, only: bool, limit: int) -> None:
    text = json.dumps(value, ensure_ascii=only).encode("utf-8", "replace")
    assert too_many_values(text, limit) == (values(value) > limit)


@pytest.mark.parametrize("number", [1, 2, 254, 255, 256, 257, 1000])
def test_values_beside_a_long_string_are_counted_alike(number: int) -> None:
    # Where there are few, they are searched for; where there are many, counted.
    long = b'"' + b"x" * 70_000 + b'"'
    for text in (
        b"[" + b"1," * (number - 1) + long + b"]",
        b"[" + long + b",1" * (number - 1) + b"]",
    ):
        assert not too_many_values(text, number + 1)
        assert too_many_values(text, number)
    assert not too_many_values(b'["' + b"," * number + b"x" * 70_000 + b'"]', 2)


@given(st.lists(VALUES, max_size=60), st.integers(1, 12))
def test_both_directions_find_the_line_of_many_values(found: list[Json], limit: int) -> None:
    lines = b"".join(b"p" + json.dumps(value).encode() + b"\n" for value in found)
    limits = Limits(json_values=limit)
    if max(map(values, found), default=0) > limit:
        with pytest.raises(LimitRefused) as inbound:
            check_inbox(lines, limits)
        with pytest.raises(GuestError) as outbound:
            check_outbox(lines, limits, "deliver", "it")
        assert inbound.value.limit == outbound.value.limit == "json_values"
        assert inbound.value.hint
        assert outbound.value.hint
    else:
        check_inbox(lines, limits)
        check_outbox(lines, limits, "deliver", "it")


MIB = 1024 * 1024
HEAVY = {
    "siblings": (b"[]", "json_values"),
    "towers": (b"[" * 100 + b"]" * 100 + b",", "json_values"),
    "objects": (b'{"a":{}},', "json_values"),
    "numbers": (b"1,", "json_values"),
    "in strings": (b'"' + b"[,{" * (4 * MIB) + b'"', None),
    "in many strings": (b'"["]', None),
    "backslashes": (b'"' + b"\\" * (15 * MIB) + b'"', None),
    "escaped quotes": (b'"' + b'\\"' * (4 * MIB) + b'[,"', None),
    "empty strings": (b'""', None),
    "closers": (b"[" * 200 + b"]" * (14 * MIB), "json_depth"),
    "a late opener": (b"[" * 200_000 + b"]" * (14 * MIB) + b"[", "json_depth"),
    "strings between": (b"[" * 200 + b'"]"' * (4 * MIB), "json_depth"),
}


@pytest.mark.parametrize("name", HEAVY)
def test_what_is_meant_to_be_slow_is_judged_all_the_same(name: str) -> None:
    """Each shape in a line as long as there may be; takes seconds only if a check is not linear."""
    shape, limit = HEAVY[name]
    line = b"p" + shape * max(1, 15 * MIB // len(shape)) + b"\n"
    if limit is None:
        check_inbox(line, Limits())
        check_outbox(line, Limits(), "deliver", "it")
    else:
        with pytest.raises(LimitRefused) as caught:
            check_inbox(line, Limits())
        assert caught.value.limit == limit


@given(st.lists(VALUES, max_size=60), st.integers(1, 6))
def test_both_directions_find_the_deep_line_among_many(found: list[Json], limit: int) -> None:
    lines = b"".join(b"p" + json.dumps(value).encode() + b"\n" for value in found)
    limits = Limits(json_depth=limit)
    if max(map(depth, found), default=0) > limit:
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


@pytest.mark.parametrize("size", [1000, 100_000, 3_000_000])
def test_lines_that_were_shallow_enough_for_one_guest_may_be_too_deep_for_another(
    size: int,
) -> None:
    line = b'p["' + b"[" * size + b'",' + b"[" * 150 + b"]" * 151 + b"\n"
    for _ in range(2):
        for deep, shallow in ((151, 150), (200, 128)):
            check_inbox(line, Limits(json_depth=deep))
            with pytest.raises(LimitRefused, match="nested 151 deep"):
                check_inbox(line, Limits(json_depth=shallow))


def test_many_shallow_siblings_are_not_deep() -> None:
    line = b"p[" + b",".join([b'{"a":{"b":[]}}'] * 100_000) + b"]\n"
    check_inbox(line, Limits(json_depth=4, json_values=1_000_000))
    with pytest.raises(LimitRefused, match="nested 4 deep"):
        check_inbox(line, Limits(json_depth=3, json_values=1_000_000))


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
