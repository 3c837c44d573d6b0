"""The folders a client has named: only below them are files read for components."""

from __future__ import annotations

import os
from typing import Final

import msgspec

SETUPS: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""Requests by which a client names folders."""

_ROOTS: Final = 256


class _Folders(msgspec.Struct, frozen=True, rename="camel"):
    cwd: str = ""
    additional_directories: list[str] = []


class _Setup(msgspec.Struct):
    method: str = ""
    params: _Folders = _Folders()


class Roots:
    """The folders the client has named in setups, in order."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def look(self, frame: bytes) -> None:
        """Learns from one frame of the client's; whatever is no setup is passed over."""
        try:
            setup = msgspec.json.decode(frame, type=_Setup)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if setup.method in SETUPS:
            for path in (setup.params.cwd, *setup.params.additional_directories):
                if os.path.isabs(path) and "\0" not in path and len(self.paths) < _ROOTS:
                    self.paths[os.path.normpath(path)] = None
