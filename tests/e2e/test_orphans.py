"""A conductor is the parent of what its components leave behind: none of that stays a zombie."""

import asyncio
import contextlib
import functools
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from conductor.transports import process_groups
from tests.harness.process.command import COMMAND
from tests.harness.process.processes import needs_proc, wait_reaped
from tests.harness.process.rig import Rig
from tests.harness.process.serving import served
from tests.places import DEADLINE

LEAVES: Final = """
leave='echo $$ >> orphans'
(sh -c "$leave" &)
(setsid sh -c "$leave" &)
(setsid sh -c "sh -c '$leave; sleep 0.1' & exit 0" &)
exec {agent}
"""
"""An orphan in the session of its component, one that leads a session, one in that of another."""


FIRST: Final = ("unshare", "--pid", "--fork", "--mount-proc")
"""The conductor is the first process of its world, as in a container without an init."""
BEFORE: Final = 'sleep 0.1 & sleep 0.3 & (setsid sleep 0.2) & exec "$@"'
"""Children that a conductor has from before it began: two in its own session."""


@functools.cache
def _may_be_first() -> bool:
    return subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode == 0


def sleepers() -> list[int]:
    """The children of conductors that sleep, or have ended and are not reaped."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            head, _, rest = Path("/proc", pid, "stat").read_text().rpartition(")")
            parent = Path("/proc", rest.split()[1], "cmdline").read_text()
            if head.endswith("(sleep") and "own-session" in parent:
                found.append(int(pid))
    return found


@needs_proc
@pytest.mark.parametrize("first", [False, True], ids=["", "first"])
def test_what_is_left_in_its_own_session_is_reaped(rig: Rig, first: bool) -> None:
    if first and not _may_be_first():
        pytest.skip("nobody may make namespaces here")
    agent = rig.demo(name="own-session")
    command = ["sh", "-c", BEFORE, "sh", *COMMAND, "agent", agent]
    chain = rig.start([*FIRST, *command] if first else command)
    chain.initialize()
    deadline = time.monotonic() + DEADLINE
    while left := sleepers():
        assert time.monotonic() < deadline, f"{left} are zombies"
        time.sleep(0.01)
    assert chain.prompt(chain.new_session(), "/echo on") == "on"


@needs_proc
@pytest.mark.parametrize("leads", [False, True])
def test_who_waits_for_a_child_gets_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    monkeypatch.setattr(process_groups, "_UNCLAIMED", 0.01)

    shell = ["/bin/sh", "-c", "exit 7"]
    child = subprocess.Popen(shell, start_new_session=leads)
    nobodys = os.posix_spawn(shell[0], shell, {}, setsid=leads)

    async def play() -> None:
        with process_groups.reaping(asyncio.get_running_loop()):
            while not wait_reaped(nobodys, 0):
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(play(), DEADLINE))
    assert child.wait() == 7


@needs_proc
@pytest.mark.parametrize("how", ["agent", "serve"])
def test_orphans_are_reaped(rig: Rig, how: str) -> None:
    agent = shlex.join([sys.executable, "-m", "tests.e2e.actors.terminal_agent"])
    component = rig.program("sh", "-c", LEAVES.format(agent=agent), name="A")
    if how == "agent":
        rig.agent(component).initialize()
    else:
        served(rig, "serve", component, "--listen", "ws://127.0.0.1:0").socket().initialize()
    deadline, orphans, left = time.monotonic() + DEADLINE, rig.folder / "orphans", [""]
    while left:
        assert time.monotonic() < deadline, f"{left} are zombies"
        time.sleep(0.01)
        pids = orphans.read_text().split() if orphans.exists() else []
        left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")] if len(pids) == 3 else [""]
