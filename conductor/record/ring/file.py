"""The file of a ring: a trace of what it holds, in the user's folder of rings."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from conductor.core import json_text
from conductor.errors import hidden_json_line
from conductor.record.ring.played import Player, paced
from conductor.record.trace.records import FORMAT
from conductor.record.trace.tracer import Tracer, components
from conductor.record.turns.line import Line, written
from conductor.run.log import Chain, Sink
from conductor.run.ring import Ring, Saved
from conductor.spec import paths, private_files, retention
from conductor.spec.redaction import clean_text

_FLUSH: Final = 256 * 1024

Log = Callable[[str, str, str], None]
"""Writes a line: level, component, text."""


def saved(ring: Ring, why: str, mode: Callable[[], str], content: str, log: Log) -> Saved:
    """Begins the file of a ring: see `conductor.run.ring.Save`.

    `content` is `redacted`, `all` or `none` (sizes only), as for a trace.
    """
    try:
        file = _RingFile()
    except (OSError, ValueError) as error:
        log("warning", "conductor", f"the ring is not written: {private_files.reason(error)}")
        return Saved("", iter(()))
    return Saved(file.path, _written(file, ring, why, mode, content, log))


def _written(
    file: _RingFile, ring: Ring, why: str, mode: Callable[[], str], content: str, log: Log
) -> Iterator[None]:
    """Writes the file, step by step. One that fails ends it: that costs nobody but its reader."""
    try:
        for _ in paced(_lines(file, ring, why, mode(), content)):
            yield
    except Exception as error:  # whatever a peer has sent: the chain goes on
        reason = private_files.reason(error) or repr(error)
        log("warning", "conductor", f"the ring in `{file.path}` is incomplete: {reason}")
    finally:
        file.close()
    with contextlib.suppress(OSError):
        retention.prune(os.path.dirname(file.path), retention.RINGS)


def _lines(file: _RingFile, ring: Ring, why: str, mode: str, content: str) -> Iterator[None]:
    held = ring.held()
    tracer = Tracer([file], content)
    player = Player(held, tracer, mode)
    ago = time.monotonic() - player.start
    start = time.time() - ago
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start))
    # Words of an error may be those of a component.
    shown = clean_text(why) if content != "none" else ""
    chains = [held.chain, *(one.item for one in held.kept if isinstance(one.item, Chain))]
    names = dict.fromkeys(name for chain in chains for name in components(chain))
    header = {
        "type": "_conductor",
        "format": FORMAT,
        "content": content,
        "components": [*names],
        "began": round(start, 6),
        "ring": {"why": shown, "began": began, "forgotten": held.forgotten},
    }
    file.put(json_text.encode(header) + b"\n")
    for kept in held.kept:
        player.take(kept)
        yield
    file.flush()


class _RingFile(Sink[Line]):
    """A new private file in the folder of rings."""

    def __init__(self) -> None:
        """Raises `OSError`, or `ValueError` for a path that can be none."""
        folder = paths.rings()
        retention.prepare(folder)
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        micro = int(now * 1_000_000) % 1_000_000
        name = f"{stamp}.{micro:06d}-{os.getpid()}{retention.RINGS.suffix}"
        self.path = os.path.join(folder, name)
        self._fd = private_files.open_private(self.path, os.O_WRONLY | os.O_EXCL)
        with contextlib.suppress(OSError):
            private_files.hold(self._fd, alone=True)
        self._lines: list[bytes] = []
        self._size = 0

    def take(self, item: Line, at: float, mode: str) -> None:
        """Takes a line. Raises `OSError`."""
        if item.components is None:  # the header of a ring is its own
            self.put(written(item))

    def put(self, line: bytes) -> None:
        """Takes a line. Raises `OSError`."""
        line = hidden_json_line(line)
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _FLUSH:
            self.flush()

    def flush(self) -> None:
        """Writes what is held. Raises `OSError`."""
        left = memoryview(b"".join(self._lines))
        self._lines, self._size = [], 0
        while left:
            left = left[os.write(self._fd, left) :]

    def close(self) -> None:
        """Closes the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
