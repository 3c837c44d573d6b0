"""Which conductor this is."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "conductor-acp"


def version() -> str:
    """The installed version, or that of the checkout this runs from."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        project = Path(__file__).parents[1] / "pyproject.toml"
        if not project.is_file():
            return "unknown"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
