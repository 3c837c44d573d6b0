"""`conductor audit verify FILE`: whether the record is as it was written."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from conductor.cli import report
from conductor.errors import UsageError
from conductor.record.audit.file import BrokenChainError, Head, verified
from conductor.spec import untrusted_files

EXIT_BROKEN: Final = 1


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found. `records` and `head` are of the unbroken part, from the start.

    `line`: the first that is wrong, `problem`: what is wrong with it or with the whole.
    """

    ok: bool
    records: int
    head: str
    first: str | None = None
    last: str | None = None
    events: dict[str, int] = {}
    line: int | None = None
    problem: str | None = None


def verify(path: str, head: str | None, *, as_json: bool) -> int:
    """Prints the verdict; 1 if the chain is broken. Raises `UsageError` for no readable file."""
    verdict = judged(path, None if head is None else head.strip().lower())
    if as_json:
        report.say_json(verdict)
    else:
        report.say(*_worded(path, verdict))
    if verdict.ok:
        return 0
    where = f"line {verdict.line} " if verdict.line is not None else ""
    hint = "keep the file as it is: the lines before that one are as they were written"
    if verdict.line is None:
        hint = "lines were cut off, or all of it was written anew: look for a copy"
    report.error(f"`{path}`: {where}{verdict.problem}", hint)
    return EXIT_BROKEN


def judged(path: str, head: str | None) -> Verdict:
    """Reads a whole audit; `head` is the digest of a line that has to be there."""
    found = Head()
    events: Counter[str] = Counter()
    first = last = line = problem = None
    known = head is None
    try:
        with untrusted_files.ordinary(path) as file:
            for record, found in verified(file):
                events[record.event] += 1
                first, last = first or record.ts, record.ts
                known = known or found.digest == head
    except BrokenChainError as broken:
        line, problem = broken.line, broken.why
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read `{path}`: {why}", "name a file --audit wrote") from None
    if problem is None and not found.records:
        problem = "holds no record at all"
    elif problem is None and not known:
        problem = f"has no line with the hash {head}"
    return Verdict(
        ok=problem is None,
        records=found.records,
        head=found.digest,
        first=first,
        last=last,
        events=dict(events),
        line=line,
        problem=problem,
    )


def _worded(path: str, verdict: Verdict) -> list[str]:
    state = "unbroken" if verdict.ok else "BROKEN"
    lines = [f"{path}: {state}, {verdict.records} records are as they were written"]
    if verdict.records:
        lines.append(f"  from       {verdict.first}")
        lines.append(f"  to         {verdict.last}")
        counts = ", ".join(f"{k} {n}" for k, n in verdict.events.items())
        lines.append(f"  events     {counts}")
        lines.append(f"  last hash  {verdict.head}")
    return lines
