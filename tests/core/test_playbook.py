"""The playbook itself: it must fail whenever something is unexpected or unasserted."""

import pytest

from conductor.core import Component
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook

PING = {"jsonrpc": "2.0", "method": "_ping"}
TWICE = {**PING, "params": [Hole("x"), Hole("x")]}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1},
}


def play() -> Playbook:
    return Playbook(Router([Component("agent")]))


def test_an_unasserted_effect_fails_at_the_end() -> None:
    with pytest.raises(AssertionError, match="not asserted"), play() as pb:
        pb >> ("agent", PING)


def test_an_unasserted_effect_fails_before_the_next_step() -> None:
    with pytest.raises(AssertionError, match="not asserted"), play() as pb:
        pb >> ("agent", PING) >> ("agent", PING)


def test_an_expectation_without_an_effect_fails() -> None:
    with pytest.raises(AssertionError, match="nothing follows"), play() as pb:
        pb >> ("client", b"") << ("agent", PING)


@pytest.mark.parametrize(
    "expected",
    [
        ("agent", PING),
        ("client", {**PING, "method": "_pong"}),
        ("client", {**PING, "more": 1}),
        ("client", b'{"jsonrpc":"2.0"}'),
        ("client", "p", PING),
        ("client", [PING]),
        Noted("info", "client", ""),
    ],
)
def test_a_different_effect_fails(expected: tuple[str, object]) -> None:
    with pytest.raises(AssertionError, match="expected"), play() as pb:
        pb >> ("agent", PING) << expected


def test_a_hole_keeps_its_value() -> None:
    with play() as pb:
        pb >> ("client", INITIALIZE)
        pb << ("agent", {**INITIALIZE, "id": Hole("id")})
        pb >> ("agent", {"jsonrpc": "2.0", "id": Hole("id"), "result": {"a": [1]}})
        pb << ("client", {"jsonrpc": "2.0", "id": 1, "result": {"a": [Hole("one")]}})
    assert pb.values["one"] == 1


def test_a_hole_does_not_take_a_second_value() -> None:
    with pytest.raises(AssertionError, match="expected"), play() as pb:
        pb >> ("agent", {**PING, "params": [1, 2]}) << ("client", TWICE)


def test_it_must_be_a_context_manager() -> None:
    pb = play() >> ("client", b"")
    with pytest.raises(AssertionError, match="context manager"):
        pb.__del__()
    pb.__exit__(None, None, None)
