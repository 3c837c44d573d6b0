"""The command that starts this conductor from anywhere: absolute, and the same after an upgrade."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Final

from conductor.errors import UsageError
from conductor.spec import paths

_NAME: Final = "conductor"
_USER_BIN: Final = "~/.local/bin"
_BARE_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
"""The least PATH of programs that a desktop starts, on Linux and macOS."""
_OF_DESKTOP: Final = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TMPDIR", "TZ"),
        *("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK"),
    }
)
"""Variables that a session on a desktop has, whatever its shells set."""


def command() -> list[str]:
    """The words that start this conductor. Raises `UsageError` for a program that will not stay.

    `uv tool` and `pipx` keep a link to the program in a folder on PATH, and replace the target of
    the link; so does Homebrew. So the link is written down, not its target.
    """
    program = _program()
    if program is None:
        # -P: the folder in which an editor starts it may have a `conductor` of its own.
        return [_lasting(os.path.abspath(sys.executable)), "-P", "-m", _NAME]
    real = os.path.realpath(program)
    folders = [*os.environ.get("PATH", "").split(os.pathsep), os.path.expanduser(_USER_BIN)]
    for folder in folders:
        link = os.path.join(folder, _NAME)
        if os.path.isabs(folder) and os.path.realpath(link) == real and os.access(link, os.X_OK):
            return [_lasting(os.path.normpath(link))]
    return [_lasting(program)]


def _program() -> str | None:
    """The script that runs this conductor; None where there is only the module."""
    started = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(started) == _NAME and _runs(started):
        return started
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        script = os.path.join(sysconfig.get_path("scripts", scheme), _NAME)
        if _runs(script) and _is_of_this_python(script):
            return script
    return None


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_of_this_python(script: str) -> bool:
    """Whether a script runs in this Python: it is beside it, or its first line names it."""
    if os.path.dirname(script) == os.path.dirname(os.path.abspath(sys.executable)):
        return True
    with open(script, "rb") as file:
        first = file.readline(4096)
    return first[2:].strip() == os.fsencode(sys.executable)


def _lasting(path: str) -> str:
    """The path itself. Raises `UsageError` for a path in a cache, which is emptied now and then:
    `uvx` and `pipx run` start programs from there."""
    caches = [os.path.expanduser(each) for each in ("~/.cache", "~/Library/Caches")]
    caches += [os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "UV_CACHE_DIR")]
    for cache in caches:
        if os.path.isabs(cache) and paths.within(os.path.realpath(path), os.path.realpath(cache)):
            raise UsageError(
                f"this conductor runs from a cache ({path}), where an editor will not find it for "
                "long",
                "install it: `uv tool install conductor-acp` or `pipx install conductor-acp`, then "
                "run this again",
            )
    return path


def starts_conductor(words: list[str]) -> bool:
    """Whether a command starts a conductor, this one or another."""
    if "agent" not in words[1:]:  # another program of this name
        return False
    if os.path.basename(words[0]) in (_NAME, f"{_NAME}-acp"):
        return True
    return any(words[at : at + 2] == ["-m", _NAME] for at in (1, 2))


def bare_environment() -> dict[str, str]:
    """The environment of a program that a desktop starts: without variables that shells add."""
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
