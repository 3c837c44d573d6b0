"""The caged children of a test."""

from __future__ import annotations

import os
from pathlib import Path


def caged_processes() -> list[int]:
    """The ids of the caged children of this process."""
    numbers = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if (
                parent == os.getpid()
                and b"conductor.author.caged" in (entry / "cmdline").read_bytes()
            ):
                numbers.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return numbers
