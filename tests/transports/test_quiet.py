"""When memory is given back: soon after what was large, and now and then otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.transports import buffers
from conductor.transports.buffers import CHUNK, Tidying


class Loop:
    """An event loop whose time a test lets pass."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, Callable[[], None], Timer]] = []

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer()
        self._due.append((self._now + delay, callback, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_later(0, callback)

    def waits(self) -> int:
        """How many calls are still to be made."""
        return sum(not timer.cancelled for _, _, timer in self._due)

    def passes(self, seconds: float) -> None:
        """Calls what is due by then."""
        end = self._now + seconds
        while due := [one for one in self._due if one[0] <= end]:
            first = min(due, key=lambda one: one[0])
            self._due.remove(first)
            self._now, callback, timer = first
            if not timer.cancelled:
                callback()
        self._now = end


class Timer:
    """A call to come."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Scene:
    """A loop, and what is done on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Loop()
        self.given: list[float] = []
        monkeypatch.setattr(buffers, "give_back", lambda: self.given.append(self.loop.time()))
        loop: Any = self.loop
        self.tidying = Tidying(loop)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_it_is_done_when_nothing_large_has_come_for_a_moment(scene: Scene) -> None:
    for _ in range(3):
        scene.tidying.passed(CHUNK)
        scene.loop.passes(buffers.QUIET * 0.75)
    assert scene.given == []
    scene.loop.passes(1)
    assert scene.given == [pytest.approx(buffers.QUIET * 2.5)]
    scene.tidying.passed(CHUNK)  # it is armed anew
    scene.loop.passes(1)
    assert len(scene.given) == 2


def test_it_is_done_once_after_traffic_has_ceased(scene: Scene) -> None:
    scene.loop.passes(10)
    for _ in range(2):
        scene.tidying.passed(CHUNK - 1)
        scene.loop.passes(5)
    assert scene.given == []
    scene.loop.passes(60)
    assert scene.given == [25]


def test_what_was_done_soon_is_not_done_again(scene: Scene) -> None:
    scene.tidying.passed(CHUNK)
    scene.loop.passes(60)
    assert len(scene.given) == 1


def test_it_is_done_now_and_then_where_traffic_never_ceases(scene: Scene) -> None:
    for _ in range(18):
        scene.tidying.passed(1)
        scene.loop.passes(5)
    assert scene.given == [30, 60, 90]


@pytest.mark.parametrize(("held", "connections"), [(0, 1024), (CHUNK - 1, 513), (60_000_000, 2)])
def test_what_has_ended_piles_up_only_so_far(scene: Scene, held: int, connections: int) -> None:
    for _ in range(connections - 1):
        scene.tidying.ended(held)
    scene.loop.passes(0)
    assert scene.given == []
    for _ in range(connections + 1):  # once, and anew
        scene.tidying.ended(held)
        scene.loop.passes(0)
    assert scene.given == [0, 0]


def test_what_has_ended_goes_in_the_next_quiet_moment(scene: Scene) -> None:
    scene.loop.passes(12)
    scene.tidying.ended(0)
    scene.loop.passes(60)
    assert scene.given == [20]


def test_nothing_is_done_once_stopped(scene: Scene) -> None:
    scene.tidying.passed(CHUNK)
    scene.tidying.stop()
    scene.loop.passes(60)
    assert scene.given == []
    assert scene.loop.waits() == 0
