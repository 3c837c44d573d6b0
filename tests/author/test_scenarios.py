"""Scenarios in TOML: what a file may hold, what a run must show, and how both are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from conductor.author.scenario import file, play
from conductor.cli import test_
from conductor.errors import UsageError
from tests.harness.process.command import conductor
from tests.places import COMPONENTS

CHAIN: Final = 'chain = ["passthrough"]\n'
STEP: Final = '[[step]]\nprompt = "x"\n'


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ('[[step]]\nprompt = "x\n', "Illegal character", "TOML"),
        ("step = 1", "line 1: `step` should be a valid list", "docs/authoring.md"),
        ("", "a scenario has a `[[step]]`", '`prompt = "hello"`'),
        (STEP + 'agnet = "y"\n', "line 3: [step] has no key `agnet`", "did you mean `agent`?"),
        (STEP + 'agent = [\n"a",\n{tool = "x", staus = "y"},\n]', "line 5: [step.agent] has no key",
         "did you mean `status`?"),
        ('[[step]]\nagent = "x"', "line 1: a step is one of prompt, mode,", "`prompt = "),
        (STEP + 'mode = "y"', "line 3: a step is one of prompt, mode, request, notify, not 2", ""),
        (STEP + "result = {a = 1}", "line 3: `result` belongs to `request` or `mode`", ""),
        (STEP + 'by = "component"\nexpect = [{agent = "*"}]', "a step by a component has only", ""),
        ('[[step]]\nnotify = "_x"\nagent = "y"', "nobody answers a notification", ""),
        (STEP + "agent = [{}]", "line 3: an action is one of thought, tool,", "tool ="),
        (STEP + 'agent = [{plan = [], status = "x"}]', "`status` does not belong to `plan`", ""),
        (STEP + 'agent = [{stop = "refusal"}, "x"]', "nothing follows `stop`", ""),
        ('[[step]]\nmode = "x"\nagent = [{cancel = true}]', "`cancel` is about a prompt", ""),
        (STEP + 'agent = [{ask = "x", answer = "y"}]', "`y` is no option", "allow, reject, or"),
        (STEP + "expect = [{count = 1}]", "one of client, agent, component", "{ agent = "),
        (STEP + 'expect = [{client = ["a"], count = 1}]', "a list says in which order", ""),
        (STEP + 'expect = [{component = "x"}]', "it says nothing of the component", "changed 1"),
        (STEP + 'expect = [{client = "*", matches = "("}]', "is no regular expression", ""),
        (STEP + 'expect = [{client = "*", at = "a"}]', "`at` is a JSON pointer", "/prompt/0"),
        ("limit = 0\n" + STEP, "line 1: `limit` is up to 600 seconds", ""),
        ("chain = []\n" + STEP, "line 1: `chain` has no proxy", "this component"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(text: str, error: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        file.load(str(path))
    assert str(path) in refused.value.text
    assert error in refused.value.text
    assert hint in refused.value.hint


def test_what_a_chain_cannot_be(tmp_path: Path) -> None:
    for chain, error in (
        ("passthruogh", "scenario.toml, line 1: `passthruogh` is neither"),
        (".", "is a folder without a proxy"),
        ("python3 evil.py", "runs the program `evil` (python3), and its folder is not trusted"),
        ("py:os:abort", "runs the program `abort` (py:os:abort)"),
    ):
        path = tmp_path / "scenario.toml"
        path.write_text(f'chain = ["{chain}"]\n{STEP}')
        with pytest.raises(UsageError, match="scenario") as refused:
            play.play(str(path), str(tmp_path), None, lambda *entry: None)
        assert error in refused.value.text


GOOD: Final = """\
chain = ["passthrough"]
client_capabilities = { fs = { readTextFile = true } }
expect = [
  { agent = "initialize", contains = "true" },
  { agent = "prompt", count = 3 },
  { client = "*", most = 100 },
]

[[step]]
prompt = "one"
agent = [
  "Let me ", "look.",
  { thought = "hm" },
  { plan = ["read", "write"] },
  { tool = "Read", status = "in_progress" },
  { request = "fs/read_text_file", params = { path = "/a" }, result = { content = "text" } },
  { request = "fs/read_text_file", params = { path = "/b" }, refused = "no such file" },
  { tool = "Read", kind = "read", text = "text" },
  { ask = "Write?", options = ["yes", "reject"], answer = "reject" },
  { ask = "Sure?", answer = "cancelled" },
  { update = { sessionUpdate = "current_mode_update", currentModeId = "ask" } },
  { notify = "_example/note", params = { n = 1 } },
  "Done.",
]
expect = [
  { agent = ["session/new", "prompt", "answer to fs/read_text_file"] },
  { agent = "prompt", equals = "one" },
  { agent = "error", equals = "no such file" },
  { agent = "answer to session/request_permission", contains = "reject", count = 1 },
  { agent = "answer to session/request_permission", at = "/outcome/outcome", equals = "cancelled" },
  { client = ["answer", "thoughts", "plan", "tool_call", "fs/read_text_file", "tool_call_update",
              "session/request_permission", "current_mode_update", "_example/note", "answer",
              "stop"] },
  { client = "answer", equals = "Let me look." },
  { client = "tool_call_update", at = "/update/status", equals = "completed" },
  { client = "answer", lacks = ["secret", "token"] },
  { client = "plan", contains = ["read", "write"] },
  { client = "stop", matches = "^end" },
  { component = "passthrough", count = 0 },
]

[[step]]
prompt = [{ type = "text", text = "two" }]
agent = ["Working", { cancel = true }, { stop = "cancelled" }]
expect = [{ agent = "session/cancel" }, { client = "stop", equals = "cancelled" }]

[[step]]
mode = "ask"
expect = [{ agent = "session/set_mode", at = "/modeId", equals = "ask" }]

[[step]]
request = "session/list"
params = { cwd = "/x" }
result = { sessions = [] }
expect = [{ client = "answer to session/list", at = "/sessions", equals = "[]" }]

[[step]]
notify = "_example/hello"
params = { n = 1 }
expect = [{ agent = "_example/hello", at = "/n", equals = "1" }]

[[step]]
session = "other"
prompt = "three"
agent = [{ error = "I am full" }]
expect = [{ agent = "session/new" },
          { client = "error", contains = "full" }]
"""

BROKEN: Final = """\
chain = ["passthrough"]
wait = 0.1
[[step]]
prompt = "a \\u001b[31m line"
agent = "Hi"
expect = [
  { agent = "prompt", equals = "a \\u001b[32m line" },
  { client = "answer", contains = "Ho" },
  { client = "answer", lacks = "Hi" },
  { client = ["stop", "answer"] },
  { client = "plan" },
  { client = "answer", count = 2 },
  { component = "passthrough", equals = "added 1 block" },
  { client = "stop", at = "/nothing", equals = "x" },
]
[[step]]
prompt = "two"
agent = [{ error = "I am full" }]
"""


def test_scenarios_are_played_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command plays all; each expectation that does not hold is named, with both values."""
    for name, text in (("good", GOOD), ("broken", BROKEN)):
        (tmp_path / "test-scenarios" / name).mkdir(parents=True)
        (tmp_path / "test-scenarios" / name / "scenario.toml").write_text(text)
    ran = conductor("test", cwd=tmp_path)
    ran.assert_error(1, "1 of 2 scenarios failed")
    lines = ran.out.splitlines()
    assert lines[:5] == [
        "FAILED  test-scenarios/broken/scenario.toml",
        "    test-scenarios/broken/scenario.toml:7: the agent's `prompt`",
        '      expected "a \\u001b[32m line"',
        '      got      "a \\u001b[31m line"',
        "                          ^",
    ]
    assert lines[-1] == "passed  test-scenarios/good/scenario.toml"
    found: dict[str, Any] = {}
    assert test_.play([str(tmp_path)], found=found) == 1
    assert capsys.readouterr().out == ""
    broken, good = found["scenarios"]
    assert good["failures"] == []
    assert (good["outcome"], good["chain"], good["steps"]) == ("passed", ["passthrough"], 6)
    assert (broken["outcome"], broken["ended"]) == ("failed", None)
    assert [(each["line"], each["expected"], each["got"][0]) for each in broken["failures"]] == [
        (7, '"a \\u001b[32m line"', "a \x1b[31m line"),
        (8, 'a text with "Ho"', "Hi"),
        (9, 'none of them with "Hi"', "Hi"),
        (10, "in this order: stop, answer",
         "answer to initialize, answer to session/new, answer, stop"),
        (11, "at least one",
         "no `plan`, but answer to initialize, answer to session/new, answer, stop"),
        (12, "2, not 1", "Hi"),
        (13, '"added 1 block"', "unchanged"),
        (14, '"x"', "nothing there"),
        (16, "an answer that is no error", "I am full"),
    ]  # fmt: skip


def test_what_never_comes_ends_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(CHAIN + "limit = 0.01\n" + STEP)
    played = play.play(str(path), str(tmp_path), None, lambda *entry: None)
    assert played.ended.startswith("nothing has moved for 0.01 s; the client waits for `")


def test_a_script_that_ends_early_says_so(tmp_path: Path, python_guest: None) -> None:
    """The proxy sends a prompt of its own, which takes the answer that the next one needs."""
    bundled = COMPONENTS / "sparkle" / "test-scenarios" / "first-prompt" / "scenario.toml"
    head, own, *steps = bundled.read_text().split("[[step]]")
    assert "component" in own
    path = tmp_path / "scenario.toml"
    path.write_text("[[step]]".join(['chain = ["sparkle"]\nwait = 0.1\n' + head, *steps]))
    played = play.play(str(path), str(tmp_path), None, lambda *entry: None)
    said = [text for failure in played.failures for text in failure.got]
    assert any("the scenario has no answer to this `session/prompt`" in text for text in said)
    assert any("a step with `by = " in text for text in said)


def test_the_bundled_scenarios(python_guest: None) -> None:
    paths = sorted(COMPONENTS.glob("*/test-scenarios/*/scenario.toml"))
    assert paths
    for path in paths:
        home = str(path.parents[2])
        played = play.play(str(path), home, None, lambda *entry: None)
        assert (played.failures, played.ended, played.notes) == ((), "", ()), path
