"""`conductor agents`, and the faults of known agents through `conductor exec` and `agent`."""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import agents as listing
from conductor.cli.agents import Finding
from tests.harness.process.command import Ran, conductor, environment
from tests.harness.process.managed import Machine
from tests.harness.process.processes import needs_proc, wait_gone

# An agent whose faults are the words in `FAULTS`, and those of `session/new` in `REFUSES`.
AGENT = """
    import json, os, subprocess, sys, time

    faults = os.environ.get("FAULTS", "").split()
    if "--version" in sys.argv:
        print("The Agent v3.2.1 (abc)")
        sys.exit()
    if "dead" in faults:
        sys.exit("no \\x1b[31mmodel\\x1b[0m is configured")
    if "prints" in faults:
        print("Please log in first!", flush=True)
    if "detached" in faults:
        daemon = "/bin/sleep 1000 >/dev/null 2>&1 & echo $!"
        with open(os.environ["PIDS"], "w") as pids:
            subprocess.run(["/bin/sh", "-c", daemon], start_new_session=True, stdout=pids)
    for line in sys.stdin:
        asked = json.loads(line)
        if "silent" in faults or "id" not in asked:
            continue
        if "dies" in faults and asked["method"] == "session/prompt":
            sys.exit("out of memory")
        versions = {"newer": 2, "worded": "1", "true": True}
        version = next((versions[fault] for fault in faults if fault in versions), 1)
        results = {
            "initialize": {"protocolVersion": version},
            "session/new": {"sessionId": "s"},
            "session/prompt": {"stopReason": "end_turn"},
        }
        answer = {"result": results[asked["method"]]}
        if asked["method"] == os.environ.get("REFUSES"):
            data = {"details": "no token"}
            answer = {"error": {"code": -32000, "message": "Who are you?", "data": data}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


class Place:
    """A PATH with nothing but the agents that a test installs, and an environment with it."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.folder = folder

    def install(self, *programs: str) -> None:
        """Puts the agent above on PATH under these names."""
        for program in programs:
            path = self.bin / program
            path.write_text(f"#!{sys.executable}\n{textwrap.dedent(AGENT)}")
            path.chmod(0o755)

    def run(self, *words: str, **env: str) -> Ran:
        """Runs `conductor WORDS`."""
        return conductor(*words, env=environment(PATH=str(self.bin), **env), cwd=self.folder)

    def found(self, *names: str, **env: str) -> dict[str, dict[str, Any]]:
        """The objects of `conductor agents --json`, by id."""
        ran = self.run("agents", "--json", "--timeout", "120", *names, **env)
        return {each["id"]: each for each in json.loads(ran.out)}


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# -- conductor agents ------------------------------------------------------------------------------


def test_found_ones_come_first_and_missing_ones_with_what_installs_them(place: Place) -> None:
    place.install("qwen", "opencode")
    ran = place.run("agents", "--timeout", "120")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == ["AGENT", "VERSION", "ANSWERS", "LOGGED", "IN", "PROGRAM"]
    assert lines[1].split()[:4] == ["opencode", "3.2.1", "yes", "unknown"]
    assert [line.split()[0] for line in lines if str(place.bin) in line][-1] in (
        "qwen",
        str(place.bin / "qwen"),
    )
    assert "  gemini       npm install -g @google/gemini-cli" in lines
    assert not [line for line in lines if line.startswith("  opencode ")]
    assert ran.err == ""


def test_a_session_shows_who_is_logged_in(place: Place) -> None:
    place.install("qwen", "opencode")
    found = place.found("qwen", "opencode")
    assert list(found) == ["qwen", "opencode"]
    assert [each["logged_in"] for each in found.values()] == ["yes", "unknown"]
    found = place.found("qwen", "opencode", REFUSES="session/new")
    assert [each["logged_in"] for each in found.values()] == ["no", "no"]
    assert found["qwen"]["answers"]
    assert not found["qwen"]["session"]
    assert found["qwen"]["error"] == 'refused `session/new`: Who are you? ({"details": "no token"})'


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ("dead", "exited with code 1 before it answered `initialize`; its last words: no \\u{1b}"),
        ("newer", "speaks ACP version 2, and conductor 1"),
    ],
)
def test_an_agent_that_does_not_answer_fails_where_it_is_named(
    place: Place, faults: str, error: str
) -> None:
    place.install("opencode")
    ran = place.run("agents", "opencode", FAULTS=faults)
    assert ran.code == 1
    assert "answers     no; it " in ran.out
    text = " ".join(ran.out.split())
    assert error in text
    assert place.run("agents", FAULTS=faults).code == 0


def test_a_silent_agent_does_not_hold_up_the_page(place: Place) -> None:
    place.install("opencode")
    ran = place.run("agents", "opencode", "--timeout", "2", FAULTS="silent prints")
    assert ran.code == 1
    assert "did not answer `initialize` within 2 s" in " ".join(ran.out.split())


def test_one_in_detail(place: Place) -> None:
    ran = place.run("agents", "opencode")
    assert ran.code == 1
    page = ran.out
    for part in (
        "OpenCode (`opencode`)",
        "command     opencode acp",
        "program     not on PATH",
        "to log in   run `opencode auth login`",
        "to install  npm install -g opencode-ai",
        "quirks      has free models",
    ):
        assert part in page


def test_a_name_that_is_no_agent(place: Place) -> None:
    place.run("agents", "opencod").assert_error(2, "no agent `opencod`", "`opencode`")
    place.run("agents", "what-is-this").assert_error(2, "`conductor agents` lists those it knows")


@needs_proc
def test_nothing_is_left_of_what_it_sends_to_the_back(place: Place, tmp_path: Path) -> None:
    place.install("opencode")
    pids = tmp_path / "pids"
    assert place.found("opencode", FAULTS="detached", PIDS=str(pids))["opencode"]["answers"]
    assert wait_gone(int(pids.read_text()), 60)


@pytest.mark.skipif(os.geteuid() != 0, reason="a policy belongs to root")
def test_what_the_policy_forbids_is_not_started(place: Place, tmp_path: Path) -> None:
    place.install("opencode")
    (tmp_path / "machine").mkdir()
    machine = Machine(tmp_path / "machine")
    machine.allow('[[agents]]\nsource = "/usr/bin/other"')
    pids = tmp_path / "pids"
    env = machine.env(PATH=str(place.bin), FAULTS="detached", PIDS=str(pids))
    ran = machine.conductor("agents", "opencode", "--json", env=env)
    (found,) = json.loads(ran.out)
    assert found["installed"]
    assert not found["answers"]
    assert found["error"].startswith("was not started: agent `opencode`")
    assert "managed policy" in found["error"]
    assert not pids.exists()


def test_a_page_fits_its_columns() -> None:
    finding = Finding(
        id="opencode", name="OpenCode", command="opencode acp", installed=True,
        program="/a/long/path" * 9, version="GitHub Copilot CLI 1.0.102.", answers=True,
        error="word " * 60, install="npm install -g opencode-ai", login="run `opencode auth login`",
    )  # fmt: skip
    page = listing.overview([finding], 80)
    assert page[1].split()[:2] == ["opencode", "1.0.102."]
    assert all(len(line) <= 80 for line in page if "/long/path" not in line)
    assert all(len(line) <= 80 for line in listing.details([finding], 80) if "/long/" not in line)


# -- the same agents in a chain --------------------------------------------------------------------


def test_exec_names_the_login_of_a_known_agent(place: Place) -> None:
    place.install("opencode", "other")
    login = "to log in, run `opencode auth login`; then try again"
    for method, code in (("session/new", 4), ("session/prompt", 1)):
        ran = place.run("exec", "opencode", "-p", "hi", REFUSES=method)
        ran.assert_error(code, f"{method} failed: Who are you?", login)
    ran = place.run("exec", "path:opencode", "-p", "hi", REFUSES="session/new")
    ran.assert_error(4, login)
    ran = place.run("exec", "other", "-p", "hi", REFUSES="session/new")
    ran.assert_error(4, "log in with the agent's own command first")


@pytest.mark.parametrize(
    ("env", "answer", "words"),
    [
        (
            {"REFUSES": "session/new"},
            b'"code": -32000, "message": "Who are you?"',
            "an error: -32000 (Who are you?); to log in, run `opencode auth login`",
        ),
        (
            {"REFUSES": "session/prompt"},
            b'"code": -32000, "message": "Who are you?"',
            "the answer to `session/prompt` is an error: -32000; to log in, run",
        ),
        ({"FAULTS": "newer"}, b'"protocolVersion": 2', "the agent speaks ACP version 2"),
        ({"FAULTS": "worded"}, b'"protocolVersion": "1"', "names no version of ACP"),
    ],
    ids=["session", "turn", "newer", "worded"],
)
def test_an_editor_gets_the_agents_answer_and_the_log_names_what_it_means(
    place: Place, env: dict[str, str], answer: bytes, words: str
) -> None:
    place.install("opencode")
    log = place.folder / "run.log"
    asked: list[tuple[str, dict[str, int]]] = [
        ("initialize", {"protocolVersion": 1}), ("session/new", {}), ("session/prompt", {}),
    ]  # fmt: skip
    lines = "".join(
        json.dumps({"jsonrpc": "2.0", "id": at, "method": method, "params": params}) + "\n"
        for at, (method, params) in enumerate(asked)
    )
    ran = conductor(
        "agent", "-c", f"log-file={log}", "opencode", stdin=lines.encode(),
        env=environment(PATH=str(place.bin), **env),
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert answer.decode() in ran.out
    assert words in log.read_text()
    assert ("Who are you" in log.read_text()) == ("(Who are you?)" in words)


@pytest.mark.parametrize("version", ["true", "worded"])
def test_an_answer_without_a_version_is_no_version(place: Place, version: str) -> None:
    place.install("opencode")
    ran = place.run("exec", "opencode", "-p", "hi", FAULTS=version)
    ran.assert_error(1, "initialize failed: the agent names no version of ACP", "version 1")


@pytest.mark.parametrize(
    ("faults", "words"), [("dead", "is configured"), ("dies", "its last words: out of memory")]
)
def test_exec_names_the_command_that_tries_an_agent_that_died(
    place: Place, faults: str, words: str
) -> None:
    place.install("opencode")
    ran = place.run("exec", "opencode", "-p", "hi", FAULTS=faults)
    ran.assert_error(1, "agent `opencode`", words, "`conductor agents opencode` tries it by itself")


@needs_proc
@pytest.mark.parametrize("command", ["agent", "exec"])
def test_nothing_is_left_of_what_an_agent_of_a_chain_sends_to_the_back(
    place: Place, tmp_path: Path, command: str
) -> None:
    place.install("opencode")
    pids = tmp_path / "pids"
    asked = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    more, asked = (("-p", "hi"), b"") if command == "exec" else ((), asked)
    env = environment(PATH=str(place.bin), FAULTS="detached", PIDS=str(pids))
    ran = conductor(command, "opencode", *more, stdin=asked, env=env)
    assert (ran.code, ran.err) == (0, "")
    assert wait_gone(int(pids.read_text()), 60)


def test_an_editor_reads_how_to_install_an_agent(place: Place) -> None:
    asked = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
    env = environment(PATH=str(place.bin))
    ran = conductor("agent", "gemini", stdin=asked, env=env)
    assert ran.code == 2
    error = json.loads(ran.out)["error"]
    assert error["message"].endswith("hint: install it with `npm install -g @google/gemini-cli`")


def test_a_script_whose_interpreter_is_gone_names_its_first_line(place: Place) -> None:
    path = place.bin / "opencode"
    path.write_text("#!/not/there\n")
    path.chmod(0o755)
    ran = place.run("exec", "opencode", "-p", "hi")
    ran.assert_error(1, "cannot start", "check the first line of that file")


def test_an_agent_that_prints_before_it_speaks_is_heard_all_the_same(place: Place) -> None:
    place.install("opencode")
    ran = place.run("exec", "opencode", "-p", "hi", FAULTS="prints")
    assert ran.code == 0
    assert "warning: opencode: message is not JSON" in ran.err
