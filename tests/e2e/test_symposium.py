"""A chain whose components the project's dependencies choose."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.spec.paths import components_folder
from tests.cli.configurations import Place, place
from tests.components.library.support import FORMS, V2, folders, in_form
from tests.harness.process.managed import Machine
from tests.harness.process.rig import Chain, Rig, python_path

CRATES: Final = ("tokio", "serde", "bevy")
CARGO: Final = """
[package]
name = "fixture"
[dependencies]
tokio = { version = "1", features = ["full"] }
[target.'cfg(unix)'.dev-dependencies]
serde = "1"
"""
JOINS: Final = "is in the chain"


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def toml(value: Any) -> str:
    """A value as TOML has it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def symposium(form: str = "sandboxed", *, file: str = "Cargo.toml", **more: Any) -> str:
    """The chain: a component for each crate, in one of the forms."""
    entries = []
    for crate in CRATES:
        made = json.loads(in_form(form, "prompt-prefix", {"text": f"<{crate}>"}, **more))
        when = {"file": file, "dependency": crate}
        entries.append({**made, "name": crate, "when": when})
    return f"[chains.symposium]\ncomponents = {toml(entries)}\n"


def asked(chain: Chain, version: int = 1) -> list[str]:
    """The lines that the agent echoes of a prompt."""
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session()
    answer = chain.answer(chain.start_prompt(session, "hi"))
    assert "result" in answer, answer

    def updates() -> list[Any]:
        return [one["params"]["update"] for one in chain.seen("session/update")]

    if version == 2:
        chain.until(lambda: any(one.get("state") == "idle" for one in updates()), "the end")
    chunks = [one for one in updates() if one["sessionUpdate"] == "agent_message_chunk"]
    return "".join(one["content"]["text"] for one in chunks).split("\n")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_those_for_the_projects_dependencies_run(
    here: Place, rig: Rig, form: str, version: int
) -> None:
    here.user(symposium(form))
    (rig.folder / "Cargo.toml").write_text(CARGO)
    path = os.pathsep.join([python_path(), folders("prompt-prefix")])
    options = ("--require-sandbox",) if form == "sandboxed" else ()
    chain = rig.agent("symposium", rig.demo(), options=("--log", "info", *options), PYTHONPATH=path)
    assert asked(chain, version) == ["<serde>", "<tokio>", "hi"]
    assert chain.finish() == 0
    assert f"line 2) {JOINS}: {rig.folder}/Cargo.toml lists `tokio`" in chain.stderr
    assert "`bevy`" in chain.stderr
    assert "is left out: no `Cargo.toml` lists `bevy`" in chain.stderr


@pytest.mark.parametrize("version", [1, 2])
def test_one_proxy_holds_them(here: Place, rig: Rig, version: int) -> None:
    here.user(symposium())
    (rig.folder / "Cargo.toml").write_text(CARGO)
    chain = rig.agent(rig.nested("symposium", options=("--require-sandbox",)), rig.demo())
    assert asked(chain, version) == ["<serde>", "<tokio>", "hi"]
    assert chain.finish() == 0
    # In a project without any of them the proxy holds nothing, and passes everything on.
    (rig.folder / "Cargo.toml").unlink()
    chain = rig.agent(rig.nested("symposium"), rig.demo())
    assert asked(chain, version) == ["hi"]
    assert chain.finish() == 0


def test_a_branch_is_of_them(here: Place, rig: Rig) -> None:
    here.user(symposium())
    (rig.folder / "Cargo.toml").write_text(CARGO)
    rules = [{"to": "b", "prefix": "b:"}]
    router = json.dumps({"component": "router", "allow": "peer:b", "config": {"rules": rules}})
    chain = rig.agent(router, rig.demo("--acp"), options=("-c", "branch.b=symposium"))
    assert chain.prompt(chain.begin(), "b:hi") == "<serde>\n<tokio>\nhi"
    assert chain.finish() == 0


@pytest.mark.proves("a project's manifests name no")
def test_an_agent_cannot_rid_the_chain_of_a_component(here: Place, rig: Rig) -> None:
    here.user(symposium())
    (rig.folder / "Cargo.toml").write_text(CARGO)
    chain = rig.agent("symposium", rig.demo(), options=("--log", "info"))
    session = chain.begin()
    chain.until_stderr(f"a session is in /, and the chain was chosen for {rig.folder}: ")
    assert chain.prompt(session, "hi") == "<serde>\n<tokio>\nhi"
    (rig.folder / "Cargo.toml").write_text(CARGO.replace("tokio", "bevy"))
    here.user(symposium().replace("<tokio>", "<new>"))
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr("tokio: told its settings, as they are written now")
    assert chain.prompt(session, "hi") == "<serde>\n<new>\nhi"
    assert chain.finish() == 0


def test_a_lock_holds_what_runs_in_the_project(here: Place) -> None:
    here.user(symposium())
    cargo = here.project / "Cargo.toml"
    cargo.write_text(CARGO)
    assert here.run("lock", "symposium", "demo").code == 0
    run = ("exec", "--locked", "symposium", "demo", "-p", "hi")
    assert here.run(*run).out == "<serde>\n<tokio>\nhi\n"
    cargo.write_text(CARGO + 'bevy = "1"\n')
    ran = here.run(*run)
    assert ran.code == 2
    assert "bevy" in ran.err


@pytest.mark.proves("a project's manifests name no")
def test_a_project_cannot_name_what_the_user_has_not(here: Place) -> None:
    entry = '{component = "crate-helper", when.dependency = "tokio"}'
    text = f"[chains.symposium]\ncomponents = [{entry}]\n"
    cargo = here.project / "Cargo.toml"
    cargo.write_text(CARGO)
    here.project_file.write_text(text)
    # Nobody trusts the project's file: it is ignored by name, and its chain is none.
    ran = here.run("exec", "symposium", "demo", "-p", "hi")
    assert ran.code == 2
    assert f"{here.project_file} is ignored: you have not trusted it" in ran.err
    # The file is trusted, and names a component that is not installed.
    here.trusted(text)
    ran = here.run("exec", "symposium", "demo", "-p", "hi")
    assert ran.code == 2
    assert f"error: {here.project_file}, line 2: " in ran.err
    assert "crate-helper" in ran.err
    assert "hint: " in ran.err
    # In a project without the dependency nobody asks for it.
    cargo.unlink()
    ran = here.run("exec", "symposium", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n")
    # `config check` finds the mistake there as well.
    ran = here.run("config", "check")
    assert ran.code == 1
    assert "crate-helper" in ran.err


@pytest.mark.proves("an entry of a chain that a project's")
def test_the_managed_policy_refuses_an_entry_by_name(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow('[[components]]\nsource = "bundled"\n')
    shutil.copyfile(components_folder() / "passthrough/passthrough.wasm", machine.home / "c.wasm")
    config = machine.home / "XDG_CONFIG_HOME/conductor/conductor.toml"
    config.parent.mkdir(parents=True)
    other = f'{{wasm = "{machine.home}/c.wasm", name = "crate", when.dependency = "axum"}}'
    config.write_text(symposium().replace("}]\n", f"}}, {other}]\n"))
    cargo = machine.home / "Cargo.toml"
    cargo.write_text(CARGO)
    ran = machine.prompt("symposium", "demo")
    assert (ran.code, ran.out) == (0, "<serde>\n<tokio>\nhi\n"), ran.err
    cargo.write_text(CARGO + 'axum = "1"\n')
    ran = machine.prompt("symposium", "demo")
    machine.refuses(ran, "components")
    assert "`crate`" in ran.err


def test_a_chain_of_chains_for_kinds_of_projects(here: Place) -> None:
    here.user(
        symposium() + '[chains.all]\ncomponents = [{component = "symposium", when.file = "*.toml"},'
        ' {component = "prompt-prefix", config.text = "<web>", when.dependency = "react"}]\n'
    )
    (here.project / "Cargo.toml").write_text(CARGO)
    (here.project / "package.json").write_text('{"dependencies": {"react": "19"}}')
    ran = here.run("exec", "@all", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "<web>\n<serde>\n<tokio>\nhi\n"), ran.err
    (here.project / "Cargo.toml").unlink()
    ran = here.run("exec", "all", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "<web>\nhi\n"), ran.err
