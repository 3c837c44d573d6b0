"""`conductor exec` is plain to use: prompts without `-p`, and the text that agents write beside."""

import json
import os
import select
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.cli import exec_prompt
from conductor.errors import UsageError
from conductor.spec.paths import components_folder
from tests.harness.process.command import Running, conductor, environment

PYTHON: Final = Path(sys.executable).stem
"""How a component is called whose command begins with the interpreter."""
OWN: Final = [sys.executable, str(components_folder() / "demo" / "agent.py")]
"""An agent that conductor does not know."""
MINE: Final = " ".join(OWN)

PROMPTS: Final = {
    "behind a known agent": (["demo", "hello"], b"", "hello"),
    "behind options of it": (["passthrough,name=p", "demo,name=d", "hello"], b"", "hello"),
    "in several words": (["demo", "what", "day", "is", "it?"], b"", "what day is it?"),
    "as a program is called": (["demo", "date"], b"", "date"),
    "like a command": (["passthrough", "demo", "find the bug"], b"", "find the bug"),
    "between options": (["--fs", "read", "demo", "hello", "--timeout", "60"], b"", "hello"),
    "behind another agent": ([MINE, "hello"], b"", "hello"),
    "behind another agent, like a command": ([MINE, "find the bug"], b"", "find the bug"),
    "before a command": (["passthrough", "hello", "--", *OWN], b"", "hello"),
    "before a command, like a command": (["find the bug", "--", *OWN], b"", "find the bug"),
    "behind a chain by name": (["work", "hello"], b"", "hello"),
    "from a pipe": (["demo"], b"hi\n", "hi"),
    "from a pipe, for two": (["passthrough", "demo"], b"hi", "hi"),
    "from a pipe, for another agent": (["passthrough", MINE], b"hi", "hi"),
    "from a pipe, for a command": (["passthrough", "--", *OWN], b"hi", "hi"),
    "from a pipe, for a chain by name": (["work"], b"hi", "hi"),
    "from a pipe, by a word": (["demo", "-"], b"hi", "hi"),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_the_prompt_is_where_it_looks_to_be(case: str, tmp_path: Path) -> None:
    config = tmp_path / "conductor" / "conductor.toml"
    config.parent.mkdir()
    config.write_text('[chains.work]\ncomponents = ["passthrough", "demo"]\n')
    arguments, typed, prompt = PROMPTS[case]
    ran = conductor("exec", *arguments, stdin=typed, env=environment(XDG_CONFIG_HOME=str(tmp_path)))
    assert (ran.code, ran.out, ran.err) == (0, f"{prompt}\n", "")


def test_what_may_be_the_agent_or_the_prompt_is_neither() -> None:
    ran = conductor("exec", MINE, "find the bug", stdin=b"x")
    ran.assert_error(2, "`find the bug` may be the agent or the prompt", "-p 'find the bug'")


def test_without_a_prompt_on_a_terminal_it_says_how_to_write_one() -> None:
    with Running("exec", "demo", terminal=True) as running:
        ran = running.end()
    assert (ran.code, ran.out) == (2, "")
    assert 'conductor exec demo -p "what day is it?"' in ran.err


class _ClosesLate:
    """`select.poll` on a pipe that closes only while somebody waits for it."""

    def __init__(self, real: select.poll, writer: int) -> None:
        self.real = real
        self.writer = writer

    def register(self, number: int, events: int) -> None:
        self.real.register(number, events)

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        if milliseconds:
            os.close(self.writer)
        return self.real.poll(milliseconds)


def test_a_pipe_that_closes_empty_a_moment_later_is_no_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    kept = os.dup(0)
    os.dup2(reader, 0)
    closes = _ClosesLate(select.poll(), writer)
    monkeypatch.setattr(select, "poll", lambda: closes)
    try:
        with pytest.raises(UsageError, match="needs a prompt"):
            exec_prompt.found(["demo"], behind=False, config=None)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reader)


def test_what_is_piped_beside_a_prompt_is_said_to_be_unread() -> None:
    ran = conductor("exec", "demo", "explain this", stdin=b"a diff")
    assert (ran.code, ran.out) == (0, "explain this\n")
    assert ran.err.startswith("warning: nobody reads standard input")


CHATTY: Final = """
import json, sys
sys.stderr.write("loading\\n401 denied\\n")
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": 1, "sessionId": "s", "stopReason": "end_turn"}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    if "please fail" in line:
        answer = {**answer, "error": {"code": -32603, "message": "401 denied"}}
        del answer["result"]
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "shown", "hidden"),
    [
        (["hello"], 0, "", "loading"),
        (["-v", "hello"], 0, f"[{PYTHON}] loading\n[{PYTHON}] 401 denied\n", "error"),
        (["--log", "info", "hello"], 0, f"[{PYTHON}] loading\n", "error"),
        (
            ["please fail"],
            1,
            f"[{PYTHON}] loading\nerror: session/prompt failed: 401 denied\n",
            "] 401",
        ),
    ],
)
def test_an_agents_standard_error_is_for_the_log_unless_it_fails(
    arguments: list[str], code: int, shown: str, hidden: str, tmp_path: Path
) -> None:
    log = tmp_path / "the.log"
    own = [sys.executable, "-c", CHATTY]
    ran = conductor("exec", "-c", f"log-file={log}", *arguments, "--", *own)
    assert ran.code == code
    assert shown in ran.err
    assert hidden not in ran.err
    assert "] loading\n" in log.read_text()


ENDS: Final = """
import json, sys
version, end = json.loads(sys.argv[1])
def say(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
def update(**members):
    say(method="session/update", params={"sessionId": "s", "update": members})
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": version, "sessionId": "s"}
    if message["method"] == "session/prompt":
        block = {"type": "text", "text": "done"}
        update(sessionUpdate="agent_message_chunk", messageId="m", content=block)
        result = end
    say(id=message["id"], result=result)
    if result is end and version == 2:
        update(sessionUpdate="state_update", state="running")
        update(sessionUpdate="state_update", state="idle", **end)
"""


@pytest.mark.parametrize(
    ("version", "end", "code", "shown"),
    [
        (2, {}, 0, ""),  # the agent need not say why
        (2, {"stopReason": None}, 0, ""),
        (2, {"stopReason": "refusal"}, 5, "error: the agent refused to continue"),
        (1, {"stopReason": "end_turn"}, 0, ""),
        (1, {}, 1, "error: session/prompt failed: the answer holds no stopReason"),
        (1, None, 1, "error: session/prompt failed: the answer holds no stopReason"),
    ],
)
def test_the_end_of_a_turn_is_told_as_its_version_of_acp_has_it(
    version: int, end: object, code: int, shown: str
) -> None:
    own = [sys.executable, "-c", ENDS, json.dumps([version, end])]
    ran = conductor("exec", "hello", "--", *own)
    assert (ran.code, ran.out.strip()) == (code, "done")
    assert ran.err.startswith(shown)
    assert bool(ran.err) == bool(shown)
