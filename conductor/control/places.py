"""The folders of control sockets: only their user may enter them. A socket has the id of its chain
as its name."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from conductor.spec import private_files

_OWN: Final = 0o700
_LONGEST_PATH: Final = 100
"""Bytes of a Unix socket's path that every system takes."""
_END: Final = ".sock"
_UNHEARD: Final = ".new"
"""The end of a socket's name until its process listens. No longer than the final end: paths have
a limit."""
_ID: Final = "([0-9]{1,10})(?:-([1-9][0-9]{0,8}))?"


class Id(NamedTuple):
    """Which of the running chains: `4711`, or `4711-2` of a process that runs several."""

    process: int
    number: int = 0
    """The chain's number on a server; 0: the process has only this chain."""

    def __str__(self) -> str:
        """The id as a person writes it."""
        return f"{self.process}-{self.number}" if self.number else f"{self.process}"

    def is_of(self, other: Id) -> bool:
        """Whether `other` means this chain, or all of its process."""
        return self.process == other.process and other.number in (0, self.number)


def read_id(text: str) -> Id | None:
    """The id that a text stands for; None: for none."""
    found = re.fullmatch(_ID, text)
    return Id(int(found[1]), int(found[2] or 0)) if found else None


def folders() -> list[str]:
    """Where sockets may be, the best first: an editor and a terminal need not have the same
    variables."""
    found = []
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        found.append(os.path.join(runtime, "conductor"))
    on_mac = sys.platform == "darwin"
    state = "" if on_mac else os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = "~/Library/Application Support" if on_mac else "~/.local/state"
    found.append(os.path.join(os.path.expanduser(state), "conductor", "run"))
    found.append(f"/tmp/conductor-{os.geteuid()}")  # noqa: S108 - it is refused unless it is private
    return [one for one in dict.fromkeys(found) if os.path.isabs(one)]


def why_not(folder: str) -> str:
    """Why a folder is not used: others could put sockets into it; empty: it is private. Raises
    `OSError`."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(status.st_mode) & ~_OWN:
        return f"can be entered by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def made(folder: str, id_: Id) -> str:
    """Makes a folder for the socket of a chain if there is none; why it is not used, or empty."""
    try:
        private_files.make_folders(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, _OWN)
        why = why_not(folder)
        if not why and len(os.fsencode(_socket(folder, id_))) > _LONGEST_PATH:
            why = "has a path that is too long for a socket"
    except OSError as error:
        return f"cannot be used: {error.strerror}"
    return why


def chosen(number: int = 0) -> tuple[str, list[str]]:
    """The path of the socket of a chain of this process, empty if no folder can be used; and why
    others are not used."""
    id_ = Id(os.getpid(), number)
    whys: list[str] = []
    for folder in folders():
        why = made(folder, id_)
        if not why:
            return _socket(folder, id_), whys
        whys.append(f"`{folder}` {why}")
    return "", whys


def listed() -> Iterator[tuple[Id, str]]:
    """The sockets there are: of which chain, and the path. Folders that are not private are
    passed over."""
    for folder in folders():
        with contextlib.suppress(OSError):
            if why_not(folder):
                continue
            for name in sorted(os.listdir(folder)):
                id_ = read_id(name.removesuffix(_END))
                if name.endswith(_END) and id_ is not None:
                    yield id_, os.path.join(folder, name)


def remove(path: str) -> None:
    """Removes a socket, and nothing else."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def unheard(path: str) -> str:
    """The path of a socket until its process listens."""
    return f"{path.removesuffix(_END)}{_UNHEARD}"


def _socket(folder: str, id_: Id) -> str:
    return os.path.join(folder, f"{id_}{_END}")
