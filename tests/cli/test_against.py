"""`conductor test --against`: the checks of anybody's agent or conductor."""

import json
import sys

import pytest

from tests.harness.process.command import conductor
from tests.places import ROOT


def test_any_agent_is_checked_by_its_command_line() -> None:
    agent = ROOT / "tests" / "author" / "check" / "an_agent.py"
    good = f"{sys.executable} -I -S {agent}"
    ran = conductor("test", "--against", good, "--only", "turn", "--only", "ids")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[:2] for line in ran.out.splitlines()[:2]] == [
        ["pass", "ids"],
        ["pass", "turn"],
    ]
    ran = conductor("test", "--against", f"{good} silent", "--only", "turn", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["ok"], told["counts"]["failed"]) == (1, False, 1)
    assert told["checks"][0]["why"] == "a turn ended without a word of the agent"
    assert "breaks 1 rule: turn" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--against", "cat", "--only", "order"), "no check `order`"),
        (("--against", "cat", "."), "`--against` names all that is tested"),
        (("--against", ""), "`--against` needs a command"),
        (("--against", "'cat"), "No closing quotation"),
        (("--against", "/nowhere/agent"), "there is no program `/nowhere/agent`"),
    ],
)
def test_what_cannot_be_checked_is_said(words: tuple[str, ...], text: str) -> None:
    ran = conductor("test", *words)
    assert ran.code in (1, 2)
    assert text in ran.err
    assert "hint: " in ran.err
