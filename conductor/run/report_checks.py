"""Reports of the hosts of guests: read, checked, and passed on to the trace and the audit.

A host reports by notifications on side `c` that no proxy may send
(`conductor.core.service_table`). It holds strangers' code, so it is believed nothing that does not
concern its own guests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from conductor.core import (
    UPSTREAM,
    Changed,
    Closure,
    Entry,
    OwnedAddresses,
    Reached,
    Violated,
    json_text,
    service_table,
)
from conductor.core.guards.every_message import asks_login
from conductor.core.guards.reading import value_of
from conductor.core.json_text import read_members, too_many_values, write_members
from conductor.core.router import Router
from conductor.run.plan import Planned
from conductor.run.report_lines import Sized
from conductor.run.segment_spec import Recovered
from conductor.spec.model import Spec

Shape = TypeVar("Shape")
OfGuest = TypeVar("OfGuest", Violated, Reached, OwnedAddresses)

ACTIONS: Final = ("restart", "bypass")
"""What a host may have done about a guest that failed."""

_MOST_VALUES: Final = 250_000
"""Values in one report: each takes memory as soon as it is an object."""

_DIGEST: Final = r"[0-9a-f]{64}"

CHANGES: Final = frozenset(
    {"modified", "answered", "originated", "dropped", "reordered", "rebound"}
)
KINDS: Final = frozenset({"request", "response", "notification"})
"""Of messages."""
_DIRECTIONS: Final = frozenset({"up", "down"})


ALLOWED: Final = "allowed"
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""What became of an effect outside of the chain."""


class Auditing:
    """Receives what `conductor.record.audit.auditor.Auditor` records; this one records nothing."""

    def joined(self, specs: Sequence[Spec]) -> None:
        """Components join the running chain."""

    def begun(self, hosts: Mapping[str, Sequence[str]]) -> None:
        """The chain is about to run, or has others from now on; `hosts` names the guests, in order,
        of each of its hosts."""

    def must_last(self, fail: Callable[[str], None]) -> None:
        """Has `fail` called with the reason once nothing can be recorded any more."""

    def violated(self, violation: Violated) -> None:
        """A component broke a rule of its policy."""

    def changed(self, changed: Changed) -> None:
        """A component changed the conversation."""

    def reported(self, host: str, params: bytes, guests: Collection[str], router: Router) -> None:
        """A host reports that a guest of its did. Raises `ValueError` for nonsense."""

    def effect(
        self, component: str, what: str, where: str, size: int, outcome: str, text: str = ""
    ) -> None:
        """A component had an effect outside of the chain, or was refused one, or it failed."""

    def component_event(self, event: str, component: str, text: str) -> None:
        """A component failed, was restarted, bypassed or swapped, or joined or left the chain."""

    def loaded(self, component: str, digest: str) -> None:
        """A host has loaded the module of a guest."""

    def end(self, failure: str | None) -> None:
        """The chain has ended; nothing more will come."""


class ViolationText(str):
    """A line of the log about a violation, which it brings along for those who log more than
    words."""

    __slots__ = ("violation",)

    violation: Violated

    @classmethod
    def of(cls, violation: Violated) -> ViolationText:
        """The line."""
        where = f"{violation.direction} `{violation.method}`{violation.pointer}"
        line = cls(f"{violation.text} [{violation.rule}; {where}]")
        line.violation = violation
        return line


def check_entry(entry: Entry, host: str, guests: Collection[str], numbers: Collection[int]) -> None:
    """Raises `ValueError` for an entry of a host that is not of its guests, under its own numbers,
    or is no message: it could break out of its line in a file."""
    ends = {*guests, "", UPSTREAM}
    if entry.source not in ends or entry.target not in ends:
        raise ValueError(f"not a message of a guest of {host}")
    is_new = entry.source != UPSTREAM and entry.kind != "response"
    if is_new and entry.number not in numbers:
        raise ValueError(f"not a number of a message of {host}")
    if entry.kind not in KINDS or b"\n" in (entry.id or b""):
        raise ValueError("its record has something that is no message")
    for text in (entry.id, entry.payload):
        if text is not None:
            bytes(text).decode()
            json_text.decode(text, type=msgspec.Raw)


class Reports:
    """Takes the reports of the hosts of one chain to the audit."""

    def __init__(
        self,
        planned: Mapping[str, Planned],
        router: Router,
        audit: Auditing,
    ) -> None:
        self._planned = planned
        self._router = router
        self._audit = audit
        self.last_words: dict[str, Closure] = {}
        """Why a host is about to end, by host."""

    def take(
        self, host: str, service: str, params: bytes | None
    ) -> Violated | Recovered | Closure | None:
        """Takes one report; returns what the chain must act on. Raises `ValueError` for nonsense.

        Returns:
            A guest's violation, the host's recovery of a guest, or why the host is about to end.
        """
        planned = self._planned[host]
        match service:
            case service_table.VIOLATED:
                return of_guest(params, Violated, planned.guests)
            case service_table.CHANGED:
                self._audit.reported(host, params or b"", planned.guests, self._router)
            case service_table.REACHED:
                kept = of_guest(params, Reached, planned.guests)
                self._audit.effect(
                    kept.peer, kept.what, kept.where, kept.bytes, REFUSED, kept.refused
                )
            case service_table.LAST_WORDS:
                self.last_words[host] = last_words(params)
                return self.last_words[host]
            case service_table.RECOVERED:
                return recovered(params, planned.guests)
            case service_table.OWNED:
                assert planned.belongings is not None
                report = of_guest(params, OwnedAddresses, planned.guests)
                planned.belongings.add(report.peer, report.addresses)
            case service_table.READY:
                for guest, digest in loaded(params, planned.guests).items():
                    self._audit.loaded(guest, digest)
        return None


class _LastWords(msgspec.Struct):
    text: str = "ended"
    hint: str = ""
    data: dict[str, Any] = {}


class _Line(msgspec.Struct):
    method: str = ""
    params: Raw = Raw(b"{}")


class _Ready(msgspec.Struct):
    digests: dict[str, str] = {}


def last_words(params: bytes | None) -> Closure:
    """Why a host is about to end. Raises `ValueError`, as all of these do for nonsense."""
    words = _decoded(params, _LastWords)
    if asks_login(value_of(json_text.encode({"data": words.data}))):
        raise ValueError("its last words ask for a login")
    return Closure(words.text, words.hint, words.data)


def refusal(line: bytes) -> Closure | None:
    """Why a host cannot serve, by its first line; None: it is ready. Raises `ValueError`."""
    first = _decoded(line[1:], _Line)
    return None if first.method == service_table.READY else last_words(bytes(first.params))


def of_guest(params: bytes | None, shape: type[OfGuest], guests: Collection[str]) -> OfGuest:
    """A report of this shape, which is about a guest."""
    report = _decoded(params, shape)
    _check_guest(report.peer, guests)
    return report


def recovered(params: bytes | None, guests: Collection[str]) -> Recovered:
    """What the host did about a guest that failed."""
    report = _decoded(params, Recovered)
    _check_guest(report.component, guests)
    if report.action not in ACTIONS:
        raise ValueError(f"a host does not {report.action!r} its guests")
    return report


def loaded(params: bytes | None, guests: Collection[str]) -> dict[str, str]:
    """The digests of the modules a host has loaded, by guest."""
    report = _decoded(params, _Ready).digests
    for name, digest in report.items():
        _check_guest(name, guests)
        if not re.fullmatch(_DIGEST, digest):
            raise ValueError(f"not a digest: {digest!r}")
    return report


def _decoded(params: bytes | Raw | None, shape: type[Shape]) -> Shape:
    if params is not None and too_many_values(bytes(params), _MOST_VALUES):
        raise ValueError("it holds too many values")
    try:
        return json_text.decode(params or b"{}", type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _check_guest(name: str, guests: Collection[str]) -> None:
    if name not in guests:
        raise ValueError(f"`{name}` is not one of its guests")


class _ChangeReport(msgspec.Struct, frozen=True, kw_only=True):
    changed: Raw
    before_size: Sized | None = None
    """In place of what does not fit in a line."""
    after_size: Sized | None = None


def change(raw: bytes, guests: Collection[str]) -> tuple[Changed, Sized | None, Sized | None]:
    """What a guest changed, and digests of payloads that did not fit, before and after."""
    fields = read_members(raw)
    if fields is None:
        raise ValueError("it is no object")
    # The payloads stay as they are: decoded and encoded again, numbers in them could change.
    before, after = fields.pop("before", None), fields.pop("after", None)
    report = _decoded(write_members(fields), _ChangeReport)
    changed = _decoded(report.changed, Changed)
    for raw_id in filter(None, (changed.source_id, changed.target_id)):
        if "\n" in raw_id or json_text.decode(raw_id, type=int | str | None) is None:
            raise ValueError("an id is none")
    _check_guest(changed.peer, guests)
    words = ((changed.change, CHANGES), (changed.kind, KINDS), (changed.direction, _DIRECTIONS))
    for word, known in words:
        if word not in known:
            raise ValueError(f"no change is called {word!r}")
    complete = msgspec.structs.replace(
        changed,
        before=None if before is None else bytes(before),
        after=None if after is None else bytes(after),
    )
    return complete, report.before_size, report.after_size
