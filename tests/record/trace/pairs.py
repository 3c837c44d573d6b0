"""Whether a trace is true: each request answered once at every hop, and each message followed back.

Knows nothing of how traces are made. `python -m tests.record.trace.pairs FILE` checks one.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def read(path: Path) -> list[Event]:
    """The events of a trace."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [one for one in found if one["type"] != "_conductor"]


def wrong(events: Iterable[Event], *, whole: bool = True) -> list[str]:
    """The faults of a trace; `whole`: nothing was open when the trace ended."""
    said: list[str] = []
    asked: dict[int, Event] = {}
    answered: set[int] = set()
    got: defaultdict[int, list[Event]] = defaultdict(list)
    """The hops of each message, by its number."""
    past: list[Event] = []
    last = 0.0
    for event in events:
        own, kind = event["_conductor"], event["type"]
        what = f"{kind} {own.get('n')} {event['from']} -> {event['to']}"
        if event["ts"] < last:
            said.append(f"{what}: before what stands above it")
        last = event["ts"]
        if kind == "request":
            if event["id"] in asked:
                said.append(f"{what}: its id {event['id']} is another's")
            asked[event["id"]] = event
        elif kind == "response":
            question = asked.get(event["id"])
            if question is None:
                said.append(f"{what}: nobody asked")
                continue
            said += [f"{what}: {one}" for one in _answer(event, question)]
            if event["id"] in answered:
                said.append(f"{what}: a second answer")
            answered.add(event["id"])
        if "n" not in own:
            if "conductor" not in (event["from"], event["to"]):
                said.append(f"{what}: it has no number")
            continue
        if not _was_given(event, got):
            said.append(f"{what}: it was never given {own['passes']}")
        got[own["n"]].append(event)
        if own.get("past"):
            past.append(event)
    for event in past:
        number, name = event["_conductor"]["n"], event["from"]
        if not any((one["type"], one["to"]) == ("response", name) for one in got[number]):
            said.append(f"response {number} past {name} to {event['to']}: it never came to that")
    if whole:
        for number in sorted(asked.keys() - answered):
            event = asked[number]
            what = f"{event['method']} {event['from']} -> {event['to']}"
            said.append(f"request {event['_conductor'].get('n')} {what}: never answered")
    return said


def _answer(event: Event, question: Event) -> list[str]:
    own, said = event["_conductor"], []
    if (event["from"], event["to"]) != (question["to"], question["from"]):
        said.append(f"asked by {question['from']} of {question['to']}")
    if own.get("of") != question["_conductor"].get("n"):
        said.append(f"it is of {own.get('of')}, not {question['_conductor'].get('n')}")
    if own["ms"] < 0:
        said.append(f"{own['ms']} ms")
    return said


def _was_given(event: Event, got: dict[int, list[Event]]) -> bool:
    """Whether who passes a message on was given it before."""
    before = event["_conductor"].get("passes")
    return before is None or any(
        one["to"] == event["from"] and one["type"] == event["type"] for one in got[before]
    )


def counts(events: Iterable[Event]) -> str:
    """The number of events of each type, in a line."""
    kinds = [event["type"] for event in events]
    return ", ".join(f"{kinds.count(one)} {one}s" for one in ("request", "response"))


if __name__ == "__main__":
    FOUND = read(Path(sys.argv[1]))
    WRONG = wrong(FOUND)
    print("\n".join([*WRONG, f"{counts(FOUND)}; {len(WRONG)} wrong"]))
    sys.exit(bool(WRONG))
