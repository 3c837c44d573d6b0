"""Starts processes that lock themselves up, the way hosts of guests are started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import wasmtime

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
SECONDS: Final = 60.0
"""Until a process that should have ended is given up."""

PATHS: Final = sorted(
    {str(ROOT)} | {str(Path(one.__file__ or "").parents[1]) for one in (msgspec, wasmtime)}
)


def command(script: str, *arguments: str) -> list[str]:
    """How one of the scripts beside is run: isolated, with the folders it imports from."""
    return [sys.executable, "-I", "-S", str(HERE / script), ":".join(PATHS), *arguments]


def run(
    script: str, *arguments: str, inherited: tuple[int, ...] = (), env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run one to its end, with nothing but pipes and the descriptors in ``inherited``."""
    return subprocess.run(
        command(script, *arguments),
        input=b"",
        capture_output=True,
        env=env or {},
        pass_fds=inherited,
        timeout=SECONDS,
        check=False,
    )


def code(text: str) -> list[str]:
    """A command that runs Python text with the same folders to import from."""
    return [sys.executable, "-I", "-S", "-c", f"import sys;sys.path[:0]={PATHS!r}\n{text}"]
