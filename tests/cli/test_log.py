"""`conductor log show` and `log stats`: a person sees who changed a prompt, and how slow each
is."""

import json
from typing import Any

import pytest

from conductor.cli import main
from tests.record.turns import recorded


def shown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    columns: int = 80,
) -> list[str]:
    """The lines that a command prints about the recorded trace."""
    monkeypatch.setenv("COLUMNS", str(columns))
    command, *more = arguments
    assert main(["log", command, str(recorded.trace()), *more]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_block_of_each_turn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    lines = shown(capsys, monkeypatch, "show", columns=columns)
    assert max(map(len, lines)) <= columns
    assert lines[0] == "client > datetime > redact > tools-demo > agent"
    heads = [number for number, line in enumerate(lines) if line.startswith("Turn ")]
    assert len(heads) == len(recorded.PROMPTS) + 1
    block = lines[heads[0] : heads[1]]
    assert " tokens in, " in block[0]
    assert block[1].startswith("  “what day is it?")
    assert [line.split()[0] for line in block[2:5]] == ["datetime", "redact", "agent"]
    assert all(" ms  " in line or " s  " in line for line in block[2:5])
    assert "  added 1 block" in block[2]
    at = block.index("  + datetime added text block in session/prompt")
    assert block[at + 1].startswith("      + <current-date ")
    assert [line for line in block if line.startswith("  ~ redact changed text in session/")]
    assert block[-2].startswith("  says     ")


def test_questions_tools_plans_and_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(shown(capsys, monkeypatch, "show"))
    for wanted in (
        "asked, and answered", "  asks     Edit login_test.py  → Allow once  ",
        "  MCP      tools-demo: tools/call add  → ok  ", "  plan     3 of 3 steps done",
        "  tool     read auth.py  → completed", ", 0.25 USD", "session demo-2",
    ):  # fmt: skip
        assert wanted in text
    assert "* tools-demo itself answered" not in text  # an MCP call says so


def test_what_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(capsys, monkeypatch, "show", "~from redact & ~changed")
    assert lines[1].startswith("1 of ")
    assert [line[:8] for line in lines if line.startswith("Turn")] == ["Turn 1  "]
    assert shown(capsys, monkeypatch, "show", "--turn", "3")[3].startswith("Turn 3  ")
    assert shown(capsys, monkeypatch, "show", "--turn", "0")[3] == "Outside of turns"
    *_, line = shown(capsys, monkeypatch, "show", "~text nowhere")
    assert line.startswith("The filter chooses no event")


def test_the_same_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, Any]] = [
        json.loads(line) for line in shown(capsys, monkeypatch, "show", "--json", "~turn 1")
    ]
    (one,) = found
    assert one["turn"]["number"] == 1
    assert {visit["component"] for visit in one["visits"]} >= {"datetime", "redact"}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_times_of_each_component(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    head, *rows = shown(capsys, monkeypatch, "stats", columns=columns)
    assert max(map(len, rows)) <= columns
    assert head.split()[2:6] == ["messages", "p50", "p95", "p99"]
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == [
        "client", "datetime", "redact", "tools-demo", "agent",
    ]  # fmt: skip


def test_percentiles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads("".join(shown(capsys, monkeypatch, "stats", "--json")))
    assert any(one["p50"] for one in found)
    for one in found:
        assert 0 <= one["p50"] <= one["p95"] <= one["p99"] <= one["longest"]
    (prompts,) = (
        one for one in found if (one["component"], one["method"]) == ("datetime", "session/prompt")
    )
    assert prompts["messages"] == 2 * (len(recorded.PROMPTS) + 1)
    assert prompts["changed"] == len(recorded.PROMPTS) + 1
    few = json.loads("".join(shown(capsys, monkeypatch, "stats", "--json", "~from datetime")))
    assert {one["component"] for one in few} == {"datetime"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("show", "TRACE", "~nope"), "there is no term `~nope`, at character 1"),
        (("stats", "TRACE", "("), "a term is missing, at character 2"),
        (("show", "TRACE", "--turn", "99"), "turns; 0 stands for messages outside of turns"),
        (("show", "TRACE", "~component nobody", "--turn", "1"), "chooses no event of turn 1"),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    given = [str(recorded.trace()) if one == "TRACE" else one for one in arguments]
    assert main(["log", *given]) == 2
    assert error in capsys.readouterr().err
