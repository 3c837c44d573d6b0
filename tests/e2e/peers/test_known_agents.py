"""`conductor agents` with the two Claude agents from npm, in an empty home and without a key."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.harness.process.processes import MARKER
from tests.places import DEADLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.mark.parametrize("program", ["claude-agent-acp", "claude-code-acp"])
def test_a_claude_agent_answers_and_opens_a_session(
    program: str, launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    """Without a login, which is why nobody can say whether somebody is logged in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / program).symlink_to(node_peers.bin / program)
    env: dict[str, str] = {
        name: launch.env[name] for name in ("PYTHONPATH", MARKER) if name in launch.env
    }
    path = os.pathsep.join((str(folder), os.path.dirname(node_peers.node), os.defpath))
    env |= {"PATH": path, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*launch.base, "agents", "claude", "--json", "--timeout", str(DEADLINE)],
        env=env,
        capture_output=True,
        timeout=DEADLINE * 2,
        check=False,
    )
    (found,) = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert found["program"] == str(folder / program)
    assert (found["answers"], found["session"], found["error"]) == (True, True, "")
    assert found["logged_in"] == "unknown"
    assert found["version"]
