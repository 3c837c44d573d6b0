"""`conductor log replay`: what a trace recorded of one component, played to it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest
import wasmtime

from conductor.spec.paths import components_folder
from tests.e2e.test_guest_failures import FUSED
from tests.harness.process.command import COMMAND, Ran, conductor
from tests.record.trace.test_trace import PROXY, conversation, heard, lines, services, talk

DEMO: Final = f"{sys.executable} {components_folder() / 'demo' / 'agent.py'}"
DIES: Final = PROXY.replace("    got =", "    if '@die' in line: sys.exit(3)\n    got =")
UUIDS: Final = "import uuid\n" + PROXY.replace(
    'sent["id"] = json.dumps(got["id"])',
    'sent["id"] = json.dumps([got["id"], uuid.uuid4().hex])',
).replace('json.loads(got["id"])', 'json.loads(got["id"])[0]')
"""A proxy whose ids are never the same."""


def program(folder: Path, source: str, name: str = "forward") -> str:
    """The command of a proxy that is a program."""
    path = folder / f"{name}.py"
    path.write_text(source)
    return f"{sys.executable} {path}"


def record(file: Path, *arguments: str, said: bytes = b"") -> None:
    """Traces a conversation."""
    command = [*COMMAND, "agent", "--trace", str(file), *arguments]
    assert talk(command, said or conversation()) == 0


def replay(file: Path, *arguments: str) -> Ran:
    """Replays it."""
    return conductor("log", "replay", str(file), "--timeout", "50", *arguments)


@pytest.mark.parametrize("isolation", ["process", "separate", "inline"])
def test_each_component_says_again_what_it_said(tmp_path: Path, isolation: str) -> None:
    """The clock has gone on, and is not asked: what was answered then is answered now."""
    proxy = program(tmp_path, UUIDS)
    file = tmp_path / "t"
    options = ("--isolation", isolation, "--clock", "2026-03-01T12:00:00")
    record(file, *options, "datetime", "passthrough", proxy, DEMO)
    ran = replay(file, "datetime", "passthrough", proxy)
    assert ran.code == 0, ran.out + ran.err
    told = [one.split() for one in ran.out.splitlines()]
    assert [one[:2] for one in told] == [
        ["same", "datetime:"], ["same", "passthrough:"], ["same", "forward:"],
    ]  # fmt: skip
    # Forwards all but `configure`; the program is told nothing of its own.
    said, given = int(told[1][2]), int(told[1][5])
    assert given == said + 1
    assert told[2][2] == told[2][5]


def test_a_changed_component_is_told_where_it_differs(tmp_path: Path) -> None:
    file = tmp_path / "t"
    record(file, "--clock", "2026-03-01T12:00:00", "datetime", DEMO)
    ran = replay(file, "passthrough", "--as", "datetime")
    date = '<current-date date=\\"2026-03-01\\" time=\\"12:00:00\\"/>'
    assert ran.out == (
        "DIFFERS datetime: at message 5 of 7\n"
        "    - session/prompt, a request, to the successor of session demo-1\n"
        "    + session/prompt, a request, to the successor of session demo-1\n"
        "    /params/prompt/0\n"
        f'      - {{"type":"text","text":"{date}"}}\n'
    )
    ran.assert_error(1, "`datetime` does not send what it sent when it was recorded")
    ran = replay(file, "passthrough", "--as", "datetime", "--json")
    told = json.loads(ran.out)
    assert (ran.code, ran.err, told["same"], told["said"]) == (1, "", False, 7)
    assert told["difference"]["diff"] == [
        {"op": "remove", "path": "/params/prompt/0", "before": json.loads(date.join((
            '{"type":"text","text":"', '"}')))}
    ]  # fmt: skip
    assert told["difference"]["expected"]["method"] == "session/prompt"
    told = json.loads(replay(file, "datetime", "--json").out)
    assert (told["same"], told["runs"], told["difference"]) == (True, 1, None)


def test_a_recorded_conversation_becomes_a_transcript(tmp_path: Path) -> None:
    file, transcript = tmp_path / "t", tmp_path / "new.txt"
    record(file, "--clock", "2026-03-01T12:00:00", "datetime", DEMO)
    ran = replay(file, "datetime", "--output", str(transcript))
    assert (ran.code, ran.out.splitlines()[1]) == (0, f"written {transcript}")
    played = conductor("test", str(transcript), "--component", "datetime")
    assert (played.code, played.out[:6]) == (0, "passed")
    played = conductor("test", str(transcript), "--component", "passthrough")
    assert played.code == 1
    replay(file, "datetime", "--output", str(transcript)).assert_error(2, "is there already")


def test_a_program_that_was_restarted_is_replayed_run_by_run(tmp_path: Path) -> None:
    proxy = f"{program(tmp_path, DIES)},on_failure=restart"
    file = tmp_path / "t"
    session = {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "@die"}]}
    said = conversation().splitlines(keepends=True)
    die = lines(("session/prompt", session, 7))
    record(file, proxy, DEMO, said=b"".join((*said[:2], die, *said[2:])))
    ran = replay(file, proxy)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.endswith(", in 2 runs\n")
    survives = program(tmp_path, PROXY, "survives")
    ran = replay(file, survives, "--as", "forward")
    assert (ran.code, "DIFFERS forward: after 4 messages of run 1\n" in ran.out) == (1, True)


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_a_guest_fails_again_where_it_failed(tmp_path: Path, isolation: str) -> None:
    """And what it was given when it was started again is not mixed with that."""
    module, fixed = tmp_path / "fused.wasm", tmp_path / "fixed.wasm"
    module.write_bytes(bytes(wasmtime.wat2wasm(FUSED.replace("HARM", "unreachable"))))
    fixed.write_bytes(bytes(wasmtime.wat2wasm(FUSED.replace("HARM", "nop"))))
    file = tmp_path / "t"
    poison = {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "poison"}]}
    said = conversation().splitlines(keepends=True)
    lethal = lines(("session/prompt", poison, 7))
    chain = ("passthrough", str(module), DEMO)
    record(file, "--isolation", isolation, *chain, said=b"".join((*said[:2], lethal, *said[2:])))
    ran = replay(file, "passthrough", str(module))
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.endswith(", in 2 runs\n")
    ran = replay(file, str(fixed), "--as", "fused")
    assert ran.code == 1
    assert "of run 1\n    it did not fail as it did then: " in ran.out


def test_a_program_that_ends_or_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t"
    record(file, program(tmp_path, PROXY), DEMO)
    ends = program(tmp_path, "import sys; sys.stdin.readline(); sys.exit(7)", "ends")
    ran = replay(file, ends, "--as", "forward")
    assert (ran.code, "+ nothing: it has ended with exit code 7\n" in ran.out) == (1, True)
    silent = program(tmp_path, "import sys; sys.stdin.read()", "silent")
    ran = replay(file, silent, "--as", "forward", "--timeout", "0.2")
    assert (ran.code, "+ nothing: nothing came for 0.2 s\n" in ran.out) == (1, True)


def test_the_agent_of_a_trace_tells_the_client_the_same(tmp_path: Path) -> None:
    file = tmp_path / "t"
    chain = ("--clock", "2026-03-01T12:00:00", "datetime", program(tmp_path, PROXY))
    got = heard([*COMMAND, "agent", "--trace", str(file), *chain, DEMO], conversation())
    agent = f"{sys.executable} -m conductor log replay {file} --agent"
    assert heard([*COMMAND, "agent", *chain, agent], conversation()) == got
    other = conversation("something else") + lines(("session/list", {}, 9))
    *_, ended, refused, missing = heard([*COMMAND, "agent", *chain, agent], other)
    assert (ended["id"], refused["error"]["code"]) == (3, -32601)
    assert "the trace has no answer to this `session/list`" in missing["error"]["message"]


def test_what_cannot_be_replayed(tmp_path: Path) -> None:
    file, bare = tmp_path / "t", tmp_path / "bare"
    proxy = program(tmp_path, PROXY)
    record(file, "passthrough", proxy, DEMO)
    record(bare, "--trace-content", "none", "passthrough", DEMO)
    (tmp_path / "other").write_text('{"type":"request"}\n')
    for arguments, *texts in (
        ((file, "datetime"), "has no component `datetime`", "hint: --as NAME names a component",
         "passthrough, forward"),
        ((file, "demo"), "has no component `demo`"),
        ((bare, "passthrough"), "was written without content", "--trace-content redacted"),
        ((tmp_path / "other", "datetime"), "is no trace", "hint: record a trace"),
        ((tmp_path / "missing", "datetime"), "cannot read the trace"),
        ((file, "no-such-thing"), "no-such-thing"),
        ((file, "passthrough", "--as", "forward"), "recorded over one connection"),
        ((file, proxy, "--output", str(tmp_path / "x")), "spoke over one connection"),
        ((file, "passthrough", proxy, "--as", "x"), "--as is about one component"),
        ((file, "passthrough", "--agent"), "of the whole chain, or of components by themselves"),
        ((file, "-o", str(tmp_path / "x")), "of the whole chain, or of components by themselves"),
        ((bare, "--agent"), "was written without content"),
        ((tmp_path / "missing", "--agent"), "cannot read the trace"),
        ((file, "py:json:loads", "--as", "passthrough"), "runs inside of conductor"),
        ((file, "passthrough", "--timeout", "soon"), "invalid value `soon`"),
    ):  # fmt: skip
        conductor("log", "replay", *map(str, arguments)).assert_error(2, *texts)
    assert not (tmp_path / "x").exists()


def test_services_stand_in_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "t"
    record(file, "--clock", "2026-03-01T12:00:00", "datetime", DEMO)
    configured, asked, answered = services(file)
    assert (configured["from"], configured["to"]) == ("conductor", "datetime")
    assert (configured["method"], configured["params"]["name"]) == ("configure", "datetime")
    assert (asked["from"], asked["to"], asked["method"]) == ("datetime", "conductor", "clock")
    assert answered["id"] == asked["id"]
    assert answered["payload"]["time"] == "12:00:00"
    record(file, "--trace-content", "none", "datetime", DEMO)
    _, asked, answered = services(file)
    assert (asked["params"], answered["payload"]) == (None, None)
    assert answered["_conductor"]["bytes"] > 50
    assert b'"records"' not in file.read_bytes()
