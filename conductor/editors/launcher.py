"""The command that starts this conductor from anywhere: absolute, and the same after an upgrade."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Final

_NAME: Final = "conductor"
_USER_BIN: Final = "~/.local/bin"
_BARE_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
"""What programs that a desktop starts find at least, on Linux and macOS."""
_OF_DESKTOP: Final = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TMPDIR", "TZ"),
        *("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK"),
    }
)
"""Variables that a session on a desktop has, whatever its shells set."""


def command() -> list[str]:
    """The words that start this conductor.

    `uv tool` and `pipx` keep a link to the program in a folder on PATH, and replace what the link
    leads to; so does Homebrew. So the link is what is written down, not its end.
    """
    program = _program()
    if program is None:
        return [os.path.abspath(sys.executable), "-m", _NAME]
    real = os.path.realpath(program)
    folders = [*os.environ.get("PATH", "").split(os.pathsep), os.path.expanduser(_USER_BIN)]
    for folder in folders:
        link = os.path.join(folder, _NAME)
        if os.path.isabs(folder) and os.path.realpath(link) == real and os.access(link, os.X_OK):
            return [os.path.normpath(link)]
    return [program]


def _program() -> str | None:
    """The script that runs this conductor; None where there is only the module."""
    started = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    beside = os.path.join(sysconfig.get_path("scripts"), _NAME)
    for path in (started, beside):
        if os.path.basename(path) == _NAME and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def starts_conductor(words: list[str]) -> bool:
    """Whether a command starts a conductor, this or another one."""
    if not words:
        return False
    if os.path.basename(words[0]) == _NAME:
        return True
    return any(words[at : at + 2] == ["-m", _NAME] for at in (1, 2))


def bare_environment() -> dict[str, str]:
    """The environment of a program that a desktop starts: without what shells add to it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _OF_DESKTOP or name.startswith(("LC_", "XDG_"))
    }
    return {**kept, "PATH": _BARE_PATH}


def full_path() -> str:
    """The PATH of this process, without folders that mean another one elsewhere."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(each for each in folders if os.path.isabs(each)))
