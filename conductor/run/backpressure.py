"""Backpressure: which peers wait while another cannot take more.

Messages originate at the ends of the chain, so the ends wait first: when a peer's outbox rises
above the high water mark the other end is not read any more, while the proxies between empty their
outboxes. Only above the hard mark does a proxy wait. A peer never waits for its own outbox, so a
client that does not read can still cancel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from conductor.spec.options import Options
from conductor.transports.base import Transport


class Backpressure:
    """Decides which peers are paused, from how much each transport holds."""

    def __init__(
        self,
        transports: Mapping[str, Transport],
        terminals: Sequence[str],
        options: Options,
        on_stalled: Callable[[str], None],
    ) -> None:
        self._transports = transports
        self._terminals = terminals
        self._options = options
        self._on_stalled = on_stalled
        self._full: dict[str, float] = {}
        """Peers above the high water mark, and when they last took something."""
        self._waiting: dict[str, set[str]] = {}
        """The peers that are paused, and for which others."""
        self._timer: asyncio.TimerHandle | None = None

    def wrote(self, name: str, source: str) -> None:
        """Something was queued for `name` because of `source`."""
        held = self._transports[name].buffered
        if held <= self._options.high_water:
            return
        if name not in self._full:
            self._full[name] = asyncio.get_running_loop().time()
            self._watch()
        for terminal in self._terminals:
            if terminal != name:
                self._pause(terminal, name)
        # Proxies wait only here: a proxy that is not read may hold the very answer that `name`
        # needs before it takes more. Without any bound, a proxy that floods would fill memory.
        if held > self._options.hard_water and source != name:
            self._pause(source, name)

    def drained(self, name: str) -> None:
        """`name` took something."""
        if name not in self._full:
            return
        self._full[name] = asyncio.get_running_loop().time()
        # Well below the high mark, so that a source is not paused and resumed at each message.
        if self._transports[name].buffered <= self._options.low_water:
            self.forget(name)

    def forget(self, name: str) -> None:
        """No peer waits for `name` any more."""
        self._full.pop(name, None)
        for source, reasons in list(self._waiting.items()):
            reasons.discard(name)
            if not reasons:
                del self._waiting[source]
                self._transports[source].resume()

    def drop(self, name: str) -> None:
        """A peer is gone, or gets another name: it waits for nobody, and nobody waits for it."""
        self.forget(name)
        if self._waiting.pop(name, None) is not None:
            self._transports[name].resume()

    def _pause(self, source: str, reason: str) -> None:
        reasons = self._waiting.get(source)
        if reasons is None:
            self._waiting[source] = {reason}
            self._transports[source].pause()
        else:
            reasons.add(reason)

    def _watch(self) -> None:
        if self._timer is None:
            delay = max(self._options.stall / 4, 0.05)
            self._timer = asyncio.get_running_loop().call_later(delay, self._check)

    def _check(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for name, since in list(self._full.items()):
            if now - since >= self._options.stall:
                self._on_stalled(name)
        if self._full:
            self._watch()
