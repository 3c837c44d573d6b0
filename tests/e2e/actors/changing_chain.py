"""A conductor with the components that a file lists, one a line, instead of its command line's.

    python -m tests.e2e.actors.changing_chain FILE agent [OPTION…]

At SIGHUP the file is read again: so far as the chain is concerned, a configuration has changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conductor import cli
from conductor.cli import run
from conductor.spec import catalog


def main() -> int:
    """Runs the command line."""
    file, *arguments = sys.argv[1:]

    def resolved(components: object, **more: Any) -> Any:
        return catalog.resolve_all(Path(file).read_text(encoding="utf-8").splitlines(), **more)

    vars(run)["resolve_all"] = resolved
    return cli.main([*arguments, "demo"])


if __name__ == "__main__":
    sys.exit(main())
