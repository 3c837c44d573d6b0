"""Trace files for tests without an event loop."""

from pathlib import Path

from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer


def traced(path: Path, content: str = "all") -> Tracer:
    """A tracer that writes a new trace file."""
    return Tracer([TraceFile.create(str(path), lambda *_: None)], content)
