"""Trace files for tests without an event loop."""

from __future__ import annotations

from pathlib import Path

from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer


def traced(path: Path, content: str = "all") -> Tracer:
    """What writes a new trace file."""
    return Tracer([TraceFile.create(str(path), lambda *_: None)], content)
