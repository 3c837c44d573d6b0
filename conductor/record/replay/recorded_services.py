"""Answers the calls of services as a trace holds them. Performs nothing outside of this run.

A call gets the answer that the same component got to the same call. Without an answer in the trace:
the time is that of the last answer, `random`, `log` and `metric` are performed, and values are kept
for this run only; all else is refused. No time passes: a timer that had fired fires at its start.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

import msgspec

from conductor.record.replay.recording import members
from conductor.record.replay.unplayed import Unplayed
from conductor.record.turns.line import CONDUCTOR, Line
from conductor.run.owner import Answer, Owner, Tell
from conductor.run.segment_spec import FIRED
from conductor.services.calls import ServiceError
from conductor.spec.redaction import redacted

_PERFORMED: Final = ("clock", "random", "log", "metric", "kv/")
"""How calls begin that are performed: values in a file that ends with the run."""
_NOT_RECORDED: Final = "in a replay nothing is performed, and the recording has no such call"
_EMPTY: Final = (b"", b"null", b"{}")
"""Params that hold nothing."""


class RecordedServices(Owner):
    """Stands in for the performers of services."""

    def __init__(self, events: Iterable[Line]) -> None:
        """
        Args:
            events: The messages between components and the conductor.
        """
        self._calls: Unplayed[Answer] = Unplayed()
        """The answers by component and call."""
        self._fired: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        """The params of timers that fired, by component and timer."""
        self._time: Answer | None = None
        self.refused: list[tuple[str, str]] = []
        """Calls that were refused: component and call."""
        self._read(events)

    def _read(self, events: Iterable[Line]) -> None:
        pending: dict[tuple[str, bytes], Line] = {}
        for event in events:
            if event.source == CONDUCTOR and event.type == "notification":
                if event.method == FIRED:
                    timer = str(members(event.params).get("timer"))
                    self._fired[event.target, timer].append(bytes(event.params))
            elif event.type == "request" and event.target == CONDUCTOR:
                pending[event.source, bytes(event.id)] = event
            elif event.type == "response" and event.source == CONDUCTOR:
                asked = pending.pop((event.target, bytes(event.id)), None)
                if asked is not None:
                    payload = bytes(event.payload)
                    answer = (None, payload) if event.is_error else (payload, None)
                    self._calls.add((asked.source, asked.method), _said(asked.params), answer)

    def perform(self, name: str, call: str, params: bytes | None, tell: Tell) -> Answer | None:
        """See `Owner`."""
        recorded = self._recorded(name, call, params or b"null")
        if recorded is not None:
            self._tell_fired(name, call, recorded, tell)
            if call == "clock":
                self._time = recorded
            return recorded
        if call == "clock" and self._time is not None:
            return self._time
        if call.startswith(_PERFORMED):
            return None
        self.refused.append((name, call))
        return None, ServiceError("replayed", _NOT_RECORDED).body(call)

    def _recorded(self, name: str, call: str, params: bytes) -> Answer | None:
        """Takes the answer that the recording has for this call."""
        key, params = (name, call), _said(params)
        # The trace may hold the params as they are, or without secrets.
        return self._calls.equal(key, params) or self._calls.equal(key, redacted(params))

    def _tell_fired(self, name: str, call: str, answer: Answer, tell: Tell) -> None:
        if call != "timer/start" or answer[0] is None:
            return
        timer = str(members(msgspec.Raw(answer[0])).get("timer"))
        for params in self._fired.pop((name, timer), ()):
            asyncio.get_running_loop().call_soon(tell, name, FIRED, params)


def _said(params: bytes) -> bytes:
    return b"null" if params in _EMPTY else bytes(params)
