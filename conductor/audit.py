"""What is put on record of a chain (`--audit FILE`): components, violations, failures.

Records (docs/cli.md, "Audits") go to a `conductor.audit_file.AuditFile`. Each names the `run`, the
conductor that wrote it, since several may share a file.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from conductor.audit_file import AuditFile
from conductor.catalog import Spec
from conductor.core import Violated
from conductor.redaction import redacted

MOST_EACH: Final = 1000
"""Violations of one component with a record of their own; further ones are gathered by as many, so
that a component cannot fill the disk."""

_MOST_TEXT: Final = 2000
"""Characters of a text that components had a part in."""


class Auditor:
    """Keeps the record of one chain."""

    def __init__(self, file: AuditFile) -> None:
        self._file = file
        self._run = os.urandom(4).hex()
        self._counts: Counter[str] = Counter()
        self._ended = False

    def begin(
        self, version: str, mode: str, specs: Sequence[Spec], *, agent_last: bool, isolation: str
    ) -> None:
        """Records that a chain is about to start, and each of its components."""
        self._record("chain", version=version, mode=mode, isolation=isolation, pid=os.getpid())
        for index, spec in enumerate(specs):
            role = "agent" if agent_last and index == len(specs) - 1 else "proxy"
            self._record("component", **_described(spec, role))

    def violated(self, violation: Violated) -> None:
        """Records what a component attempted."""
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

    def noted(self, event: str, component: str, text: str) -> None:
        """Records what became of a component: `failure`, `restart`, `bypass` or `swap`."""
        self._record(event, component=component, text=_text(text))

    def loaded(self, component: str, digest: str) -> None:
        """Records the module that a host says it has loaded, at the start and ever after."""
        self._record("loaded", component=component, sha256=_text(digest))

    def end(self, failure: str | None) -> None:
        """Records the end of the chain, why it failed if it did, and closes the file."""
        if self._ended:
            return
        self._ended = True
        for component, count in self._counts.items():
            if count > MOST_EACH and (left := count % MOST_EACH):
                self._record("violations", component=component, count=left)
        failure = None if failure is None else _text(failure)
        self._record("end", failure=failure, violations=self._counts.total())
        self._file.close()

    def _record(self, event: str, /, **members: object) -> None:
        self._file.append(event, {"run": self._run, **members})


def _digest(path: str) -> str | None:
    """The digest of a file; None where it cannot be read, which its start will report."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _described(spec: Spec, role: str) -> dict[str, Any]:
    """What a component is and may do, without secrets."""
    found: dict[str, Any] = {"component": spec.name, "role": role, "sandboxed": spec.sandboxed}
    if spec.wasm is not None:
        found |= {"kind": "module", "file": spec.wasm, "sha256": _digest(spec.wasm)}
    elif spec.command is not None:
        command = {"command": spec.command[0], "args": spec.command[1:]}
        found |= {"kind": "command", **msgspec.json.decode(redacted(msgspec.json.encode(command)))}
    else:
        found |= {"kind": "in-process", "attribute": spec.attribute}
    if role == "proxy":
        found["policy"] = msgspec.structs.asdict(spec.policy)
        found["on_failure"] = spec.on_failure
        found["grants"] = None if spec.grants is None else sorted(spec.grants)
    return found


def _text(text: str) -> str:
    """`text`, not too long, and such that it can be written."""
    cut = text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
    return cut.encode(errors="backslashreplace").decode()
