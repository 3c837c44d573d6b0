"""The comparison of a component with the lock file of this folder."""

from __future__ import annotations

import os
from typing import Final, Literal

import msgspec

from conductor.errors import UsageError, one_line
from conductor.spec.lock import compare, file
from conductor.spec.lock.entries import entries
from conductor.spec.lock.file import Entry
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.paths import LOCK_FILE
from conductor.spec.plan import Plan

ALARMING: Final = ("changed", "unreadable")
"""States that a user must not overlook."""


class Locked(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of a component in `conductor.lock`, compared with the component."""

    state: Literal["no lock file", "not in it", "as locked", "changed", "unreadable"]
    differences: list[str] = []
    """The differences, or why the file or the component cannot be read."""
    sha256: str | None = None
    """The digest of the component, as a lock would pin it; of a program the digest of its file."""

    def sentence(self) -> str:
        """A sentence for people: the state, and after a colon the differences."""
        match self.state:
            case "no lock file":
                return "not locked"
            case "not in it":
                return f"not in {LOCK_FILE}"
            case "as locked":
                return f"as {LOCK_FILE} has it"
            case "changed":
                return f"CHANGED since locked: {', '.join(self.differences)}"
            case _:
                return f"{LOCK_FILE} is unreadable: {self.differences[0]}"


def locked(spec: Spec) -> Locked:
    """Compares a component with the lock file; reads files, and runs nothing."""
    sha256 = None
    try:
        now = [(plan, entries(plan, LOCK_FILE)[0]) for plan in _plans(spec)]
        sha256 = now[0][1].sha256
        if not os.path.lexists(LOCK_FILE):
            return Locked(state="no lock file", sha256=sha256)
        before = file.read(LOCK_FILE).component
    except UsageError as error:
        return Locked(state="unreadable", differences=[one_line(error.text)], sha256=sha256)
    for plan, entry in now:
        for old in before:
            if entry.name != old.name or entry.role != old.role:
                continue
            # The place of guests belongs to a chain: a component by itself has no other place.
            alone = msgspec.structs.replace(entry, isolation=old.isolation)
            return _compared(old, alone, plan)
    return Locked(state="not in it", sha256=sha256)


def _plans(spec: Spec) -> list[Plan]:
    """The component alone, as a proxy and, if it may be an agent, as an agent."""
    modes = ["proxy"] if spec.sandboxed else ["proxy", "agent"]
    return [Plan(components=(spec,), options=Options(), mode=mode) for mode in modes]


def _compared(old: Entry, now: Entry, plan: Plan) -> Locked:
    comparison = compare.compare([old], [now], plan)
    texts = [
        difference.text
        for _, differences in comparison.each
        for difference in differences
        if difference.verdict != compare.ALLOWED
    ]
    if comparison.listing:
        texts.append(f"it was {compare.title(old)}, {old.kind}")
    if not texts:
        return Locked(state="as locked", sha256=now.sha256)
    return Locked(
        state="changed", differences=[one_line(text) for text in texts], sha256=now.sha256
    )
