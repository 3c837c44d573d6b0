"""Builds of the examples, made once for all processes that run tests."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[[str], Path]
"""Builds an example, or the probe, by name."""


def once(factory: pytest.TempPathFactory, language: str, make: Callable[[Path], None]) -> Path:
    """A folder of this run that `make` has filled, by the first process that asks for it."""
    folder = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    folder = folder / f"sdk-{language}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            make(folder)
            (folder / "done").touch()
    return folder


def run(command: list[str], folder: Path, **environment: str) -> None:
    """Runs a build's command; an error holds its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
