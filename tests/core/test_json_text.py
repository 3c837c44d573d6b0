"""How deep a frame nests and how many values it has, without parsing it; lone surrogates."""

import json
import re
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core import json_text, jsonrpc
from conductor.core.json_text import (
    Decoder,
    check,
    count_values,
    decode,
    encode,
    encode_sorted,
    formatted,
    hide_surrogates,
    holds,
    show_surrogates,
    too_deep,
    too_many_values,
    utf8,
)
from conductor.core.jsonrpc import MAX_UNUSUAL, Malformed
from tests.places import ROOT

MIB = 1024 * 1024

texts = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


def counted(value: Any) -> int:
    """The values in a value, with one more for an empty array or object."""
    if isinstance(value, (dict, list)):
        inside = value.values() if isinstance(value, dict) else value
        return 1 + (sum(map(counted, inside)) or 1)
    return 1


@given(texts)
def test_values_are_counted_as_by_a_walk(value: object) -> None:
    frame = json.dumps(value).encode()
    assert count_values(frame, 0) >= 1
    assert count_values(frame, len(frame) + 1) >= counted(value)
    exact = counted(value)
    for limit in range(max(exact - 2, 0), exact + 2):
        assert too_many_values(frame, limit) == (exact > limit)


def test_signs_within_strings_are_no_values() -> None:
    frame = b'{"a":"' + b",[{" * 1000 + b'\\",,,","b":[1,2]}'
    assert count_values(frame, 10) == 5
    assert count_values(b"[" + b'",",' * 5000 + b"1]", 5002) == 5002
    assert count_values(b"[" + b'",",' * 5000 + b"1]", 5000) > 5000


@pytest.mark.parametrize("number", [1, 2, 254, 255, 256, 257, 1000])
def test_values_beside_a_long_string_are_counted_alike(number: int) -> None:
    """Where there are few, they are searched for; where there are many, counted."""
    long = b'"' + b"x" * 70_000 + b'"'
    for frame in (
        b"[" + b"1," * (number - 1) + long + b"]",
        b"[" + long + b",1" * (number - 1) + b"]",
    ):
        assert count_values(frame, 10_000) == number + 1
        assert not too_many_values(frame, number + 1)
        assert too_many_values(frame, number)
    signs = b'["' + b"," * number + b"x" * 70_000 + b'"]'
    assert not too_many_values(signs, 2)


@pytest.mark.parametrize("length", [0, 70_000])
@pytest.mark.parametrize("before", [0, 1, 254, 255, 256, 1000])
def test_a_text_holds_a_word_or_does_not(length: int, before: int) -> None:
    filler = b"x" * length
    others = b'"other"' * (before // 2) + filler
    assert holds(others + b'"word"', b'"word"')
    assert holds(b'"word"' + others, b'"word"')
    assert not holds(others, b'"word"')
    assert not holds(others + b'"wor', b'"word"')
    assert not holds(filler, b'"word"')


@pytest.mark.parametrize("text", [b"[" * 100_000, b'["\\ud800",' + b"[" * 100_000])
def test_what_nests_too_deeply_is_no_json(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError, match="nests too deeply"):
        decode(text)


def test_what_nests_deeper_than_it_seems_piece_by_piece() -> None:
    deep = b"[" * 300 + b'"",' * 5000 + b"[" * 300
    assert too_deep(deep, 599)
    assert not too_deep(deep, 600)
    assert not too_deep(b"[" + b"[],{}," * 10_000 + b"1]", 2)


def peak(work: Callable[[], object]) -> int:
    """Bytes that some work takes at most at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("many", [b"11,", b"{},", b'"",', b'"\\n",', b'"a":1,'])
def test_many_values_take_no_memory_to_be_counted(many: bytes) -> None:
    """57 MB of values took gigabytes when they were judged."""
    frame = b"[" + many * (4 * MIB // len(many)) + b"1]"
    assert peak(lambda: too_many_values(frame, 250_000)) < 3 * len(frame)
    assert too_many_values(frame, 250_000)


def test_millions_of_lone_surrogates_take_little_memory() -> None:
    """Each was a Python number."""
    frame = b'"' + rb"\ud800" * (2 * MIB // 6) + b'"'
    assert peak(lambda: hide_surrogates(frame)) < 5 * len(frame)
    hidden = hide_surrogates(frame)
    assert hidden is not None
    assert b"\\" not in hidden
    assert show_surrogates(hidden) == frame


escapes = st.sampled_from(
    [r"\ud800", r"\uDBff", r"\udc00", r"\uDFFF", r"\\", r"\u0041", "a", "ud800", r"\"", r"\n"]
)


@given(st.lists(escapes, max_size=12))
def test_pieces_part_no_pair(parts: list[str]) -> None:
    frame = f'"{"".join(parts)}"'.encode()
    whole = hide_surrogates(frame)
    assert (whole is not None) == any("\ud800" <= c <= "\udfff" for c in json.loads(frame))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_PIECE_BYTES", 1)
        assert hide_surrogates(frame) == whole


@pytest.mark.parametrize("frame", [b"[%b1]", b'{"method":1,%b"id":1}'])
def test_a_huge_batch_is_refused_before_its_entries_are_kept(frame: bytes) -> None:
    """57 MB of `[11,11,…` were millions of objects."""
    with pytest.raises(Malformed, match="over 250,000 values"):
        jsonrpc.parse(frame % ((b"11," if frame[:1] == b"[" else b'"a":1,') * MAX_UNUSUAL))


# -- values whose texts may hold lone surrogates ---------------------------------------------------


class _Named(NamedTuple):
    name: str
    number: int


class _Held(msgspec.Struct, frozen=True):
    text: str
    raw: msgspec.Raw = msgspec.Raw()
    more: dict[str, object] = {}
    names: tuple[str, ...] = ()
    one: frozenset[str] = frozenset()


HALVES: Final = (
    "\ud83d",
    "\udc00 \\ \ud83d",
    {"\ud83d": ["\udfff", 1, None, {"a": "\ud800"}]},
    ["\ud83d", "\ude00", "\U0001f600"],
)


@pytest.mark.parametrize("value", HALVES)
def test_what_is_written_is_read(value: object) -> None:
    written = encode(value)
    assert written == encode_sorted(value)
    assert json.loads(written) == decode(written) == decode(written.decode()) == value
    assert json.loads(formatted(written)) == value
    assert json.loads(json.dumps(value)) == decode(json.dumps(value)) == value


def test_typed_values_are_written_and_read() -> None:
    raw = rb'{"text":"\ud83d","raw":{"\uD83D":"\udfff"},"more":{"\ud83d":1},"names":["\ud83d"]}'
    held = Decoder(_Held).decode(raw)
    assert (held.text, bytes(held.raw)) == ("\ud83d", rb'{"\uD83D":"\udfff"}')
    assert (held.more, held.names) == ({"\ud83d": 1}, ("\ud83d",))
    assert decode(encode(held), type=_Held) == msgspec.structs.replace(held)
    assert decode(encode(_Named("\ud83d", 1)), type=_Named) == _Named("\ud83d", 1)
    assert encode({1: {"\ud83d"}}) == rb'{"1":["\ud83d"]}'


def test_halves_that_come_together_are_the_character() -> None:
    assert decode(encode("\ud83d" + "\ude00")) == "\U0001f600"
    assert utf8("\ud83d\ude00 \ud83d.") == "\U0001f600 \ufffd.".encode()
    assert utf8("é") == "é".encode()


@pytest.mark.parametrize(
    "raw", [b"", b'"\\ud83d', b'{"a":"\\ud83d",}', b'"\xff\\ud83d"', b'"\xed\xa0\xbd"', b"[1"]
)
def test_what_is_no_json_stays_none(raw: bytes) -> None:
    for read in (decode, Decoder(Any).decode, check):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            read(raw)


@pytest.mark.parametrize("raw", [b"[1]", rb'["\ud83d"]'])
def test_a_value_of_another_type_is_none(raw: bytes) -> None:
    for read in (partial(decode, type=int), Decoder(int).decode):
        with pytest.raises(msgspec.ValidationError):
            read(raw)


def test_what_is_no_json_is_not_formatted() -> None:
    for raw in (b"", b'"\\ud83d', b'{"a":"\\ud83d",}'):
        with pytest.raises(msgspec.DecodeError):
            formatted(raw)


def test_no_text_is_taken_for_a_sign() -> None:
    text = '"\ufdd00123456789d83d \\ud83d"'.encode()
    assert decode(text) == "\ufdd00123456789d83d \ud83d"


def test_who_reads_what_peers_say_reads_half_an_emoji() -> None:
    """A few modules read most texts by msgspec alone, and those that msgspec refuses by
    `json_text`."""
    quick = {"agent_turns", "dialects", "json_text", "jsonrpc", "headings", "streams"}
    found = {
        path.stem
        for part in ("core", "record", "services", "editor", "telemetry", "serve/hub", "client")
        for path in (ROOT / "conductor" / part).rglob("*.py")
        if re.search(r"msgspec\.json\.(Decoder|Encoder|decode|encode)\b", path.read_text("utf-8"))
    }
    assert found <= quick
