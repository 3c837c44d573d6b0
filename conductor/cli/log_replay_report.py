"""The result of a replay, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from conductor.cli import report
from conductor.errors import a, counted, visible
from conductor.record import diff
from conductor.record.replay.messages import SIDES, SidedMessage
from conductor.record.replay.player import Divergence, ReplayOutcome

_SHOWN: Final = 8
"""Differences within one message that are shown."""

_LONG: Final = 240
"""Characters of a value that are shown."""


def tell(name: str, outcomes: list[ReplayOutcome], runs: int) -> None:
    """Prints the result of a replay. `runs`: instances that were recorded."""
    last = outcomes[-1]
    divergence = last.divergence
    if divergence is None:
        expected = sum(outcome.expected for outcome in outcomes)
        delivered = sum(outcome.delivered for outcome in outcomes)
        times = f", in {runs} runs" if runs > 1 else ""
        report.say(f"same    {name}: {_count(expected)} sent, {delivered} received{times}")
        return
    where = f" of run {len(outcomes)}" if runs > 1 else ""
    if divergence.number > last.expected:
        place = f"after {_count(last.expected)}{where}"
    else:
        place = f"at message {divergence.number} of {last.expected}{where}"
    lines = (f"    {line}" for line in explained(divergence))
    report.say(f"DIFFERS {name}: {place}", *lines)
    report.error(
        f"`{name}` does not send what it sent when it was recorded",
        "if you want the change, record the trace anew",
    )


def _count(number: int) -> str:
    return counted(number, "message")


def explained(divergence: Divergence) -> Iterator[str]:
    """A difference, for people: `-` is what was sent then, `+` what is sent now."""
    expected, sent, operations = divergence.expected, divergence.sent, divergence.operations
    for message, sign in ((expected, "-"), (sent, "+")):
        if message is not None:
            yield f"{sign} {_headline(message)}"
            if not operations:
                yield f"  {_cut(message.content())}"
    if sent is None and expected is not None:
        yield f"+ nothing{f': {divergence.text}' if divergence.text else ''}"
    elif expected is None and sent is not None:
        yield "- nothing more like it"
    elif divergence.text:
        yield divergence.text
    for entry in _changes(divergence)[:_SHOWN]:
        yield entry["path"] or "all of it"
        if "before" in entry:
            yield f"  - {_cut(entry['before'])}"
        if "after" in entry:
            yield f"  + {_cut(entry['after'])}"
    if len(operations) > _SHOWN:
        yield f"and {len(operations) - _SHOWN} more differences"


def _headline(message: SidedMessage) -> str:
    what = {"response": "answer to ", "text": "line that is no message"}.get(message.kind, "")
    of = f" of session {json.loads(message.session)}" if message.session else ""
    kind = "" if message.kind in ("response", "text") else f", {a(message.kind)},"
    return f"{what}{message.method}{kind} to the {SIDES[message.side]}{of}"


def _changes(divergence: Divergence) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    for operation in divergence.operations:
        entry: dict[str, Any] = {"op": operation.op, "path": diff.pointer(operation.path)}
        if operation.op != "add":
            entry["before"] = diff.encode(operation.before)
        if operation.op != "remove":
            entry["after"] = diff.encode(operation.after)
        changes.append(entry)
    return changes


def _cut(text: bytes) -> str:
    shown = visible(text.decode("utf-8", "backslashreplace"))
    return (
        shown if len(shown) <= _LONG else f"{shown[:_LONG]}… ({counted(len(shown), 'character')})"
    )


# -- for programs ----------------------------------------------------------------------------------


def tell_json(name: str, outcomes: list[ReplayOutcome], runs: int) -> None:
    """Prints the result of a replay as one JSON object."""
    divergence = outcomes[-1].divergence
    members: dict[str, Any] = {
        "component": name,
        "same": divergence is None,
        "runs": runs,
        "given": sum(outcome.delivered for outcome in outcomes),
        "said": sum(outcome.expected for outcome in outcomes),
        "difference": None,
    }
    if divergence is not None:
        members["difference"] = {
            "run": len(outcomes),
            "message": divergence.number,
            "expected": _message(divergence.expected),
            "said": _message(divergence.sent),
            "diff": [
                {key: value if isinstance(value, str) else _loaded(value) for key, value in
                 entry.items()}
                for entry in _changes(divergence)
            ],
            "text": divergence.text,
        }  # fmt: skip
    report.say(json.dumps(members))


def _message(message: SidedMessage | None) -> dict[str, Any] | None:
    if message is None:
        return None
    return {
        "side": message.side,
        "kind": message.kind,
        "method": message.method,
        "session": json.loads(message.session) if message.session else None,
        message.member or "text": _loaded(message.body or b"null"),
    }


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "backslashreplace")
