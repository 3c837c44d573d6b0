"""`conductor fleet bundle` and `check`: the bundle of a worker, through the command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from conductor.spec.paths import components_folder
from tests.fleet.keys import pair
from tests.harness.process.command import Ran, conductor, environment
from tests.harness.process.managed import Machine

CONFIG: Final = """
[chains.work]
components = ["./tools/p.wasm", "demo"]

[chains.work.options]
lock-file = "work.lock"
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder of a configuration whose chain is locked."""
    folder = tmp_path / "here"
    (folder / "tools").mkdir(parents=True)
    shutil.copyfile(
        components_folder() / "passthrough" / "passthrough.wasm", folder / "tools" / "p.wasm"
    )
    (folder / "conductor.toml").write_text(CONFIG)
    pair(tmp_path)
    pair(tmp_path, "other")
    run(folder, "trust", ".").assert_ok()
    run(folder, "lock", "-o", "work.lock", "work").assert_ok()
    return folder


class Done(Ran):
    """A command that has ended."""

    def assert_ok(self) -> Done:
        assert self.code == 0, self.err
        return self


def run(folder: Path, *arguments: str, **env: str) -> Done:
    """Runs `conductor` in a folder, with a home of its own beside it."""
    home = folder.parent / "user"
    own = {f"XDG_{what}_HOME": str(home / what) for what in ("CONFIG", "STATE", "CACHE", "DATA")}
    ran = conductor(*arguments, cwd=folder, env=environment(**(own | env)))
    return Done(ran.code, ran.out, ran.err)


def bundle(folder: Path, *options: str) -> Done:
    shutil.rmtree(folder.parent / "b", ignore_errors=True)
    return run(folder, "fleet", "bundle", "--out", "../b", "--key", "../key.pem", *options)


def check(folder: Path, key: str = "../key.pub") -> dict[str, object]:
    ran = run(folder, "fleet", "check", "../b", "--bundle-key", key, "--json")
    verdict: dict[str, object] = json.loads(ran.out)
    assert ran.code == (0 if verdict["ok"] else 1)
    return verdict


def test_a_bundle_is_made_and_can_be_used_elsewhere(here: Path) -> None:
    made = bundle(here, "--components").assert_ok()
    assert [line.strip() for line in made.out.splitlines()[1:4]] == [
        "conductor.toml", "tools/p.wasm", "work.lock",
    ]  # fmt: skip
    assert bundle(here, "--components").assert_ok().out == made.out
    again = ("fleet", "bundle", "--out", "../b", "--key", "../key.pem")
    run(here, *again).assert_error(2, "exists already")

    elsewhere = here.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(here)
    said = run(elsewhere, "fleet", "check", "../b", "--bundle-key", "../key.pub").assert_ok().out
    assert "  work: p, demo; held to work.lock\n" in said
    assert not os.listdir(elsewhere)


def test_what_has_changed_since_it_was_locked_is_not_bundled(here: Path) -> None:
    with (here / "tools" / "p.wasm").open("ab") as file:
        file.write(b"\0\1\0")
    bundle(here, "--components").assert_error(2, "`p`:", "the one that its lock file pins")


def test_a_chain_that_does_not_resolve_is_named(here: Path) -> None:
    bundle(here).assert_ok()  # without the component
    verdict = check(here)
    assert (verdict["reason"], verdict["ok"]) == ("chain", False)
    assert str(verdict["problem"]).startswith("chain `work`: ")
    assert "p.wasm" in str(verdict["problem"])
    run(here, "fleet", "check", "../b", "--bundle-key", "../key.pub").assert_error(
        2, "chain `work`: ", "p.wasm"
    )


def test_another_signer(here: Path) -> None:
    bundle(here, "--components").assert_ok()
    assert check(here, "../other.pub")["reason"] == "signature"
    said = run(here, "fleet", "bundle", "--out", "../c").assert_ok().out
    assert "not signed, so no worker takes it" in said
    ran = run(here, "fleet", "check", "../c", "--bundle-key", "../key.pub", "--json")
    assert json.loads(ran.out)["reason"] == "unsigned"


def test_a_lock_without_a_name_is_that_of_the_bundle(here: Path) -> None:
    (here / "work.lock").rename(here / "conductor.lock")
    config = CONFIG.replace('lock-file = "work.lock"', "locked = true")
    (here / "conductor.toml").write_text(config)
    bundle(here, "--components").assert_ok()
    assert check(here)["ok"]
    said = run(here.parent, "fleet", "check", "b", "--bundle-key", "key.pub").assert_ok().out
    assert "held to conductor.lock" in said


def test_a_chain_that_is_not_what_is_locked(here: Path) -> None:
    (here / "conductor.toml").write_text(CONFIG.replace('"demo"', '"datetime", "demo"'))
    bundle(here, "--components").assert_ok()
    verdict = check(here)
    assert verdict["reason"] == "chain"
    assert "does not allow this chain" in str(verdict["problem"])


def test_files_outside_and_files_that_are_not_there(here: Path) -> None:
    (here.parent / "x").touch()
    (here / "link").symlink_to("../x")
    bundle(here, "--include", "../x").assert_error(2, "lies outside of")
    bundle(here, "--include", "link").assert_error(2, "it is a link")
    bundle(here, "--include", "missing").assert_error(2, "cannot be bundled")
    run(here.parent, "fleet", "bundle", "--out", "new").assert_error(2, "no conductor.toml")
    run(here, "fleet", "bundle", "--out", "oci://h/NAME:1").assert_error(2, "small letters")
    (here / "conductor.toml").write_text("[chains")
    bundle(here).assert_error(2, "line 1")


def test_settings_of_locked_components_come_along(here: Path) -> None:
    (here / "settings.json").write_text("{}")
    (here / "conductor.toml").write_text(
        CONFIG.replace('"./tools/p.wasm"', '"./tools/p.wasm,config=settings.json"')
    )
    run(here, "trust", ".").assert_ok()
    run(here, "lock", "-o", "work.lock", "work").assert_ok()
    assert "  settings.json\n" in bundle(here, "--components").assert_ok().out
    assert check(here)["ok"]


def test_a_policy_of_the_bundle_holds(here: Path) -> None:
    (here / "policy.toml").write_text('contact = "fleet@example.com"\ncomponents = []\n')
    bundle(here, "--components", "--policy", "policy.toml").assert_ok()
    verdict = check(here)
    assert "not allowed by `components` of the managed policy" in str(verdict["problem"])
    assert "ask fleet@example.com" in str(verdict["hint"])
    (here / "policy.toml").write_text('contact = "fleet@example.com"\nagents = 1\n')
    bundle(here, "--policy", "policy.toml").assert_error(2, "policy.toml")


def test_a_machine_with_another_policy_keeps_it(here: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    machine.allow("")
    policy = here / "policy.toml"
    policy.write_text('contact = "fleet@example.com"\n')
    bundle(here, "--components", "--policy", "policy.toml").assert_ok()
    names = ("fleet", "check", str(tmp_path / "b"), "--bundle-key", str(tmp_path / "key.pub"))
    cache = {"XDG_CACHE_HOME": str(tmp_path / "user" / "CACHE")}
    machine.conductor(*names, env=cache).assert_error(2, "this machine has a policy of its own")
    policy.write_bytes(machine.policy.read_bytes())
    bundle(here, "--components", "--policy", "policy.toml").assert_ok()
    assert machine.conductor(*names, env=cache).code == 0


def test_configuration_of_the_user_and_the_current_folder_do_not_count(here: Path) -> None:
    bundle(here, "--components").assert_ok()
    (here / "conductor.toml").write_text("[chains")
    user = here.parent / "user" / "CONFIG" / "conductor"
    user.mkdir(parents=True)
    (user / "conductor.toml").write_text("[chains")
    assert check(here)["chains"] == {"work": ["p", "demo"]}
