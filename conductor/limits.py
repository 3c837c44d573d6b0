"""The limits of a guest by name, and how sizes, times and counts are written.

Loaded where an editor waits: patterns are compiled when there is something to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_TIME: Final = r"(\d+(?:\.\d+)?)\s*(ms|s)?"

LIMITS: Final[dict[str, str]] = {
    "memory_bytes": "size",
    "cpu_ms": "time",
    "fuel": "count",
    "stack_bytes": "size",
    "table_elements": "count",
    "message_bytes": "size",
    "messages_per_delivery": "count",
    "outbox_bytes": "size",
    "json_depth": "count",
}
"""The limits of a guest and what each is measured in."""

DEFAULT_LIMITS: Final[dict[str, int]] = {
    "memory_bytes": 64 * 1024**2,
    "cpu_ms": 1000,
    "stack_bytes": 512 * 1024,
    "table_elements": 100_000,
    "message_bytes": 64 * 1024**2,
    "messages_per_delivery": 100_000,
    "outbox_bytes": 128 * 1024**2,
    "json_depth": 128,
}
"""Those of `wasm_host.Limits`, which takes too long to load where an editor waits; those that are
off are missing."""

SHORT: Final = {
    "memory": "memory_bytes",
    "cpu": "cpu_ms",
    "stack": "stack_bytes",
    "message": "message_bytes",
    "outbox": "outbox_bytes",
    "depth": "json_depth",
}
"""Short names of the limits people set most."""

_MOST_STACK: Final = 1024 * 1024


def read(key: str, value: Any) -> int:
    """A limit as the host takes it: bytes, milliseconds or a number. Raises `ValueError`."""
    if key not in LIMITS:
        raise ValueError(f"limits are: {', '.join(LIMITS)}")
    number = _MEASURES[LIMITS[key]](str(value))
    if number <= 0:
        raise ValueError("a limit is above 0")
    if key == "stack_bytes" and number > _MOST_STACK:
        raise ValueError("a guest's stack is at most 1 MiB")
    return number


def size(text: str) -> int:
    """Bytes: `65536`, `512k`, `32MiB`. Raises `ValueError`."""
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("a size is a number of bytes, such as 65536, 512k or 32MiB")
    return int(match.group(1)) * _UNITS[match.group(2).lower()]


def _milliseconds(text: str) -> int:
    match = re.fullmatch(_TIME, text.strip())
    if match is None:
        raise ValueError("a time is a number of milliseconds, such as 500, 500ms or 2s")
    return round(float(match.group(1)) * (1000 if match.group(2) == "s" else 1))


def seconds(text: str) -> float:
    """Seconds, above 0: `30`, `30s`, `500ms`. Raises `ValueError`."""
    match = re.fullmatch(_TIME, text.strip())
    if match is None or float(match.group(1)) <= 0:
        raise ValueError("a time is a number of seconds above 0, such as 30, 30s or 500ms")
    return float(match.group(1)) / (1000 if match.group(2) == "ms" else 1)


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("must be a whole number")
    return int(text)


_MEASURES: Final[dict[str, Callable[[str], int]]] = {
    "size": size,
    "time": _milliseconds,
    "count": _count,
}
