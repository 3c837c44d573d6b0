"""Every limit of a component: one table, and how sizes, times and counts are written.

A limit is set behind a component (`proxy.wasm,memory=32MiB,limit.timers=4`) or in its manifest. The
table of docs/configuration.md#limits is drawn from `TABLE`, as are the short options (`memory=`).
The start path loads this module, so patterns are compiled when there is something to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.core.accounts import Allowance
from conductor.errors import UnknownWordError, counted

if TYPE_CHECKING:
    from conductor.spec.model import Spec

_KIB: Final = 1024
_MIB: Final = 1024**2
_UNITS: Final = {"": 1, "k": _KIB, "m": _MIB, "g": 1024**3}
_TIME: Final = r"(\d{1,12}(?:\.\d{1,12})?)\s*(ms|s)?"
_MOST: Final = 2**53
"""Of any measure: JSON readers that keep numbers as doubles count exactly up to this."""
_MOST_STACK: Final = 1024 * 1024


class Limit(msgspec.Struct, frozen=True):
    """One limit of a component."""

    name: str
    measure: str
    """`size` (bytes), `time` (milliseconds), `count` or `percent`."""
    default: int | None
    """None: off."""
    place: str
    """The keeper of the account: `module` (before it is compiled), `compiler`, `guest` (its
    instance), `chain` (where its messages pass) or `services`."""
    bounds: str
    beyond: str
    """The result for a component that is over the limit."""
    short: str = ""
    """The short option of a limit that people set often; the others are `limit.NAME`."""


# fmt: off
TABLE: Final = (
    Limit("module_bytes", "size", 64 * _MIB, "module", "the size of the file", "refused"),
    Limit("functions", "count", 100_000, "module", "functions of a module", "refused"),
    Limit("locals", "count", 10_000, "module", "locals of one function", "refused"),
    Limit("blocks", "count", 2000, "module", "nesting of blocks in a function", "refused"),
    Limit("exports", "count", 10_000, "module", "imports and exports together", "refused"),
    Limit("sections", "count", 10_000, "module", "sections", "refused"),
    Limit("compile_bytes", "size", 2048 * _MIB, "compiler", "memory to compile it", "refused"),
    Limit("compile_ms", "time", 120_000, "compiler", "processor time to compile it", "refused"),
    Limit("memory_bytes", "size", 64 * _MIB, "guest", "one linear memory", "ended", "memory"),
    Limit("cpu_ms", "time", 1000, "guest", "one delivery", "ended", "cpu"),
    Limit("fuel", "count", None, "guest", "instructions of one delivery, roughly", "ended"),
    Limit("stack_bytes", "size", 512 * _KIB, "guest", "its native stack", "ended", "stack"),
    Limit("table_elements", "count", 100_000, "guest", "entries of one table", "ended"),
    Limit("message_bytes", "size", 16 * _MIB, "guest",
          "one line, in either direction", "not delivered; ended", "message"),
    Limit("messages_per_delivery", "count", 100_000, "guest",
          "lines that one delivery returns", "ended"),
    Limit("outbox_bytes", "size", 64 * _MIB, "guest",
          "bytes that one delivery returns", "ended", "outbox"),
    Limit("json_depth", "count", 128, "guest",
          "nesting of one line, in either direction", "not delivered; ended", "depth"),
    Limit("json_values", "count", 250_000, "guest",
          "values in one line, in either direction", "not delivered; ended"),
    Limit("waiting_bytes", "size", 64 * _MIB, "chain",
          "bytes that the component sent and nobody has taken",
          "other components come first; ended where all wait for each other"),
    Limit("open_requests", "count", 10_000, "chain",
          "requests of the component without an answer", "refused"),
    Limit("open_bytes", "size", 128 * _MIB, "chain", "bytes of these requests", "refused"),
    Limit("own_share", "percent", 20, "chain",
          "processor time for work that the component alone has caused", "waits"),
    Limit("own_messages", "count", 500, "chain",
          "messages a second that the component alone has caused; a large message counts for "
          "each KiB", "waits; ended when the component is fifty seconds ahead"),
    Limit("own_sessions", "count", 32, "chain", "open sub-sessions with one agent",
          "refused"),
    Limit("text_bytes", "size", None, "chain",
          "one text in a request or notification to the component",
          "a [reference](conversation.md#large-payloads) in its place"),
    Limit("service_bytes", "size", 64 * _KIB, "services",
          "one request to a service other than `kv/set`, `files/write` and `fetch`", "refused"),
    Limit("calls", "count", 32, "services",
          "requests to `files`, `fetch` and `kv` in flight", "refused"),
    Limit("timers", "count", 64, "services", "timers that run", "refused"),
    Limit("series", "count", 1000, "services", "series of `metric`", "refused"),
    Limit("log_lines", "count", 100, "services",
          "lines in the log a second", "dropped, and counted"),
)
"""In the order in which a component meets them."""
# fmt: on

LIMITS: Final[dict[str, str]] = {limit.name: limit.measure for limit in TABLE}
"""The limits with their measures."""

DEFAULT_LIMITS: Final[dict[str, int]] = {
    limit.name: limit.default for limit in TABLE if limit.default is not None
}
"""Limits that are off are missing."""

SHORT: Final = {limit.short: limit.name for limit in TABLE if limit.short}
"""Limits by their short option."""

PLACES: Final[dict[str, frozenset[str]]] = {
    place: frozenset(limit.name for limit in TABLE if limit.place == place)
    for place in dict.fromkeys(limit.place for limit in TABLE)
}

GUEST: Final = ("module", "compiler", "guest")
"""The places that `wasm_host` keeps."""


def of(places: tuple[str, ...], limits: dict[str, int]) -> dict[str, int]:
    """The entries of `limits` whose account is kept in one of `places`."""
    return {name: value for name, value in limits.items() if any(name in PLACES[p] for p in places)}


def log_lines(specs: Iterable[Spec]) -> dict[str, int]:
    """How many lines a second each component may put into the log."""
    default = DEFAULT_LIMITS["log_lines"]
    return {spec.name: spec.limits.get("log_lines", default) for spec in specs}


def allowance(limits: dict[str, int]) -> Allowance:
    """The most that a component with these limits may cost where its messages pass."""
    known = Allowance.__struct_fields__
    return Allowance(**{name: value for name, value in limits.items() if name in known})


def together(guests: Sequence[dict[str, int]]) -> Allowance:
    """The most that a host of guests may cost: as many values in a line as any guest may have, and
    as many open requests and sessions as all together."""
    each = [allowance(limits) for limits in guests]
    return Allowance(
        json_values=max(guest.json_values for guest in each),
        open_requests=sum(guest.open_requests for guest in each),
        open_bytes=sum(guest.open_bytes for guest in each),
        own_sessions=sum(guest.own_sessions for guest in each),
    )


def read(key: str, value: Any) -> int:
    """A limit as the host takes it: bytes, milliseconds or a number. Raises `ValueError`."""
    if key not in LIMITS:
        known = [*LIMITS, *SHORT] if key not in SHORT else [SHORT[key]]
        raise UnknownWordError(f"limits are: {', '.join(LIMITS)}", SHORT.get(key, key), known)
    number = _MEASURES[LIMITS[key]](str(value))
    if number <= 0:
        raise ValueError("a limit is above 0")
    if number > _MOST:
        raise ValueError("is more than can be counted; leave it out, or give less")
    if key == "stack_bytes" and number > _MOST_STACK:
        raise ValueError("a guest's stack is at most 1 MiB")
    return number


def shown(name: str, value: int | None) -> str:
    """A limit for people: `16 MiB`, `500 ms`, `off`."""
    if value is None:
        return "off"
    match LIMITS[name]:
        case "time":
            return f"{value} ms"
        case "percent":
            return f"{value} %"
        case "size":
            for unit, factor in (("MiB", _MIB), ("KiB", _KIB)):
                if value % factor == 0:
                    return f"{value // factor} {unit}"
    return str(value)


def size_in_words(size: int) -> str:
    """A number of bytes for people: `512 bytes`, `1.5 KiB`, `16 MiB`."""
    for unit, factor in (("MiB", _MIB), ("KiB", _KIB)):
        if size >= factor:
            return f"{size / factor:.1f}".removesuffix(".0") + f" {unit}"
    return counted(size, "byte")


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


def _percent(text: str) -> int:
    number = _count(text.strip().removesuffix("%"))
    if number > 100:
        raise ValueError("a share is at most 100 percent")
    return number


_MEASURES: Final[dict[str, Callable[[str], int]]] = {
    "size": size,
    "time": _milliseconds,
    "count": _count,
    "percent": _percent,
}
