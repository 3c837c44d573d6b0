"""`conductor log replay FILE COMPONENT`: the recording of one component in a trace, played
again."""

import json
import re
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


def replay(file: Path, *arguments: str, timeout: str = "50") -> Ran:
    """Replays a component of a trace."""
    return conductor("log", "replay", str(file), "--timeout", timeout, *arguments)


@pytest.mark.parametrize("isolation", ["process", "separate", "inline"])
def test_each_component_says_again_what_it_said(tmp_path: Path, isolation: str) -> None:
    """The clock has gone on, and is not asked: the component gets the old answer again."""
    proxy = program(tmp_path, UUIDS)
    file = tmp_path / "t"
    options = ("-c", f"isolation={isolation}", "-c", "clock=2026-03-01T12:00:00")
    record(file, *options, "datetime", "passthrough", "redact", proxy, DEMO)
    ran = replay(file, "datetime", "passthrough", "redact", proxy)
    assert ran.code == 0, ran.out + ran.err
    told = [one for one in ran.out.splitlines() if not one.startswith("note: ")]
    assert [one[:18] for one in told[::2]] == [
        "client > datetime=", "client > passthrou", "client > redact=re", "client > forward=/",
    ]  # fmt: skip
    assert {one[:14] for one in told[1::2]} == {"same    turn 1"}


def test_what_a_component_sent_in_a_microsecond_stands_in_its_order(tmp_path: Path) -> None:
    """Times are rounded; a message to the client was seen later than a message that stays in the
    host."""
    file = tmp_path / "t"
    record(file, "-c", "isolation=process", "datetime", "passthrough", DEMO)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ours = [line for line in lines if line.get("from") == "passthrough"]
    (answer,) = (line["ts"] for line in ours if "end_turn" in json.dumps(line.get("payload")))
    updates = [line for line in ours if line.get("method") == "session/update"]
    assert len(updates) > 2
    for line in lines:
        if line not in updates and line.get("ts", 0) > answer:
            line["ts"] += 0.01
    for number, line in enumerate(updates):
        line["ts"] = round(answer + 0.003 + number / 1e5, 6)
        line["_conductor"]["way"] = round((line["ts"] - answer) * 1000, 3)
    lines.sort(key=lambda line: line.get("ts", 0))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = replay(file, "passthrough")
    assert ran.code == 0, ran.out + ran.err


def test_a_changed_component_is_told_where_it_differs(tmp_path: Path) -> None:
    """The differences come turn by turn, with their effects at either end."""
    file = tmp_path / "t"
    record(file, "-c", "clock=2026-03-01T12:00:00", "datetime", DEMO)
    ran = replay(file, "passthrough", "--as", "datetime", "--diff")
    assert ran.out.splitlines()[0] == "client > datetime=passthrough > agent"
    assert ran.out.splitlines()[2:] == [
        "DIFFERS turn 1  “the quick brown fox”",
        "    datetime: added 1 block then, unchanged now",
        "  ~ to the agent: session/prompt differs",
        "      removed text block",
        '      - <current-date date="2026-03-01" time="12:00:00"/>',
    ]
    ran.assert_error(1, "1 of 1 turn differs from the recording")
    told = json.loads(replay(file, "passthrough", "--as", "datetime", "--json").out)
    assert (told["component"], told["same"], told["with"]) == (
        "datetime", False, {"datetime": "passthrough"},
    )  # fmt: skip
    (difference,) = told["turns"][1]["agent"]
    assert [edit["op"] for edit in difference["edits"]] == ["removed"]
    told = json.loads(replay(file, "datetime", "--json").out)
    assert (told["same"], told["component"]) == (True, "datetime")


def test_a_recorded_conversation_becomes_a_transcript(tmp_path: Path) -> None:
    file, transcript = tmp_path / "t", tmp_path / "new.txt"
    record(file, "-c", "clock=2026-03-01T12:00:00", "datetime", DEMO)
    ran = replay(file, "datetime", "--output", str(transcript))
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"written {transcript}")
    played = conductor("test", str(transcript), "--component", "datetime")
    assert (played.code, played.out[:6]) == (0, "passed")
    played = conductor("test", str(transcript), "--component", "passthrough")
    assert played.code == 1
    replay(file, "datetime", "--output", str(transcript)).assert_error(2, "is there already")


def test_a_program_that_fails_is_started_again_as_then(tmp_path: Path) -> None:
    proxy = f"{program(tmp_path, DIES)},on_failure=restart"
    file = tmp_path / "t"
    session = {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "@die"}]}
    said = conversation().splitlines(keepends=True)
    die = lines(("session/prompt", session, 7))
    record(file, proxy, DEMO, said=b"".join((*said[:2], die, *said[2:])))
    ran = replay(file, proxy)
    assert ran.code == 0, ran.out + ran.err
    assert re.findall(r"^same    turn (\d)", ran.out, re.MULTILINE) == ["1", "2"]
    ran = replay(file, program(tmp_path, PROXY, "survives"), "--as", "forward")
    assert (ran.code, "DIFFERS turn 1  “@die”\n" in ran.out) == (1, True)


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_a_guest_fails_again_where_it_failed(tmp_path: Path, isolation: str) -> None:
    """The message that it could not take went past it then, and does now."""
    module, fixed = tmp_path / "fused.wasm", tmp_path / "fixed.wasm"
    module.write_bytes(bytes(wasmtime.wat2wasm(FUSED.replace("HARM", "unreachable"))))
    fixed.write_bytes(bytes(wasmtime.wat2wasm(FUSED.replace("HARM", "nop"))))
    file = tmp_path / "t"
    poison = {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "poison"}]}
    said = conversation().splitlines(keepends=True)
    lethal = lines(("session/prompt", poison, 7))
    chain = ("passthrough", str(module), DEMO)
    record(
        file, "-c", f"isolation={isolation}", *chain, said=b"".join((*said[:2], lethal, *said[2:]))
    )
    ran = replay(file, "passthrough", str(module))
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.count("same    turn 1  “poison”\n") == 2
    ran = replay(file, str(fixed), "--as", "fused")
    assert (ran.code, "same    turn 1  “poison”\n" in ran.out) == (0, True)


def test_a_program_that_ends_or_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t"
    record(file, program(tmp_path, PROXY), DEMO)
    for name, source, why in (
        ("ends", "import sys; sys.stdin.readline(); sys.exit(7)", "exited with code 7"),
        ("silent", "import sys; sys.stdin.read()", "nothing has moved for 0.2 s"),
    ):
        component = program(tmp_path, source, name)
        ran = replay(file, component, "--as", "forward", "--json", timeout="0.2")
        assert (ran.code, why in ran.out) == (1, True), ran.out + ran.err


def test_a_component_between_others_is_replayed_alone(tmp_path: Path) -> None:
    """The neighbours are played from the trace, with the changes that they made."""
    file = tmp_path / "t"
    options = ("-c", "trace-content=all", "-c", "clock=2026-03-01T12:00:00")
    talked = ("datetime", "redact", program(tmp_path, PROXY), DEMO)
    record(file, *options, *talked, said=conversation("ghp_" + "a1" * 18))
    for component, differs in (("redact", []), ("passthrough", ["session/prompt"])):
        told = json.loads(replay(file, component, "--as", "redact", "--json").out)
        turn = told["turns"][1]
        assert [one["what"] for one in turn.get("agent", ())] == differs
        assert turn["prompt"].startswith('<current-date date="2026-03-01"')


def test_the_agent_of_a_trace_tells_the_client_the_same(tmp_path: Path) -> None:
    file = tmp_path / "t"
    chain = ("-c", "clock=2026-03-01T12:00:00", "datetime", program(tmp_path, PROXY))
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
    record(bare, "-c", "trace-content=none", "passthrough", DEMO)
    (tmp_path / "other").write_text('{"type":"request"}\n')
    for arguments, *texts in (
        ((file, "datetime"), "has no component `datetime`", "hint: --as NAME names a component",
         "passthrough, forward"),
        ((file, "passthrough", "--with", "forward=demo"), "of the whole chain, or of components"),
        ((file, "demo"), "has no component `demo`"),
        ((bare, "passthrough"), "was written without content", "-c trace-content=redacted"),
        ((tmp_path / "other", "datetime"), "is no trace"),
        ((tmp_path / "missing", "datetime"), "cannot read the trace"),
        ((file, "no-such-thing"), "no-such-thing"),
        ((file, proxy, "--output", str(tmp_path / "x")), "is not sandboxed"),
        ((file, "passthrough", proxy, "--as", "x"), "--as is about one component"),
        ((file, "passthrough", "--agent"), "of the whole chain, or of components by themselves"),
        ((file, "-o", str(tmp_path / "x")), "of the whole chain, or of components by themselves"),
        ((bare, "--agent"), "was written without content"),
        ((tmp_path / "missing", "--agent"), "cannot read the trace"),
        ((file, "passthrough", "--timeout", "soon"), "invalid value `soon`"),
    ):  # fmt: skip
        conductor("log", "replay", *map(str, arguments)).assert_error(2, *texts)
    assert not (tmp_path / "x").exists()


def test_services_stand_in_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "t"
    record(file, "-c", "clock=2026-03-01T12:00:00", "datetime", DEMO)
    configured, asked, answered = services(file)
    assert (configured["from"], configured["to"]) == ("conductor", "datetime")
    assert (configured["method"], configured["params"]["name"]) == ("configure", "datetime")
    assert (asked["from"], asked["to"], asked["method"]) == ("datetime", "conductor", "clock")
    assert answered["id"] == asked["id"]
    assert answered["payload"]["time"] == "12:00:00"
    record(file, "-c", "trace-content=none", "datetime", DEMO)
    _, asked, answered = services(file)
    assert (asked["params"], answered["payload"]) == (None, None)
    assert answered["_conductor"]["bytes"] > 50
