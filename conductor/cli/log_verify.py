"""`conductor log verify FILE`: whether anybody has changed an audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from conductor.cli import report
from conductor.cli.log_kinds import AuditPath, kind_for, unreadable
from conductor.cli.typer_options import Json, option, paragraphs
from conductor.record.audit.file import BrokenChainError, Head, Record, verified_lines
from conductor.spec import untrusted_files

EXIT_BROKEN: Final = 1

HELP: Final = paragraphs(
    "Check that no line of an audit was altered, removed, added or moved.",
    "Prints the first wrong line, with exit code 1. A file alone does not show that lines were cut "
    "off at its end. Compare the last hash with an earlier hash, or write the earlier hash after "
    "--head.",
)
EPILOG: Final = "Example:\n\n  conductor log verify audit.jsonl"


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether an audit is as it was written; `records` and `head` are of the unbroken part."""

    ok: bool
    records: int
    head: str
    """The digest of the last line."""
    first: str | None = None
    """The time of the first record."""
    last: str | None = None
    """The time of the last record."""
    events: dict[str, int] = {}
    line: int | None = None
    """The first wrong line, from 1."""
    problem: str | None = None
    """The mistake in that line, or in the whole file."""


def verify(
    file: AuditPath,
    head: Annotated[
        str | None,
        option(
            "--head",
            "HASH",
            "The last hash of an earlier check; the audit must still hold that line.",
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Checks the chain of an audit."""
    kind_for(file, "verify")
    verdict = _verdict(file, None if head is None else head.strip().lower())
    if json_:
        report.say_json(verdict)
    else:
        report.say(*_worded(file, verdict))
    if verdict.ok:
        return 0
    where = f"line {verdict.line} " if verdict.line is not None else ""
    hint = "keep the file unchanged: the lines before this line are as they were written"
    if verdict.line is None:
        hint = "somebody cut lines off, or wrote the whole file anew: look for a copy"
    report.error(f"`{file}`: {where}{verdict.problem}", hint)
    return EXIT_BROKEN


def records(path: str) -> Iterator[tuple[Record, Head, bytes]]:
    """The records of an audit, each after it was checked: with the end of the chain behind it, and
    its line. Raises `BrokenChainError` at the first wrong line, `UsageError` for a file that cannot
    be read."""
    try:
        with untrusted_files.ordinary(path) as file:
            yield from verified_lines(file)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _verdict(path: str, expected: str | None) -> Verdict:
    """Reads a whole audit; `expected` is the digest of a line that must be there."""
    head = Head()
    events: Counter[str] = Counter()
    first = last = line = problem = None
    is_there = expected is None
    try:
        for record, head, _ in records(path):
            events[record.event] += 1
            first, last = first or record.ts, record.ts
            is_there = is_there or head.digest == expected
    except BrokenChainError as broken:
        line, problem = broken.line, broken.why
    if problem is None and not head.records:
        problem = "holds no record at all"
    elif problem is None and not is_there:
        problem = f"has no line with the hash {expected}"
    return Verdict(
        ok=problem is None,
        records=head.records,
        head=head.digest,
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
        counts = ", ".join(f"{event} {count}" for event, count in verdict.events.items())
        lines += [
            f"  from       {verdict.first}",
            f"  to         {verdict.last}",
            f"  events     {counts}",
            f"  last hash  {verdict.head}",
        ]
    return lines
