"""Installed components in chains: stacks from a catalogue, and names."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.spec.paths import components_folder
from tests.cli.configurations import Place, place
from tests.harness.process.command import Ran
from tests.harness.process.managed import Machine
from tests.harness.process.rig import Rig

DEAD: Final = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""Variables with which nothing of a network can be reached."""

MARK: Final = '''"""Marks each prompt."""

from guest_sdk.python import Proxy

proxy = Proxy("NAME")


@proxy.request("session/prompt")
async def prompt(request, next):
    request.preface("NAME was here.")
    return await next(request)


if __name__ == "__main__":
    proxy.run()
'''


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_guest: Path) -> Place:
    """A project with a catalogue of three components: a module, a folder of Python, and a file that
    a JSON entry names."""
    made = place(tmp_path, monkeypatch)
    catalogue = made.project / "catalogue"
    shutil.copytree(components_folder() / "datetime", catalogue / "dates")
    (catalogue / "first").mkdir()
    (catalogue / "first" / "component.toml").write_text('name = "first"\nfile = "proxy.py"\n')
    (catalogue / "first" / "proxy.py").write_text(MARK.replace("NAME", "first"))
    (catalogue / "files").mkdir()
    (catalogue / "files" / "second.py").write_text(MARK.replace("NAME", "second"))
    runs = {"package": "conductor-acp", "args": ["proxy", "./files/second.py"]}
    entry = {"id": "second", "version": "2", "distribution": {"uvx": runs}}
    (catalogue / "second.json").write_text(json.dumps(entry))
    return made


def hi(here: Place, *chain: str) -> Ran:
    """Sends one prompt through a chain, without a network."""
    return here.run("exec", *chain, "-p", "hi", cwd=None, **DEAD)


def test_a_stack_from_a_catalogue(here: Place) -> None:
    """Three named components of a chain: installed from a catalogue, run, one removed, run."""
    here.trusted(
        'indexes = ["./catalogue"]\n[chains.stack]\n'
        'components = ["dates,allow=clock", "first", "second", "demo"]\n'
    )
    hi(here, "stack").assert_error(2, "`dates` is not installed", "`conductor add dates`")
    for name in ("dates", "first", "second"):
        ran = here.run("add", name, "--yes", cwd=None, **DEAD)
        assert ran.code == 0, ran.err
    shutil.rmtree(here.project / "catalogue" / "files")  # what is installed needs no source
    ran = hi(here, "stack")
    assert ran.code == 0, ran.err
    for mark in ("<current-date", "first was here.", "second was here."):
        assert mark in ran.out
    ran = here.run("remove", "second")
    assert "`second` is still named in the chain `stack`" in ran.err
    hi(here, "stack").assert_error(2, "`second` is not installed", "`conductor add second`")
    ran = hi(here, "first", "demo")
    assert (ran.code, "second was here" in ran.out) == (0, False)


def test_the_first_that_has_a_name(
    here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is found by configuration, among what is installed, and on PATH, in this order; what
    only a catalogue has is named in the error, and never fetched by a chain."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "first"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m conductor proxy "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    here.trusted('indexes = ["./catalogue"]\n')
    on_path = hi(here, "first", "demo")
    assert (on_path.code, "first was here" in on_path.out) == (0, False), on_path.err
    here.run("add", "first", "--yes").assert_error(2, "`first` is a program here")
    assert here.run("add", "first", "--yes", "--name", "first").code == 0
    installed = hi(here, "first", "demo")
    assert (installed.code, "first was here" in installed.out) == (0, True), installed.err
    as_path = hi(here, "path:first", "demo")
    assert (as_path.code, "first was here" in as_path.out) == (0, False)
    here.trusted('indexes = ["./catalogue"]\n[components.first]\ncomponent = "datetime"\n')
    configured = hi(here, "first", "demo")
    assert (configured.code, "<current-date" in configured.out) == (0, True)
    hi(here, "second", "demo").assert_error(2, "`second` is not installed", "conductor add second")
    hi(here, "secnd", "demo").assert_error(2, "neither a component nor a program on PATH")


def test_a_chain_keeps_what_it_has(here: Place, rig: Rig) -> None:
    """Removed or updated while a chain runs: that goes on."""
    folder = here.project / "catalogue" / "first"
    assert here.run("add", str(folder), "--yes").code == 0
    chain = rig.agent("first", "demo")
    session = chain.begin()
    assert "first was here." in chain.prompt(session, "hi")
    (folder / "proxy.py").write_text(MARK.replace("NAME", "changed"))
    assert here.run("update", "--yes").code == 0
    assert here.run("remove", "first").code == 0
    assert here.run("list").out.startswith("nothing is installed")
    assert "first was here." in chain.prompt(session, "again")


def test_a_managed_policy_knows_it_by_its_digest(here: Place, tmp_path: Path) -> None:
    """A group may write in its place, so a path never allows it; its digest does."""
    machine = Machine(tmp_path / "machine")
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o775)
    home = {"XDG_DATA_HOME": str(data)}
    folder = here.project / "catalogue" / "dates"
    digest = hashlib.sha256((folder / "datetime.wasm").read_bytes()).hexdigest()
    ran = here.run("add", str(folder), "--yes", "--name", "dates", cwd=None, **home)
    assert ran.code == 0, ran.err
    machine.allow('[[components]]\nsource = "/**"\n')
    ran = machine.conductor("exec", "dates", "demo", "-p", "hi", env=home)
    ran.assert_error(2, "not allowed by `components` of the managed policy")
    machine.allow(f'[[components]]\nsha256 = "{digest}"\n')
    ran = machine.conductor("exec", "dates", "demo", "-p", "hi", env=home)
    assert ran.code == 0, ran.err
