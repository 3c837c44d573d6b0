"""A chain held to its lock while it runs: new builds, restarts, and being somebody's proxy."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Chain, Rig

CLOCK = ("-c", "clock=2025-10-08T12:34:56+00:00")


def lock(rig: Rig, *components: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Locks a chain; returns the options that hold another chain to the lock."""
    file = rig.folder / "conductor.lock"
    command = [*COMMAND, "lock", *options, "--output", str(file), *components]
    subprocess.run(command, check=True, cwd=rig.folder, stdout=subprocess.DEVNULL)
    return ("-c", f"lock-file={file}")


def put(source: Path, target: Path) -> None:
    """Replaces a file at once."""
    fresh = target.with_suffix(".fresh")
    shutil.copyfile(source, fresh)
    fresh.replace(target)


def swap(chain: Chain, source: Path, target: Path) -> None:
    put(source, target)
    os.kill(chain.process.pid, signal.SIGHUP)


@pytest.mark.proves("another build does not replace")
@pytest.mark.parametrize("how", ["process", "inline", "watched"])
def test_another_build_does_not_take_over(rig: Rig, tmp_path: Path, how: str) -> None:
    module = tmp_path / "mine.wasm"
    shutil.copyfile(rig.bundled("passthrough"), module)
    isolation = ("-c", f"isolation={'inline' if how == 'inline' else 'process'}")
    component = f"{module},allow=clock"
    held = lock(rig, component, rig.demo(), options=isolation)
    watching = ("--reload",) if how == "watched" else ()
    chain = rig.agent(component, rig.demo(), options=(*held, *isolation, *watching, *CLOCK))
    session = chain.begin()
    assert chain.prompt(session, "one") == "one"
    if watching:
        put(rig.bundled("datetime"), module)
    else:
        swap(chain, rig.bundled("datetime"), module)
    chain.until_stderr("the new build is not used")
    chain.until_stderr("conductor.lock pins: sha256 0e00d1e6f68235f8… → 04dc104ffbb8bea6…")
    assert chain.prompt(session, "two") == "two"
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_build_that_was_locked_may_take_over(rig: Rig, tmp_path: Path) -> None:
    module = tmp_path / "mine.wasm"
    shutil.copyfile(rig.bundled("passthrough"), module)
    held = lock(rig, str(module), rig.demo())
    chain = rig.agent(str(module), rig.demo(), options=held)
    session = chain.begin()
    swap(chain, rig.bundled("passthrough"), module)
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(session, "two") == "two"
    assert chain.finish() == 0


@pytest.mark.proves("nor after a crash")
def test_a_host_that_is_started_again_is_held_to_the_lock(rig: Rig, tmp_path: Path) -> None:
    module = tmp_path / "mine.wasm"
    shutil.copyfile(rig.bundled("passthrough"), module)
    held = lock(rig, str(module), rig.demo())
    chain = rig.agent(str(module), rig.demo(), options=held)
    chain.begin()
    put(rig.bundled("datetime"), module)
    (host,) = rig.kin(chain).hosts()
    os.kill(host, signal.SIGKILL)
    chain.until_stderr("conductor.lock pins: sha256 0e00d1e6f68235f8… → 04dc104ffbb8bea6…")
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


@pytest.mark.proves("nor after a crash")
def test_a_program_that_is_started_again_is_held_to_the_lock(rig: Rig, tmp_path: Path) -> None:
    """The script has changed, so neither SIGHUP nor a crash brings the new script in."""
    script = tmp_path / "proxy.py"
    script.write_text("from tests.e2e.actors.recording_proxy import main\nmain()\n")
    original = json.loads(rig.x("P", "--die-on", "drop dead", "--mark", "P was here"))
    args = [str(script), *original["args"][2:]]
    proxy = json.dumps({**original, "args": args, "on_failure": "restart"})
    held = lock(rig, proxy, rig.demo())
    chain = rig.agent(proxy, rig.demo(), options=held)
    session = chain.begin()
    assert "P was here" in chain.prompt(session, "one")
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit(3)\n")
    swap(chain, evil, script)
    chain.until_stderr("the new build is not used: proxy `P`")
    assert "P was here" in chain.prompt(session, "two")
    turn = chain.start_prompt(session, "drop dead")
    assert "`P`" in chain.answer(turn)["error"]["message"]
    chain.until_stderr("proxy.py` differs from the one")
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("rights", ["observer", "context"])
def test_an_agent_that_turns_out_to_be_a_proxy_has_its_policy(rig: Rig, rights: str) -> None:
    proxy = json.dumps({**json.loads(rig.x("P", "--mark", "P was here")), "only": rights})
    inner = shlex.join([*COMMAND, "agent", "-c", f"cache={rig.cache}", proxy])
    chain = rig.agent(inner, rig.demo())
    session = chain.begin()
    assert ("P was here" in chain.prompt(session, "hello")) is (rights == "context")
    assert chain.finish() == 0


@pytest.mark.proves("another conductor does not mistake")
def test_a_locked_agent_is_nobodys_proxy(rig: Rig) -> None:
    """The lock says that the last component is the agent; so it is not taken for a proxy."""
    held = lock(rig, rig.x("P"))
    inner = shlex.join([*COMMAND, "agent", *held, "-c", f"cache={rig.cache}", rig.x("P")])
    chain = rig.agent(f"{inner},name=inner", rig.demo())
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "`P`" in answer["error"]["message"]
    assert "is not an agent" in answer["error"]["message"]
    assert chain.exit_code() == 1
