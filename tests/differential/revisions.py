"""Processes that play, each with one revision of the conductor on its path."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from tests.differential.playing import Made, Play
from tests.places import ROOT

PACKAGES: Final = ("conductor", "wasm_host")
"""The packages of a revision that a player needs."""


class Player:
    """Plays with the conductor in a folder."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join((str(folder), str(ROOT)))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.differential.playing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        where = self._line().decode().strip()
        assert Path(where).is_relative_to(folder.resolve()), f"{where} is not in {folder}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()

    def _line(self) -> bytes:
        line = self._from.readline()
        if not line:
            raise RuntimeError("a process that plays has ended: see what it wrote above")
        return line

    def _ask(self, plays: Sequence[Play], *, whole: bool, of: type[Any]) -> Any:
        self._to.write(msgspec.json.encode((whole, plays)) + b"\n")
        self._to.flush()
        return msgspec.json.decode(self._line(), type=of)

    def digests(self, plays: Sequence[Play]) -> list[tuple[str, str]]:
        """The outcome of each play, in short: a digest, and the reason for an early end."""
        found: list[tuple[str, str]] = self._ask(plays, whole=False, of=list[tuple[str, str]])
        return found

    def made(self, play: Play) -> Made:
        """All that it makes of a play."""
        made: Made = self._ask([play], whole=True, of=list[Made])[0]
        return made


def unpacked(revision: str, aside: Path) -> Path:
    """The conductor of a revision, or of a folder with one."""
    if Path(revision).is_dir():
        return Path(revision).resolve()
    folder = aside / revision
    if not folder.exists():
        folder.mkdir(parents=True)
        command = ["git", "-C", str(ROOT), "archive", revision, *PACKAGES]
        archive = subprocess.run(command, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
    return folder
