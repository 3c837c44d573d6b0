"""The file of a ring: a trace of the ring's entries, in the user's folder of rings."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from conductor.record.ring.played import Player, paced
from conductor.record.trace.chain import header
from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer, components
from conductor.run.log import Chain
from conductor.run.ring import Ring, Saved
from conductor.spec import paths, private_files, retention
from conductor.spec.redaction import clean_text

Log = Callable[[str, str, str], None]
"""Writes a line: level, component, text."""


def saved(ring: Ring, why: str, mode: Callable[[], str], content: str, log: Log) -> Saved:
    """Begins the file of a ring: see `conductor.run.ring.Save`.

    `content` is `redacted`, `all` or `none` (sizes only), as for a trace.
    """
    try:
        path, fd = _begun()
    except (OSError, ValueError) as error:
        log("warning", "conductor", f"the ring is not written: {private_files.reason(error)}")
        return Saved("", iter(()))
    file = TraceFile(fd, path, log)
    return Saved(path, _written(file, path, ring, why, mode, content, log))


def _written(
    file: TraceFile,
    path: str,
    ring: Ring,
    why: str,
    mode: Callable[[], str],
    content: str,
    log: Log,
) -> Iterator[None]:
    """Writes the file, step by step. One that fails ends it: that costs nobody but its reader."""
    try:
        for _ in paced(_played(file, ring, why, mode(), content)):
            yield
    except Exception as error:  # whatever a peer has sent: the chain goes on
        log("warning", "conductor", f"the ring in `{path}` is incomplete: {error!r}")
    finally:
        file.close()
    with contextlib.suppress(OSError):
        retention.prune(os.path.dirname(path), retention.RINGS)


def _played(file: TraceFile, ring: Ring, why: str, mode: str, content: str) -> Iterator[None]:
    held = ring.held()
    began = held.kept[0].at if held.kept else time.monotonic()
    start = time.time() - (time.monotonic() - began)
    # The words of an error may come from a component.
    shown = clean_text(why) if content != "none" else ""
    chains = [held.chain, *(one.item for one in held.kept if isinstance(one.item, Chain))]
    names = dict.fromkeys(name for chain in chains for name in components(chain))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start))
    about = {"why": shown, "began": stamp, "forgotten": held.forgotten}
    head = header(content, names, start, ring=about)
    player = Player(held, Tracer([file], content, head=head), mode)
    for kept in held.kept:
        player.take(kept)
        yield


def _begun() -> tuple[str, int]:
    """A new private file in the folder of rings. Raises `OSError`, or `ValueError` for a path that
    can be none."""
    folder = paths.rings()
    retention.prepare(folder)
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    micro = int(now * 1_000_000) % 1_000_000
    name = f"{stamp}.{micro:06d}-{os.getpid()}{retention.RINGS.suffix}"
    path = os.path.join(folder, name)
    fd = private_files.open_private(path, os.O_WRONLY | os.O_EXCL)
    with contextlib.suppress(OSError):
        private_files.hold(fd, alone=True)
    return path, fd
