"""Reports: lines on side `c` that the child with the guests writes to its parent about them; and
its log on standard error, which the parent reads.

No proxy may send reports (`conductor.core.service_table.INTERNAL`). The parent checks each report
before it believes it: `conductor.run.report_checks`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import Changed, Closure, OwnedAddresses, Reached, Serve, Violated, json_text
from conductor.core.json_text import too_deep
from conductor.core.jsonrpc import MAX_DEPTH
from conductor.core.service_table import LAST_WORDS, READY, RELAYED
from conductor.patterns import lazy_pattern
from conductor.run.segment_spec import Recovered, Relayed
from conductor.spec.programs import is_reserved

_ENTRY: Final = lazy_pattern(r"(debug|info|warning|error): ([^:\n]+): (.*)")
"""An entry of its log: level, component and text."""
FURTHER: Final = "  "
"""The beginning of a further line of an entry."""

_encode: Final = json_text.encode

_CHANGE_ROOM: Final = 8 * 1024
"""Bytes of a report of a change without its payloads, its method and its session."""

_LEVELS: Final = 2
"""Levels of nesting that a report puts around a payload."""


class HostLog:
    """Reads the log of one host in the lines that it writes to standard error."""

    def __init__(self) -> None:
        self.entry: tuple[str, str] | None = None
        """Level and component of the entry that has the last line; None: no entry has it."""

    def read(self, line: str) -> tuple[str, bool]:
        """The text of a line, and whether it is a further line of its entry."""
        found = _ENTRY.fullmatch(line)
        if found and not is_reserved(found[2]):  # else a guest could speak as conductor
            self.entry = found[1], found[2]
            return found[3], False
        if self.entry is not None and line.startswith(FURTHER):
            return line.removeprefix(FURTHER), True
        self.entry = None
        return line, False


class Sized(msgspec.Struct, frozen=True):
    """Digest and size of a payload, in bytes."""

    sha256: str
    bytes: int


def report(
    method: str, params: OwnedAddresses | Reached | Violated | Recovered | dict[str, Any]
) -> bytes:
    """A notification on side `c`."""
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return b"c" + _encode(body) + b"\n"


def failed_line(reason: Closure) -> bytes:
    """Why the child is about to end."""
    params = {"text": reason.text, "hint": reason.hint, "data": reason.data}
    return report(LAST_WORDS, params)


def ready_line(digests: dict[str, str]) -> bytes:
    """Every guest is loaded; `digests`: of their modules, by guest."""
    return report(READY, {"digests": digests})


def relayed_line(effect: Serve) -> bytes:
    """A guest's call of a service that the parent performs; the token is the id."""
    params = Raw(effect.params) if effect.params is not None else Raw(b"{}")
    relayed = Relayed(effect.peer, effect.service, params)
    body: dict[str, object] = {"jsonrpc": "2.0", "method": RELAYED, "params": relayed}
    if effect.token is not None:
        body["id"] = effect.token
    return b"c" + _encode(body) + b"\n"


def sized(raw: bytes) -> Sized:
    """The digest and size of a payload."""
    import hashlib  # loads OpenSSL; only an audit needs it

    return Sized(hashlib.sha256(raw).hexdigest(), len(raw))


def change_params(changed: Changed, limit: int) -> dict[str, Any]:
    """The params of a report of a change, for an audit.

    A payload that would make the line longer than `limit` bytes, or too deep, is replaced by its
    digest.
    """
    params: dict[str, Any] = {
        "changed": msgspec.structs.replace(changed, before=None, after=None),
    }
    room = limit - _CHANGE_ROOM - len(changed.method) - len(changed.session or "")
    for name, payload in (("before", changed.before), ("after", changed.after)):
        if payload is None:
            continue
        if len(payload) > room // 2 or too_deep(payload, MAX_DEPTH - _LEVELS):
            params[f"{name}_size"] = sized(payload)
        else:
            params[name] = Raw(payload)
    return params
