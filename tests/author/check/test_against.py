"""The checks of agents and conductors, on programs that keep all rules or break one."""

import sys
from pathlib import Path

import pytest

from conductor.author.check import against
from conductor.author.check.program import AGENT
from conductor.errors import ComponentError

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-I", "-S")


def statuses(*words: str, only: tuple[str, ...] = (), bound: float = 30.0) -> dict[str, str]:
    """How each case went."""
    return {each.name: each.status for each in against.outcomes(words, only, bound)}


def agent(fault: str = "") -> tuple[str, ...]:
    """The command line of the small agent."""
    return (*PYTHON, str(HERE / "an_agent.py"), fault)


def conductor(fault: str = "") -> tuple[str, ...]:
    """The command line of the small conductor."""
    return (*PYTHON, str(HERE / "a_conductor.py"), fault, AGENT)


def test_an_agent_that_keeps_the_rules_passes() -> None:
    found = statuses(*agent())
    assert found.pop("version-2") == "skip"
    assert set(found) == {check.name for check in against.AGENTS} - {"version-2"}
    assert set(found.values()) == {"pass"}


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("version", "handshake"),
        ("version", "later-version"),
        ("knows all", "unknown-request"),
        ("answers tellings", "notifications"),
        ("spells ids", "ids"),
        ("strays", "stray-answers"),
        ("twice", "at-once"),
        ("one session", "sessions"),
        ("params", "bad-params"),
        ("any session", "unknown-session"),
        ("takes all", "unknown-load"),
        ("takes all", "odd-mode"),
        ("silent", "turn"),
        ("reason", "turn"),
        ("mixes", "turn"),
        ("mixes", "side-by-side"),
        ("one turn", "later-turns"),
        ("counts", "cancel"),
        ("cancels", "cancel"),
        ("cancels", "nothing-to-cancel"),
        ("banner", "only-messages"),
    ],
)
def test_an_agent_that_breaks_a_rule_fails_its_case(fault: str, case: str) -> None:
    assert statuses(*agent(fault), only=(case,)) == {case: "fail"}


@pytest.mark.parametrize(
    ("end", "status"),
    [('{"stopReason":"end_turn"}', "pass"), ("{}", "pass"), ('{"stopReason":"because"}', "fail")],
)
def test_a_turn_of_version_2_ends_for_a_known_reason_or_without_any(end: str, status: str) -> None:
    assert statuses(*agent(f"2{end}"), only=("version-2",)) == {"version-2": status}


def test_spaces_around_a_message_that_are_not_taken_are_a_remark() -> None:
    assert statuses(*agent("tight"), only=("spaced-lines",)) == {"spaced-lines": "note"}


@pytest.mark.parametrize("fault", ["ends badly", "stays"])
def test_an_end_that_is_not_clean_is_a_remark(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "GRACE", 0.2 if fault == "stays" else 30.0)
    assert statuses(*agent(fault), only=("end-of-input",)) == {"end-of-input": "note"}


def test_an_agent_that_ends_early_is_said_to_have_ended() -> None:
    only = ("broken-lines",)
    (outcome,) = against.outcomes(agent("fragile"), only, 30.0)
    assert (outcome.status, outcome.why) == ("fail", "it has ended")
    assert outcome.stderr[-1].startswith("json.decoder.JSONDecodeError")


def test_a_conductor_that_passes_everything_passes() -> None:
    found = statuses(*conductor())
    assert set(found) == {check.name for check in against.CONDUCTORS}
    assert set(found.values()) == {"pass"}


@pytest.mark.parametrize(
    ("fault", "case", "status"),
    [
        ("prints anew", "repeated-names", "fail"),
        ("prints anew", "bytes", "note"),
        ("loses notifications", "notifications", "fail"),
    ],
)
def test_a_conductor_that_breaks_a_rule_fails_its_case(fault: str, case: str, status: str) -> None:
    assert statuses(*conductor(fault), only=(case,)) == {case: status}


def test_what_cannot_be_started_is_an_error() -> None:
    with pytest.raises(ComponentError, match="cannot start"):
        statuses("/nowhere/agent")
