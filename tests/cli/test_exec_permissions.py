"""How `conductor exec` answers requests for permission."""

import json
from typing import Any

import pytest

from conductor.client.handlers import described, option_of
from tests.harness.process.command import Running, conductor

KINDS = ("allow_always", "allow_once", "reject_always", "reject_once")
ALL = [{"optionId": f"the {kind}", "name": kind, "kind": kind} for kind in KINDS]
MANY = [ALL[3]] * 101
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def selected(kind: str) -> dict[str, Any]:
    """The answer that picks the option of this kind."""
    return {"outcome": {"outcome": "selected", "optionId": f"the {kind}"}}


def asked(options: object, *arguments: str) -> tuple[object, str]:
    """The answer to the agent that offers these options, and the text for the user."""
    ran = conductor("exec", "py:tests.cli.agents:asking", "-p", json.dumps(options), *arguments)
    assert ran.code == 0
    return json.loads(ran.out), ran.err


@pytest.mark.parametrize("options", [ALL, ALL[::-1]])
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([], "reject_once"),
        (["--permissions", "deny"], "reject_once"),
        (["--permissions", "none"], "reject_once"),
        (["--permissions", "allow-once"], "allow_once"),
        (["--permissions", "once"], "allow_once"),
    ],
)
def test_options_are_picked_by_kind(options: list[object], arguments: list[str], kind: str) -> None:
    answer, err = asked(options, *arguments)
    assert answer == selected(kind)
    assert r"Erase\u{1b}[2J everything" in err
    assert "\x1b" not in err


def test_what_decides_for_longer_is_never_picked() -> None:
    lasting = [one for one in ALL if one["kind"].endswith("always")]
    assert asked(lasting)[0] == CANCELLED
    assert asked(lasting, "--permissions", "allow-once")[0] == CANCELLED
    assert asked(ALL[:1] + ALL[2:], "--permissions", "allow-once")[0] == selected("reject_once")
    assert asked([ALL[1]])[0] == CANCELLED


def test_an_id_of_several_kinds_is_never_picked() -> None:
    """Who knows which of them an agent takes it for: a no could become a yes."""
    both = [{"optionId": "x", "kind": kind} for kind in ("allow_once", "reject_once")]
    for options in (
        both,
        both[::-1],
        [*both[1:], {"optionId": "x"}],
        [*both[1:], ALL[0] | both[0]],
    ):
        assert asked(options, "--permissions", "deny")[0] == CANCELLED
    assert asked(both, "--permissions", "once")[0] == CANCELLED
    assert asked([*both[:1], {"optionId": "x", "kind": "allow_always"}], "--permissions", "once")[
        0
    ] == (CANCELLED)
    assert asked([*both, ALL[3]], "--permissions", "deny")[0] == selected("reject_once")
    same = [ALL[3], {**ALL[3], "name": "No!"}]
    assert asked(same, "--permissions", "deny")[0] == selected("reject_once")


def test_a_question_names_its_session() -> None:
    ran = conductor("exec", "py:tests.cli.agents:asking_for_nobody", "-p", "hi")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "-32602 `sessionId` must be a string\n" * 2


@pytest.mark.parametrize(
    "options", [None, {}, [], ["reject_once"], [{"kind": "reject_once"}], MANY]
)
def test_options_that_are_none(options: object) -> None:
    assert option_of(options, "reject_once") is None
    assert asked(options)[0] == CANCELLED


def test_few_of_many_files_are_shown() -> None:
    places: list[object] = [None, {}, *[{"path": "/f"}] * 23]
    assert described({"locations": places})[1] == ["/f"] * 18 + ["and 5 other files"]


@pytest.mark.parametrize(
    ("arguments", "told"), [([], "reject-once"), (["--permissions=once"], "allow-once")]
)
def test_through_a_sandboxed_proxy(arguments: list[str], told: str) -> None:
    ran = conductor("exec", "datetime", "demo", "-p", "/permission Dig a hole", *arguments)
    assert (ran.code, ran.out) == (0, f"permission: {told}\n")
    assert "Dig a hole" in ran.err


def test_a_question_taken_back_is_answered_as_cancelled() -> None:
    with Running("exec", "py:tests.cli.agents:withdrawing", "-p", "x", terminal=True) as running:
        ran = running.end()
    assert (ran.code, ran.out) == (0, "-32800\n")


@pytest.mark.parametrize(
    ("typed", "kind"), [("y\n", "allow_once"), ("n\n", "reject_once"), ("\n", "reject_once")]
)
def test_on_a_terminal_the_user_is_asked(typed: str, kind: str) -> None:
    with Running(
        "exec", "py:tests.cli.agents:asking", "-p", json.dumps(ALL), terminal=True
    ) as running:
        running.wait_for(running.err, "allow it this once? [y/N] ")
        assert r"Erase\u{1b}[2J everything" in running.text(running.err)
        assert "rm -r" in running.text(running.err)
        running.type(typed)
        ran = running.end()
    assert ran.code == 0
    assert json.loads(ran.out) == selected(kind)


def test_cancelling_answers_a_question_that_is_open() -> None:
    with Running("exec", "py:tests.cli.agents:asking_on", "-p", "x", terminal=True) as running:
        running.wait_for(running.err, "allow it this once? [y/N] ")
        running.interrupt()
        ran = running.end()
    assert ran.code == 130
    assert f"asking_on: {json.dumps(CANCELLED)}" in ran.err
