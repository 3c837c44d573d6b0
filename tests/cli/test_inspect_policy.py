"""`conductor inspect`: what a component may do to the conversation, and what it asks for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conductor.catalog import components_folder
from conductor.cli import inspect_policy
from conductor.core.guards import GUARDS
from conductor.core.policy import PROFILES, TRUSTED, PolicyWords

from .support import conductor, environment

DATETIME = components_folder() / "datetime" / "datetime.wasm"


def card(component: str, width: int = 100) -> str:
    """The card as a person reads it, without its line breaks."""
    ran = conductor("inspect", component, env=environment(COLUMNS=str(width)))
    assert (ran.code, ran.err) == (0, "")
    return " ".join(ran.out.split())


def facts(component: str) -> dict[str, Any]:
    """The same for machines."""
    ran = conductor("inspect", "--json", component)
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_the_default_of_a_module_is_every_verb_within_every_guard() -> None:
    policy = facts("passthrough")["policy"]
    assert (policy["profile"], policy["enforced"], policy["on_violation"]) == ("full", True, "pass")
    verbs = ["observe", "modify", "answer", "originate"]
    assert policy["verbs"] == [
        {"direction": way, "verbs": verbs, "methods": ["*"]} for way in ("down", "up")
    ]
    assert [one["name"] for one in policy["guards"]] == [one.name for one in GUARDS]
    assert not any(one["lifted"] for one in policy["guards"])
    text = card("passthrough")
    assert "towards the agent see, change, answer and send of its own: every message" in text
    for guard in GUARDS:
        assert f"{guard.name} {guard.protects}" in text
    assert "LIFTED" not in text
    assert "is undone and reported; the session goes on" in text


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_is_told_in_sentences(profile: str) -> None:
    component = f"passthrough,profile={profile}"
    assert facts(component)["policy"]["profile"] == profile
    text = card(component)
    said = {
        "observer": "towards the client see a copy of: every message nothing it says reaches "
        "anybody",
        "context": "towards the agent see and change: session/prompt, session/new, session/load, "
        "session/resume, session/fork all else passes it by unseen",
        "filter": "towards the client see and change: every message",
        "tools": "towards the client see, change and answer: mcp/*, _mcp/*, _scp/mcp",
        "full": "towards the client see, change, answer and send of its own: every message",
    }[profile]
    assert said in text
    assert ("permission-answers" in text) == (profile != "observer")


def test_what_was_granted_besides_is_told() -> None:
    component = "passthrough,profile=observer,allow=down:session/prompt:modify,on_violation=fail"
    text = card(component)
    assert "towards the agent see and change: session/prompt" in text
    assert "ends the component" in text
    held = facts(component)["policy"]["verbs"]
    assert {"direction": "down", "verbs": ["modify"], "methods": ["session/prompt"]} in held


def test_lifted_guards_stand_apart_with_what_can_happen() -> None:
    component = "passthrough,unguard=files,unguard=terminals"
    guards = facts(component)["policy"]["guards"]
    assert [one["name"] for one in guards if one["lifted"]] == ["files", "terminals"]
    before, after = card(component).split("LIFTED, so this can happen")
    (files,) = [one for one in GUARDS if one.name == "files"]
    assert files.protects not in before
    assert f"files {files.attack} (by unguard=files)" in after


@pytest.mark.parametrize("component", ["python p.py", "py:a:b", "passthrough,profile=trusted"])
def test_what_is_trusted_says_that_no_rule_is_enforced(component: str) -> None:
    found = facts(component)["policy"]
    assert (found["profile"], found["enforced"]) == ("trusted", False)
    assert "verbs" not in found or found["verbs"] == []
    text = card(component)
    assert "Trusted: no rule is enforced" in text
    assert "`,profile=full`" in text


def test_a_command_may_be_given_a_profile() -> None:
    text = card("python p.py,profile=filter")
    assert "UNSANDBOXED" in text
    assert "profile filter" in text
    assert "permission-widening" in text


def test_an_agent_has_no_policy() -> None:
    assert facts("demo")["policy"] is None
    assert "rule" not in card("demo")


def test_more_than_is_asked_for_is_pointed_out() -> None:
    wants = facts("datetime,profile=full")["wants"]
    assert (wants["profile"], wants["profile_granted"]) == ("context", True)
    assert wants["not_granted"] == []
    text = card("datetime,profile=full")
    assert "asks for nothing that it is not granted" in text
    assert "profile full, where context would do (`,profile=context`" in text
    assert facts("datetime")["policy"]["profile"] == "context"  # what its manifest asks for
    assert "given more than" not in card("datetime")


def test_what_is_asked_for_and_not_granted_is_listed(tmp_path: Path) -> None:
    """A manifest beside a module of one's own: only a claim of its author, granted nothing."""
    shutil.copy(DATETIME, tmp_path)
    shutil.copy(DATETIME.parent / "component.toml", tmp_path)
    module = f"{tmp_path / 'datetime.wasm'},profile=observer"
    wants = facts(module)["wants"]
    assert (wants["profile_granted"], wants["not_granted"]) == (False, ["clock"])
    text = card(module)
    assert "asks for what it is not granted service clock, to learn the date" in text
    assert "profile context; it is given observer" in text
    assert facts(f"{module},grant=clock")["wants"]["not_granted"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not known"),
        ("name = 3", "line 1: `name`: expected `text`"),
        ('name = "x"\nfile = "datetime.wasm"\n[wants]\nservices = 3', "line 4: `wants.services`"),
        ('name = "x"\nfile = "other.wasm"\n[wants]\nprofile = "full"', ""),
    ],
)
def test_an_odd_manifest_does_no_harm(tmp_path: Path, text: str, said: str) -> None:
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text(text)
    found = facts(str(tmp_path / "datetime.wasm"))
    assert (found["wants"]["profile"], found["wants"]["services"]) == (None, {})
    assert bool(found["notes"]) == bool(said)
    assert said in card(str(tmp_path / "datetime.wasm"))


def test_a_manifest_may_not_speak_to_the_terminal(tmp_path: Path) -> None:
    shutil.copy(DATETIME, tmp_path)
    clock = r'clock = "\u001b[2Jtrust me"'
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nversion = "\\u001b[1m"\nfile = "datetime.wasm"\n[wants.services]\n{clock}'
    )
    ran = conductor("inspect", str(tmp_path / "datetime.wasm"))
    assert "\x1b" not in ran.out
    assert "\\x1b[2Jtrust me" in ran.out


def test_the_fences_of_its_process_are_named() -> None:
    cage = facts("passthrough")["cage"]
    assert {"descriptors", "environment"} <= {one["name"] for one in cage}
    text = card("passthrough")
    for layer in cage:
        stands = text.partition("locked up on this machine by: ")[2].partition(" (`")[0]
        assert (layer["name"] in stands.split(", ")) == layer["in_force"]
    assert facts("python p.py")["cage"] == []


@pytest.mark.parametrize("width", [60, 80, 132])
def test_it_is_wrapped_at_the_width_of_the_terminal(width: int) -> None:
    ran = conductor("inspect", "datetime,unguard=files", env=environment(COLUMNS=str(width)))
    long = [line for line in ran.out.splitlines() if len(line) > width]
    assert all(len(line.split()[-1]) > width - 30 for line in long), long  # paths, digests
    assert max(map(len, ran.out.splitlines())) > width - 15


@pytest.mark.parametrize("given", [*PROFILES, TRUSTED])
@pytest.mark.parametrize("wanted", PROFILES)
def test_profiles_are_compared_by_what_they_allow(given: str, wanted: str) -> None:
    wider = {
        "observer": {"observer"},
        "context": {"context"},
        "filter": {"context", "filter"},
        "tools": {"tools"},
        "full": set(PROFILES),
        TRUSTED: set(PROFILES),
    }
    assert inspect_policy.covers(PolicyWords(given), wanted) == (wanted in wider[given])


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
    ran = conductor("doctor", "--cache", str(cache))
    assert ran.code == 1
    assert "MISSING  compile cache" in ran.out
    assert "hint: chmod 700" in ran.out
    found = json.loads(conductor("doctor", "--json", "--cache", str(cache)).out)
    assert found["ok"] is False


def test_what_a_bundled_component_asks_for_can_be_denied() -> None:
    told = card("datetime,deny=clock")
    assert "clock: not granted, wanted to learn the date" in told
    assert "log: granted" in told
    assert "clock: not granted" in card("datetime,deny=*")
    assert "clock: granted" in card("datetime,deny=files")
    ran = conductor("inspect", "datetime,deny=log")
    assert (ran.code, ran.out) == (2, "")
    assert "services that can be denied are *, clock, fetch, files, kv, random, timer" in ran.err
    ran = conductor("inspect", "python proxy.py,deny=clock")
    assert (ran.code, ran.out) == (2, "")
    assert "name those it may with `grant=SERVICE`" in ran.err
