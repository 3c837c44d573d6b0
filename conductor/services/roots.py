"""The folders a client has named: only below them are files read for components.

They are those of its open sessions. A session has its folders from the request that sets it up,
since proxies read files before it is answered. They go when it is refused, closed or deleted,
unless another session has them too. A session that is set up again has those of the new setup.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import json_text
from conductor.core.json_text import holds
from conductor.core.policy.key_table import CLOSING, SETUP

_ANSWER: Final = b'{"jsonrpc":"2.0","id":'
"""How answers of ours begin."""

_ROOTS: Final = 256
_SETUP_BYTES: Final = 256 * 1024
"""No setup of a session is longer; searching large prompts for one would take a while."""


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str = ""
    cwd: str = ""
    additional_directories: list[str] | None = None


class _Request(msgspec.Struct, frozen=True):
    id: Raw | UnsetType = UNSET
    method: str = ""
    params: _Params = _Params()


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str = ""


class _Answer(msgspec.Struct, frozen=True):
    result: _Result | UnsetType | None = UNSET


class _PendingSetup(msgspec.Struct, frozen=True):
    """A request that is not answered yet."""

    session: str
    """The session that has the folders afterwards; empty: the answer names it."""
    folders: tuple[str, ...]


class Roots:
    """The folders of the client's sessions. `paths` is replaced, never changed: threads read it."""

    def __init__(self) -> None:
        self.paths: tuple[str, ...] = ()
        """All of them, in the order in which they were first named."""
        self._named: Counter[str] = Counter()
        """How many sessions have each."""
        self._sessions: dict[str, tuple[str, ...]] = {}
        self._open: dict[bytes, _PendingSetup] = {}
        """By the client's own id, raw."""

    @property
    def waiting(self) -> bool:
        """Whether an answer to the client may change anything."""
        return bool(self._open)

    def look(self, frame: bytes) -> str:
        """Learns from a frame of the client's; ignores those that begin or end no session. Returns
        the folder that a session is set up in; empty: none is."""
        if len(frame) > _SETUP_BYTES or not _may_concern(frame):
            return ""
        try:
            request = json_text.decode(frame, type=_Request)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        if isinstance(request.id, UnsetType):
            return ""
        params = request.params
        if request.method in SETUP:
            # Of a fork the client names the session it is made from.
            session = "" if request.method == "session/fork" else params.session_id
            setup = _PendingSetup(
                session, self._taken((params.cwd, *(params.additional_directories or ())))
            )
        elif request.method in CLOSING and params.session_id in self._sessions:
            setup = _PendingSetup(params.session_id, ())
        else:
            return ""
        self._open[bytes(request.id)] = setup
        return params.cwd if request.method in SETUP else ""

    def answered(self, data: bytes) -> None:
        """Learns from whole lines for the client, as they are written."""
        for id_ in list(self._open):
            line = _line(data, b"%b%b," % (_ANSWER, id_))
            if line is not None:
                self._settle(self._open.pop(id_), line)

    def _settle(self, setup: _PendingSetup, line: bytes) -> None:
        try:
            result = json_text.decode(line, type=_Answer).result
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            result = None  # a success all the same, of a kind that names no session
        if isinstance(result, UnsetType):
            self._released(setup.folders)
            return
        session = setup.session or (result.session_id if result is not None else "")
        former = self._sessions.pop(session, ())
        if setup.folders and session:
            self._sessions[session] = setup.folders
        if session:  # folders of a session without a name stay: nobody can close it
            self._released(former)

    def _taken(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """Counts folders in, and returns them: those that are absolute paths, and not too many."""
        taken = []
        for path in named:
            if os.path.isabs(path) and "\0" not in path:
                path = os.path.normpath(path)  # noqa: PLW2901
                if path in self._named or len(self._named) < _ROOTS:
                    self._named[path] += 1
                    taken.append(path)
        self.paths = tuple(self._named)
        return tuple(taken)

    def _released(self, paths: tuple[str, ...]) -> None:
        self._named.subtract(paths)
        self._named = +self._named
        self.paths = tuple(self._named)


def _may_concern(frame: bytes) -> bool:
    """Whether a frame may be such a request: each has one of these words, or escapes hide them."""
    if holds(frame, b'"cwd"') or holds(frame, b'/close"') or holds(frame, b'/delete"'):
        return True
    return holds(frame, b"\\") and (b"\\u" in frame or b"\\/" in frame)


def _line(data: bytes, beginning: bytes) -> bytes | None:
    """The line of `data` that begins so, and is no request to the client under the same id."""
    at = data.find(beginning)
    while at >= 0 and (
        (at > 0 and data[at - 1] != 0x0A) or data.startswith(b'"method"', at + len(beginning))
    ):
        at = data.find(beginning, at + 1)
    if at < 0:
        return None
    end = data.find(b"\n", at)
    return data[at:] if end < 0 else data[at:end]
