"""Consent through clients that others wrote: the official Python SDK, and acpx."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from conductor.spec.paths import components_folder
from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.plan import Plan
from tests.e2e.peers.python_client import run_python_client
from tests.places import DEADLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

DATE: Final = "<current-date"
PERMISSION: Final = "session/request_permission"


@pytest.fixture(name="stranger")
def _stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stranger's component that wants the clock, and a user who trusts nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(components_folder() / "datetime", tmp_path / "date")
    return str(tmp_path / "date" / "")


@pytest.mark.parametrize(
    ("kind", "granted"), [("allow_once", True), ("reject_once", False), (None, False)]
)
def test_the_python_sdk_answers(
    launch: Launch, stranger: str, tmp_path: Path, kind: str | None, granted: bool
) -> None:
    plan = Plan(
        command=launch.agent(f"{stranger}/", "demo"),
        prompts=("hi", "hi"),
        cwd=tmp_path,
        env={**launch.env, "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]},
        permission=kind,
    )
    transcript = run_python_client(plan)
    assert [DATE in "".join(turn.texts) for turn in transcript.turns] == [granted, granted]
    (asked,) = transcript.received(PERMISSION)
    assert asked["toolCall"]["title"].endswith("more than the default?")


@pytest.mark.parametrize(("policy", "granted"), [("--approve-all", True), ("--deny-all", False)])
def test_acpx_that_approves_all_gives_nothing_that_lasts(
    launch: Launch, node_peers: NodePeers, stranger: str, tmp_path: Path, policy: str, granted: bool
) -> None:
    command = shlex.join(launch.agent(f"{stranger}/", "demo"))
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    done = subprocess.run(
        [
            *(str(node_peers.bin / "acpx"), "--agent", command),
            *(policy, "--format", "json", "exec", "hi"),
        ],
        cwd=tmp_path,
        env={**launch.env, **home},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert len([frame for frame in frames if frame.get("method") == PERMISSION]) == 1
    assert (DATE in done.stdout.replace("\\", "")) == granted
    store = tmp_path / "state" / "conductor" / "trust.json"
    assert not store.exists()
