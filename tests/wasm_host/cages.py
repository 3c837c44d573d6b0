"""Starts processes that lock themselves up, the way hosts of guests are started."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import wasmtime

from tests.places import ROOT

HERE: Final = Path(__file__).parent
SECONDS: Final = 60.0
"""Until a process that should have ended is given up."""

PATHS: Final = sorted(
    {str(ROOT)} | {str(Path(one.__file__ or "").parents[1]) for one in (msgspec, wasmtime)}
)


def code(text: str) -> list[str]:
    """A command that runs Python text, isolated, with the folders it imports from."""
    return [sys.executable, "-I", "-S", "-c", f"import sys;sys.path[:0]={PATHS!r}\n{text}"]


def run(
    module: str,
    *arguments: str,
    early: bool = True,
    inherited: tuple[int, ...] = (),
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``main(*arguments)`` of a module beside, to its end.

    It gets pipes and the descriptors in ``inherited``; ``early`` comes before any other import.
    """
    first = "from wasm_host.harden import drop_inherited;drop_inherited()\n" if early else ""
    return subprocess.run(
        code(f"{first}from {__package__}.{module} import main\nmain(*{arguments!r})"),
        input=b"",
        capture_output=True,
        env=env or {},
        pass_fds=inherited,
        timeout=SECONDS,
        check=False,
    )
