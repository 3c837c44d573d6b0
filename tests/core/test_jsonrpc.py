"""Frames that are read, frames that are refused, and payloads that stay as they are."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.core.json_text import (
    hide_surrogates,
    read_members,
    show_surrogates,
    too_deep,
    write_members,
)
from conductor.core.jsonrpc import Malformed, Message


def read(frame: bytes) -> Message:
    found = jsonrpc.parse(frame)
    assert isinstance(found, Message)
    return found


@pytest.mark.parametrize(
    "payload",
    [
        b"[1.10, 1e400, 123456789012345678901234567890, -0, 1E-5]",
        b'{"a":1,"a":2, "b" : null}',
        b'["\\u0061\\/\\n", "\xc3\xa9\xf0\x9f\x98\x80"]',
        b'["\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\uD83D\\ud83d\\uDE00", "\\\\ud83d"]',
        b'{"\\udfff" : "\\ud800" }',
        b'["\\ud83dx", "\\ud83d\\n\\ude00"]',
    ],
)
@pytest.mark.parametrize("member", ["id", "params", "result", "error"])
def test_payloads_stay_as_they_are(member: str, payload: bytes) -> None:
    frame = b'{"jsonrpc":"2.0", "%b" : %b , "method":"_x"}' % (member.encode(), payload)
    assert bytes(getattr(read(frame), member)) == payload
    entries = jsonrpc.parse(b"[%b , 1]" % payload)
    assert isinstance(entries, list)
    assert [bytes(entry) for entry in entries] == [payload, b"1"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_no_message_hides_between_the_line_breaks_of_another(end: bytes) -> None:
    hidden = b'{"jsonrpc":"2.0","id":2,"method":"session/prompt"}'
    message = read(end.join((b'{"id":1,"params":[', hidden, b"]}", b"")))
    blank = b" " * len(end)
    assert bytes(cast("Raw", message.params)) == blank.join((b"[", hidden, b"]"))


def test_absent_members_are_unset() -> None:
    message = read(b"{}")
    assert message.jsonrpc == ""
    assert {message.id, message.method, message.params, message.result, message.error} == {UNSET}


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (b"", -32700, "not JSON"),
        (b"{", -32700, "not JSON"),
        (b"[1", -32700, "not JSON"),
        (b'{"method":5,', -32700, "not JSON"),
        (b'["\\ud800"', -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","x":"\\ud800",}', -32700, "not JSON"),
        (b'{"jsonrpc":5,"\\ud800":}', -32700, "not JSON"),
        (b"{} {}", -32700, "not JSON"),
        (b'{"params":[01]}', -32700, "not JSON"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", -32700, "not JSON"),
        (b"{}\xef\xbb\xbf", -32700, "not JSON"),
        (b'{"method":"\xed\xa0\x80"}', -32700, "not UTF-8 (byte 11)"),
        (b'"\xff"', -32700, "not UTF-8 (byte 1)"),
        (b'"a"', -32600, "not a JSON object"),
        (b'"\\ud800"', -32600, "not a JSON object"),
        (b"null", -32600, "not a JSON object"),
    ],
)
def test_what_is_no_message(frame: bytes, code: int, text: str) -> None:
    with pytest.raises(Malformed) as caught:
        jsonrpc.parse(frame)
    assert caught.value.code == code
    assert text in caught.value.text
    assert caught.value.id is None


@pytest.mark.parametrize(
    ("frame", "id_"),
    [
        (b'{"method":5,"id":"a"}', b'"a"'),
        (b'{"method":true,"id":1.5}', None),
        (b'{"method":[]}', None),
        (b'{"method":["\\ud800"],"id":"\\uD801"}', b'"\\ud801"'),
    ],
)
def test_a_method_must_be_a_string(frame: bytes, id_: bytes | None) -> None:
    with pytest.raises(Malformed, match="`method` must be a string") as caught:
        jsonrpc.parse(frame)
    assert (caught.value.code, caught.value.id) == (-32600, id_)


def test_a_message_of_a_frame_is_none_for_a_batch_and_for_text() -> None:
    message = jsonrpc.message_of(b'{"jsonrpc":"2.0","method":"m"}')
    assert message is not None
    assert message.method == "m"
    assert jsonrpc.message_of(b'[{"jsonrpc":"2.0","method":"m"}]') is None
    assert jsonrpc.message_of(b"hello") is None


def test_a_version_that_is_no_string_reads_as_none() -> None:
    message = read(b'{"jsonrpc":2.0,"id":1,"method":"_x","params":[],"result":2,"error":3}')
    assert (message.jsonrpc, message.method) == ("", "_x")
    members = (message.id, message.params, message.result, message.error)
    assert [bytes(m) for m in members if isinstance(m, Raw)] == [b"1", b"[]", b"2", b"3"]
    assert read(b'{"jsonrpc":"\\ud800","id":1}').id == Raw(b"1")
    assert read(b'{"jsonrpc":5,"\\ud800":1,"method":"\\udfff"}').method == "\udfff"


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b"0", b"0"),
        (b"-1", b"-1"),
        (b"9223372036854775807", b"9223372036854775807"),
        (b"-9223372036854775808", b"-9223372036854775808"),
        (b"null", b"null"),
        (b'""', b'""'),
        (b'"1"', b'"1"'),
        (b'"\\u0061\\n"', b'"a\\n"'),
        (b'"\\ud800"', b'"\\ud800"'),
        (b"9223372036854775808", None),
        (b"-9223372036854775809", None),
        (b"10000000000000000000000", None),
        (b"-0", b"0"),
        (b"1.0", b"1"),
        (b"1e2", b"100"),
        (b"-1.50e1", b"-15"),
        (b"120e-1", b"12"),
        (b"0e99", b"0"),
        (b"1e99", None),
        (b"1e-1", None),
        (b"1.5", None),
        (b"01.0", None),
        (b"1.", None),
        (b"9223372036854775808.0", None),
        (b"true", None),
        (b"[]", None),
        (b"{}", None),
    ],
)
def test_ids(raw: bytes, key: bytes | None) -> None:
    assert jsonrpc.canonical_id(raw) == key
    assert jsonrpc.canonical_id(Raw(raw)) == key


def test_writing() -> None:
    assert jsonrpc.request(b"1", "a", UNSET) == b'{"jsonrpc":"2.0","id":1,"method":"a"}\n'
    assert jsonrpc.notification("a\n", b"[]") == b'{"jsonrpc":"2.0","method":"a\\n","params":[]}\n'
    assert (
        jsonrpc.answer(b"1", b"result", Raw(b"1.10")) == b'{"jsonrpc":"2.0","id":1,"result":1.10}\n'
    )
    assert jsonrpc.error_object(-1, "x") == b'{"code":-1,"message":"x"}'
    assert jsonrpc.error_object(-1, "x", [1]) == b'{"code":-1,"message":"x","data":[1]}'


def test_long_method_names_are_not_remembered() -> None:
    before = len(jsonrpc._METHODS)
    assert jsonrpc.encode_method("x" * 300) == b'"' + b"x" * 300 + b'"'
    assert len(jsonrpc._METHODS) == before


# -- depth ---------------------------------------------------------------------------------------


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + b"1" + closing * depth


@pytest.mark.parametrize("padding", [0, 70_000])
@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [(b"[", b"]", 1), (b'{"a":', b"}", 1), (b'[{"[":', b"}]", 2), (b'[{},{"]":0,"b":', b"}]", 2)],
)
def test_depth_is_exact(padding: int, opening: bytes, closing: bytes, levels: int) -> None:
    text = b'"' + b"x" * padding + b'",'
    frame = b"[" + text + nested(10, opening, closing) + b"]"
    assert not too_deep(frame, 1 + 10 * levels)
    assert too_deep(frame, 10 * levels)


def test_brackets_in_strings_do_not_nest() -> None:
    frame = b'["' + b"[" * 1000 + b'\\"[[[","]]","' + b'[\\"' * 1000
    assert not too_deep(frame, 5)


def test_many_brackets_beside_each_other_do_not_nest() -> None:
    frame = b"[" + b"[{}]," * 30_000 + b"1]"
    assert not too_deep(frame, 3)
    assert too_deep(frame, 2)
    assert not too_deep(b"[" * 2 + b" " * 70_000, 5)


def test_the_deepest_that_is_allowed() -> None:
    message = b'{"jsonrpc":"2.0","method":"_x","params":%b}'
    assert read(message % nested(511)).method == "_x"
    with pytest.raises(Malformed, match="deeper than 512"):
        jsonrpc.parse(message % nested(512))


def test_a_deeper_limit_than_the_decoder_has() -> None:
    with pytest.raises(Malformed, match="nests too deeply"):
        jsonrpc.parse(b'{"params":%b}' % nested(300_000), 1_000_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@given(json_values, st.integers(0, 8))
def test_depth_agrees_with_a_walk(value: object, limit: int) -> None:
    def depth(one: object) -> int:
        if isinstance(one, dict):
            return 1 + max(map(depth, one.values()), default=0)
        return 1 + max(map(depth, one), default=0) if isinstance(one, list) else 0

    assert too_deep(json.dumps(value).encode(), limit) == (depth(value) > limit)


# -- lone surrogates, members --------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=[]), max_size=20), st.booleans())
def test_hidden_surrogates_come_back(text: str, upper: bool) -> None:
    frame = json.dumps(text).encode()
    frame = frame.replace(b"\\ud", b"\\uD") if upper else frame
    hidden = hide_surrogates(frame)
    has_lone = any("\ud800" <= c <= "\udfff" for c in json.loads(frame))
    assert (hidden is not None) == has_lone
    if hidden is not None:
        assert len(hidden) == len(frame)
        assert show_surrogates(hidden) == frame


@pytest.mark.parametrize(
    "raw", [None, UNSET, b"[]", b"null", b"{", b'{"\\ud800":1', b'{"a":"\\x"}']
)
def test_what_has_no_members(raw: bytes | None) -> None:
    assert read_members(raw) is None


def test_members_stay_raw() -> None:
    assert read_members(b'{"\\ud800":1}') == {"\ud800": Raw(b"1")}
    assert write_members({"\ud800": Raw(b"1")}) == Raw(b'{"\\ud800":1}')
    raw = b'{ "a" : 1.10,"a": "\\ud800","b":[ 1 ]}'
    found = read_members(raw)
    assert found == {"a": Raw(b'"\\ud800"'), "b": Raw(b"[ 1 ]")}
    assert write_members(found) == Raw(b'{"a":"\\ud800","b":[ 1 ]}')
