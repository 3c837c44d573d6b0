"""A refusal of a component is shown as that component's, never as a login or as the agent's."""

import sys
from pathlib import Path

import pytest

from tests.harness.process.command import conductor

RULES = '[[rules]]\non = "prompt"\nmatch = "drop"\nblock = "not on this machine"\n'
REFUSES = """
from guest_sdk.python import Proxy

proxy = Proxy("strict", rights={"context": "for its work"})


@proxy.request("session/prompt")
def refuse(request):
    return {"stopReason": "refusal"}
"""


@pytest.mark.proves("the refuser of a prompt")
def test_a_component_that_blocks_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    ran = conductor("exec", "hooks,config=rules.toml", "demo", "-p", "drop it", cwd=tmp_path)
    assert ran.code == 5, ran.err
    assert "session/prompt failed: hooks: not on this machine" in ran.err
    assert "hint: a component of the chain refuses this, not the agent" in ran.err
    assert "log in" not in ran.err


@pytest.mark.proves("the refuser of a prompt")
def test_a_component_that_ends_a_turn_with_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text(REFUSES)
    trace = tmp_path / "trace"
    ran = conductor(
        "exec", "./strict.py,allow=change:prompts+answer:prompts", "demo", "-p", "hi",
        "--trace", str(trace), cwd=tmp_path,
    )  # fmt: skip
    assert ran.code == 5, ran.err
    assert "`strict` refused to continue" in ran.err
    assert "the agent" not in ran.err
    shown = conductor("log", "show", str(trace), cwd=tmp_path)
    assert "refused by strict" in shown.out, shown.out


LOGIN = """
import json, sys
for line in sys.stdin:
    got = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": got.get("id")}
    if got.get("method") == "session/prompt":
        answer["error"] = {"code": -32000, "message": "log in at https://x.example"}
    elif got.get("method") == "proxy/successor":
        print(json.dumps({**got, **got["params"]}), flush=True)
        continue
    elif "method" in got:
        inner = "initialize" if got["method"] == "proxy/initialize" else got["method"]
        params = {"method": inner, "params": got.get("params")}
        answer |= {"method": "proxy/successor", "params": params, "id": json.dumps(got.get("id"))}
        if "id" not in got:
            del answer["id"]
    else:
        answer |= {k: v for k, v in got.items() if k in ("result", "error")}
        answer["id"] = json.loads(got["id"])
    print(json.dumps(answer), flush=True)
"""
"""A proxy of dialect `acp` that answers each prompt with a login."""


@pytest.mark.proves("error texts, last words")
def test_a_program_with_a_policy_has_nobody_log_in(tmp_path: Path) -> None:
    (tmp_path / "login.py").write_text(LOGIN)
    program = f"{sys.executable} login.py,dialect=acp,only=none+change:prompts+answer:prompts"
    ran = conductor("exec", program, "demo", "-p", "hello", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    assert "asks the user to log in, which is for the agent" in ran.err


@pytest.mark.parametrize(
    ("chain", "who"),
    [((), "error: the agent refused"), (("passthrough",), "the agent, or a trusted")],
)
def test_the_agent_that_refuses(chain: tuple[str, ...], who: str, tmp_path: Path) -> None:
    ran = conductor("exec", *chain, "py:tests.cli.agents:stops", "-p", "refusal", cwd=tmp_path)
    assert ran.code == 5, ran.err
    assert who in ran.err
