"""Trace files for tests without an event loop."""

from __future__ import annotations

import os
from pathlib import Path

from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer


def unscheduled(path: Path) -> TraceFile:
    """A new trace file that writes its lines when it is full or closed, never later by a timer."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return TraceFile(fd, str(path), lambda *_: None, later=lambda *_: None)


def traced(path: Path, content: str = "all") -> Tracer:
    """What writes such a file."""
    file = unscheduled(path)
    return Tracer([file], content, records=file.gather)
