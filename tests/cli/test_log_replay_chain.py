"""`conductor log replay TRACE`: a whole recorded chain again, with another proxy in it."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.process.command import Ran, conductor
from tests.places import ROOT
from tests.record.trace.test_trace import PROXY

PROMPT: Final = "my token is ghp_abcdefghijklmnopqrstuvwxyz0123456789 ok"


REAL: Final = ROOT / "tests" / "record" / "replay" / "real_agent.jsons"
"""A session of a real agent; `tests/e2e/peers/record.py` records it anew."""
OTHER_REDACT: Final = """
from guest_sdk.python import Proxy
proxy = Proxy("redact", rights={"context": "for its work"})

@proxy.request("session/prompt")
async def asked(request, following):
    for block in request.params["prompt"]:
        block["text"] = block["text"].replace("Bluebird", "Robin")
    return await following(request)
"""
"""A version of `redact` that looks at prompts only, and puts another word in place of secrets."""


def replay(file: Path, *arguments: str) -> Ran:
    """Replays a trace."""
    return conductor("log", "replay", str(file), *arguments)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A turn through two proxies, with all that was said."""
    file = tmp_path_factory.mktemp("recorded") / "t.jsons"
    options = ("--trace", str(file), "-c", "trace-content=all", "-c", "clock=2026-03-01T12:00:00")
    ran = conductor("exec", *options, "datetime", "redact", "demo", "-p", PROMPT)
    assert ran.code == 0, ran.err
    return file


def test_the_same_chain_does_the_same(trace: Path, tmp_path: Path) -> None:
    """The clock has gone on, and is not asked. A run is a trace that can be replayed again."""
    again = tmp_path / "again.jsons"
    ran = replay(trace, "--trace", str(again))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"client > datetime > redact > agent\nsame    turn 1  “{PROMPT}”\n"
    assert b"12:00:00" in again.read_bytes()
    assert replay(again, "--json").code == 0


def test_a_swapped_proxy_shows_what_it_changes(trace: Path) -> None:
    ran = replay(trace, "--with", "redact=passthrough", "--diff")
    assert ran.code == 1
    assert ran.out.splitlines()[0] == "client > datetime > redact=passthrough > agent"
    assert ran.out.splitlines()[2:] == [
        "    redact: changed 1 secret then, unchanged now",
        "  ~ to the agent: session/prompt differs",
        "      - [redacted: github-token]",
        "      + ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    ]
    assert ran.err.startswith("error: 1 of 1 turn differs from the recording\n\nhint: ")
    told: dict[str, Any] = json.loads(replay(trace, "--without", "datetime", "--json").out)
    assert (told["same"], told["components"], told["without"]) == (False, ["redact"], ["datetime"])
    (difference,) = told["turns"][1]["agent"]
    (edit,) = difference["edits"]
    assert (difference["what"], edit["op"], edit["what"]) == (
        "session/prompt", "removed", "text block",
    )  # fmt: skip
    assert "client" not in told["turns"][1]


def test_a_session_of_a_real_agent_differs_by_the_swapped_proxy_alone(tmp_path: Path) -> None:
    """Five turns: a file is read, then changed after a question, a command runs, one is cancelled.

    Messages past a proxy arrived before older messages that the proxy had.
    """
    same: dict[str, Any] = json.loads(replay(REAL, "--json").out)
    assert (same["same"], same["ended"], len(same["turns"])) == (True, "", 6)
    (tmp_path / "redact.py").write_text(OTHER_REDACT)
    ran = replay(REAL, "--with", f"redact={tmp_path / 'redact.py'}", "--json")
    assert ran.code == 1
    turns = json.loads(ran.out)["turns"]
    shown = {
        (turn["turn"], end, each["what"], edit.get("before"), edit.get("after"))
        for turn in turns
        for end in ("agent", "client")
        for each in turn.get(end, ())
        for edit in each["edits"]
    }
    hidden = "[redacted: secret]"
    assert shown == {
        (1, "agent", "session/prompt", hidden, "Robin"),
        (1, "client", "tool_call_update", hidden, "Bluebird"),
        (1, "client", "the answer", hidden, "Bluebird"),
        (5, "client", "the answer", hidden, "Bluebird"),
    }


def test_no_program_runs_that_a_trace_names(tmp_path: Path) -> None:
    program, ran_at, file = (tmp_path / name for name in ("forward.py", "ran", "t"))
    program.write_text(f"open({str(ran_at)!r}, 'a')\n{PROXY}")
    chain = (f"{sys.executable} {program}", "demo")
    assert conductor("exec", "--trace", str(file), *chain, "-p", "hi").code == 0
    ran_at.unlink(missing_ok=True)
    replay(file).assert_error(2, "`forward` was a program", "--with forward=COMPONENT")
    assert not ran_at.exists()
    ran = replay(file, "--with", "forward=passthrough")  # which leaves out what the program added
    assert (ran.code, ran.out.splitlines()[0]) == (1, "client > forward=passthrough > agent")


def test_what_is_no_recording_of_a_chain(trace: Path, tmp_path: Path) -> None:
    header, *events = trace.read_bytes().splitlines(keepends=True)
    other = tmp_path / "other"
    for content, arguments, *texts in (
        (header + b"".join(events), ("--with", "redcat=passthrough"), "did you mean `redact`?"),
        (header + b"".join(events), ("--with", "redact"), "--with redact=./new.wasm"),
        (header + b"".join(events), ("--with", "redact=no-such"), "--with redact=no-such"),
        (header + b"".join(events), ("--agent", "--diff"), "of the whole chain, or"),
        (header.replace(b'"all"', b'"none"') + b"".join(events), (), "without content"),
        (b"not a trace\n", (), "is no trace"),
        (header, (), "is no trace"),
        (header.replace(b'"datetime"', b'"py:os:abort"') + b"".join(events), (),
         "`py:os:abort` of the trace is not here: `py:os:abort` is no component"),
        (header.replace(b'"source":"redact"', b'"source":"redact,memory=9GiB"')
         + b"".join(events), (), "`redact,memory=9GiB` is no component"),
    ):  # fmt: skip
        other.write_bytes(content)
        replay(other, *arguments).assert_error(2, *texts)


def test_a_trace_that_is_cut_is_replayed_up_to_there(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if b'"method":"session/update"' in line)
    cut = tmp_path / "cut"
    cut.write_bytes(b"".join(lines[:at]) + lines[at][:40])
    ran = replay(cut)
    assert "note: the trace is cut off: it is replayed up to there\n" in ran.out
    assert ran.code == 0, ran.out + ran.err


def test_a_replay_ends_once_nothing_can_move(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"".join(one for one in lines if b'"response"' not in one
                                 or b'"from":"agent","to":"redact"' not in one))  # fmt: skip
    replay(damaged).assert_error(
        1, "nothing can move any more; the client waits for an answer to `session/prompt`"
    )


def test_a_trace_is_a_scenario(trace: Path, tmp_path: Path) -> None:
    """One command runs the traces of a folder; a trace that differs fails."""
    folder = tmp_path / "test-scenarios"
    folder.mkdir()
    recorded = trace.read_bytes()
    (folder / "good.jsons").write_bytes(recorded)
    broken = recorded.replace(b"[redacted: github-token] ok", b"[something else] ok")
    (folder / "broken.jsons").write_bytes(broken)
    ran = conductor("test", str(tmp_path))
    assert ran.code == 1
    assert re.findall(r"^(FAILED|passed) ", ran.out, re.MULTILINE) == ["FAILED", "passed"]
    assert "  ~ to the agent: session/prompt differs\n" in ran.out
    ran.assert_error(1, "1 of 2 scenarios differs")
