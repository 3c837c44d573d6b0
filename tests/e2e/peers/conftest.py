"""Fixtures of the peer tests: the conductor under test, the installed npm peers."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.peers.npm import (
    MCP_SOURCES,
    NodePeers,
    install,
    link_scripts,
    node_tools,
    pinned_node,
)
from tests.harness.process.command import COMMAND, UNDER_TEST
from tests.harness.process.processes import MARKER, outliving
from tests.harness.process.rig import Chain, python_path


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the conductor under test, and in which environment."""

    base: tuple[str, ...]
    env: dict[str, str]

    def agent(self, *components: str) -> tuple[str, ...]:
        """The command line of ``conductor agent COMPONENT…``."""
        return (*self.base, "agent", *components)

    @contextmanager
    def chain(self, cwd: Path, *components: str) -> Iterator[Chain]:
        """``conductor agent COMPONENT…``, initialized, until the end of the block."""
        with Chain(self.agent(*components), self.env, cwd) as running:
            running.initialize()
            yield running
            assert running.finish() == 0


@pytest.fixture
def launch() -> Iterator[Launch]:
    """The conductor under test; afterwards no process it started may be left.

    ``CONDUCTOR_UNDER_TEST`` names another command instead of ``python -m conductor``, for
    instance that of an installed wheel.
    """
    token = uuid.uuid4().hex
    env = {**os.environ, MARKER: token}
    if not UNDER_TEST:  # else the checkout must not hide what is installed
        env["PYTHONPATH"] = python_path()
    yield Launch(COMMAND, env)
    assert outliving(token) == []


@pytest.fixture(scope="session")
def node_peers(tmp_path_factory: pytest.TempPathFactory) -> NodePeers:
    """The npm peers, installed once; skips where there is no Node."""
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    node, npm = tools
    modules = install(npm)
    scripts = link_scripts(modules, tmp_path_factory.mktemp("peer-scripts"))
    return NodePeers(node=node, bin=modules / ".bin", scripts=scripts)


@pytest.fixture(scope="session")
def mcp_peers(tmp_path_factory: pytest.TempPathFactory) -> NodePeers:
    """The MCP clients and the conformance suite, with the Node they want; installed once."""
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    modules = install(tools[1], MCP_SOURCES)
    node = pinned_node(modules)
    if node is None:
        pytest.skip("there is no Node 22 among the peers for this kind of machine")
    scripts = link_scripts(modules, tmp_path_factory.mktemp("mcp-scripts"), MCP_SOURCES)
    return NodePeers(node=node, bin=modules / ".bin", scripts=scripts)
