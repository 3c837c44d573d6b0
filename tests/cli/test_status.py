"""Starting is never silent: the status line on a terminal, and the text elsewhere."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.cli import app, report, silence
from conductor.cli.status import Shown, Status, Uncovering
from conductor.spec.paths import components_folder
from tests.harness.process.command import Running, conductor
from tests.places import ROOT

AGENT = """
import json, os, sys, time

def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)

def wait(what):
    while not os.path.exists(sys.argv[1] + what):
        time.sleep(0.02)

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            wait("initialize")
            send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            wait("new")
            send(id=message["id"], result={"sessionId": "s"})
        case "session/prompt":
            wait("prompt")
            text = {"type": "text", "text": "hello"}
            update = {"sessionUpdate": "agent_message_chunk", "content": text}
            send(method="session/update", params={"sessionId": "s", "update": update})
            wait("end")
            send(id=message["id"], result={"stopReason": "end_turn"})
"""
"""An agent that goes on once a file is there: `initialize`, `new`, `prompt`, `end`."""

CLEAR = "\r\x1b[K"


@pytest.fixture(name="gate")
def _gate(tmp_path: Path) -> Path:
    """The folder of the files that an agent waits for."""
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def chain(gate: Path) -> list[str]:
    """The agent, as the last component."""
    return ["--", sys.executable, str(gate / "agent.py"), f"{gate}{os.sep}"]


def shown(text: str) -> str:
    """The text that a terminal shows in the end."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition(CLEAR)[2] for line in lines)


# -- exec ------------------------------------------------------------------------------------------


def test_exec_on_a_terminal_says_what_it_waits_for(gate: Path) -> None:
    with Running("exec", "-p", "hi", *chain(gate), terminal=True, env={"TERM": "xterm"}) as running:
        running.wait_for(running.err, "waiting for `agent` to answer `initialize`, ")
        (gate / "initialize").touch()
        running.wait_for(running.err, "waiting for `agent` to open the session, ")
        (gate / "new").touch()
        running.wait_for(running.err, "waiting for the answer of `agent`, ")
        (gate / "prompt").touch()
        running.wait_for(running.out, "hello")
        # The answer takes it away; a terminal may hand that on later than a pipe does the answer.
        running.wait_until(running.err, lambda text: shown(text) == "", "no status line")
        (gate / "end").touch()
        ran = running.end()
    assert (ran.code, ran.out) == (0, "hello\n")
    assert shown(ran.err) == ""


def test_a_turn_that_is_interrupted_leaves_no_status_line(gate: Path) -> None:
    with Running("exec", "-p", "hi", *chain(gate), terminal=True, env={"TERM": "xterm"}) as running:
        running.wait_for(running.err, "waiting for `agent` to answer `initialize`, ")
        running.interrupt()
        ran = running.end()
    assert (ran.code, shown(ran.err)) == (130, "")


def test_an_agent_that_dies_takes_the_status_line_with_it(tmp_path: Path) -> None:
    agent = (
        "import os, sys, time\n"
        "sys.stdin.readline()\n"
        f"while not os.path.exists({str(tmp_path / 'die')!r}): time.sleep(0.02)\n"
        "sys.exit('no more')"
    )
    arguments = ["exec", "-p", "hi", "--", sys.executable, "-c", agent]
    with Running(*arguments, terminal=True, env={"TERM": "xterm"}) as running:
        running.wait_for(running.err, " to answer `initialize`, ")
        (tmp_path / "die").touch()
        ran = running.end()
    assert ran.code == 1
    assert shown(ran.err).startswith("error: agent ")
    assert shown(ran.err).count("no more\n") == 1


# -- commands that run no chain --------------------------------------------------------------------

GUEST = components_folder() / "passthrough" / "passthrough.wasm"


def slow(folder: Path) -> str:
    """A component whose build waits for a file."""
    wait = f"until [ -e {folder}/end ]; do sleep 0.05; done; cp {GUEST} slow.wasm"
    build = f'[build]\ncommand = ["sh", "-c", "{wait}"]\n'
    (folder / "component.toml").write_text(f'name = "slow"\nfile = "slow.wasm"\n{build}')
    return str(folder)


def test_a_build_says_what_it_waits_for(tmp_path: Path) -> None:
    with Running(
        "test", "--build", slow(tmp_path), terminal=True, env={"TERM": "xterm"}
    ) as running:
        running.wait_for(running.err, "building `slow`: sh -c ")
        running.wait_for(running.err, "the build goes on, ")
        (tmp_path / "end").touch()
        ran = running.end()
    assert ran.code == 0
    assert len(shown(ran.err).splitlines()) == 1, "the status line is away"


def test_without_a_terminal_a_build_says_its_command(tmp_path: Path) -> None:
    (tmp_path / "end").touch()
    ran = conductor("test", "--build", slow(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert ran.err.startswith("building `slow`: sh -c ")


def test_every_command_that_is_silent_for_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered: list[str] = []
    monkeypatch.setattr(report, "can_cover", lambda: True)
    monkeypatch.setattr(report, "cover", covered.append)
    monkeypatch.setattr(silence, "_SILENT", 0.01)
    with silence.of(["inspect", "x"]), silence.during("compiling"):
        while not covered:
            signal.pause()
    assert covered[0].startswith("compiling, ")
    covered.clear()
    with silence.of(["serve", "x"]):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0), "it runs until it is ended"


def test_where_no_line_can_be_taken_away_a_cold_test_says_once_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(silence, "_SILENT", 0.001)
    monkeypatch.setattr(silence, "_REDRAWN", 0.001)
    monkeypatch.setattr(silence, "_named", set())
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("")
    demo = str(ROOT / "components" / "datetime")
    for _ in range(2):
        assert app.main(["test", "--component", demo, str(tmp_path)]) == 0
    said = "playing scenarios; a component that is new is compiled first …"
    assert capsys.readouterr().err.count(said) == 1


@pytest.mark.parametrize(
    ("term", "is_terminal", "covers"),
    [("", True, False), ("dumb", True, False), ("xterm", False, False), ("xterm", True, True)],
)
def test_only_a_terminal_that_can_go_back_gets_a_line_drawn_anew(
    term: str, is_terminal: bool, covers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(os, "isatty", lambda fd: is_terminal)
    assert report.can_cover() is covers


def test_without_a_terminal_each_long_stage_gets_one_line(gate: Path) -> None:
    for each in ("new", "prompt", "end"):
        (gate / each).touch()
    with Running("exec", "-p", "hi", *chain(gate)) as running:
        # On a busy machine somebody looks after more than five seconds.
        said = re.compile(r"\Awaiting for `agent` to answer `initialize`, \d+ s …\n")
        running.wait_until(running.err, lambda text: bool(said.match(text)), "the one line")
        (gate / "initialize").touch()
        ran = running.end()
    assert (ran.code, ran.out) == (0, "hello\n")
    assert len(ran.err.splitlines()) == 1


def test_a_quick_chain_says_nothing() -> None:
    ran = conductor("exec", "demo", "-p", "hi")
    assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")


def test_a_time_limit_says_what_was_waited_for(gate: Path) -> None:
    ran = conductor("exec", "-p", "hi", "--timeout", "2", *chain(gate))
    ran.assert_error(3, "did not end within 2 s: waiting for `agent` to answer `initialize`")


# -- agent, typed in a terminal --------------------------------------------------------------------


def test_a_pasted_agent_says_what_to_type_instead_and_works(gate: Path) -> None:
    request = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    arguments = ["agent", "passthrough", *chain(gate)]
    with Running(*arguments, terminal=True, env={"TERM": "xterm"}) as running:
        running.wait_for(running.err, "waits for an editor's messages on standard input")
        typed = f"passthrough -- {sys.executable} {gate / 'agent.py'} {gate}{os.sep}"
        components, dashes, command = typed.partition(" -- ")
        running.wait_for(running.err, f'conductor exec {components} -p "hi"{dashes}{command}\n')
        running.wait_for(running.err, f"conductor setup zed {typed}\n")
        running.type(f"{request}\n")
        running.wait_for(running.err, "waiting for `agent` to answer `initialize`, ")
        (gate / "initialize").touch()
        running.wait_for(running.out, '"result"')
        running.type("\x04")
        ran = running.end()
    assert ran.code == 0
    assert ran.out.startswith('{"jsonrpc":"2.0","id":1,"result":')
    assert shown(ran.err).splitlines()[-1] in ("", request)


def test_an_editor_gets_no_word_of_it(gate: Path) -> None:
    ran = conductor("agent", *chain(gate), "-c", "drain=0.1")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


# -- the line itself -------------------------------------------------------------------------------


class Terminal:
    """A terminal as standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        self.written = b""
        monkeypatch.setattr(os, "write", self._write)
        monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((columns, 24)))
        monkeypatch.setenv("NO_COLOR", "1")

    def _write(self, fd: int, data: bytes) -> int:
        assert fd == 2
        self.written += data
        return len(data)


@pytest.mark.parametrize("columns", [0, 1, 5, 20, 40, 80])
@pytest.mark.parametrize("text", ["a" * 300, "漢" * 300, "short", "e\u0301" * 90])
def test_it_stays_on_one_line(columns: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, columns)
    report.cover(text)
    report.uncover()
    line = terminal.written.decode().split(CLEAR)[1]
    width = sum(1 if character.isascii() or character == "…" else 2 for character in line)
    assert width < max(2, columns or 80)
    assert terminal.written.endswith(CLEAR.encode())


def test_nobody_else_moves_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, 200)
    report.cover("waiting for `a\x1b[2J\r\n\x9b1A\u202eb`")
    report.uncover()
    line = terminal.written.decode().split(CLEAR)[1]
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)
    assert "a\\u{1b}[2J" in line


def test_what_else_is_written_takes_it_away_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch, 80)
    report.cover("one")
    before = len(terminal.written)
    report.write("another line")
    assert terminal.written[before:] == CLEAR.encode()
    assert capsys.readouterr().err == "another line\n"
    report.uncover()
    assert terminal.written[before:] == CLEAR.encode(), "once"


def test_a_message_to_the_client_takes_it_away_first() -> None:
    said: list[object] = []
    inner: Any = SimpleNamespace(write=said.append)
    Uncovering(inner, lambda: said.append("uncovered")).write(b"{}\n")
    assert said == ["uncovered", b"{}\n"]


@pytest.mark.parametrize(
    ("shown", "said"), [("line", "advice\n"), ("once", "late\nadvice\n"), ("nowhere", "")]
)
def test_where_the_one_line_of_a_stage_is_said(
    shown: Shown, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: list[str] = []

    async def say() -> None:
        runtime: Any = SimpleNamespace(router=None, planned={})
        status, stage = Status(runtime, lambda *words: logged.append(words[2]), shown), Any
        for text in ("late", "late", "advice", "advice"):
            status._say(stage, text, advice=text == "advice")  # type: ignore[arg-type]

    asyncio.run(say())
    assert (capsys.readouterr().err, logged) == (said, ["advice"])
