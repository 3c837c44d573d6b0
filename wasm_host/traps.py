"""From what wasmtime raises to what a reader can use: which limit, which trap, where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wasm_host.errors import GuestError

if TYPE_CHECKING:
    from wasm_host.limits import Limits


EXITED = "guest called proc_exit"
"""Text of the trap the host itself raises to end a guest that called `proc_exit`."""

FRAMES = 12
"""Backtrace lines kept in a message's detail."""

_FRAME = re.compile(r"^\s*\d+:")

_BY_LIMIT = (
    ("wasm trap: interrupt", "cpu_ms", "ran longer than"),
    ("all fuel consumed", "fuel", "used more fuel than"),
    ("call stack exhausted", "stack_bytes", "overflowed its stack of"),
    ("exceeds memory limits", "memory_bytes", "asks for more memory than"),
    ("memory minimum size", "memory_bytes", "asks for more memory than"),
    ("exceeds table limits", "table_elements", "asks for a larger table than"),
    ("table minimum size", "table_elements", "asks for a larger table than"),
)
"""Trap text -> (limit, what it means in words)."""
_UNITS = {"cpu_ms": "ms", "fuel": "units", "stack_bytes": "bytes", "memory_bytes": "bytes",
          "table_elements": "elements"}  # fmt: skip


def explain(
    error: Exception,
    phase: str,
    name: str,
    limits: Limits,
    *,
    memory: int | None = None,
    stderr: str = "",
) -> GuestError:
    """The `GuestError` for a trap or error of wasmtime.

    `memory` is the size of the guest's linear memory when it failed, if known; `stderr` the
    last of what it wrote there.
    """
    text = str(error)
    detail = _trimmed(text)
    if stderr:
        detail = f"stderr: {stderr.rstrip()}\n{detail}"
    for mark, limit, verb in _BY_LIMIT:
        if mark in text:
            bound = getattr(limits, limit)
            return GuestError(
                phase,
                f"{name} {verb} its limit {limit} of {bound} {_UNITS[limit]}"
                f"{_seen(limit, limits, text)}",
                limit=limit,
                detail=detail,
                hint=f"raise the component's {limit} if this is intended",
            )
    if memory is not None and memory > limits.memory_bytes - limits.memory_bytes // 8:
        return GuestError(
            phase,
            f"{name} trapped with {memory} bytes of memory in use, "
            f"its limit memory_bytes is {limits.memory_bytes}: {cause(text)}",
            limit="memory_bytes",
            detail=detail,
            hint="it probably could not get more memory: raise the component's memory_bytes",
        )
    where = "standard error and backtrace are" if stderr else "backtrace is"
    hint = f"this is a fault in the guest; its {where} in the detail"
    if memory is None and "unreachable" in text:  # how runtimes give up, and its size is not known
        hint += f"; or it got no more memory: its limit memory_bytes is {limits.memory_bytes}"
    return GuestError(phase, f"{name} trapped: {cause(text)}", detail=detail, hint=hint)


def _seen(limit: str, limits: Limits, text: str) -> str:
    """By how much, where that is known."""
    if limit == "cpu_ms":
        return f" (stopped after {limits.ticks} ticks of 10 ms)"
    asked = re.search(r"minimum size of (\d+) (pages|elements)", text)
    if asked is None:
        return ""
    count = int(asked[1]) * (65536 if asked[2] == "pages" else 1)
    return f": {count}, {count - getattr(limits, limit)} too many"


def cause(text: str) -> str:
    """The innermost cause in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if "wasm trap:" in line:
            return line.partition("wasm trap:")[2].strip()
    if "Caused by:" in lines:
        return re.sub(r"^\d+:\s*", "", lines[lines.index("Caused by:") + 1])
    return lines[0] if lines else "unknown trap"


def _trimmed(text: str) -> str:
    """The text with at most `FRAMES` backtrace lines."""
    kept: list[str] = []
    frames = dropped = 0
    for line in text.splitlines():
        if _FRAME.match(line) and "0x" in line:
            frames += 1
            if frames > FRAMES:
                dropped += 1
                continue
        kept.append(line.rstrip())
    if dropped:
        kept.append(f"({dropped} more frames)")
    return "\n".join(kept)
