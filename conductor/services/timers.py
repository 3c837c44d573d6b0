"""`timer`: wakes a component, which otherwise runs only when a message comes.

Guests have no clock to wait on: between two deliveries their code does not run at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.errors import agrees, counted
from conductor.services.calls import Grantee, ServiceError, bad_params, read

DATA_BYTES: Final = 4096
"""Bytes of the JSON that a timer sends along each time."""

_SHORTEST: Final = 10
_LONGEST: Final = 7 * 24 * 3600 * 1000
_AGAIN: Final = 100
"""Milliseconds after which a timer that could not fire tries again."""


class _Start(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    after_ms: int
    every_ms: int | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Stop(msgspec.Struct, forbid_unknown_fields=True):
    timer: str


class Fired(msgspec.Struct, omit_defaults=True):
    """The params of `timer/fired`. `count`: how often it has fired, from 1."""

    timer: str
    count: int
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Timers:
    """The timers of all components of one chain. `tell` sends a notification to a component: name,
    method, params.

    A timer does not fire for a component that still has bytes to take (`held`), or a slow one would
    fill the conductor's memory: a repeating timer skips that time and counts it, any other timer
    waits. Methods that perform a call raise `ServiceError`.
    """

    def __init__(self, tell: Callable[[str, str, bytes], None], held: Callable[[str], int]) -> None:
        self._tell = tell
        self._held = held
        self._running: dict[str, dict[str, asyncio.TimerHandle]] = {}
        self._number = 0

    def stop(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `timer/stop`."""
        handle = self._running.get(grantee.name, {}).pop(read(params, _Stop).timer, None)
        if handle is not None:
            handle.cancel()
        return {"stopped": handle is not None}

    def start(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `timer/start`."""
        request, most = read(params, _Start), grantee.limits["timers"]
        running = self._running.setdefault(grantee.name, {})
        for name, value in (("afterMs", request.after_ms), ("everyMs", request.every_ms)):
            if value is not None and not _SHORTEST <= value <= _LONGEST:
                raise bad_params(f"{name} must be {_SHORTEST} to {_LONGEST}")
        data = request.data if request.data is msgspec.UNSET else msgspec.Raw(bytes(request.data))
        if data is not msgspec.UNSET and len(bytes(data)) > DATA_BYTES:
            text = f"data has {len(bytes(data)):,} bytes; {DATA_BYTES:,} are allowed"
            raise ServiceError("too-large", text)
        if len(running) >= most:
            raise ServiceError(
                "too-many",
                f"{counted(most, 'timer')} {agrees(most, 'runs', 'run')} already (limit `timers`)\n"
                "hint: stop one first, or raise it with `,limit.timers=NUMBER` behind it",
            )
        self._number += 1
        timer = f"t{self._number}"
        self._arm(grantee.name, Fired(timer, 0, data), request.after_ms, request.every_ms)
        return {"timer": timer}

    def forget(self, component: str) -> None:
        """Stops every timer of a component: it is gone, or has been started again."""
        for handle in self._running.pop(component, {}).values():
            handle.cancel()

    def close(self) -> None:
        """Stops all timers."""
        for component in list(self._running):
            self.forget(component)

    def _arm(self, component: str, fired: Fired, wait: int, every: int | None) -> None:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(wait / 1000, self._ring, component, fired, every)
        self._running[component][fired.timer] = handle

    def _ring(self, component: str, fired: Fired, every: int | None) -> None:
        busy = self._held(component) > 0
        if every is not None:
            fired.count += 1
            self._arm(component, fired, every, every)
        elif busy:
            self._arm(component, fired, _AGAIN, None)
        else:
            fired.count += 1
            self._running[component].pop(fired.timer)
        if not busy:
            self._tell(component, "timer/fired", json_text.encode(fired))
