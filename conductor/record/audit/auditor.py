"""Puts a chain on record (`--audit FILE`): components, changes, violations, failures.

Records (docs/log.md, "Audits") go to an `AuditFile`. Each names the `run`, the conductor that wrote
it, since several may share a file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import Changed, Violated, json_text
from conductor.core.json_text import read_members
from conductor.core.policy import words
from conductor.core.policy.key_table import PROMPT
from conductor.core.policy.turns import TURNS
from conductor.core.tracing import best_effort
from conductor.record.audit.changes import described
from conductor.record.audit.file import AuditFile
from conductor.record.trace.chain import digest
from conductor.run.log import (
    Chain,
    Change,
    Ended,
    Happened,
    Item,
    Loaded,
    Outside,
    Sink,
)
from conductor.spec.model import Spec
from conductor.spec.plan import Plan
from conductor.spec.redaction import redacted

MOST_EACH: Final = 1000
"""The most violations of one component with a record of their own. Further violations share
records, so many to a record: a component cannot fill the disk."""

MOST_CHANGES: Final = 10_000
"""Changes with a record of their own, for each component, kind of change and method. The rest is
counted."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of one component's changes on record. Further changes are only counted."""

MOST_EFFECTS: Final = 10_000
"""Effects outside of the chain with a record of their own, for each component. The rest is counted.
"""

_MOST_KINDS: Final = 1024
"""The most kinds of changes, by method, that are counted by themselves for one component. It
chooses its methods, so their number needs a bound."""
_MOST_TEXT: Final = 2000
"""Characters of a text that components may have chosen."""


OUTSIDE: Final = {
    "session/prompt": "sessionId",
    "fs/read_text_file": "path",
    "fs/write_text_file": "path",
    "terminal/create": "command",
    "_zed/open_url": "url",
    "_scp/ide_operation/run": "name",
}
"""The methods that have an effect outside of the chain if a component sends them of its own, each
with the member that names the target."""


_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<host>[^/?#\s]*)(?P<rest>[^\s,`]*)")


class Auditor(Sink[Item]):
    """Keeps the record of one chain; `content` says how much of a change is kept: `redacted` (all
    but secrets), `all`, or `none` but digests.

    Each record is written at once: no message goes on before its consequences are on record, and
    no record is left out because there are many.
    """

    takes = (Violated, Chain, Happened, Change, Outside, Loaded, Ended)
    at_once = True
    watches = False

    def __init__(self, file: AuditFile, content: str = "redacted") -> None:
        self._file = file
        self._content = content
        self._hosts: Mapping[str, Sequence[str]] = {}
        self._changes: Counter[tuple[str, str, str]] = Counter()
        self._left_out: Counter[tuple[str, str, str]] = Counter()
        """Changes that are only counted."""
        self._written: Counter[str] = Counter()
        """Bytes of changes on record, by component."""
        self._kinds: Counter[str] = Counter()
        """How many keys of `_changes` each component has."""
        self._run = os.urandom(4).hex()
        self._counts: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()
        """Effects outside of the chain, by component."""
        self._ended = False

    def take(self, item: Item, at: float, mode: str) -> None:
        """See `Sink`."""
        match item:
            case Chain(peers, _, joined):
                self._hosts = {name: guests for name, guests, _ in peers if guests}
                for spec in joined:
                    self._record("component", **_described(spec, "proxy"))
            case Violated():
                self._violated(item)
            case Change():
                self._change(item)
            case Outside():
                self._outside(item)
            case Happened(event, component, text):
                self._record(event, component=component, text=_text(text))
            case Loaded(component, digest):
                self._record("loaded", component=component, sha256=_text(digest))
            case Ended(failure):
                self._end(failure)

    def close(self) -> None:
        """See `Sink`."""
        self._file.close()

    def must_last(self, fail: Callable[[str], None]) -> None:
        """See `Sink`."""
        self._file.on_failure = fail
        if self._file.failed:
            fail("the audit has ended before the chain")

    def begin(self, version: str, plan: Plan) -> None:
        """Records that a chain is about to start, and each of its components."""
        isolation = plan.options.isolation
        self._record("chain", version=version, mode=plan.mode, isolation=isolation, pid=os.getpid())
        for spec in plan.components:
            self._record("component", **_described(spec, plan.role(spec)))

    def _violated(self, violation: Violated) -> None:
        """Records a violation: a component attempted it, or did it where conductor only watches."""
        is_own = violation.method != PROMPT or violation.rule == TURNS
        if violation.method in OUTSIDE and is_own and not violation.would:
            who, what, where = violation.peer, violation.method, violation.session or ""
            self._outside(Outside(who, what, where, 0, "refused", violation.text))
        count = self._counts[violation.peer] = self._counts[violation.peer] + 1
        if count > MOST_EACH:
            if count % MOST_EACH == 0:
                self._record("violations", component=violation.peer, count=MOST_EACH)
            return
        self._record(
            "would" if violation.would else "violation",
            component=violation.peer,
            rule=violation.rule,
            direction=violation.direction,
            method=_text(violation.method),
            pointer=_text(violation.pointer),
            text=_text(violation.text),
            fatal=violation.fatal,
        )

    @best_effort
    def _change(self, change: Change) -> None:
        """Records a component's change of a message, unless only the spelling differs."""
        changed = change.changed
        down = changed.direction == "down"
        changed = msgspec.structs.replace(
            changed,
            source=self._named(changed.source, above=down),
            target=self._named(changed.target, above=not down),
        )
        self._reaches(changed)
        key = (changed.peer, changed.change, changed.method)
        if key not in self._changes:
            if self._kinds[changed.peer] >= _MOST_KINDS:
                key = (changed.peer, changed.change, "")
            else:
                self._kinds[changed.peer] += 1
                self._changes[key] = 0
        if self._changes[key] >= MOST_CHANGES or self._written[changed.peer] >= MOST_BYTES:
            self._changes[key] += 1
            self._left_out[key] += 1
            return
        members = described(changed, self._content, change.before, change.after)
        if members is None:
            return
        self._changes[key] += 1
        self._written[changed.peer] += len(json_text.encode(members))
        self._record("change", **members)

    def _reaches(self, changed: Changed) -> None:
        """Records a message that a component sends of its own and that has an effect outside of the
        chain."""
        if changed.change != "originated" or (at := OUTSIDE.get(changed.method)) is None:
            return
        members = read_members(Raw(changed.after)) if changed.after is not None else None
        where = "" if members is None else bytes(members.get(at, b"")).decode(errors="replace")
        who, what, size = changed.peer, changed.method, len(changed.after or b"")
        self._outside(Outside(who, what, where.strip('"'), size, "allowed"))

    def _named(self, peer: str | None, *, above: bool) -> str | None:
        """A peer's name, or that of its guest next to the component that made the change."""
        guests = self._hosts.get(peer or "")
        return peer if not guests else guests[-1 if above else 0]

    @best_effort
    def _outside(self, effect: Outside) -> None:
        """Records an effect outside of the chain: its content, its target and its outcome."""
        component, kept = effect.component, self._content != "none"
        self._effects[component] += 1
        if self._effects[component] > MOST_EFFECTS:
            return
        self._record(
            "effect",
            component=component,
            what=_text(effect.what),
            where=_text(_clean(effect.where)) if kept else None,
            bytes=effect.size,
            outcome=effect.outcome,
            text=_text(_clean(effect.text)) if effect.text and kept else None,
        )

    def _end(self, failure: str | None) -> None:
        """Records the end of the chain, and why it failed if it did."""
        if self._ended:
            return
        self._ended = True
        for component, count in self._counts.items():
            if count > MOST_EACH and (left := count % MOST_EACH):
                self._record("violations", component=component, count=left)
        for (component, change, method), count in self._left_out.items():
            self._record(
                "changes",
                component=component,
                change=change,
                method=_text(method) or None,
                count=count,
            )
        for component, count in self._effects.items():
            if (left := count - MOST_EFFECTS) > 0:
                self._record("effects", component=component, count=left)
        failure = None if failure is None else _text(failure)
        self._record(
            "end",
            failure=failure,
            changes=self._changes.total(),
            violations=self._counts.total(),
            effects=self._effects.total(),
        )

    def _record(self, event: str, /, **members: object) -> None:
        self._file.append(event, {"run": self._run, **members})


def _described(spec: Spec, role: str) -> dict[str, Any]:
    """The identity and the rights of a component, without secrets."""
    members: dict[str, Any] = {
        "component": spec.name,
        "role": role,
        "sandboxed": spec.sandboxed,
        "kind": spec.kind,
    }
    if spec.sandboxed:
        # The start of the component reports a file that cannot be read.
        members |= {"file": spec.script or spec.wasm, "sha256": digest(spec) or None}
    elif spec.command is not None:
        command = {"command": spec.command[0], "args": spec.command[1:]}
        members |= json_text.decode(redacted(json_text.encode(command)))
    elif spec.address is not None:
        members["address"] = spec.address
    else:
        members["attribute"] = spec.attribute
    if role == "proxy":
        members["policy"] = msgspec.structs.asdict(spec.policy)
        members["on_failure"] = spec.on_failure
        members["meaning"] = words.meaning(*spec.policy.rights)
    return members


def _clean(text: str) -> str:
    """A text without anything that looks like a secret, and without logins and queries of
    addresses."""
    without = _URL.sub(_place, text)
    cleaned: str = json_text.decode(redacted(json_text.encode(without)), type=str)
    return cleaned


def _place(url: re.Match[str]) -> str:
    scheme, host, rest = url["scheme"], url["host"].rpartition("@")[2], url["rest"]
    path = re.split("[?#]", rest, maxsplit=1)
    return f"{scheme}://{host}{path[0]}{'?…' if len(path) > 1 else ''}"


def _text(text: str) -> str:
    """`text`, not too long, and such that it can be written."""
    cut = text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
    return cut.encode(errors="backslashreplace").decode()
