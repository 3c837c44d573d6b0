"""A conductor is the parent of what its components leave behind: none of that stays a zombie."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness.process.processes import needs_proc
from tests.harness.process.serving import served
from tests.places import DEADLINE

if TYPE_CHECKING:
    from tests.harness.process.rig import Rig

LEAVES: Final = """
leave='echo $$ >> orphans'
(sh -c "$leave" &)
(setsid sh -c "$leave" &)
(setsid sh -c "sh -c '$leave; sleep 0.1' & exit 0" &)
exec {agent}
"""
"""An orphan in the session of its component, one that leads a session, one in that of another."""


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
