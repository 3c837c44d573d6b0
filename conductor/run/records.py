"""The records of one chain while it runs: log, traces, audit, the last messages, counts."""

from __future__ import annotations

import asyncio
import collections
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from conductor.core import Closure, Violated, service_table
from conductor.errors import with_log
from conductor.run.log import ChainLog, Change, Happened, Item, Sink
from conductor.run.owner import Log
from conductor.run.planned import Planned
from conductor.run.report_checks import ViolationText
from conductor.run.ring import Ring

if TYPE_CHECKING:
    from conductor.run.ring import Saved

_FAILURES: Final = frozenset({"restart", "bypass"})
"""Events after which the chain goes on, and the ring is written: a component failed."""


class Records:
    """The records of one chain."""

    def __init__(
        self,
        log: Log,
        *,
        sinks: Sequence[Sink[Item]] = (),
        log_file: str = "",
    ) -> None:
        """
        Args:
            log: Writes a line: level, component name, text.
            sinks: Each gets every entry.
            log_file: The path of the log file, which failures name; empty: there is none.
        """
        self.log = log
        self.ring = next((sink for sink in sinks if isinstance(sink, Ring)), None)
        """Keeps the last entries, for a file once something fails; None: there is no ring."""
        self.entries = ChainLog(sinks, log)
        """The log, for all sinks."""
        self.events: Counter[tuple[str, str]] = Counter()
        """The events of components, by event and name."""
        self._log_file = log_file
        self._saved: Saved | None = None
        """The file of the ring that is written when the chain has failed."""

    # -- the components ------------------------------------------------------------------------

    def begin(self, planned: Sequence[Planned]) -> None:
        """A chain is about to run."""
        self.entries.chain(planned, {})
        for violation in (one for each in planned for one in each.would):
            self.violated(violation)

    def rearranged(self, planned: Sequence[Planned], joined: Mapping[str, str]) -> None:
        """The chain has these components from now on. `joined`: the names of new ones, by their
        former names."""
        self.entries.chain(planned, joined)
        for each in planned:
            if each.name in joined.values():
                for violation in each.would:
                    self.violated(violation)
                for name in each.names:
                    del self.events["bypass", name]  # the component is in the chain again

    def audited_among(self, planned: Iterable[Planned]) -> list[str]:
        """The names of those whose changes the router reports, for an audit."""
        if not self.entries.wants(Change):
            return []
        # A host that polices its guests reports their changes.
        reported = service_table.CHANGED
        return [each.name for each in planned if reported not in (each.component.services or ())]

    # -- events --------------------------------------------------------------------------------

    def happened(self, event: str, name: str, text: str) -> bool:
        """Records an event of a component. Returns whether the ring is to be written for it."""
        self.events[event, name] += 1
        self.entries.add(Happened(event, name, text))
        return self.ring is not None and event in _FAILURES and self.ring.may_save()

    def left_out(self, name: str) -> bool:
        """Whether a component has ended and the chain goes on without it."""
        return self.events["bypass", name] > 0

    def violated(self, violation: Violated) -> None:
        """A component broke a rule, and the act has been undone already; or it would have."""
        self.events["would" if violation.would else "violation", violation.peer] += 1
        self.entries.add(violation)
        if not violation.again:
            level = "info" if violation.would else "warning"
            self.log(level, violation.peer, ViolationText.of(violation))

    def adapted(self, name: str, text: str, again: bool) -> None:
        """A peer got words for content that it does not take: always on record, logged once."""
        self.entries.add(Happened("adapt", name, text))
        if not again:
            self.log("warning", name, text)

    async def close(self, failure: Closure | None) -> None:
        """The chain has ended."""
        self.entries.end(failure.text if failure is not None else None)
        if self.entries.watches:
            await asyncio.to_thread(self.entries.close)
        else:
            self.entries.close()

    # -- the last messages ---------------------------------------------------------------------

    def named(self, reason: Closure, mode: Callable[[], str]) -> Closure:
        """Why the chain fails, with the files that tell more; `mode` is the mode of the router."""
        if "log" in reason.data or "messages" in reason.data:
            return reason
        self.entries.drain()
        if self.ring is not None and self.ring.begun and self._saved is None:
            self._saved = self.ring.save(reason.text, mode)
        log, messages = self._log_file, self._saved.path if self._saved is not None else ""
        files = {word: path for word, path in (("log", log), ("messages", messages)) if path}
        hint = with_log(reason.hint, log, messages)
        return Closure(reason.text, hint, {**reason.data, **files})

    def save_failed(self) -> None:
        """Writes the rest of the file that a failure has begun."""
        if self._saved is not None:
            collections.deque(self._saved.work, maxlen=0)

    async def save_ring(self, why: str, mode: Callable[[], str]) -> str:
        """Writes the ring to a file, a little at a time, so that the chain goes on meanwhile.

        Args:
            why: The reason, for the file's readers.
            mode: The mode of the router.

        Returns:
            The path; empty: there is no ring, or no file can be made.
        """
        if self.ring is None:
            return ""
        self.entries.drain()
        saved = self.ring.save(why, mode)
        try:
            for _ in saved.work:
                await asyncio.sleep(0)
        finally:
            collections.deque(saved.work, maxlen=0)  # the chain ends meanwhile: writes the rest
        return saved.path
