"""Builds the Rust SDK's client and server, once for each version of their sources.

    python -m tests.e2e.peers.remote.build

This takes minutes, so no test does it: those that need the program are skipped until it is built.
It lands beside the peers from npm (`tests.e2e.peers.npm.cache_root`).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.peers.npm import cache_root

SOURCES: Final = Path(__file__).parent / "rust"
COMMAND: Final = "python -m tests.e2e.peers.remote.build"


def place() -> Path:
    """Where the program of these sources is kept."""
    state = hashlib.sha256()
    for path in (SOURCES / "Cargo.toml", SOURCES / "src" / "main.rs"):
        state.update(path.read_bytes())
    return cache_root() / f"rust-{state.hexdigest()[:16]}" / "rust-peers"


def build() -> Path:
    """The program, built first when this machine lacks it. Raises `RuntimeError`."""
    target = place()
    if target.exists():
        return target
    cargo = shutil.which("cargo")
    if cargo is None:
        raise RuntimeError("the Rust peers need cargo on PATH\nhint: install Rust")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Away from the checkout: cargo writes a lock file beside the sources, which names its registry.
    with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as aside:
        crate = Path(aside) / "crate"
        shutil.copytree(SOURCES, crate, ignore=shutil.ignore_patterns("target"))
        done = subprocess.run([cargo, "build", "--release"], cwd=crate, check=False)
        if done.returncode:
            raise RuntimeError(f"cargo ended with {done.returncode}\nhint: run it in {SOURCES}")
        (crate / "target" / "release" / target.name).replace(target)
    return target


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as error:
        sys.exit(f"error: {error}")
