"""The spans of a trace that is in a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Iterator

from conductor.record.turns.fold import Fold
from conductor.record.turns.line import read_line
from conductor.record.turns.reader import Reader
from conductor.telemetry import payloads
from conductor.telemetry.span import Ids, Span
from conductor.telemetry.spans import Translator


class Recorded:
    """The spans of a trace. The same file gives the same ids."""

    def __init__(
        self,
        trace: Reader,
        path: str,
        *,
        content: bool,
        pictures: bool,
        turns: Container[int] | None = None,
    ) -> None:
        """
        Args:
            trace: The trace that was read from the file.
            path: The file.
            content: Whether words of people and agents are exported.
            pictures: Whether there are spans of notifications too.
            turns: The numbers of the turns that are wanted; None: all.
        """
        self._trace = trace
        self._turns = turns
        first = trace.line(0)
        seed = hashlib.sha256(first + trace.line(1) + trace.line(2)).digest()
        self._fold = Fold(most_words=payloads.MOST_TEXT)
        self._translator = Translator(self._fold, Ids(seed), content=content, pictures=pictures)
        self.began = _began(trace, path)
        """When the trace began, in seconds of Unix time."""

    @property
    def components(self) -> list[str]:
        """The names in the order of the chain, as far as they are known by now."""
        return self._translator.components

    def __iter__(self) -> Iterator[Span]:
        for number in range(len(self._trace)):
            event = self._fold.take(read_line(self._trace.line(number)))
            if event is not None:
                yield from filter(self._is_wanted, self._translator.take(event))
        yield from filter(self._is_wanted, self._translator.finish())

    def _is_wanted(self, span: Span) -> bool:
        return self._turns is None or self._trace.turn_of(span.event) in self._turns


def _began(trace: Reader, path: str) -> float:
    """When a trace began. Traces of other programs do not say: there the file's own time is the
    time of the last event."""
    began = trace.head().began
    if began is not None:
        return began
    last = read_line(trace.line(len(trace) - 1))
    try:
        return os.stat(path).st_mtime - (last.ts if last is not None else 0.0)
    except OSError:
        return 0.0
