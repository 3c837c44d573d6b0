"""`conductor inspect`: the rights of a component in the conversation, and those that it asks
for."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conductor.core.guards import GUARDS
from conductor.core.policy import words
from conductor.core.policy.words import TRUSTED
from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor, environment

DATETIME = components_folder() / "datetime" / "datetime.wasm"
SETS = tuple(name for name in words.SETS if name != TRUSTED)


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


@pytest.mark.proves("`conductor inspect` shows the abilities")
def test_full_is_everything_within_every_guard() -> None:
    policy = facts("passthrough")["policy"]
    assert (policy["rights"], policy["enforced"]) == (["full"], True)
    assert (policy["on_violation"], policy["fails"]) == ("pass", "open")
    held = {
        (one["direction"], key): one["rights"] for one in policy["cells"] for key in one["keys"]
    }
    assert held["down", "session/prompt"] == ["copy", "carry", "answer", "amend", "originate"]
    assert held["up", "session/update[tool_call]"] == ["copy"]
    assert ("up", "mcp/*") not in held
    assert [one["name"] for one in policy["guards"]] == [one.name for one in GUARDS]
    assert not any(one["lifted"] for one in policy["guards"])
    text = page("passthrough")
    assert "It has: full" in text
    assert "set the agent to work in your turns" in text
    assert all(guard.name in text for guard in GUARDS)
    assert "WIDENED" not in text
    assert "undoes and reports each violation; the session goes on" in text
    assert "a request that the component holds goes on unchanged" in text


@pytest.mark.proves("`conductor inspect` shows the abilities")
@pytest.mark.parametrize("name", SETS)
def test_each_set_is_told_in_sentences(name: str) -> None:
    component = f"passthrough,only={name}"
    assert facts(component)["policy"]["rights"] == [name]
    text = page(component)
    said = {
        "none": "none of its messages reaches anybody",
        "observer": "sees every message",
        "context": "may give the agent tools: the agent believes the results of these tools "
        "rewrite your prompts",
        "filter": "rewrite your prompts, replies, thoughts and plans of the agent, copies of your",
        "full": "answer your prompts in the agent's place write replies, thoughts and plans",
    }[name]
    assert said in text
    assert ("permission-answers" in text) == (name not in ("none", "observer"))


def test_a_card_fits_on_a_screen() -> None:
    for component in ("passthrough", "hooks", "redact"):
        out = conductor("inspect", component, env=environment(COLUMNS="100")).out
        assert len(out.splitlines()) <= 70, out


def test_what_is_allowed_besides_is_told() -> None:
    component = (
        "passthrough,only=observer+change:prompts,on_violation=fail,"
        "fails=closed,hold=30,allow=add:session/update[agent_message_chunk]"
    )
    text = page(component)
    assert "write `session/update[agent_message_chunk]` in the agent's name" in text
    assert (
        "ends the component. If the component fails, conductor refuses a request that the "
        "component holds" in text
    )
    assert "may hold a prompt for 30 s" in text
    held = facts(component)["policy"]["cells"]
    assert {
        "direction": "down",
        "rights": ["copy", "carry"],
        "keys": ["session/prompt"],
    } in held


def test_each_guarded_word_is_told() -> None:
    component = (
        "passthrough,only=none+prompt:anytime+command:review+command:plan+refuse:permissions+"
        "change:mcp+prompt:unseen+offer:modes+show:panel+extension:_x/*+change:tool-calls+claim:*"
    )
    text = page(component)
    for said in (
        "set the agent to work WHEN YOU ARE AWAY",
        "add a command to the agent's list, and send this command as if you had typed the command",
        "refuse the agent's requests for permission in your place",
        "READ AND ALTER the calls of all other MCP servers and their results",
        "set the agent to work in sessions that YOU DO NOT SEE, in your folders",
        "add its own options",
        "show panels beside the conversation",
        "send, change and answer extension methods, WHATEVER THEY DO: ",
        "change words in finished tool calls",
        "tell the agent and the editor that the other side has an ability: any",
    ):
        assert said in text
    policy = facts(component)["policy"]
    assert policy["rights"][:2] == ["none", "prompt:anytime"]
    assert any(one["keys"] == ["_x/*"] for one in policy["cells"])


def test_guards_that_a_right_widens_stand_apart() -> None:
    component = "passthrough,allow=refuse:permissions"
    guards = facts(component)["policy"]["guards"]
    widened = [one["name"] for one in guards if one["lifted"]]
    known = [one.name for one in GUARDS if one.lifted_by.startswith("refuse:permissions")]
    assert widened == known != []
    assert f"WIDENED by refuse:permissions {', '.join(known)}" in page(component)


@pytest.mark.parametrize("component", ["python p.py", "py:a:b", "passthrough,only=trusted"])
def test_what_is_trusted_says_that_no_rule_is_enforced(component: str) -> None:
    found = facts(component)["policy"]
    assert (found["rights"], found["enforced"]) == (["trusted"], False)
    assert found["cells"] == []
    text = page(component)
    assert "Trusted: no rule limits" in text
    assert "`,only=filter`" in text


def test_a_command_may_be_given_rights() -> None:
    text = page("python p.py,only=filter")
    assert "UNSANDBOXED" in text
    assert "It has: filter" in text
    assert "permission-widening" in text


def test_an_agent_has_no_policy() -> None:
    assert facts("demo")["policy"] is None
    assert "rule" not in page("demo")


def test_more_than_is_asked_for_is_pointed_out() -> None:
    wants = facts("datetime,only=full+clock")["wants"]
    assert (list(wants["rights"]), wants["lacking"]) == (["change:prompts", "clock"], [])
    text = page("datetime,only=full+clock")
    assert "Its manifest asks for all the rights that it gets" in text
    assert "It gets more than it asks for: full" in text
    assert facts("datetime")["policy"]["rights"] == ["change:prompts", "clock"]
    assert "gets more than" not in page("datetime")


@pytest.mark.proves("a manifest is a claim: it gives")
def test_what_is_asked_for_and_not_granted_is_listed(tmp_path: Path) -> None:
    """A manifest beside a module of one's own: only a claim of its author, granted nothing."""
    shutil.copy(DATETIME, tmp_path)
    shutil.copy(DATETIME.parent / "component.toml", tmp_path)
    module = f"{tmp_path / 'datetime.wasm'},only=observer"
    wants = facts(module)["wants"]
    assert wants["lacking"] == ["change:prompts", "clock"]
    text = page(module)
    assert "asks for rights that it does not get NOT GIVEN: change:prompts" in text
    assert "NOT GIVEN: clock, to learn the date" in text
    assert facts(f"{module},allow=clock")["wants"]["lacking"] == ["change:prompts"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "line 1: Invalid value"),
        ("name = 3", "line 1: `name` should be a valid string"),
        ('name = "x"\nfile = "datetime.wasm"\n[rights]\nclock = 3', "line 4: `rights.clock`"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    """A manifest may ask for less than a component without a manifest is given."""
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text(text)
    conductor("inspect", str(tmp_path / "datetime.wasm")).assert_error(2, said)


def test_a_manifest_of_something_else_does_no_harm(tmp_path: Path) -> None:
    shutil.copy(DATETIME, tmp_path)
    (tmp_path / "component.toml").write_text('name = "x"\nfile = "other.wasm"\n[rights]\n')
    found = facts(str(tmp_path / "datetime.wasm"))
    assert (found["wants"]["rights"], found["policy"]["rights"]) == (None, ["context"])


def test_what_a_source_asks_for_is_not_said_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = Proxy('x', rights={'full': 'why'})")
    assert "Its source asks for rights that it does not get" in page(str(tmp_path / "x.py"))


def test_what_is_allowed_and_denied_is_denied() -> None:
    for component in ("context,deny=read,allow=read:sub/**", "context,allow=read:sub/**,deny=read"):
        assert facts(component)["policy"]["rights"] == ["context"]
    ran = conductor("inspect", "context,deny=read:sub/**")
    ran.assert_error(2, "`read:sub/**` is a part of `read:**`: deny the whole of it")


def test_a_path_with_blanks_or_quotes_needs_no_quotes_and_may_have_them(tmp_path: Path) -> None:
    for name in ("my proxy.py", 'a"b.py'):
        path = tmp_path / name
        path.write_text("proxy = Proxy('x', rights={'observer': 'why'})")
        for written in (str(path), f"'{path}'"):
            assert facts(written)["policy"]["rights"] == ["observer"]


def test_options_of_agents_are_refused_of_proxies() -> None:
    for option in ("quiet=1", "mcp_bridge=http"):
        ran = conductor("exec", f"datetime,{option}", "demo", "-p", "x")
        key = option.partition("=")[0]
        ran.assert_error(2, f"`{key}` is an option of agents, and `datetime` is a proxy")


@pytest.mark.proves("from anybody to your terminal")
def test_a_manifest_may_not_speak_to_the_terminal(tmp_path: Path) -> None:
    shutil.copy(DATETIME, tmp_path)
    clock = r'clock = "\u001b[2Jtrust me"'
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nversion = "\\u001b[1m"\nfile = "datetime.wasm"\n[rights]\n{clock}'
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
    ran = conductor(
        "inspect", "--all", "datetime,allow=change:tool-calls", env=environment(COLUMNS=str(width))
    )
    long = [line for line in ran.out.splitlines() if len(line) > width]
    assert all(len(line.split()[-1]) > width - 30 for line in long), long  # paths, digests
    assert max(map(len, ran.out.splitlines())) > width - 15


@pytest.mark.parametrize("given", [*SETS, TRUSTED])
@pytest.mark.parametrize("wanted", SETS)
def test_sets_are_compared_by_what_they_allow(given: str, wanted: str) -> None:
    wider = {
        "none": {"none"},
        "observer": {"none", "observer"},
        "context": {"none", "context"},
        "filter": {"none", "context", "filter"},
        "full": set(SETS),
        TRUSTED: set(SETS),
    }
    assert (not words.lacking([wanted], [given])) == (wanted in wider[given])


@pytest.mark.proves("a report names the missing layers")
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
    assert "NOT GIVEN: clock, to learn the date" in told
    assert "hint: leave out `deny=clock` (command line)" in told
    assert "NOT GIVEN: clock" in page("datetime,deny=clock+see")
    assert "NOT GIVEN" not in page("datetime,deny=read")
    ran = conductor("inspect", "datetime,deny=clok")
    assert (ran.code, ran.out) == (2, "")
    assert "no right `clok`" in ran.err
    assert "did you mean `clock`?" in ran.err
    ran = conductor("inspect", "python proxy.py,deny=clock")
    ran.assert_error(2, "`clock` is a right of the machine, and a program has the machine anyway")
