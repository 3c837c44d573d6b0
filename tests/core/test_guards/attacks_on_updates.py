"""Attacks on what the user is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.core.test_guards.attack import Attack, answers, makes_up, passes_on
from tests.core.test_guards.samples import CALL, DIFF, TERMINAL, TEXT, WORD


def updates(guard: str, what: str, before: object, after: object) -> Attack:
    """A session update changed on its way."""
    texts = (json.dumps({"sessionId": "s", "update": update}) for update in (before, after))
    return passes_on(guard, what, "session/update", *texts)


def tool_calls() -> Iterator[Attack]:
    """Tool calls changed on their way."""
    for kind in ("tool_call", "tool_call_update"):
        call = {**CALL, "sessionUpdate": kind}
        for name in (
            "toolCallId",
            "title",
            "name",
            "kind",
            "status",
            "rawInput",
            "locations",
            "new",
        ):
            yield updates("tool-calls", f"{kind}, {name}", call, {**call, name: "other"})
        changed: dict[str, object] = {
            "another diff": [TEXT, {**DIFF, "newText": "y"}, TERMINAL],
            "no diff": [TEXT, TERMINAL],
            "no terminal": [TEXT, DIFF],
            "another order": [TERMINAL, DIFF, TEXT],
            "a diff in text's clothes": [{**TEXT, "newText": ""}, DIFF, TERMINAL],
            "a text more": [TEXT, TEXT, DIFF, TERMINAL],
            "an unknown kind": [{"type": "panel"}, DIFF, TERMINAL],
            "no list": {},
            "nothing": [],
            "null": None,
        }
        for what, content in changed.items():
            yield updates(
                "tool-calls", f"{kind}, content: {what}", call, {**call, "content": content}
            )
        running = {**call, "status": "pending"}
        yield updates(
            "tool-calls", f"{kind}, its text too soon", running, {**running, "content": []}
        )
        yield updates(
            "tool-calls", f"{kind}, its output too soon", running, {**running, "rawOutput": 1}
        )
        yield updates("tool-calls", f"{kind}, turned into a word", call, {"sessionUpdate": "plan"})
        yield updates("tool-calls", f"{kind}, made of a word", {"sessionUpdate": "plan"}, call)
    odd_content = {**CALL, "content": "text"}
    yield updates("tool-calls", "content that was no list", odd_content, {**CALL, "content": []})
    for kind in ("tool_call_content_chunk", "terminal_update", "terminal_output_chunk"):
        update = {"sessionUpdate": kind, "toolCallId": "t", "status": "completed", "content": []}
        yield updates("tool-calls", kind, update, {**update, "content": [TEXT]})


def modes_and_inventions() -> Iterator[Attack]:
    """Modes hidden, and calls that never were."""
    for kind in ("current_mode_update", "config_option_update"):
        update = {
            "sessionUpdate": kind,
            "currentModeId": "ask",
            "status": "completed",
            "content": 1,
        }
        yield updates("session-mode", kind, update, {**update, "currentModeId": "bypass"})
        yield updates("session-mode", f"{kind}, made of a word", {"sessionUpdate": "plan"}, update)
    for kind in ("tool_call", "tool_call_update", "tool_call_content_chunk", "terminal_update"):
        yield makes_up(
            "tool-calls", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}'
        )
    for kind in ("current_mode_update", "config_option_update"):
        yield makes_up(
            "session-mode", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}'
        )


def unknown_kinds() -> Iterator[Attack]:
    """Updates of kinds no rule knows."""
    for what, made_up in {
        "odd case": '{"update":{"sessionUpdate":"Tool_Call"}}',
        "no kind": '{"update":{}}',
        "a kind that is no text": '{"update":{"sessionUpdate":["plan"]}}',
        "no update": "{}",
        "a text": '{"update":"plan"}',
        "an unknown kind": '{"update":{"sessionUpdate":"subagent_update"}}',
        "two kinds": '{"update":{"sessionUpdate":"plan","SessionUpdate":"tool_call"}}',
        "two updates": '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"x"}}',
    }.items():
        yield makes_up("unknown-updates", what, "session/update", made_up)
    for what, other in {
        "made unknown": {**WORD, "sessionUpdate": "html_panel"},
        "of no kind": {"content": TEXT},
        "of two kinds": {**WORD, "session_update": "tool_call"},
        "a text": "word",
        "null": None,
    }.items():
        yield updates("unknown-updates", what, WORD, other)
    yield updates(
        "unknown-updates",
        "an unknown one changed",
        {"sessionUpdate": "new"},
        {"sessionUpdate": "new", "a": 1},
    )
    yield passes_on(
        "unknown-updates",
        "a member beside it",
        "session/update",
        '{"update":{"sessionUpdate":"plan"}}',
        '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"tool_call"}}',
    )


def reported() -> Iterator[Attack]:
    """Modes in the answer to a setup."""
    yield answers(
        "session-mode",
        "modes of a new session",
        "session/new",
        '{"sessionId":"s","modes":{"currentModeId":"ask"}}',
        '{"sessionId":"s","modes":{"currentModeId":"bypass"}}',
    )
    yield answers(
        "session-mode", "options", "session/resume", "{}", '{"configOptions":[{"id":"mode"}]}'
    )
