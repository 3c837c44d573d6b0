"""The owners of sessions, also after a restart of the server.

A session has one owner: the principal that opened it last. Agents choose the ids, and some count:
then an earlier session with the same id is another session, and nobody can go on with it.

One line a session is appended to a file that only the user may read: the owner, and the session. A
line that begins with `-` takes a session back.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final, Protocol

import msgspec

from conductor.core import json_text
from conductor.spec import private_files

_MOST: Final = 100_000
"""The most sessions of one principal; the oldest are forgotten."""
_REWRITE: Final = 4
"""The file is written anew when it has so many times the lines that it needs."""


class Ownership(Protocol):
    """Knows the owners of sessions."""

    def has(self, principal: str, session: str) -> bool:
        """Whether a session is the principal's."""

    def add(self, principal: str, session: str) -> None:
        """A principal has a session from now on."""

    def remove(self, principal: str, session: str) -> None:
        """A session is gone."""

    def close(self) -> None:
        """Ends it."""


class Owners:
    """Knows the owners of sessions. Without a file it does so as long as the process lives."""

    def __init__(self, path: str = "", sole: str | None = None) -> None:
        """`sole`: the only principal of the server, who owns every session that nobody else owns:
        an agent knows earlier sessions. Raises `OSError` for a file that cannot be used."""
        self._path = path
        self._sole = sole
        self._of: dict[str, dict[str, None]] = {}
        self._fd = -1
        if path:
            private_files.need_folder(path)
            self._read()
            if self._torn or self._lines > _REWRITE * max(1, sum(map(len, self._of.values()))):
                self._rewrite()
            self._fd = private_files.open_private(path, os.O_WRONLY | os.O_APPEND, ordinary=True)

    def has(self, principal: str, session: str) -> bool:
        """Whether a session is the principal's."""
        if session in self._of.get(principal, ()):
            return True
        return principal == self._sole and not any(session in of for of in self._of.values())

    def add(self, principal: str, session: str) -> None:
        """A principal has a session from now on."""
        if self._take("+", principal, session):
            self._append("+", principal, session)

    def remove(self, principal: str, session: str) -> None:
        """A session is gone."""
        if self._take("-", principal, session):
            self._append("-", principal, session)

    def close(self) -> None:
        """Ends the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take(self, sign: str, principal: str, session: str) -> bool:
        """Notes a line; whether that changes anything."""
        sessions = self._of.setdefault(principal, {})
        if sign == "-":
            return sessions.pop(session, self) is None
        if session in sessions:
            return False
        for of in self._of.values():
            of.pop(session, None)
        sessions[session] = None
        if len(sessions) > _MOST:
            del sessions[next(iter(sessions))]
        return True

    def _append(self, sign: str, principal: str, session: str) -> None:
        if self._fd < 0:
            return
        # On a full disk the line is missing: after a restart the session is nobody's.
        with contextlib.suppress(OSError):
            os.write(self._fd, json_text.encode((sign, principal, session)) + b"\n")

    def _read(self) -> None:
        self._lines, self._torn = 0, False
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        private_files.refuse_what_others_write(self._path)
        fd = private_files.open_private(self._path, os.O_RDONLY, ordinary=True)
        with os.fdopen(fd, "rb") as file:
            for line in file:
                self._lines += 1
                self._torn = not line.endswith(b"\n")
                try:
                    self._take(*json_text.decode(line, type=tuple[str, str, str]))
                except msgspec.DecodeError:
                    continue  # the machine went down while it was written

    def _rewrite(self) -> None:
        entries = [("+", who, one) for who, sessions in self._of.items() for one in sessions]
        content = b"".join(json_text.encode(entry) + b"\n" for entry in entries)
        private_files.replace(self._path, content)
