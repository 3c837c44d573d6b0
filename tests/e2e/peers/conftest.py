"""Fixtures of the peer tests: the conductor under test, the installed npm peers."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.peers.npm import (
    MCP_SOURCES,
    NodePeers,
    install,
    link_scripts,
    node_tools,
    pinned_node,
)
from tests.e2e.peers.processes import outliving

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = "CONDUCTOR_PEERS_RUN"
"""Environment variable every process of one test inherits, to find leftovers by."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the conductor under test, and in which environment."""

    base: tuple[str, ...]
    env: dict[str, str]

    def agent(self, *components: str) -> tuple[str, ...]:
        """The command line of ``conductor agent COMPONENT…``."""
        return (*self.base, "agent", *components)


@pytest.fixture
def launch() -> Iterator[Launch]:
    """The conductor under test; afterwards no process it started may be left.

    ``CONDUCTOR_UNDER_TEST`` names another command instead of ``python -m conductor``, for
    instance that of an installed wheel.
    """
    token = uuid.uuid4().hex
    env = {**os.environ, MARKER: token}
    named = os.environ.get("CONDUCTOR_UNDER_TEST")
    if named:
        base = tuple(shlex.split(named))
    else:
        base = (sys.executable, "-m", "conductor")
        env["PYTHONPATH"] = _with_package_folder(env.get("PYTHONPATH"))
    yield Launch(base, env)
    assert outliving(f"{MARKER}={token}") == []


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


def _with_package_folder(pythonpath: str | None) -> str:
    """PYTHONPATH that lets a child in any directory import the package pytest would."""
    spec = importlib.util.find_spec("conductor")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("conductor is not importable; hint: pip install -e '.[dev]'")
    folder = str(Path(next(iter(spec.submodule_search_locations))).parent)
    return os.pathsep.join((folder, pythonpath)) if pythonpath else folder
