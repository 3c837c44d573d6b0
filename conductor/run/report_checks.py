"""Reports of the hosts of guests: read, checked, and put into the log.

A host reports by notifications on side `c` that no proxy may send
(`conductor.core.service_table`). It holds strangers' code, so only reports about its own guests
are believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
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
    guards,
    json_text,
    service_table,
)
from conductor.core.guards.reading import value_of
from conductor.core.json_text import read_members, too_many_values, write_members
from conductor.core.router import Router
from conductor.run.log import Change, Item, Loaded, Outside
from conductor.run.planned import Planned
from conductor.run.report_lines import Sized
from conductor.run.segment_spec import Recovered

Shape = TypeVar("Shape")
OfGuest = TypeVar("OfGuest", Violated, Reached, OwnedAddresses)

ACTIONS: Final = ("restart", "bypass")
"""The possible actions of a host about a guest that failed."""

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
"""The outcomes of an effect outside of the chain."""


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
    if entry.id is not None:
        json_text.check(entry.id)


class Reports:
    """Takes the reports of the hosts of one chain to its log."""

    def __init__(
        self,
        planned: Mapping[str, Planned],
        router: Router,
        add: Callable[[Item], None],
    ) -> None:
        """`add` puts an entry into the log."""
        self._planned = planned
        self._router = router
        self._add = add
        self.last_words: dict[str, Closure] = {}
        """Why a host is about to end, by host."""

    def take(
        self, host: str, service: str, params: bytes | None
    ) -> Violated | Recovered | Closure | None:
        """Takes one report; returns a value for the chain. Raises `ValueError` for nonsense.

        Returns:
            A guest's violation, the host's recovery of a guest, or why the host is about to end.
        """
        planned = self._planned[host]
        match service:
            case service_table.VIOLATED:
                return of_guest(params, Violated, planned.guests)
            case service_table.CHANGED:
                changed = change(params or b"", planned.guests)
                translated = self._translated(changed.changed, host)
                self._add(msgspec.structs.replace(changed, changed=translated))
            case service_table.REACHED:
                kept = of_guest(params, Reached, planned.guests)
                where, size = kept.where, kept.bytes
                self._add(Outside(kept.peer, kept.what, where, size, REFUSED, kept.refused))
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
                    self._add(Loaded(guest, digest))
        return None

    def _translated(self, changed: Changed, host: str) -> Changed:
        """A host's report, in the names and ids of the chain it is in."""
        router = self._router
        behind, ahead = ("p", "s") if changed.direction == "down" else ("s", "p")
        ends: dict[str, str | None] = {}
        if changed.kind == "response":
            if changed.target == UPSTREAM:
                requester = router.asker(host, ahead, (changed.target_id or "").encode())
                ends["target"], ends["target_id"] = requester or (None, None)
        else:
            if changed.source == UPSTREAM and changed.source_id is not None:
                requester = router.asker(host, behind, changed.source_id.encode())
                ends["source"], ends["source_id"] = requester or (None, None)
            elif changed.source == UPSTREAM:
                ends["source"] = router.neighbour(host, behind)
            if changed.target == UPSTREAM:
                ends["target"] = router.neighbour(host, ahead)
        return msgspec.structs.replace(changed, **ends)


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
    if guards.every_message.asks_login(value_of(json_text.encode({"data": words.data}))):
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
    """The action of the host about a guest that failed."""
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
    """In place of a payload that does not fit in a line."""
    after_size: Sized | None = None


def change(raw: bytes, guests: Collection[str]) -> Change:
    """The change that a guest made."""
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
    return Change(complete, report.before_size, report.after_size)
