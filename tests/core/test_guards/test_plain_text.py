"""Prompts that were changed by plain text alone: the rules, which are not asked, find nothing."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from conductor.core.guards import Context, check, forwarded, plain_text, reading
from conductor.core.guards.rules import Attempt
from conductor.core.policy.key_table import PROMPT
from tests.core.test_guards.attack import CONTEXT, PLAIN, granted
from tests.core.test_guards.attacks_on_prompts import (
    HELLO,
    IMAGE,
    LINK,
    blob,
    resource,
    text,
)


def test_it_answers_for_no_rule_that_is_gone() -> None:
    assert {rule for _, rule in check._checks("forwarded", PROMPT)} >= plain_text.ANSWERED


def attempted(context: Context, before: bytes, after: bytes) -> Attempt:
    given_, sent = (check._document(Raw(held)) for held in (before, after))
    return Attempt(context, "down", PROMPT, sent, given_)


def plainly(before: bytes, after: bytes, context: Context = PLAIN) -> bool:
    """Whether a prompt was changed by plain text alone; then the rules find nothing in it."""
    alone = plain_text.alone(context.commands, before, after)
    slowly = check._first("forwarded", attempted(context, before, after))
    assert slowly is None or not alone, slowly
    if before != after:
        assert forwarded(context, "down", PROMPT, Raw(before), Raw(after)) == slowly
    return alone


# -- nasty prompts ---------------------------------------------------------------------------------

_pieces = st.sampled_from(
    [
        "/yolo", "/review it", "$fix", "fix", "review", "Review", "/", "//", "/ yolo", "$", "#x",
        "hello", "Hi.", "a", "ss", "ß", "k", "\u212aelvin", "\u017fix", "1/2", "é", "\u03b1",
        "\u200b", "\u2060", "\ufeff", "\u00ad", "\u3164", "\ufe0f", "\x00", "\ud800", "\U000e0041",
        "\n", "\r\n", " ", "\t", "\u2044", "\uff0f", "\u2215", "\ufe6b", "\uff20", "@", "\\@",
        "@/etc/passwd", "@~/.ssh", "@src/a.py", "@../x", "@%2e%2e/x", "@C:\\x", "[@a](file:///x)",
        "..", "%2e%2e", "%2f", "C:\\", "file:", "file:///etc/passwd", "FILE:x", "\\u0040", "<file>",
        "<", "(", "[", "{", "_", "=", "\\", '"', "'", "`", "&#64;",
        "data:,x", "javascript:x", "\u037e", "\uff1a", "\u2024",
    ]
)  # fmt: skip
_texts = st.lists(_pieces | st.text(max_size=2), max_size=4).map("".join)
_names = st.sampled_from(
    ["type", "text", "Text", "TEXT", "te\u200bxt", "uri", "path", "name", "title", "data", "blob",
     "_meta", "annotations", "resource", "mimeType", "a.b/c", "_Meta", "session_id", "x"]
)  # fmt: skip
_small = st.none() | st.booleans() | st.sampled_from([0, 1, -0.0, 1.0, 1e3]) | _texts
_values = st.recursive(
    _small,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=5,
)
_metas = st.sampled_from(
    [{}, {"_meta": {"example.com/x": 1}}, {"_meta": {"claudeCode": {"a": "b"}}}, {"_meta": None},
     {"annotations": {"audience": ["user"]}}, {"TEXT": "x"}, {"uri": "/etc/passwd"}]
)  # fmt: skip
_plain_blocks = _texts.map(text)
_known_blocks = st.one_of(
    _plain_blocks,
    _plain_blocks,
    st.builds(lambda block, more: {**block, **more}, _plain_blocks, _metas),
    st.builds(resource, _texts, _texts),
    st.builds(lambda held, uri: blob(held.encode(errors="replace"), uri=uri), _texts, _texts),
    st.builds(lambda uri, name: {**LINK, "uri": uri, "name": name}, _texts, _texts),
    st.just(IMAGE),
)
_blocks = _known_blocks | st.dictionaries(_names, _values, max_size=4) | _small
_prompts = st.lists(_blocks, max_size=4)
_besides = st.fixed_dictionaries(
    {"sessionId": st.just("s")},
    optional={
        "_meta": st.sampled_from([{}, None, {"example.com/y": 1}, {"z": 2}]),
        "messageId": st.sampled_from(["m", "n", 1, 1.0, True]),
        "session_id": st.just("s"),
    },
)
_grants = st.sampled_from(
    [
        PLAIN,
        CONTEXT,
        Context(),
        Context(commands=frozenset({"hello", "K", "ss x", "ß", "<file", "_"}), known=True),
        Context(commands=frozenset({"@a", ".", "/Hi.", "/a b"}), folders=("/etc",)),
        granted(commands=("*",)),
        granted(commands=("review", "$fix"), texts=True),
    ]
)


@st.composite
def _spelled(draw: st.DrawFn, params: Any) -> bytes:
    """A JSON text of some spelling; now and then a member stands in the text twice."""
    spelling = draw(st.integers(0, 5))
    said = json.dumps(
        params,
        ensure_ascii=spelling not in (1, 3),
        indent=1 if spelling == 2 else None,
        separators=(",", ":") if spelling > 2 else None,
    )
    held = said.encode(errors="surrogatepass" if spelling == 3 else "backslashreplace")
    how = draw(st.integers(0, 40))
    if how == 0:
        return held.replace(b'"type"', b'"text": "/yolo", "type"', 1).replace(b"}", b', "x": 1}')
    if how == 1:
        return held.replace(b'"prompt"', b'"prompt": [], "prompt"', 1)
    return held.replace(b"@", b"\\u0040").replace(b"/", b"\\/") if how == 2 else held


@st.composite
def _passed_on(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A prompt, and the same with blocks added, left out, moved and changed."""
    before = draw(_prompts)
    after = list(before)
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["add", "add", "add", "add", "drop", "copy", "move", "change"]))
        at = draw(st.integers(0, len(after)))
        if what == "add":
            after.insert(at, draw(st.one_of(_plain_blocks, _plain_blocks, _blocks)))
        elif at < len(after):
            block = after[at] if what == "copy" else after.pop(at)
            if what in ("copy", "move"):
                after.insert(draw(st.integers(0, len(after))), block)
            elif what == "change" and isinstance(block, dict) and block:
                name = draw(st.sampled_from(sorted(block)))
                after.insert(at, {**block, name: draw(_values)})
    beside = draw(_besides)
    other = draw(st.sampled_from([beside, beside, beside, None])) or draw(_besides)
    return (
        draw(_spelled({**beside, "prompt": before})),
        draw(_spelled({**other, "prompt": after})),
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(_grants, _passed_on())
def test_the_rules_find_nothing_where_plain_text_is_all(
    context: Context, params: tuple[bytes, bytes]
) -> None:
    plainly(*params, context)


@given(_grants, st.lists(_plain_blocks, max_size=3), st.lists(_plain_blocks, max_size=3))
def test_nor_where_texts_replace_texts(
    context: Context, before: list[Any], after: list[Any]
) -> None:
    plainly(params(before), params(after), context)
    plainly(compact(before), compact(after), context)


# -- the two ways ----------------------------------------------------------------------------------


def params(blocks: object, **beside: object) -> bytes:
    return json.dumps({"sessionId": "s", "prompt": blocks, **beside}).encode()


def compact(blocks: object, session: str = "s") -> bytes:
    held = {"sessionId": session, "prompt": blocks}
    return json.dumps(held, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


@pytest.mark.parametrize(
    "said",
    [
        "Answer.",
        "1.",
        "",
        "é".join("ab"),
        'a\n"\\ /x ..%2e',
        "x\x7f",
        "\n\nToday",
        "<a>",
        "(b)",
        "_",
    ],
)
def test_texts_that_are_written_plainly_are_not_read(said: str) -> None:
    for rest in ([], [HELLO], [HELLO, HELLO]):
        assert plainly(compact(rest), compact([text(said), *rest]))
        assert plainly(compact([*rest, text(said)]), compact(rest))


@pytest.mark.parametrize(
    "said",
    [
        "/yolo",
        " a",
        "\n",
        "é",
        "a@b",
        "a\uff20b",
        "a\ufe6bb",
        "a\x01",
        "\u200b/yolo",
        "\n/yolo",
        "\n\n$fix",
        "\n\t/yolo",
    ],
)
def test_other_texts_are_read(said: str) -> None:
    assert not plainly(compact([HELLO]), compact([text(said)]))
    assert not plainly(compact([text(said)]), compact([HELLO]))


def test_what_is_written_otherwise_is_read() -> None:
    said, more = compact([HELLO]), compact([HELLO, HELLO])
    assert plainly(said, more)
    assert not plainly(said, compact([HELLO, HELLO], session="t"))
    assert not plainly(said, params([HELLO, HELLO]))
    assert not plainly(said, compact([HELLO, IMAGE]))
    for was, now in (
        (b"hello", b"\xff"),
        (b"hello", b"h\xed\xa0\x80"),
        (b"hello", b"a\\u0040"),
        (b"hello", b"a\x01"),
        (b'"hello"', b'"a","text":"/yolo"'),
        (b'"hello"', b'"a","_meta":{}'),
        (b'"sessionId":"s"', b'"sessionId":"t","sessionId":"s"'),
        (b"]}", b'],"prompt":[]}'),
        (b"]}", b"]}\n"),
        (b"}]", b"},]"),
    ):
        assert not plainly(said, more.replace(was, now)), now
        assert not plainly(more.replace(was, now), said), now
    odd = b'"s\x01"'
    assert not plainly(said.replace(b'"s"', odd), more.replace(b'"s"', odd))
    assert plain_text._MOST_BYTES < reading.MOST_JUDGED
    large = compact([HELLO] * 1000)
    assert not plainly(said, large)
    assert not plainly(large, said)
    for listed in ("help", "<x", "_"):
        assert not plainly(said, more, Context(commands=frozenset({listed})))
    assert plainly(said, more, CONTEXT)
