"""`conductor.record.replay.comparison`: which differences of a run count."""

import json
from typing import Any

import pytest

from conductor.record.replay.comparison import compared
from conductor.record.turns.reader import Reader, held


def seen(content: str, *told: str) -> Reader:
    """A chain whose agent gets these words in a prompt, if there are any."""
    reader, lines = held()
    head = {"type": "_conductor", "format": 1, "content": content, "components": ["a", "agent"]}
    prompts = [
        each
        for text in told
        for each in (
            prompt("client", "a", "[redacted]", n=1),
            prompt("a", "agent", text, n=2, passes=1),
        )
    ]
    for each in (head, *prompts):
        lines.append(json.dumps(each).encode() + b"\n")
        reader.take(lines.line(len(lines) - 1))
    return reader


def prompt(source: str, target: str, text: str, **own: int) -> dict[str, Any]:
    """An event."""
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    return {
        "type": "request", "ts": 1.0, "from": source, "to": target, "id": own["n"],
        "method": "session/prompt", "session": "s", "params": params, "_conductor": own,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "now", "same"),
    [
        ("redacted", "[redacted]", True),
        ("redacted", "[redacted: other]", True),
        ("redacted", "else", False),
        ("all", "[redacted]", False),
    ],
)
def test_what_becomes_of_a_mark_counts_only_where_nothing_is_hidden(
    content: str, now: str, same: bool
) -> None:
    _, turn = compared(seen(content, "[redacted: github-token]"), seen(content, now))
    assert turn.same is same


@pytest.mark.parametrize(("then", "now"), [((), ("x",)), (("x",), ())])
def test_a_turn_that_one_has_alone(then: tuple[str, ...], now: tuple[str, ...]) -> None:
    *_, turn = compared(seen("all", *then), seen("all", *now))
    assert (turn.then, turn.now) == (bool(then), bool(now))
