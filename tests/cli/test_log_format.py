"""`-c log-format=json`: standard error is one JSON object a line, whatever comes there."""

import json
import sys
from pathlib import Path
from typing import Any

import wasmtime

from tests.cli.test_audit import CHATTY
from tests.harness.process.command import conductor, environment
from tests.places import ROOT

GARBAGE = (
    rb"\xff\x00 \x1b[31mred\x1b[0m \xe2\x80\xae \n{\"level\": \"error\"}\nno newline \xed\xa0\x80"
)


def entries(text: str) -> list[dict[str, Any]]:
    """The entries of a log; the form of the log is checked."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all({"ts", "level", "component", "text"} <= entry.keys() for entry in found)
    assert "\x1b" not in text
    return found


def test_what_components_write_and_how_they_fail(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(f"import os, sys\nos.write(2, b'{GARBAGE.decode()}')\ninput()\nsys.exit(7)")
    options = ("-c", "log-format=json", "--log", "info")
    ran = conductor("exec", *options, "-p", "hi", "--", sys.executable, str(agent))
    assert ran.code == 1
    *lines, failure = entries(ran.err)
    lines = [entry for entry in lines if "stream" in entry]
    texts = [entry["text"] for entry in lines]
    assert {(entry["component"], entry["stream"]) for entry in lines} == {("agent", "stderr")}
    assert (len(texts), texts[0][1:], texts[1]) == (3, "\0 red \u202e", '{"level": "error"}')
    assert (failure["level"], "exited with code 7" in failure["text"]) == ("error", True)
    assert "log: " in failure["hint"]


def test_a_violation_brings_its_rule_and_a_variable_may_ask_for_json(tmp_path: Path) -> None:
    chatty = tmp_path / "chatty.wasm"
    chatty.write_bytes(wasmtime.wat2wasm(CHATTY))
    variables = environment(CONDUCTOR_LOG_FORMAT="json", FORCE_COLOR="1", NO_COLOR="")
    ran = conductor("exec", "-p", "hi", str(chatty), "demo", env=variables)
    assert (ran.code, ran.out) == (0, "hi\n")
    (broken,) = [entry for entry in entries(ran.err) if "violation" in entry]
    assert (broken["level"], broken["component"]) == ("warning", "chatty")
    about = broken["violation"]
    assert (about["rule"], about["direction"], about["method"]) == ("rights", "up", "configure")
    assert broken["text"].startswith(about["text"])


def test_what_code_in_this_process_prints_is_an_entry_too(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import sys, conductor\n"
        "async def proxy(connection):\n"
        "    print('half a', end=' ')\n"
        "    print('line')\n"
        "    print('beside it', file=sys.stderr)\n"
        "    raise ValueError('no')\n"
    )
    ran = conductor(
        *("exec", "-c", "log-format=json", "-p", "hi", "py:noisy:proxy", "demo"),
        env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
    )
    texts = [entry["text"] for entry in entries(ran.err)]
    assert {"half a line", "beside it"} <= {*texts}, ran.err
