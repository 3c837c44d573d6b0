"""Prompts that were changed by plain text alone: the rules, which are not asked, find nothing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from conductor.core.guards import Context, Violation, check, forwarded, plain_text
from conductor.core.guards.commands import may_begin, readings
from conductor.core.guards.names import PROMPT
from conductor.core.guards.reading import read
from conductor.core.guards.rules import Attempt
from conductor.core.policy.rules import Grants
from tests.core.test_guards.attack import CONTEXT, PLAIN, granted
from tests.core.test_guards.attacks_on_prompts import (
    COMMANDS,
    HELLO,
    IMAGE,
    LINK,
    LINKS,
    MENTIONS,
    blob,
    resource,
    text,
)

RULES = [
    ("duplicate-keys", "readable_params"),
    ("commands", "kept"),
    ("links", "added"),
    ("prompt-options", "options_kept"),
    ("session-target", "session_kept"),
    ("meta", "meta_kept"),
    ("meta", "metas_kept"),
]
"""The rules for prompts that are passed on: `plain_text.alone` answers for each of them."""


def test_these_rules_are_all() -> None:
    rules = check._checks("forwarded", PROMPT)
    assert [(guard, rule.__name__) for guard, rule in rules] == RULES


def attempted(context: Context, before: bytes, after: bytes) -> Attempt:
    given_, sent = (check._document(Raw(held)) for held in (before, after))
    return Attempt(context, "down", PROMPT, sent, given_)


def both(context: Context, before: bytes, after: bytes) -> tuple[bool, Violation | None]:
    """Whether a prompt was changed by plain text alone, and what the rules find in it."""
    alone = plain_text.alone(attempted(context, before, after), before, after)
    slowly = check._first("forwarded", attempted(context, before, after))
    plainly = plain_text.alone_plainly(context, before, after)
    assert slowly is None or not (alone or plainly), slowly
    if before != after:
        assert forwarded(context, "down", PROMPT, Raw(before), Raw(after)) == slowly
    return alone, slowly


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
    """A JSON text of some spelling; now and then a member stands in it twice, or none of it is."""
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
    both(context, *params)


@given(_grants, st.lists(_plain_blocks, max_size=3), st.lists(_plain_blocks, max_size=3))
def test_nor_where_texts_replace_texts(
    context: Context, before: list[Any], after: list[Any]
) -> None:
    both(context, params(before), params(after))
    both(context, compact(before), compact(after))


@given(_prompts, _grants)
def test_a_prompt_in_which_no_command_may_begin_has_none(
    blocks: list[Any], context: Context
) -> None:
    prompt: Any = read(json.dumps(blocks).encode()).value
    assert may_begin(prompt, context.commands) or not readings(prompt, context.commands)


# -- the two ways ----------------------------------------------------------------------------------


def params(blocks: object, **beside: object) -> bytes:
    return json.dumps({"sessionId": "s", "prompt": blocks, **beside}).encode()


def compact(blocks: object, session: str = "s") -> bytes:
    held = {"sessionId": session, "prompt": blocks}
    return json.dumps(held, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def quick(before: object, after: object, context: Context = PLAIN, **beside: object) -> bool:
    return both(context, params(before), params(after, **beside))[0]


OTHERS = [resource("x = 1"), blob(b"x"), {**LINK, "_meta": {"z": 1}}, IMAGE, {"type": "new"}]


@pytest.mark.parametrize("said", ["Answer briefly.", "1.", "\n\nToday.", "<a>", "é", "file:///x"])
def test_plain_text_is_seen(said: str) -> None:
    for rest in ([], [HELLO], [HELLO, *OTHERS], [*OTHERS, HELLO]):
        assert quick(rest, [text(said), *rest])
        assert quick(rest, [*rest, text(said)])
        assert quick([text(said), *rest], rest)
        assert quick([HELLO, *rest], [text(said), *rest])
    assert quick([HELLO, IMAGE], [IMAGE, HELLO, IMAGE])


@pytest.mark.parametrize(
    "after",
    [
        *COMMANDS.values(),
        *([text(f"see {each}")] for each in MENTIONS),
        *([{**LINK, "uri": each}] for each in LINKS),
        [text("see \uff20a")],
        [text("see \ufe6ba")],
        [{**HELLO, "_meta": {"example.com/x": 1}}],
        [{**HELLO, "text": 1}],
        [{**HELLO, "type": "x"}],
        ["hello"],
        {},
        None,
    ],
)
def test_what_is_no_plain_text_is_left_to_the_rules(after: Any) -> None:
    assert not quick([HELLO], after)


def test_what_else_changes_is_left_to_the_rules() -> None:
    more = [text("more"), HELLO]
    assert not quick([HELLO], more, messageId="m")
    assert not quick([HELLO], more, sessionId="t")
    said = params([HELLO])
    assert not both(PLAIN, said, said.replace(b'"sessionId"', b'"sessionId": "t", "x"'))[0]
    twice = b'{"sessionId":"s","prompt":[],"x":{"a":1,"a":1}}'
    changed = twice.replace(b"[]", b'[{"type":"text","text":"x"}]')
    assert both(PLAIN, twice, changed) == (False, None)
    assert not both(PLAIN, params([]), changed)[0]
    assert not both(PLAIN, twice, params([text("x")]))[0]
    for unreadable in (b"{", b"null", b"[]"):
        assert not both(PLAIN, unreadable, said)[0]
        assert not both(PLAIN, said, unreadable)[0]


def test_what_is_large_or_deep_is_left_to_the_rules() -> None:
    many = [text(str(n)) for n in range(40)]
    assert not quick([HELLO], many)
    assert not quick(many, [HELLO])
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    odd = {"type": "new", "x": deep}
    assert not quick([odd], [odd, HELLO])
    assert not quick([odd], [HELLO])
    marked = resource("@" * 10_001)
    assert not quick([marked], [marked, HELLO])
    assert not quick([marked], [HELLO])
    assert quick([resource("x" * 10_001)], [HELLO, resource("x" * 10_001)])
    encoded = blob(b"@" * 9_990)
    assert quick([encoded], [HELLO, encoded])


def test_a_command_of_any_spelling_is_looked_for() -> None:
    context = Context(commands=frozenset({"Kiss", "5", "\u017fo"}), known=True)
    for said in ("kiss", "KISS me", "\u212aiss", "5", "so", "S", "5x"):
        block: Any = read(json.dumps([text(said)]).encode()).value
        found = readings(block, context.commands)
        assert bool(found) == (said != "S")
        assert quick([HELLO], [text(said)], context) == (said == "S")


def test_words_in_meta_stay() -> None:
    texts = msgspec.structs.replace(PLAIN, grants=Grants(texts=True))
    one, two = ({**IMAGE, "_meta": {"z": word}} for word in "ab")
    assert not quick([one], [two], texts)
    both(texts, params([one, two]), params([two, one]))


def plainly(before: bytes, after: bytes, context: Context = PLAIN) -> bool:
    both(context, before, after)
    return plain_text.alone_plainly(context, before, after)


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
    assert plain_text._MOST_BYTES < check.MOST_JUDGED
    large = compact([HELLO] * 1000)
    assert not plainly(said, large)
    assert not plainly(large, said)
    for listed in ("help", "<x", "_"):
        assert not plainly(said, more, Context(commands=frozenset({listed})))
    assert plainly(said, more, CONTEXT)
