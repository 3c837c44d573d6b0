"""Failures of one component: the action after each, and things that are due."""

import pytest

from conductor.core.restart_state import CHOICES, Action, Bypass, Due, GiveUp, Recovery, Restart

WHEN_EXHAUSTED: dict[str, Action] = {
    "restart": GiveUp(),
    "restart+bypass": Bypass(),
}


@pytest.mark.parametrize(("choice", "action"), [("fail", GiveUp()), ("bypass", Bypass())])
def test_without_restarts_every_failure_is_the_same(choice: str, action: Action) -> None:
    recovery = Recovery(choice)
    assert [recovery.failed(now) for now in (0.0, 1.0, 2.0, 3.0)] == [action] * 4


@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice.startswith("restart")])
def test_three_restarts_a_minute_each_a_little_later(choice: str) -> None:
    recovery = Recovery(choice)
    restarts = [Restart(0.0, 1), Restart(0.2, 2), Restart(1.0, 3)]
    assert [recovery.failed(now) for now in (0.0, 10.0, 20.0)] == restarts
    assert recovery.failed(60.0) == WHEN_EXHAUSTED[choice]
    assert recovery.failed(60.1) == Restart(1.0, 3)  # the first failure is over a minute ago
    assert recovery.failed(200.0) == Restart(0.0, 1)


@pytest.mark.parametrize(
    ("choice", "action"),
    [("restart", GiveUp()), ("restart+bypass", Bypass()), ("bypass", Bypass()), ("fail", GiveUp())],
)
def test_who_is_silent_when_it_is_started_again_is_not_started_once_more(
    choice: str, action: Action
) -> None:
    recovery = Recovery(choice)
    recovery.failed(0.0)
    recovery.silent()
    assert recovery.failed(70.0) == action


def test_what_is_due_is_taken_once() -> None:
    due: Due[str] = Due()
    assert not due
    assert due.seconds(0.0) is None
    due.add("late", 5.0)
    due.add("early", 2.0)
    assert due
    assert due.seconds(1.5) == 0.5
    assert due.take(1.5) == []
    assert due.take(2.0) == ["early"]
    assert due.seconds(9.0) == 0.0
    assert due.take(9.0) == ["late"]
    assert not due
