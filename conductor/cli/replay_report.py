"""What came of a replay, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from conductor.cli import report
from conductor.errors import visible
from conductor.record import diff
from conductor.record.replay.messages import SIDES, Told
from conductor.record.replay.player import Difference, Outcome

_SHOWN: Final = 8
"""Differences within one message that are shown."""

_LONG: Final = 240


def tell(name: str, outcomes: list[Outcome], runs: int) -> None:
    last = outcomes[-1]
    if last.difference is None:
        said = sum(one.said for one in outcomes)
        given = sum(one.given for one in outcomes)
        times = f", in {runs} runs" if runs > 1 else ""
        report.say(f"same    {name}: {_count(said)} said, {given} given{times}")
        return
    where = f" of run {len(outcomes)}" if runs > 1 else ""
    one = last.difference
    if one.number > last.said:
        place = f"after {_count(last.said)}{where}"
    else:
        place = f"at message {one.number} of {last.said}{where}"
    report.say(f"DIFFERS {name}: {place}", *(f"    {line}" for line in explained(one)))
    report.error(
        f"`{name}` does not say what it said when it was recorded",
        "if that is what you want, record it anew",
    )


def _count(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


def explained(one: Difference) -> Iterator[str]:
    """A difference, for people: `-` is what was said then, `+` what is said now."""
    for told, sign in ((one.expected, "-"), (one.said, "+")):
        if told is not None:
            yield f"{sign} {_headline(told)}"
            if not one.operations:
                yield f"  {_cut(told.shown())}"
    if one.said is None and one.expected is not None:
        yield f"+ nothing{f': {one.text}' if one.text else ''}"
    elif one.expected is None and one.said is not None:
        yield "- nothing more like it"
    elif one.text:
        yield one.text
    for entry in _changes(one)[:_SHOWN]:
        yield entry["path"] or "all of it"
        if "before" in entry:
            yield f"  - {_cut(entry['before'])}"
        if "after" in entry:
            yield f"  + {_cut(entry['after'])}"
    if len(one.operations) > _SHOWN:
        yield f"and {len(one.operations) - _SHOWN} more differences"


def _headline(told: Told) -> str:
    what = {"response": "answer to ", "text": "line that is no message"}.get(told.kind, "")
    of = f" of session {json.loads(told.session)}" if told.session else ""
    kind = "" if told.kind in ("response", "text") else f", a {told.kind},"
    return f"{what}{told.method}{kind} to the {SIDES[told.side]}{of}"


def _changes(one: Difference) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for operation in one.operations:
        entry: dict[str, Any] = {"op": operation.op, "path": diff.pointer(operation.path)}
        if operation.op != "add":
            entry["before"] = diff.encode(operation.before)
        if operation.op != "remove":
            entry["after"] = diff.encode(operation.after)
        found.append(entry)
    return found


def _cut(text: bytes) -> str:
    shown = visible(text.decode("utf-8", "backslashreplace"))
    return shown if len(shown) <= _LONG else f"{shown[:_LONG]}… ({len(shown):,} characters)"


# -- for programs ----------------------------------------------------------------------------------


def tell_json(name: str, outcomes: list[Outcome], runs: int) -> None:
    last = outcomes[-1]
    told: dict[str, Any] = {
        "component": name,
        "same": last.difference is None,
        "runs": runs,
        "given": sum(one.given for one in outcomes),
        "said": sum(one.said for one in outcomes),
        "difference": None,
    }
    if last.difference is not None:
        told["difference"] = _difference(last.difference, len(outcomes))
    report.say(json.dumps(told))


def _difference(one: Difference, run: int) -> dict[str, Any]:
    def message(told: Told | None) -> dict[str, Any] | None:
        if told is None:
            return None
        return {
            "side": told.side,
            "kind": told.kind,
            "method": told.method,
            "session": json.loads(told.session) if told.session else None,
            told.member or "text": _loaded(told.body or b"null"),
        }

    diff = [
        {name: value if isinstance(value, str) else _loaded(value) for name, value in entry.items()}
        for entry in _changes(one)
    ]
    return {
        "run": run,
        "message": one.number,
        "expected": message(one.expected),
        "said": message(one.said),
        "diff": diff,
        "text": one.text,
    }


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "backslashreplace")
