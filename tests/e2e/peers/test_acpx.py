"""``acpx``, a headless client from npm, in front of ``conductor agent datetime demo``."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.editors.home import home
from tests.places import DEADLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture
def acpx(launch: Launch, node_peers: NodePeers, tmp_path: Path) -> Acpx:
    """acpx in a home of its own."""
    return Acpx(launch, node_peers, tmp_path)


class Acpx:
    """Runs ``acpx --agent "conductor agent datetime demo" … exec PROMPT``."""

    def __init__(self, launch: Launch, peers: NodePeers, home: Path) -> None:
        self._command = [str(peers.bin / "acpx"), "--agent"]
        self._command.append(shlex.join(launch.agent("datetime", "demo")))
        self._env = {**launch.env, "HOME": str(home)}
        self._cwd = home

    def __call__(self, *options: str, prompt: str) -> subprocess.CompletedProcess[str]:
        """Sends one prompt; the test judges the exit code."""
        return subprocess.run(
            [*self._command, *options, "exec", prompt],
            env=self._env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
            check=False,
        )


def test_prints_the_answer(acpx: Acpx) -> None:
    done = acpx(prompt="hi from acpx")

    assert done.returncode == 0
    assert "<current-date date=" in done.stdout
    assert "hi from acpx" in done.stdout
    assert "[done] end_turn" in done.stdout


def test_every_frame_is_what_acp_says(acpx: Acpx) -> None:
    done = acpx("--format", "json", prompt="hi from acpx")

    assert done.returncode == 0
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    asked = [frame["method"] for frame in frames if "method" in frame and "id" in frame]
    assert asked == ["initialize", "session/new", "session/prompt"]
    answers = [frame for frame in frames if "method" not in frame]
    assert [frame["id"] for frame in answers] == [
        frame["id"] for frame in frames if frame.get("method") in asked
    ]
    assert answers[-1]["result"]["stopReason"] == "end_turn"
    assert frames[-1] == answers[-1]


@pytest.mark.parametrize(
    ("policy", "kinds"), [("--approve-all", {"allow_once"}), ("--deny-all", {"reject_once"})]
)
def test_permission_policy_decides(acpx: Acpx, policy: str, kinds: set[str]) -> None:
    done = acpx(policy, "--format", "json", prompt="/permission")

    frames = [json.loads(line) for line in done.stdout.splitlines()]
    [asked] = [f for f in frames if f.get("method") == "session/request_permission"]
    [answer] = [f for f in frames if "method" not in f and "outcome" in f.get("result", {})]
    chosen = answer["result"]["outcome"]["optionId"]
    by_id = {option["optionId"]: option["kind"] for option in asked["params"]["options"]}
    assert by_id[chosen] in kinds


def test_starts_what_setup_has_written(node_peers: NodePeers, tmp_path: Path) -> None:
    user = home(tmp_path)
    ran = user.run("setup", "acpx", "datetime", "demo")
    assert ran.code == 0, ran.err

    done = subprocess.run(
        [str(node_peers.bin / "acpx"), "conductor", "exec", "hi from acpx"],
        env={**user.env, "PATH": f"{Path(node_peers.node).parent}:{user.env['PATH']}"},
        cwd=user.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 0
    assert "<current-date date=" in done.stdout
    assert "hi from acpx" in done.stdout
