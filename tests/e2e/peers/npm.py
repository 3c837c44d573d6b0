"""Installs the peers pinned in a ``package-lock.json``, once for each lock file.

They land outside the checkout, in ``$CONDUCTOR_PEERS_CACHE`` or ``conductor-peers`` of the
user's cache directory (about 500 MB: two coding agents with their own runtimes). The lock
names no registry: npm takes the one it is configured with, and checks the digests.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "ts"
MCP_SOURCES = Path(__file__).parent / "mcp_ts"
OPENCODE_SOURCES = Path(__file__).parent / "opencode"
INSTALL_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class NodePeers:
    """Installed peers: ``bin`` holds their commands, ``scripts`` our client and agent."""

    node: str
    bin: Path
    scripts: Path


def node_tools() -> tuple[str, str] | None:
    """Paths of ``node`` and ``npm``, None unless both are on PATH."""
    node, npm = shutil.which("node"), shutil.which("npm")
    return (node, npm) if node and npm else None


def install(npm: str, sources: Path = SOURCES) -> Path:
    """The ``node_modules`` of the lock file, installed first when this machine lacks it.

    Raises `RuntimeError` with npm's own words when the installation fails.
    """
    lock = (sources / "package-lock.json").read_bytes()
    root = cache_root() / hashlib.sha256(lock).hexdigest()[:16]
    modules = root / "node_modules"
    if modules.is_dir():
        return modules
    root.parent.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed, so neither an interrupted install nor two test runs at
    # once can leave a half-filled directory under the final name.
    with tempfile.TemporaryDirectory(dir=root.parent, ignore_cleanup_errors=True) as scratch:
        building = Path(scratch) / "peers"
        building.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(sources / name, building / name)
        _npm_ci(npm, building, sources)
        try:
            building.rename(root)
        except OSError:
            if not modules.is_dir():
                raise
    return modules


def link_scripts(modules: Path, into: Path, sources: Path = SOURCES) -> Path:
    """Copy our scripts beside a link to ``modules``: Node resolves imports by location."""
    for script in sources.glob("*.mjs"):
        shutil.copy(script, into / script.name)
    (into / "node_modules").symlink_to(modules, target_is_directory=True)
    return into


def pinned_node(modules: Path) -> str | None:
    """The Node that was installed among the peers, where there is one for this machine."""
    found = sorted(modules.glob("node-*/bin/node"))
    return str(found[0]) if found else None


def cache_root() -> Path:
    """Where installed peers are kept."""
    named = os.environ.get("CONDUCTOR_PEERS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "conductor-peers"


def _npm_ci(npm: str, where: Path, sources: Path) -> None:
    # No install scripts: none of the peers needs one, and they would run other people's
    # code before any test asked for it.
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise RuntimeError(
            f"npm could not install the peers (exit code {done.returncode}):\n{tail}\n"
            f"hint: run `{' '.join(command)}` in {sources} to see why"
        )
