"""The version of this conductor."""

from __future__ import annotations

import os
import sys
from typing import Final

DISTRIBUTION: Final = "conductor-acp"
_BEGINS: Final = f"{DISTRIBUTION.replace('-', '_')}-"
_ENDS: Final = ".dist-info"


def version() -> str:
    """The installed version, or the version of the checkout that this runs from."""
    # Not importlib.metadata: it takes longer to import than all of the core, for a name of a
    # folder, and an agent waits for the answer.
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            if name.startswith(_BEGINS) and name.endswith(_ENDS):
                return name[len(_BEGINS) : -len(_ENDS)]
    return _of_checkout()


def _of_checkout() -> str:
    import tomllib

    project = os.path.join(os.path.dirname(os.path.dirname(__file__)), "pyproject.toml")
    try:
        with open(project, "rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    except FileNotFoundError:
        return "unknown"
