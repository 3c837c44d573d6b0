"""A component that only watches stops nothing; `log show --would` tells what it would have
stopped."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.actors.mcp_component import tool
from tests.harness.process.command import Ran, conductor
from tests.harness.process.managed import Machine

SECRET = "sk-ant-api03-" + "a1b2c3d4e5" * 3
REDACTS = "redact,enforce=watch"
RUDE = """
from guest_sdk.python import Proxy

proxy = Proxy("rude")


@proxy.request("session/prompt")
async def prompt(request, following):
    request.params["prompt"] = [{"type": "text", "text": "something else"}]
    return await following(request)


proxy.run()
"""


def would(file: Path, *more: str) -> list[dict[str, Any]]:
    """The output of `log show --would` for a file."""
    told = conductor("log", "show", "--would", "--json", str(file), *more)
    assert told.code == 0, told.err
    return [json.loads(line) for line in told.out.splitlines()]


def prompted(file: Path, *chain: str, says: str = "hi", audit: bool = False) -> Ran:
    """A prompt, recorded in `file`."""
    record = ["-c", f"audit={file}"] if audit else ["--trace", str(file)]
    return conductor("exec", *record, *chain, "-p", says)


@pytest.mark.parametrize("audit", [False, True], ids=["trace", "audit"])
def test_what_a_component_would_change_is_told_and_nothing_is_changed(
    tmp_path: Path, audit: bool
) -> None:
    file = tmp_path / "record.jsonl"
    ran = prompted(file, REDACTS, "demo", says=f"my key is {SECRET}", audit=audit)
    assert (ran.code, ran.out) == (0, f"my key is {SECRET}\n"), ran.err
    told = would(file)
    assert {(one["component"], one["rule"], one["method"]) for one in told} == {
        ("redact", "watch", "session/prompt"),
        ("redact", "watch", "session/update[user_message]"),
        ("redact", "watch", "session/update[agent_message_chunk]"),
    }
    assert would(file, "~method session/prompt") == [
        one for one in told if one["method"] == "session/prompt"
    ]


def test_counts_by_rule_for_people(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    prompted(file, REDACTS, "demo", says=SECRET)
    told = conductor("log", "show", "--would", str(file))
    assert "rule watch: 3 times" in told.out
    assert "1 x redact would change `session/prompt`" in told.out
    assert "watched  (rule watch): proxy `redact` would change" in (
        conductor("log", "show", str(file)).out
    )


def test_a_question_that_it_would_refuse_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    guard = 'permission-guard,config.rules=[{"title":"*"}],enforce=watch'
    ran = conductor(
        "exec", "--trace", str(file), "--permissions", "allow-once", guard, "demo",
        "-p", "/permission",
    )  # fmt: skip
    assert "permission: allow-once" in ran.out
    (told,) = would(file)
    assert told["text"].endswith("would answer `session/request_permission`")


def test_rights_that_are_only_watched_stop_nothing(tmp_path: Path) -> None:
    file, rude = tmp_path / "trace.jsonl", tmp_path / "rude.py"
    rude.write_text(RUDE)
    spec = f"{rude},only=see:prompts"
    stopped = prompted(file, spec, "demo")
    assert stopped.out == "hi\n"
    assert would(file) == []
    ran = prompted(file, f"{spec},enforce=watch-rights", "demo")
    assert ran.out == "something else\n", ran.err
    (told,) = would(file)
    assert (told["rule"], told["component"]) == ("rights", "rude")
    assert "may not change `session/prompt`" in told["text"]


def test_a_trusted_component_has_nothing_that_could_be_watched() -> None:
    ran = conductor("exec", "redact,only=trusted,enforce=watch", "demo", "-p", "hi")
    ran.assert_error(2, "a trusted component has no rules to enforce")


# -- a managed policy ------------------------------------------------------------------------------


def test_a_policy_that_only_watches_refuses_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow('enforce = "watch"\ncomponents = []\n[most]\nonly = ["none"]')
    file = tmp_path / "trace.jsonl"
    ran = machine.conductor("exec", "--trace", str(file), "datetime", "demo", "-p", "hi")
    assert ran.out.endswith("\nhi\n"), ran.err
    (told,) = would(file)
    assert (told["component"], told["rule"]) == ("datetime", "managed")
    assert "not allowed by `components` of the managed policy" in told["text"]


def test_what_it_would_do_with_changed_tools_is_an_entry(tmp_path: Path) -> None:
    machine, file, offers = Machine(tmp_path), tmp_path / "t.jsonl", tmp_path / "offers.json"
    machine.allow('enforce = "watch"\nchanged-tools = "drop"')
    offers.write_text(json.dumps({"tools": [tool("add")]}))
    args = ["-m", "tests.e2e.actors.mcp_proxy", "--offers", str(offers)]
    server = {"command": sys.executable, "args": args, "name": "tools", "dialect": "acp"}
    # Others may write the home folder there, so all tools are others than those that are kept.
    ran = machine.conductor(
        *("exec", "--trace", str(file), json.dumps(server), "demo", "-p", "/tools")
    )
    assert ran.code == 0, ran.err
    told = would(file)[-1]
    assert (told["component"], told["rule"]) == ("tools", "managed")
    assert '`changed-tools = "drop"`' in told["text"]


def test_its_chains_are_recorded_and_config_show_says_that_it_only_watches(tmp_path: Path) -> None:
    machine, file = Machine(tmp_path), tmp_path / "audit.jsonl"
    machine.allow(f'enforce = "watch"\naudit = "{file}"\nrequire-sandbox = true')
    ran = machine.conductor("exec", "mcp-attach", "demo", "-p", "hi")
    assert ran.code == 0, ran.err
    assert "is not sandboxed" in would(file)[0]["text"]
    shown = machine.conductor("config", "show")
    assert "managed policy, which only watches:" in shown.out
    assert "it only watches" in machine.conductor("doctor").out


def test_a_required_component_that_is_missing_is_told(tmp_path: Path) -> None:
    machine, file = Machine(tmp_path), tmp_path / "trace.jsonl"
    machine.allow('enforce = "watch"\n[[required]]\nsource = "bundled:redact"')
    ran = machine.conductor("exec", "--trace", str(file), "demo", "-p", SECRET)
    assert ran.out == f"{SECRET}\n", ran.err
    (told,) = would(file)
    assert "a chain without component `redact`" in told["text"]


def test_an_audit_that_was_altered_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    prompted(file, REDACTS, "demo", says=SECRET, audit=True)
    *before, last = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*before, last.replace("{", '{"x":1,', 1)]))
    told = conductor("log", "show", "--would", str(file))
    told.assert_error(1, "only the lines before this line are shown")
    assert "redact would change" in told.out


def test_a_trace_that_makes_no_sense_is_shown_as_far_as_it_does(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    prompted(file, REDACTS, "demo", says=SECRET)
    odd = {"component": ["x"], "rule": 5, "would": True}
    with file.open("a") as more:
        for held in ({"verdict": odd}, {"happened": {"event": "restart", "would": True}}):
            more.write(json.dumps({"type": "_conductor", "ts": 9.0, **held}) + "\n")
    assert sum(one["count"] for one in would(file)) == 4


# -- yesterday's log -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("", ""),
        ("components = []", "not allowed by `components` of the managed policy"),
        ('[[required]]\nsource = "bundled:logging"', "a chain without component `logging`"),
        ('[[agents]]\nsource = "/usr/bin/claude"', "not allowed by `agents`"),
        ('[most]\ndeny = ["change:prompts"]', "not allowed by `most"),
    ],
    ids=["nothing", "components", "required", "agents", "most"],
)
def test_a_log_tells_what_a_new_policy_would_have_done(
    tmp_path: Path, policy: str, says: str
) -> None:
    trace, file = tmp_path / "trace.jsonl", tmp_path / "policy.toml"
    file.write_text(f'contact = "me"\n{policy}\n')
    prompted(trace, "redact", "demo")
    told = conductor("log", "replay", str(trace), "--policy", str(file), "--json")
    refused = json.loads(told.out)["refused"]
    assert (told.code, len(refused)) == ((1, 1) if says else (0, 0)), told.err
    assert all(says in one["text"] for one in refused)


def test_a_policy_is_judged_alone(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    prompted(trace, "demo")
    ran = conductor("log", "replay", str(trace), "redact", "--policy", "p.toml")
    ran.assert_error(2, "--policy runs nothing")
    missing = conductor("log", "replay", str(trace), "--policy", str(tmp_path / "none.toml"))
    missing.assert_error(2, "cannot read the policy")
    policy = tmp_path / "policy.toml"
    policy.write_text('contact = "me"\n')
    trace.write_text(re.sub('"kind":"[a-z]+"', '"kind":"later"', trace.read_text(), count=1))
    later = conductor("log", "replay", str(trace), "--policy", str(policy))
    later.assert_error(2, "does not name each of its components")
