"""`conductor audit show FILE`: who changed my prompt, and how."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import report
from conductor.cli.audit_text import DIM, HEAD, PLAIN, WRONG, Line, Record, details, headline
from conductor.errors import UsageError, json_text, marked
from conductor.record.audit.file import BrokenChainError, verified
from conductor.run.report_checks import CHANGES
from conductor.spec import untrusted_files

if TYPE_CHECKING:
    from rich.console import Console

EXIT_BROKEN: Final = 1

EVENTS: Final = frozenset(
    {
        "chain", "component", "loaded", "change", "changes", "violation", "violations", "failure",
        "restart", "bypass", "swap", "end",
    }
)  # fmt: skip
KINDS: Final = EVENTS | CHANGES

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are wanted: all of the filters given must fit, of each any value."""

    components: Sequence[str] = ()
    methods: Sequence[str] = ()
    """Patterns with `*`."""
    sessions: Sequence[str] = ()
    kinds: Sequence[str] = ()
    """An event, or for changes also how."""

    def check(self) -> None:
        """Raises `UsageError` for a kind there is none of."""
        for kind in self.kinds:
            if kind not in KINDS:
                known = ", ".join(sorted(KINDS))
                raise UsageError(f"no record is of the kind `{kind}`", f"one of: {known}")

    def fits(self, record: Record) -> bool:
        """Whether a record is wanted."""
        kinds = (record["event"], record.get("change"))
        method = record.get("method") or ""
        return (
            (not self.components or record.get("component") in self.components)
            and (not self.methods or any(fnmatchcase(method, one) for one in self.methods))
            and (not self.sessions or record.get("session") in self.sessions)
            and (not self.kinds or any(kind in self.kinds for kind in kinds))
        )


def show(path: str, wanted: Filter, *, as_json: bool) -> int:
    """Prints the records that are wanted, of the part that is as it was written; 1 if that is not
    all of it. Raises `UsageError` for no readable file."""
    wanted.check()
    printer = _Json() if as_json else _Words()
    broken: BrokenChainError | None = None
    empty = True
    try:
        for line in _lines(path):
            empty = False
            record = _decode(line)
            if wanted.fits(record):
                printer.record(record, line)
    except BrokenChainError as found:
        broken = found
    if broken is None and empty:
        broken = BrokenChainError(1, "is missing: it holds no record at all")
    printer.end(broken)
    if broken is None:
        return 0
    report.error(
        f"`{path}`: {broken}; what is shown is only what stands before that",
        "keep the file as it is: the lines before that one are as they were written",
    )
    return EXIT_BROKEN


def _lines(path: str) -> Iterator[bytes]:
    """The lines of an audit, each checked before it is given. Raises as `show` does."""
    try:
        with untrusted_files.ordinary(path) as file, untrusted_files.ordinary(path) as again:
            for _ in verified(file):
                yield again.readline()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read `{path}`: {why}", "name a file --audit wrote") from None


class _Json:
    """The lines as they are in the file; on a terminal with escapes for what that would obey."""

    def record(self, record: Record, line: bytes) -> None:
        """Prints one."""
        text = line.decode()
        sys.stdout.write(json_text(text) if sys.stdout.isatty() else text)

    def end(self, broken: BrokenChainError | None) -> None:
        """Prints nothing more."""
        sys.stdout.flush()


class _Words:
    """An account for people."""

    def __init__(self) -> None:
        self._console = _console()
        self._changes: Counter[tuple[str, ...]] = Counter()
        self._violations: Counter[str] = Counter()
        self._shown = 0

    def record(self, record: Record, line: bytes) -> None:
        """Prints one, and counts it."""
        self._shown += 1
        try:
            lines = [headline(record), *details(record)]
        except (KeyError, TypeError, AttributeError):
            lines = [(WRONG, f"no record conductor writes: {line.decode()}")]
        for one in lines:
            self._print(one)
        who = str(record.get("component"))
        match record["event"]:
            case "change":
                kind = (str(record.get(name)) for name in ("change", "kind", "method"))
                self._changes[who, *kind] += 1
            case "violation":
                self._violations[who] += 1

    def end(self, broken: BrokenChainError | None) -> None:
        """Prints who did what how often."""
        if not self._shown:
            self._print((PLAIN, "no record is of that kind"))
        if self._changes or self._violations:
            self._print((PLAIN, ""))
            self._print((HEAD, "In short"))
        for (who, change, kind, method), count in sorted(self._changes.items()):
            self._print((PLAIN, f"  {who}: {change} {kind} {method}, {count} times"))
        for who, count in sorted(self._violations.items()):
            self._print((PLAIN, f"  {who}: stopped {count} times"))
        if broken is None:
            self._print((DIM, "The record is unbroken."))
        sys.stdout.flush()

    def _print(self, line: Line) -> None:
        from rich.text import Text

        style, text = line
        self._console.print(Text(marked(text), style), soft_wrap=True)


def _console() -> Console:
    """Colours on a terminal, plain text otherwise."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, soft_wrap=True)
