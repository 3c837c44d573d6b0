"""The MCP conformance suite against a server that is bridged: every scenario there is for servers.

The server is `everything.py`, a proxy; the suite sees the conductor's loopback HTTP server.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_clients import AGENTS
from tests.harness.process.mcp_clients import declaration_of, pairs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
EVERYTHING = Path(__file__).parent / "everything.py"
SUITE_SECONDS = 200.0

NOT_OFFERED = ("tasks-", "input-required-result-", "sep-2640-", "http-custom-header-")
"""Scenarios of what `everything.py` does not offer: extensions, results that ask for input in the
form of 2026-07-28, tools whose arguments are repeated in headers. docs/mcp.md has the list."""

PINNED = (
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
)
"""Checks that call tools which the server has not listed, or give it a new tool: conductor holds
both back until the user agrees (docs/mcp.md#pinned-tools)."""

LEAST = 37
"""Scenarios that have to be among those that ran."""


def test_conformance(launch: Launch, mcp_peers: NodePeers, tmp_path: Path) -> None:
    provider = f"{sys.executable} {EVERYTHING},dialect=channel"
    results = tmp_path / "results"
    with launch.chain(tmp_path, provider, AGENTS["http"]) as running:
        declaration = declaration_of(running, running.new_session(cwd=str(tmp_path)))
        suite = subprocess.run(
            [
                *(mcp_peers.node, "--import", str(mcp_peers.scripts / "authorize.mjs")),
                *(str(mcp_peers.bin / "conformance"), "server", "--suite", "all"),
                *("--url", declaration["url"], "--output-dir", str(results)),
            ],
            env={**launch.env, "AUTHORIZE": json.dumps(pairs(declaration["headers"]))},
            cwd=mcp_peers.scripts,
            capture_output=True,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )
    unmet: dict[str, dict[str, str]] = {}
    ran = 0
    for path in sorted(results.glob("*/checks.json")):
        scenario = path.parent.name.removeprefix("server-").rsplit("-20", 1)[0]
        if scenario.startswith(NOT_OFFERED):
            continue
        ran += 1
        for check in json.loads(path.read_text("utf-8")):
            met = check["status"] in ("SUCCESS", "INFO", "SKIPPED")
            if not met and check["id"] not in PINNED:
                unmet.setdefault(scenario, {})[check["id"]] = check["status"]
    assert unmet == {}, suite.stdout
    assert ran >= LEAST, suite.stdout
