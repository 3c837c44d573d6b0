"""The surroundings of a process at its start: standard streams, locale, words and folder.

Conductor's text is UTF-8 in any locale: file names, arguments, input and output.
Loaded before the host of guests is started, so it imports nothing that a fresh interpreter has not
imported already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from conductor.errors import UsageError


_PLACES: Final = (
    "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
)  # fmt: skip


def prepare() -> None:
    """Opens the closed standard streams, and makes sure that Python reads UTF-8.

    Otherwise the next file to be opened would pass for a standard stream. Reading from a closed
    standard input is its end, as ever; writing to a closed standard output fails, as ever.
    """
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # takes the lowest free number
            if fd == 0:
                sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # In no other way can Python name files and read arguments that the locale cannot spell.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def unfit(words: Sequence[str]) -> UsageError | None:
    """Why these words cannot be a command line here: messages can only hold UTF-8."""
    for name in _PLACES:
        if not _is_text(os.environ.get(name, "")):
            return _error(f"{name} is not UTF-8", "set it to a folder whose path is UTF-8")
    for word in words:
        if not _is_text(word):
            return _error(f"`{word}` is not UTF-8", "rename the file, or write the text, in UTF-8")
    from conductor.cli import commands

    if not commands.has(words, commands.PATHS):
        return None
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return _error("the current folder is no longer there", "`cd` to a folder that exists")
    if not _is_text(folder):
        return _error(f"the current folder, `{folder}`, is not UTF-8", "run it in another folder")
    return None


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _error(text: str, hint: str) -> UsageError:
    from conductor.errors import UsageError

    return UsageError(text, hint)
