"""Notices sessions outside of the folder by which the chain was chosen.

The fitting chain was chosen once, when conductor was started; an editor may then open a session in
any folder. That is no error, so it is only reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from conductor.errors import visible_path
from conductor.spec import paths

_MOST: Final = 100
"""Folders that are reported."""


class JudgedFolder:
    """Reports each other folder that a session is opened in."""

    def __init__(self, folder: str, chosen: str, log: Callable[[str, str, str], None]) -> None:
        """`chosen`: why the chain was; `log` takes level, component and text."""
        self._folder = os.path.realpath(folder)
        self._chosen = chosen
        self._log = log
        self._seen: set[str] = set()

    def opened(self, folder: str) -> None:
        """A session is opened in a folder."""
        if folder in self._seen or len(self._seen) == _MOST or not os.path.isabs(folder):
            return
        self._seen.add(folder)
        if "\0" not in folder and not paths.within(os.path.realpath(folder), self._folder):
            self._log(
                "warning",
                "conductor",
                f"a session is in {visible_path(folder)}, and the chain was chosen for "
                f"{visible_path(self._folder)}: {self._chosen}",
            )
