"""The failures of a guest, as exceptions that name the cause and the next step.

`explain` turns exceptions of wasmtime into a `GuestError`: which limit, which trap, where. It
recognises wasmtime's texts, because its traps have no codes for most limits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wasm_host.limits import Limits


EXITED: Final = "guest called proc_exit"
"""Text of the trap by which the host ends a guest that called `proc_exit`."""

_FRAMES: Final = 12
"""Backtrace lines kept in an error's detail."""
_FRAME: Final = re.compile(r"^\s*\d+:.*0x")

_BY_LIMIT: Final = (
    ("wasm trap: interrupt", "cpu_ms", "ran longer than", "ms"),
    ("all fuel consumed", "fuel", "used more fuel than", "units"),
    ("call stack exhausted", "stack_bytes", "overflowed its stack of", "bytes"),
    ("exceeds memory limits", "memory_bytes", "asks for more memory than", "bytes"),
    ("memory minimum size", "memory_bytes", "asks for more memory than", "bytes"),
    ("exceeds table limits", "table_elements", "asks for a larger table than", "elements"),
    ("table minimum size", "table_elements", "asks for a larger table than", "elements"),
)
"""Text of a trap -> the limit that was exceeded, the verb of the message, the limit's unit."""


class GuestError(Exception):
    """A guest broke a rule, trapped, or ran into a limit.

    Unless it is a `LimitRefused` or a `LoadError`, the instance is dead afterwards.

    Attributes:
        phase: `load`, `instantiate`, `start`, `deliver` or `close`.
        limit: the field of `wasm_host.Limits` that was exceeded, or `None`.
        detail: more than fits a sentence: the trap message, a trimmed backtrace, stderr.
        hint: the reader's next step; empty when there is nothing to advise.
        outbox: complete lines the guest had written before it failed (WASI carrier only).
    """

    def __init__(
        self,
        phase: str,
        message: str,
        *,
        limit: str | None = None,
        detail: str = "",
        hint: str = "",
        outbox: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.limit = limit
        self.detail = detail
        self.hint = hint
        self.outbox = outbox


class LoadError(GuestError):
    """The file is not a guest this host will run; nothing was executed."""

    def __init__(
        self, message: str, *, limit: str | None = None, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__("load", message, limit=limit, detail=detail, hint=hint)

    def of(self, label: str) -> LoadError:
        """The same, about the module called `label`."""
        return LoadError(f"{label}: {self}", limit=self.limit, detail=self.detail, hint=self.hint)


def over(limit: str, excess: str, bound: int) -> LoadError:
    """The error for a module beyond a limit; `excess` is a clause with the excess."""
    return LoadError(
        f"{excess}: the limit {limit} is {bound}",
        limit=limit,
        hint=f"raise the component's {limit} if you trust it",
    )


class LimitRefused(GuestError):  # noqa: N818 - nothing is broken afterwards
    """The host refused a delivery before it reached the guest, which is unharmed and lives on."""


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

    Args:
        memory: size of the guest's linear memory when it failed; `None` if that is not known.
        stderr: the end of the guest's standard error.
    """
    text = str(error)
    detail = f"stderr: {stderr.rstrip()}\n{_trimmed(text)}" if stderr else _trimmed(text)
    for mark, limit, verb, unit in _BY_LIMIT:
        if mark in text:
            bound = f"{getattr(limits, limit)} {unit}{_excess(limit, limits, text)}"
            message = f"{name} {verb} its limit {limit} of {bound}"
            hint = f"raise the component's {limit} if this is intended"
            return GuestError(phase, message, limit=limit, detail=detail, hint=hint)
    bound = f"its limit memory_bytes is {limits.memory_bytes}"
    # Runtimes trap when memory.grow fails, so a full memory is the likely cause of any trap.
    if memory is not None and memory > limits.memory_bytes - limits.memory_bytes // 8:
        message = f"{name} trapped with {memory} bytes of memory in use, {bound}: {cause(text)}"
        hint = "it probably could not get more memory: raise the component's memory_bytes"
        return GuestError(phase, message, limit="memory_bytes", detail=detail, hint=hint)
    if "(os error " in text:  # no code of the guest's ran into it
        message = f"{name} got no memory or file of this system: {cause(text)}"
        hint = "raise the limits of the process that starts conductor: `ulimit -a` shows them"
        return GuestError(phase, message, detail=detail, hint=hint)
    where = "standard error and backtrace are" if stderr else "backtrace is"
    hint = f"this is a fault in the guest; its {where} in the detail"
    if memory is None and "unreachable" in text:  # a component, whose memory nobody can see
        hint += f"; or it got no more memory: {bound}"
    return GuestError(phase, f"{name} trapped: {cause(text)}", detail=detail, hint=hint)


def cause(text: str) -> str:
    """The innermost cause in a text of wasmtime, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if "wasm trap:" in line:
            return line.partition("wasm trap:")[2].strip()
    if "Caused by:" in lines:
        return re.sub(r"^\d+:\s*", "", lines[lines.index("Caused by:") + 1])
    return lines[0] if lines else "unknown trap"


def _excess(limit: str, limits: Limits, text: str) -> str:
    """By how much a guest exceeded a limit, where that is known."""
    if limit == "cpu_ms":
        return f" (stopped after {limits.ticks} ticks of 10 ms)"
    size = re.search(r"minimum size of (\d+) (pages|elements)", text)
    if size is None:
        return ""
    count = int(size[1]) * (65536 if size[2] == "pages" else 1)
    return f": {count}, {count - getattr(limits, limit)} too many"


def _trimmed(text: str) -> str:
    """The text with at most `_FRAMES` backtrace lines: deep recursion has thousands."""
    lines = [line.rstrip() for line in text.splitlines()]
    frames = [index for index, line in enumerate(lines) if _FRAME.match(line)]
    dropped = set(frames[_FRAMES:])
    kept = [line for index, line in enumerate(lines) if index not in dropped]
    return "\n".join([*kept, f"({len(dropped)} more frames)"] if dropped else kept)
