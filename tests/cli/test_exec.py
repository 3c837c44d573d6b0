"""`conductor exec` as a user runs it: answers, formats, endings."""

import json
import re
import sys
from pathlib import Path

import pytest

from conductor.spec.paths import components_folder
from tests.harness.process.command import Running, conductor
from tests.harness.process.processes import wait_gone
from tests.places import DEADLINE

DEMO = f"{sys.executable} {components_folder() / 'demo' / 'agent.py'}"


def test_the_date_is_put_before_the_prompt_and_all_of_it_echoed() -> None:
    ran = conductor(
        "exec", "datetime", "demo", "-p", "what day is it?", "-c", "clock=2026-03-01T12:34:56+00:00"
    )
    assert ran.code == 0
    assert ran.out == '<current-date date="2026-03-01" time="12:34:56"/>\nwhat day is it?\n'


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "hello", "passthrough", "demo"],
        ["passthrough", "-p", "hello", "demo"],
        ["--prompt=hello", "-c", "isolation=inline", "passthrough", "demo"],
        ["passthrough", "demo", "-c", "isolation=separate", "--prompt", "hello"],
    ],
)
def test_options_stand_anywhere(arguments: list[str]) -> None:
    ran = conductor("exec", *arguments)
    assert (ran.code, ran.out) == (0, "hello\n")


def test_prompt_from_standard_input() -> None:
    ran = conductor("exec", "demo", "-p", "-", stdin="grüß dich\n".encode())
    assert (ran.code, ran.out) == (0, "grüß dich\n")


def test_a_newline_is_added_only_where_there_is_none() -> None:
    assert conductor("exec", "demo", "-p", "a\n").out == "a\n"
    assert conductor("exec", "demo", "-p", "a").out == "a\n"
    assert conductor("exec", "demo", "-p", "/thought hm").out == ""


def test_everything_but_the_answer_goes_to_standard_error() -> None:
    plan = conductor("exec", "demo", "-p", "/plan")
    assert (plan.code, plan.out) == (0, "plan completed\n")
    assert plan.err.splitlines()[:2] == [
        "plan: Read the prompt (in_progress)",
        "plan: Think about it (pending)",
    ]
    assert plan.err.count("plan: Answer (completed)") == 1
    tool = conductor("exec", "demo", "-p", "/toolcall Look around")
    assert tool.err.splitlines() == [
        "tool: Look around (in_progress)",
        "tool: Look around (completed)",
    ]
    thought = conductor("exec", "demo", "-p", "/thought one\ntwo")
    assert thought.err.splitlines() == ["· one", "· two"]


def test_the_session_is_told_its_folder(tmp_path: Path) -> None:
    ran = conductor("exec", "demo", "-p", "/context", "--cwd", str(tmp_path))
    context = json.loads(ran.out)
    assert context["cwd"] == str(tmp_path)
    assert context["mcpServers"] == []
    told = context["initialize"]
    assert told["protocolVersion"] == 2
    assert told["clientInfo"]["name"] == "conductor-exec"
    assert told["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


def test_json_is_every_frame_received() -> None:
    ran = conductor("exec", "datetime", "demo", "-p", "/toolcall", "--json")
    assert (ran.code, ran.err) == (0, "")
    frames = [json.loads(line) for line in ran.out.splitlines()]
    assert all(frame["jsonrpc"] == "2.0" for frame in frames)
    answers = [frame["result"] for frame in frames if "result" in frame]
    assert answers[0]["info"]["name"] == "demo"
    assert answers[1:] == [{"sessionId": "demo-1"}, {"messageId": "user-1"}]
    kinds = [f["params"]["update"]["sessionUpdate"] for f in frames if "method" in f]
    assert kinds == [
        *("state_update", "user_message", "tool_call_update", "tool_call_update"),
        *("agent_message_chunk", "state_update"),
    ]
    assert frames[-1]["params"]["update"]["stopReason"] == "end_turn"


def test_json_frames_are_byte_for_byte() -> None:
    odd = r'{"huge":123456789012345678901234567890,"decimal":1.10,"text":"\u0041\/"}'
    ran = conductor("exec", "passthrough", "demo", "--json", "-p", f"/meta {odd}")
    assert odd in ran.out


@pytest.mark.parametrize(
    ("reason", "code", "error"),
    [
        ("end_turn", 0, ""),
        ("refusal", 5, "refused"),
        ("max_tokens", 1, "out of tokens"),
        ("max_turn_requests", 1, "limit of model requests"),
        ("cancelled", 1, "cancelled the turn"),
        ("tired", 1, "`tired`"),
    ],
)
def test_how_a_turn_ends(reason: str, code: int, error: str) -> None:
    ran = conductor("exec", "py:tests.cli.agents:stops", "-p", reason)
    assert (ran.code, ran.out) == (code, "so far\n")
    if code:
        ran.assert_error(code, error)
    else:
        assert ran.err == ""


def test_an_agent_that_dies_is_reported_once() -> None:
    ran = conductor("exec", "datetime", "demo", "-p", "/exit 3 bye")
    ran.assert_error(1, "agent `demo`", "exited with code 3", "exiting with code 3 as asked")
    assert ran.out == "bye\n"
    assert ran.err.count("error: ") == 1


def test_an_agent_that_does_not_start_is_reported() -> None:
    ran = conductor("exec", f"{DEMO} --exit-at-start 4", "-p", "x")
    ran.assert_error(1, "exited with code 4")
    assert (ran.out, ran.err.count("error: ")) == ("", 1)


def test_no_session_without_login() -> None:
    ran = conductor("exec", "py:tests.cli.agents:unauthenticated", "-p", "x")
    ran.assert_error(4, "session/new failed: Authentication required", "log in")


def test_an_agent_of_another_version() -> None:
    ran = conductor("exec", "py:tests.cli.agents:versioned", "-p", "x")
    ran.assert_error(1, "initialize failed: ", "version 9", "speaks ACP version 1")


def test_a_refused_module_is_reported(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.wasm"
    wrong.write_bytes(b"\0asm\x01\0\0\0")
    for isolation in ("process", "inline"):
        ran = conductor("exec", "-c", f"isolation={isolation}", str(wrong), "demo", "-p", "x")
        ran.assert_error(1, "proxy `wrong`", "channel_deliver")
        assert ran.out == ""


def test_out_of_time_before_and_during_the_turn() -> None:
    for agent, prompt in (("py:tests.cli.agents:silent", "x"), ("demo", "/hang")):
        ran = conductor("exec", agent, "-p", prompt, "--timeout", "1")
        ran.assert_error(3, "the turn did not end within 1 s", "--timeout")


def test_nothing_is_left_behind_by_stubborn_agents() -> None:
    stubborn = f"{DEMO} --ignore-eof --ignore-term --child"
    ran = conductor("exec", stubborn, "-p", "done", "-c", "grace=0.1", "--log", "info")
    assert (ran.code, ran.out) == (0, "done\n")
    child = re.search(r"demo: child pid (\d+)", ran.err)
    assert child is not None
    assert wait_gone(int(child[1]), DEADLINE)


def test_a_long_answer_is_whole() -> None:
    ran = conductor("exec", "passthrough", "demo", "-p", "/stream 20000 100")
    assert ran.code == 0
    assert len(ran.out) == 20000 * 100 + 1
    assert ran.out.startswith("00000000...")
    assert "00019999" in ran.out


def test_nobody_reads_the_answer() -> None:
    with Running("exec", "demo", "-p", "/stream 100000 1000") as running:
        running.wait_for(running.out, "00000000")
        running.close_output()
        ran = running.end()
    ran.assert_error(1, "cannot write standard output: Broken pipe")


def test_odd_updates_and_texts_do_no_harm() -> None:
    ran = conductor("exec", "py:tests.cli.agents:escaping", "-p", "x")
    assert ran.code == 0
    # No terminal: escape sequences as they are. What UTF-8 cannot carry is written out.
    assert ran.out == "red \x1b[31m and \\u{d83d} half\n"
    assert ran.err.splitlines() == [
        "[image i/p]",
        r"tool: \u{1b}]0;owned\u{7}Tool",
        r"tool: \u{1b}]0;owned\u{7}Tool (completed)",
    ]


def test_a_component_may_be_called_client() -> None:
    ran = conductor("exec", "datetime,name=client", "demo", "-p", "hello")
    assert (ran.code, ran.err) == (0, "")
