"""`conductor inspect`: what a component may do to the conversation, and what it asks for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conductor.core import SERVICES
from conductor.core.guards import GUARDS
from conductor.core.policy.key_table import ROWS
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import PROFILES, SAYS, TRUSTED, Grants
from conductor.spec import lacking, policy_text
from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor, environment

DATETIME = components_folder() / "datetime" / "datetime.wasm"


def page(component: str, width: int = 100) -> str:
    """The whole page as a person reads it, without its line breaks."""
    ran = conductor("inspect", "--all", component, env=environment(COLUMNS=str(width)))
    assert (ran.code, ran.err) == (0, "")
    return " ".join(ran.out.split())


def facts(component: str) -> dict[str, Any]:
    """The same for machines."""
    ran = conductor("inspect", "--json", component)
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_full_is_everything_within_every_guard() -> None:
    policy = facts("passthrough")["policy"]
    assert (policy["profile"], policy["enforced"], policy["on_violation"]) == ("full", True, "pass")
    assert (policy["says"], policy["grants"], policy["fails"]) == (
        "may do everything but what is guarded",
        ["turns=within"],
        "open",
    )
    held = {
        (one["direction"], key): one["rights"] for one in policy["rights"] for key in one["keys"]
    }
    assert held["down", "session/prompt"] == ["copy", "carry", "answer", "amend", "originate"]
    assert held["up", "session/update[tool_call]"] == ["copy"]
    assert ("up", "mcp/*") not in held
    assert [one["name"] for one in policy["guards"]] == [one.name for one in GUARDS]
    assert not any(one["lifted"] for one in policy["guards"])
    text = page("passthrough")
    assert "read and change the handshake, set-ups of sessions (folders, MCP servers" in text
    assert "turns set the agent to work in your turns, by prompts that you may not see" in text
    assert all(guard.name in text for guard in GUARDS)
    assert "WIDENED" not in text
    assert "undoes and reports what breaks a rule; the session goes on" in text
    assert "a request that it holds goes on unchanged" in text


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_is_told_in_sentences(profile: str) -> None:
    component = f"passthrough,profile={profile}"
    policy = facts(component)["policy"]
    assert (policy["profile"], policy["says"]) == (profile, SAYS[profile])
    text = page(component)
    said = {
        "none": "(profile none) none of its messages reaches anybody",
        "observer": "read all else but the traffic of MCP servers and extensions none of its "
        "messages reaches anybody",
        "context": "read and change set-ups of sessions (folders, MCP servers and their keys), "
        "prompts give the agent tools of its own (MCP servers): it believes them it does not "
        "see any other message",
        "filter": "keys), prompts, messages, thoughts and plans hide messages, thoughts and plans "
        "change answers to prompts give the agent",
        "tools": "read and change set-ups of sessions (folders, MCP servers and their keys) "
        "give the agent tools of its own",
        "full": "make up messages, thoughts and plans answer prompts read and change",
    }[profile]
    assert said in text
    assert ("permission-answers" in text) == (profile not in ("none", "observer"))


def test_a_card_fits_on_a_screen() -> None:
    for component in ("passthrough", "hooks", "redact"):
        out = conductor("inspect", component, env=environment(COLUMNS="100")).out
        assert len(out.splitlines()) <= 70, out


def test_every_row_has_a_name_or_a_grant() -> None:
    for row in ROWS:
        named = (row.direction, row.keys[0]) in policy_text.NAMES
        assert named or not row.full, row.keys
    assert set(policy_text.GRANTS) == set(Grants().__struct_fields__)
    assert set(policy_text.SERVICES) == SERVICES


def test_what_was_granted_besides_is_told() -> None:
    component = (
        "passthrough,profile=observer,allow=down:session/prompt:carry,on_violation=fail,"
        "fails=closed,hold=30,allow=up:session/update[agent_message_chunk]:originate"
    )
    text = page(component)
    assert "make up agent_message_chunk read and change prompts read all else" in text
    assert (
        "ends the component. If the component fails, conductor refuses a request that it holds"
        in text
    )
    assert "may hold a prompt for 30 s" in text
    held = facts(component)["policy"]["rights"]
    assert {
        "direction": "down",
        "rights": ["copy", "carry"],
        "keys": ["session/prompt"],
    } in held


def test_each_named_grant_is_told() -> None:
    component = (
        "passthrough,profile=none,turns=unprompted,commands=review+plan,permission=narrow,"
        "mcp=others,sessions=own,options,editor=panel,methods=_x/*,texts,capabilities=*"
    )
    text = page(component)
    for said in (
        "turns set the agent to work WHEN YOU ARE AWAY, by prompts that you may not see",
        "commands put commands into the agent's list, and send them as if you had typed them: rev",
        "permission refuse in your place what the agent asks you to allow",
        "mcp READ AND ALTER the calls of all other MCP servers and their results",
        "sessions set the agent to work in sessions that YOU DO NOT SEE, in your folders",
        "options add options of its own",
        "editor show panels beside the conversation",
        "methods send, change and answer extension methods, WHATEVER THEY DO: _x/*",
        "texts change words in finished tool calls",
        "capabilities tell agent and editor that the other is able to do things: any",
    ):
        assert said in text
    policy = facts(component)["policy"]
    assert policy["grants"][0] == "turns=unprompted"
    assert any(one["keys"] == ["_x/*"] for one in policy["rights"])


def test_guards_that_a_grant_widens_stand_apart() -> None:
    component = "passthrough,permission=narrow"
    guards = facts(component)["policy"]["guards"]
    widened = [one["name"] for one in guards if one["lifted"]]
    known = [one.name for one in GUARDS if one.lifted_by.startswith("permission=")]
    assert widened == known != []
    assert f"WIDENED by permission {', '.join(known)}" in page(component)


@pytest.mark.parametrize("component", ["python p.py", "py:a:b", "passthrough,profile=trusted"])
def test_what_is_trusted_says_that_no_rule_is_enforced(component: str) -> None:
    found = facts(component)["policy"]
    assert (found["profile"], found["enforced"]) == ("trusted", False)
    assert found["rights"] == []
    text = page(component)
    assert "Trusted: no rule limits" in text
    assert "`,profile=filter`" in text


def test_a_command_may_be_given_a_profile() -> None:
    text = page("python p.py,profile=filter")
    assert "UNSANDBOXED" in text
    assert "profile filter" in text
    assert "permission-widening" in text


def test_an_agent_has_no_policy() -> None:
    assert facts("demo")["policy"] is None
    assert "rule" not in page("demo")


def test_more_than_is_asked_for_is_pointed_out() -> None:
    wants = facts("datetime,profile=full")["wants"]
    assert (wants["profile"], wants["profile_granted"]) == ("context", True)
    assert wants["not_granted"] == []
    text = page("datetime,profile=full")
    assert "It gets all that its manifest asks for" in text
    assert "profile full, where context would do (`,profile=context`" in text
    assert facts("datetime")["policy"]["profile"] == "context"  # what its manifest asks for
    assert "gets more than" not in page("datetime")


def test_what_is_asked_for_and_not_granted_is_listed(tmp_path: Path) -> None:
    """A manifest beside a module of one's own: only a claim of its author, granted nothing."""
    shutil.copy(DATETIME, tmp_path)
    shutil.copy(DATETIME.parent / "component.toml", tmp_path)
    module = f"{tmp_path / 'datetime.wasm'},profile=observer"
    wants = facts(module)["wants"]
    assert (wants["profile_granted"], wants["not_granted"]) == (False, ["clock"])
    text = page(module)
    assert "asks for what it does not get service clock, to learn the date" in text
    assert "profile context; it gets observer" in text
    assert facts(f"{module},grant=clock")["wants"]["not_granted"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "a manifest is a few tables: a TOML file"),
        ("name = 3", "line 1: `name` should be a valid string"),
        ('name = "x"\nfile = "datetime.wasm"\n[wants]\nservices = 3', "line 4: `wants.services`"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    """It may ask for less than a component without one is given."""
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text(text)
    conductor("inspect", str(tmp_path / "datetime.wasm")).assert_error(2, said)


def test_a_manifest_of_something_else_does_no_harm(tmp_path: Path) -> None:
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text(
        'name = "x"\nfile = "other.wasm"\n[wants]\nprofile = "none"'
    )
    found = facts(str(tmp_path / "datetime.wasm"))
    assert (found["wants"]["profile"], found["policy"]["profile"]) == (None, "context")


def test_what_a_source_asks_for_is_not_said_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = Proxy('x', profile='full')")
    assert "Its source asks for what it does not get" in page(str(tmp_path / "x.py"))


def test_what_is_granted_and_denied_is_an_error() -> None:
    for denied in ("files", "*"):
        ran = conductor("inspect", f"context,deny={denied},grant=files:sub/**")
        ran.assert_error(2, "`context` is granted `files:sub/**` and denied it")


def test_a_path_with_blanks_or_quotes_needs_no_quotes_and_may_have_them(tmp_path: Path) -> None:
    for name in ("my proxy.py", 'a"b.py'):
        path = tmp_path / name
        path.write_text("proxy = Proxy('x', profile='observer')")
        for written in (str(path), f"'{path}'"):
            assert facts(written)["policy"]["profile"] == "observer"


def test_options_of_agents_are_refused_of_proxies() -> None:
    for option in ("quiet=1", "mcp_bridge=http"):
        ran = conductor("exec", f"datetime,{option}", "demo", "-p", "x")
        key = option.partition("=")[0]
        ran.assert_error(2, f"`{key}` is an option of agents, and `datetime` is a proxy")


def test_a_manifest_may_not_speak_to_the_terminal(tmp_path: Path) -> None:
    shutil.copy(DATETIME, tmp_path)
    clock = r'clock = "\u001b[2Jtrust me"'
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nversion = "\\u001b[1m"\nfile = "datetime.wasm"\n[wants.services]\n{clock}'
    )
    ran = conductor("inspect", "--all", str(tmp_path / "datetime.wasm"))
    assert "\x1b" not in ran.out
    assert "\\u{1b}[2Jtrust me" in ran.out


def test_the_fences_of_its_process_are_named() -> None:
    cage = facts("passthrough")["cage"]
    assert {"descriptors", "environment"} <= {one["name"] for one in cage}
    text = page("passthrough")
    for layer in cage:
        stands = text.partition("locked up on this machine by: ")[2].partition(" (`")[0]
        assert (layer["name"] in stands.split(", ")) == layer["in_force"]
    assert facts("python p.py")["cage"] == []


@pytest.mark.parametrize("width", [60, 80, 132])
def test_it_is_wrapped_at_the_width_of_the_terminal(width: int) -> None:
    ran = conductor("inspect", "--all", "datetime,texts", env=environment(COLUMNS=str(width)))
    long = [line for line in ran.out.splitlines() if len(line) > width]
    assert all(len(line.split()[-1]) > width - 30 for line in long), long  # paths, digests
    assert max(map(len, ran.out.splitlines())) > width - 15


@pytest.mark.parametrize("given", [*PROFILES, TRUSTED])
@pytest.mark.parametrize("wanted", PROFILES)
def test_profiles_are_compared_by_what_they_allow(given: str, wanted: str) -> None:
    wider = {
        "none": {"none"},
        "observer": {"none", "observer"},
        "context": {"none", "context", "tools"},
        "filter": {"none", "context", "filter", "tools"},
        "tools": {"none", "tools"},
        "full": set(PROFILES),
        TRUSTED: set(PROFILES),
    }
    assert lacking.covers(PolicyWords(given), wanted) == (wanted in wider[given])


def test_doctor_looks_at_this_machine() -> None:
    ran = conductor("doctor")
    assert (ran.code, ran.err) == (0, "")
    for check in ("python", "wasmtime", "compile cache", "cage: descriptors", "module datetime"):
        assert f"  {check} " in ran.out
    found = json.loads(conductor("doctor", "--json").out)
    assert found["ok"] is True
    assert "cage: system-calls" in {one["name"] for one in found["checks"]}


def test_doctor_ends_with_1_where_something_needed_is_missing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    ran = conductor("doctor", "-c", f"cache={cache}")
    assert ran.code == 1
    assert "MISSING  compile cache" in ran.out
    assert "hint: chmod 700" in ran.out
    found = json.loads(conductor("doctor", "--json", "-c", f"cache={cache}").out)
    assert found["ok"] is False


def test_what_a_bundled_component_asks_for_can_be_denied() -> None:
    told = page("datetime,deny=clock")
    assert "clock: not granted, wanted to learn the date" in told
    assert "log: granted" in told
    assert "clock: not granted" in page("datetime,deny=*")
    assert "clock: granted" in page("datetime,deny=files")
    ran = conductor("inspect", "datetime,deny=log")
    assert (ran.code, ran.out) == (2, "")
    assert (
        "services that can be denied are *, clock, fetch, files, kv, random, timer, write"
        in ran.err
    )
    ran = conductor("inspect", "python proxy.py,deny=clock")
    assert (ran.code, ran.out) == (2, "")
    assert "name those it may with `grant=SERVICE`" in ran.err
