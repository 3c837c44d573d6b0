"""Large traces, as a chain of `datetime` and `redact` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

COMPONENTS: Final = ("datetime", "redact")
_CHUNK: Final = "the test fails since the token has expired; "


def write(path: Path, *, turns: int, chunks: int, prompt: str = "fix the login test") -> int:
    """Writes a trace of so many turns with so many chunks of an answer each; its events."""
    events = 0
    with path.open("w", encoding="utf-8") as file:
        names = [*COMPONENTS, "demo"]
        head = {"type": "_conductor", "format": 1, "content": "all", "components": names}
        file.write(json.dumps(head) + "\n")
        trace = _Trace()
        for number in range(turns):
            for event in trace.turn(f"{prompt} {number + 1}", chunks):
                file.write(json.dumps(event, separators=(",", ":")) + "\n")
                events += 1
    return events


class _Trace:
    def __init__(self) -> None:
        self._n = 0
        self._ts = 0.5

    def _event(self, kind: str, source: str, target: str, ms: float, **more: Any) -> dict[str, Any]:
        self._ts += ms / 1000
        own = {"n": self._next(), **more.pop("own", {})}
        ends = {"from": source, "to": target}
        stamp = {"type": kind, "ts": round(self._ts, 6), "protocol": "acp", **ends}
        return {**stamp, **more, "session": "s-1", "_conductor": own}

    def _next(self) -> int:
        self._n += 1
        return self._n

    def turn(self, prompt: str, chunks: int) -> Iterator[dict[str, Any]]:
        """The events of a turn."""
        way = ["client", *COMPONENTS, "agent"]
        blocks = [{"type": "text", "text": prompt}]
        asked: list[int] = []
        for place, (source, target) in enumerate(pairwise(way)):
            if source == "datetime":
                date = '<current-date date="2026-11-24"/>'
                blocks = [{"type": "text", "text": date}, *blocks]
            own: dict[str, Any] = {"passes": asked[-1]} if place else {}
            params = {"sessionId": "s-1", "prompt": blocks}
            more = {"method": "session/prompt", "id": self._n, "params": params, "own": own}
            yield self._event("request", source, target, 1.5, **more)
            asked.append(self._n)
        for number in range(chunks):
            yield from self._chunk(number)
        for source, target in zip(way[:0:-1], way[-2::-1], strict=True):
            number = asked.pop()
            own = {"of": number, "method": "session/prompt", "ms": 1000.0}
            more = {"id": number, "is_error": False, "payload": {"stopReason": "end_turn"}}
            yield self._event("response", source, target, 1.0, **more, own=own)

    def _chunk(self, number: int) -> Iterator[dict[str, Any]]:
        """A chunk of the answer, which goes past `datetime`."""
        content = {"type": "text", "text": f"{_CHUNK}\n\n" if number % 20 == 19 else _CHUNK}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "s-1", "update": update}
        more = {"method": "session/update", "params": params}
        yield self._event("notification", "agent", "redact", 0.4, **more)
        own = {"passes": self._n}
        yield self._event("notification", "redact", "client", 0.05, **more, own=own)
