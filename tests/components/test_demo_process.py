"""The demo agent as a process: flags, start, end, signals, floods, the frame log."""

import json
import os
import re
import signal
import tomllib
from pathlib import Path

import pytest

from tests.harness.process.client import Json
from tests.harness.process.demo import AGENT, DemoProcess


def test_manifest() -> None:
    manifest = tomllib.loads((AGENT.parent / "component.toml").read_text())
    assert (manifest["name"], manifest["kind"]) == ("demo", "agent")
    assert manifest["command"] == ["{python}", "{dir}/agent.py"]


def test_starts_with_the_standard_library_alone() -> None:
    with DemoProcess(python=("-S", "-E", "-B")) as demo:  # no site-packages
        demo.initialize()
        session = demo.new_session([{"name": "s", "command": "/x", "args": [], "env": []}])
        assert demo.prompt(session, "hello").text == "hello"
        assert "conductor-acp[mcp]" in demo.prompt(session, "/tools").text


def test_eof_ends_it_with_what_was_accepted() -> None:
    with DemoProcess() as demo:
        demo.initialize()
        one, two = demo.new_session(), demo.new_session()
        streaming = demo.start_prompt(one, "/stream 20000 100")
        hanging = demo.start_prompt(two, "/hang")
        queued = demo.start_prompt(two, "said before the end")
        demo.eof()
        frames = [json.loads(line) for line in iter(demo.line, None)]
        answers = {frame["id"]: frame["result"] for frame in frames if "id" in frame}
        assert answers == {
            streaming: {"stopReason": "end_turn"},
            hanging: {"stopReason": "cancelled"},
            queued: {"stopReason": "end_turn"},
        }
        assert sum(frame.get("params", {}).get("sessionId") == one for frame in frames) == 20000
        assert demo.exit_code() == 0
        assert demo.stderr == ""


def test_a_last_line_without_newline_counts() -> None:
    with DemoProcess() as demo:
        demo.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"session/list"}')
        demo.eof()
        assert demo.frame()["result"] == {"sessions": []}
        assert demo.exit_code() == 0


def test_a_client_that_is_gone_ends_it_silently() -> None:
    with DemoProcess() as demo:
        demo.initialize()
        session = demo.new_session()
        demo.eof()
        demo.exit_code()
        assert demo.stderr == ""
        assert session == "demo-1"


def test_a_closed_stdout_ends_it_silently() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as closed, DemoProcess(stdout=closed) as demo:
        demo.start("initialize", {"protocolVersion": 1})
        assert demo.exit_code() == 0
        assert demo.stderr == ""


def test_sigterm_ends_it() -> None:
    with DemoProcess() as demo:
        demo.initialize()
        demo.process.send_signal(signal.SIGTERM)
        assert demo.exit_code() == -signal.SIGTERM
        assert demo.stderr == ""


def test_stubborn_flags_leave_only_sigkill() -> None:
    with DemoProcess("--ignore-eof", "--ignore-term") as demo:
        demo.initialize()
        demo.process.send_signal(signal.SIGTERM)
        assert demo.new_session() == "demo-1"  # survived it
        hanging = demo.start_prompt("demo-1", "/sleep 0.05")
        demo.eof()
        assert demo.outcome(hanging).stop_reason == "end_turn"  # and the end of its input
        assert demo.process.poll() is None
        demo.process.kill()
        assert demo.exit_code() == -signal.SIGKILL


def test_exit_at_start() -> None:
    with DemoProcess("--exit-at-start", "9") as demo:
        assert demo.line() is None
        assert demo.exit_code() == 9
        assert demo.stderr == "demo: exiting with code 9 at start as asked\n"


def test_junk_start() -> None:
    with DemoProcess("--junk-start=2") as demo:
        assert demo.line() == b"demo: junk line 1 of 2\n"
        assert demo.line() == b"demo: junk line 2 of 2\n"
        assert demo.initialize()["protocolVersion"] == 1


def test_slow_init_is_late_and_can_be_cancelled() -> None:
    with DemoProcess("--slow-init", "0.05") as demo:
        slow = demo.start("initialize", {"protocolVersion": 1})
        assert demo.call("session/list", {})["result"] == {"sessions": []}
        assert demo.frame()["id"] == slow
    with DemoProcess("--slow-init", "1000") as demo:
        slow = demo.start("initialize", {"protocolVersion": 1})
        demo.notify("$/cancel_request", {"requestId": slow})
        answer = demo.frame()
        assert (answer["id"], answer["error"]["code"]) == (slow, -32800)


def test_child_flag_starts_a_process_that_outlives_it() -> None:
    with DemoProcess("--child") as demo:
        demo.initialize()
        # The child shares the pipes, so they do not end: read stderr only up to its line.
        demo.until_stderr("\n")
        found = re.fullmatch(r"demo: child pid (\d+)\n", demo.stderr)
        assert found
        child = int(found[1])
        try:
            demo.process.kill()
            demo.process.wait()
            os.kill(child, 0)  # raises when there is no such process
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--nope"], "unknown flag '--nope'"),
        (["--slow-init"], "--slow-init got nothing"),
        (["--slow-init", "soon"], "--slow-init got 'soon'"),
        (["--junk-start=-1"], "--junk-start got '-1'"),
        (["--acp=yes"], "--acp takes no value"),
        (["--log", "/nonexistent/folder/file"], "/nonexistent/folder/file"),
    ],
)
def test_wrong_flags(flags: list[str], told: str) -> None:
    with DemoProcess(*flags) as demo:
        assert demo.exit_code() == 2
        assert told in demo.stderr


def test_help_lists_every_flag_and_the_readme_too() -> None:
    with DemoProcess("--help") as demo:
        text = b"".join(iter(demo.line, None)).decode()
        assert demo.exit_code() == 0
    flags = re.findall(r"^  (--[a-z0-9-]+)", text, re.MULTILINE)
    readme = (AGENT.parent / "README.md").read_text()
    assert len(flags) > 10
    assert [flag for flag in flags if f"`{flag}" not in readme] == []


def test_readme_lists_every_directive() -> None:
    readme = (AGENT.parent / "README.md").read_text()
    with DemoProcess() as demo:
        demo.initialize()
        lines = demo.prompt(demo.new_session(), "/help").text.splitlines()[1:]
    usages = [line.split(":")[0] for line in lines]
    assert len(usages) > 30
    assert [usage for usage in usages if f"`{usage}`" not in readme] == []


def test_log_holds_every_frame_in_order(tmp_path: Path) -> None:
    log = tmp_path / "frames.jsonl"
    with DemoProcess("--log", str(log)) as demo:
        demo.initialize()
        session = demo.new_session()
        turn = demo.prompt(session, "/junk not a frame")
        demo.eof()
        assert demo.exit_code() == 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["dir"], each["frame"].get("method")) for each in entries[:4]] == [
        ("in", "initialize"),
        ("out", None),
        ("in", "session/new"),
        ("out", None),
    ]
    sent = [each for each in entries if each["dir"] == "out"][2:]
    assert [each.get("text") for each in sent if "text" in each] == ["not a frame"]
    assert [each["frame"] for each in sent if "frame" in each] == [
        json.loads(line) for line in turn.lines if line != b"not a frame\n"
    ]


def test_a_flood_is_held_back_and_nothing_is_lost() -> None:
    count = 60_000
    with DemoProcess() as demo:
        demo.initialize()
        one, two = demo.new_session(), demo.new_session()
        demo.reading = False
        flood = demo.start_prompt(one, f"/stream {count} 2000")
        # The agent still reads: this request is served although its stdout is full.
        cancelled = demo.start_prompt(two, "/hang")
        demo.notify("$/cancel_request", {"requestId": cancelled})
        demo.reading = True
        frames: list[Json] = []
        while len(frames) < count + 2:
            frames.append(demo.frame())
        texts = [
            frame["params"]["update"]["content"]["text"] for frame in frames if "params" in frame
        ]
        assert [int(text[:8]) for text in texts] == list(range(count))
        answers = {frame["id"]: frame["result"]["stopReason"] for frame in frames if "id" in frame}
        assert answers == {flood: "end_turn", cancelled: "cancelled"}
