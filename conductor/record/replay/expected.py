"""What a component said then, and whether what it says now is that.

Compared in order on each side and in each session; what it asks of services only by content.
"""

from __future__ import annotations

from collections import defaultdict, deque

from conductor.record import diff
from conductor.record.diff import Operation
from conductor.record.replay.messages import Told


class Expected:
    """A message it said then."""

    __slots__ = ("came", "told")

    def __init__(self, told: Told) -> None:
        self.told = told
        self.came = False


class Diverged(Exception):  # noqa: N818 - it is no error
    """What comes is not what was said then; without `said`, nothing comes. `text`: why."""

    def __init__(
        self, expected: Expected | None, said: Told | None, shown: bytes = b"", text: str = ""
    ) -> None:
        super().__init__()
        self.expected = expected.told if expected is not None else None
        self.said = said
        self.shown = shown
        self.text = text

    def operations(self) -> list[Operation]:
        """What differs between the two; nothing where they are not of one kind."""
        one, other = self.expected, self.said
        if one is None or other is None or "text" in (one.kind, other.kind):
            return []
        if (one.kind, one.method) != (other.kind, other.method):
            return []
        return diff.diff(diff.parse(one.shown()), diff.parse(self.shown))


class Expectations:
    """All that a component said then, as far as it has not come."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str | None], deque[Expected]] = defaultdict(deque)
        self._services: list[Expected] = []
        """What it asked of the conductor."""

    def add(self, one: Expected) -> None:
        """One more, in order."""
        if one.told.side == "c":
            self._services.append(one)
        else:
            self._lanes[one.told.lane].append(one)

    def take(self, told: Told, shown: bytes) -> Expected:
        """What a message is, of what was said then; it has come now. Raises `Diverged`."""
        expected = self._service(told, shown) if told.side == "c" else self._next(told, shown)
        expected.came = True
        return expected

    def _next(self, told: Told, shown: bytes) -> Expected:
        lane = self._lanes.get(told.lane)
        if not lane:
            raise Diverged(None, told, shown)
        if not _same(lane[0], told, shown):
            raise Diverged(lane[0], told, shown)
        return lane.popleft()

    def _service(self, told: Told, shown: bytes) -> Expected:
        for at, one in enumerate(self._services):
            if _same(one, told, shown):
                return self._services.pop(at)
        like = (one for one in self._services if one.told.method == told.method)
        raise Diverged(next(like, None), told, shown)


def _same(expected: Expected, told: Told, shown: bytes) -> bool:
    before = expected.told
    if (before.kind, before.side, before.method) != (told.kind, told.side, told.method):
        return False
    known = before.shown()
    if known == shown:
        return True
    if told.kind == "text":
        return False
    try:
        return not diff.diff(diff.parse(known), diff.parse(shown))
    except ValueError:
        return False
