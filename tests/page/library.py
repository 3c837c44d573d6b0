"""Builds the client library in TypeScript; the page of a chat runs two modules of it.

`python -m tests.page.library` puts them into `conductor/page/static`, so that nobody who uses the
page needs a compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.peers.npm import install, node_tools
from tests.places import ROOT

SOURCES: Final = ROOT / "clients" / "typescript"
STATIC: Final = ROOT / "conductor" / "page" / "static"
FILES: Final = ("editor.js", "ranges.js")
"""The files that the page has of the client library."""
HINT: Final = "the client library has changed: run `python -m tests.page.library`"


def build(modules: Path, into: Path) -> None:
    """Compiles the library and its tests into the folder `into`, with the tools in `modules`.

    Raises `subprocess.CalledProcessError`.
    """
    into.mkdir(parents=True)
    for name in ("src", "test"):
        shutil.copytree(SOURCES / name, into / name)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(SOURCES / name, into / name)
    (into / "node_modules").symlink_to(modules)
    subprocess.run([str(modules / ".bin" / "tsc")], cwd=into, check=True)
    (into / "node_modules").unlink()


def main() -> int:
    """Writes the page's modules; the exit code."""
    tools = node_tools()
    if tools is None:
        print("error: node and npm are not on PATH", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / "library"
        build(install(tools[1], SOURCES), built)
        for name in FILES:
            shutil.copy(built / "dist" / "src" / name, STATIC / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
