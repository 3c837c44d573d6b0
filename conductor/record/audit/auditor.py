"""Puts a chain on record (`--audit FILE`): components, changes, violations, failures.

Records (docs/cli.md, "Audits") go to an `AuditFile`. Each names the `run`, the conductor that wrote
it, since several may share a file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import UPSTREAM, Changed, Violated, json_text
from conductor.core.json_text import read_members
from conductor.core.policy.key_table import PROMPT
from conductor.core.policy.turns import TURNS
from conductor.core.router import Router
from conductor.core.tracing import best_effort
from conductor.errors import ConductorError
from conductor.record.audit.changes import described
from conductor.record.audit.file import AuditFile
from conductor.record.redaction import redacted
from conductor.run import report_checks
from conductor.run.report_lines import Sized
from conductor.spec.model import Spec, role_of

MOST_EACH: Final = 1000
"""Violations of one component with a record of their own; further ones share a record, so many at a
time, so that a component cannot fill the disk."""

MOST_CHANGES: Final = 10_000
"""Changes with a record of their own, for each component, kind of change and method. The rest is
counted."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the changes of one component that are on record. The rest is counted, too."""

MOST_EFFECTS: Final = 10_000
"""Effects outside of the chain with a record of their own, for each component. The rest is counted.
"""

_MOST_KINDS: Final = 1024
"""Kinds of changes and methods of one component that are counted by themselves: a component chooses
its methods."""
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
"""What has an effect outside of the chain if a component sends it of its own, and the member that
says where."""


_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<host>[^/?#\s]*)(?P<rest>[^\s,`]*)")


class Auditor(report_checks.Auditing):
    """Keeps the record of one chain; `content` says what of changes: `redacted` (all but secrets),
    `all`, or `none` but digests."""

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

    def must_last(self, fail: Callable[[str], None]) -> None:
        """Has `fail` called with the reason when nothing can be written any more, or now if that
        is so already."""
        self._file.on_failure = fail
        if self._file.failed:
            fail("the audit has ended before the chain")

    def begin(
        self, version: str, mode: str, specs: Sequence[Spec], *, agent_last: bool, isolation: str
    ) -> None:
        """Records that a chain is about to start, and each of its components."""
        self._record("chain", version=version, mode=mode, isolation=isolation, pid=os.getpid())
        for index, spec in enumerate(specs):
            last = agent_last and index == len(specs) - 1
            self._record("component", **_described(spec, role_of(spec, last=last)))

    def joined(self, specs: Sequence[Spec]) -> None:
        """Records components that join the running chain."""
        for spec in specs:
            self._record("component", **_described(spec, "proxy"))

    def begun(self, hosts: Mapping[str, Sequence[str]]) -> None:
        """Takes the names of each host's guests: records name those instead of the host."""
        self._hosts = hosts

    def violated(self, violation: Violated) -> None:
        """Records what a component attempted."""
        is_own = violation.method != PROMPT or violation.rule == TURNS
        if violation.method in OUTSIDE and is_own:
            session = violation.session or ""
            self.effect(violation.peer, violation.method, session, 0, "refused", violation.text)
        count = self._counts[violation.peer] = self._counts[violation.peer] + 1
        if count > MOST_EACH:
            if count % MOST_EACH == 0:
                self._record("violations", component=violation.peer, count=MOST_EACH)
            return
        self._record(
            "violation",
            component=violation.peer,
            rule=violation.rule,
            direction=violation.direction,
            method=_text(violation.method),
            pointer=_text(violation.pointer),
            text=_text(violation.text),
            fatal=violation.fatal,
        )

    @best_effort
    def changed(
        self, changed: Changed, before: Sized | None = None, after: Sized | None = None
    ) -> None:
        """Records what a component changed, unless only the spelling differs.

        `before` and `after` stand for payloads that were not reported with it.
        """
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
        members = described(changed, self._content, before, after)
        if members is None:
            return
        self._changes[key] += 1
        self._written[changed.peer] += len(json_text.encode(members))
        self._record("change", **members)

    def _reaches(self, changed: Changed) -> None:
        """Records what a component sends of its own that has an effect outside of the chain."""
        if changed.change != "originated" or (at := OUTSIDE.get(changed.method)) is None:
            return
        members = read_members(Raw(changed.after)) if changed.after is not None else None
        where = "" if members is None else bytes(members.get(at, b"")).decode(errors="replace")
        size = len(changed.after or b"")
        self.effect(changed.peer, changed.method, where.strip('"'), size, "allowed")

    def _named(self, peer: str | None, *, above: bool) -> str | None:
        """A peer's name, or that of its guest next to the component that made the change."""
        guests = self._hosts.get(peer or "")
        return peer if not guests else guests[-1 if above else 0]

    def reported(self, host: str, params: bytes, guests: Collection[str], router: Router) -> None:
        """Records a change by a guest, as its host reported it.

        `router` knows the host's neighbours and the ids used there. Raises `ValueError` for a
        report that makes no sense: a host is not trusted.
        """
        changed, before, after = report_checks.change(params, guests)
        self.changed(_translated(changed, host, router), before, after)

    @best_effort
    def effect(
        self, component: str, what: str, where: str, size: int, outcome: str, text: str = ""
    ) -> None:
        """Records an effect outside of the chain: what of it left, where to, and what became of
        it."""
        self._effects[component] += 1
        if self._effects[component] > MOST_EFFECTS:
            return
        self._record(
            "effect",
            component=component,
            what=_text(what),
            where=_text(_clean(where)) if self._content != "none" else None,
            bytes=size,
            outcome=outcome,
            text=_text(_clean(text)) if text and self._content != "none" else None,
        )

    def component_event(self, event: str, component: str, text: str) -> None:
        """Records an event of a component: `failure`, `restart`, `bypass`, `swap`, or of one that
        joins or leaves: `add`, `remove`, `replace`; or that the user switches: `pause`, `resume`;
        `adapt` of an agent that got words for what it does not take.
        """
        self._record(event, component=component, text=_text(text))

    def loaded(self, component: str, digest: str) -> None:
        """Records the module that a host reports to have loaded, also when it was restarted."""
        self._record("loaded", component=component, sha256=_text(digest))

    def end(self, failure: str | None) -> None:
        """Records the end of the chain, why it failed if it did, and closes the file."""
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
        self._file.close()

    def _record(self, event: str, /, **members: object) -> None:
        self._file.append(event, {"run": self._run, **members})


def _translated(changed: Changed, host: str, router: Router) -> Changed:
    """A host's report, in the names and ids of the chain it is in."""
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


def _digest(path: str) -> str | None:
    """The digest of a file; None if it cannot be read, which its start will report."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _script_digest(path: str) -> str | None:
    from conductor.spec.python_guest import scripts

    try:
        return scripts.read(path).sha256
    except (OSError, ConductorError):
        return None


def _described(spec: Spec, role: str) -> dict[str, Any]:
    """What a component is and may do, without secrets."""
    members: dict[str, Any] = {"component": spec.name, "role": role, "sandboxed": spec.sandboxed}
    if spec.script:
        members |= {"kind": "script", "file": spec.script, "sha256": _script_digest(spec.script)}
    elif spec.wasm is not None:
        members |= {"kind": "module", "file": spec.wasm, "sha256": _digest(spec.wasm)}
    elif spec.command is not None:
        command = {"command": spec.command[0], "args": spec.command[1:]}
        members |= {
            "kind": "command",
            **json_text.decode(redacted(json_text.encode(command))),
        }
    elif spec.address is not None:
        members |= {"kind": "remote", "address": spec.address}
    else:
        members |= {"kind": "in-process", "attribute": spec.attribute}
    if role == "proxy":
        members["policy"] = msgspec.structs.asdict(spec.policy)
        members["on_failure"] = spec.on_failure
        members["grants"] = None if spec.grants is None else sorted(spec.grants)
    return members


def _clean(text: str) -> str:
    """A text without what looks like a secret, and without logins and queries of addresses."""
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
