"""`conductor audit show FILE`: which component changed which message, and how.

Lines for people are `(style, text)`; styles are those of `report`, used where there are colours.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from conductor.cli import report
from conductor.cli.log_verify import EXIT_BROKEN, unreadable
from conductor.core import json_text
from conductor.errors import UsageError, counted, did_you_mean
from conductor.record.audit.file import BrokenChainError, verified
from conductor.run.report_checks import CHANGES
from conductor.spec import untrusted_files

Line = tuple[str, str]
Record = dict[str, Any]

PLAIN: Final = ""
HEAD: Final = "\x1b[1m"
DIM: Final = "\x1b[2m"
ADDED: Final = "\x1b[32m"
REMOVED: Final = "\x1b[31m"
WRONG: Final = "\x1b[1;31m"
POINTER: Final = "\x1b[36m"

EVENTS: Final = frozenset(
    {
        "chain", "component", "loaded", "change", "changes", "effect", "effects", "violation",
        "violations", "failure", "restart", "bypass", "swap", "adapt", "add", "remove", "replace",
        "pause", "resume", "end",
    }
)  # fmt: skip
KINDS: Final = EVENTS | CHANGES

_decode = json_text.Decoder(dict[str, Any]).decode


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted records: each filter with values must have a value that fits."""

    components: Sequence[str] = ()
    methods: Sequence[str] = ()
    """Patterns with `*`."""
    sessions: Sequence[str] = ()
    kinds: Sequence[str] = ()
    """Events, and for changes also their kinds."""

    def check(self) -> None:
        """Raises `UsageError` for an unknown kind."""
        for kind in self.kinds:
            if kind not in KINDS:
                known = ", ".join(sorted(KINDS))
                hint = did_you_mean(kind, KINDS, f"kinds are: {known}")
                raise UsageError(f"no record is of the kind `{kind}`", hint)

    def fits(self, record: Record) -> bool:
        """Whether a record is wanted."""
        kinds = (record["event"], record.get("change"))
        method = record.get("method") or ""
        return (
            (not self.components or record.get("component") in self.components)
            and (not self.methods or any(fnmatchcase(method, pattern) for pattern in self.methods))
            and (not self.sessions or record.get("session") in self.sessions)
            and (not self.kinds or any(kind in self.kinds for kind in kinds))
        )


def show(path: str, wanted: Filter, *, as_json: bool) -> int:
    """Prints the wanted records of the unbroken part; 1 if that is not all of the file.

    Raises `UsageError` for a file that cannot be read.
    """
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
    except BrokenChainError as error:
        broken = error
    if broken is None and empty:
        broken = BrokenChainError(1, "is missing: it holds no record at all")
    printer.end(broken)
    if broken is None:
        return 0
    report.error(
        f"`{path}`: {broken}; only the lines before that are shown",
        "keep the file as it is: the lines before that one are as they were written",
    )
    return EXIT_BROKEN


def _lines(path: str) -> Iterator[bytes]:
    """The lines of an audit, each after it was checked. Raises as `show` does."""
    try:
        with untrusted_files.ordinary(path) as file, untrusted_files.ordinary(path) as again:
            for _ in verified(file):
                yield again.readline()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


class _Json:
    """The lines as they are in the file; on a terminal without what it would obey."""

    def record(self, record: Record, line: bytes) -> None:
        """Prints a record."""
        report.say_line(line)

    def end(self, broken: BrokenChainError | None) -> None:
        """Prints nothing more."""


class _Words:
    """An account for people."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, ...]] = Counter()
        self._violations: Counter[str] = Counter()
        self._effects: Counter[tuple[str, str, str]] = Counter()
        self._shown = 0

    def record(self, record: Record, line: bytes) -> None:
        """Prints a record, and counts it."""
        self._shown += 1
        try:
            lines = [headline(record), *details(record)]
        except (KeyError, TypeError, AttributeError):
            lines = [(WRONG, f"no record conductor writes: {line.decode()}")]
        report.say_styled(*lines)
        who = str(record.get("component"))
        match record["event"]:
            case "change":
                kind = (str(record.get(name)) for name in ("change", "kind", "method"))
                self._changes[who, *kind] += 1
            case "violation":
                self._violations[who] += 1
            case "effect":
                self._effects[who, str(record.get("what")), str(record.get("outcome"))] += 1

    def end(self, broken: BrokenChainError | None) -> None:
        """Prints who did what how often."""
        if not self._shown:
            report.say_styled((PLAIN, "no record is of that kind"))
        if self._changes or self._violations or self._effects:
            report.say_styled((PLAIN, ""))
            report.say_styled((HEAD, "In short"))
        for (who, change, kind, method), count in sorted(self._changes.items()):
            report.say_styled(
                (PLAIN, f"  {who}: {change} {kind} {method}, {counted(count, 'time')}")
            )
        for (who, what, outcome), count in sorted(self._effects.items()):
            report.say_styled((PLAIN, f"  {who}: {what} {outcome}, {counted(count, 'time')}"))
        for who, count in sorted(self._violations.items()):
            report.say_styled((PLAIN, f"  {who}: stopped {counted(count, 'time')}"))
        if broken is None:
            report.say_styled((DIM, "The record is unbroken."))


# -- records in words ------------------------------------------------------------------------------

_DID: Final = {
    ("modified", "request"): "changed the request {method}",
    ("modified", "notification"): "changed the notification {method}",
    ("modified", "response"): "changed the answer to {method}",
    ("answered", "response"): "answered {method} by itself",
    ("originated", "request"): "sent a request {method} of its own",
    ("originated", "notification"): "sent a notification {method} of its own",
    ("dropped", "notification"): "did not pass on the notification {method}",
    ("rebound", "request"): "had the session go on as another of the agent's",
    ("reordered", "request"): "passed on the request {method} after what came later",
    ("reordered", "notification"): "passed on the notification {method} after what came later",
    ("reordered", "response"): "passed on the answer to {method} after what came later",
}

_CONTEXT: Final = 2
"""Lines shown around a change in a text."""

_WHO: Final = {"down": ("client", "agent"), "up": ("agent", "client")}


def headline(record: Record) -> Line:
    """The first line of a record."""
    when = str(record.get("ts", "")).replace("T", " ")
    style, text = _sentence(record)
    return style, f"{when}  {text}"


def _sentence(record: Record) -> Line:
    event, who = record["event"], record.get("component", "")
    match event:
        case "change":
            did = _DID.get((record["change"], record["kind"]), record["change"] + " {method}")
            return HEAD, f"{who} {did.format(method=record['method'])}"
        case "changes":
            method = record["method"] or "other methods"
            text = f"{who}: {record['count']} more like this ({record['change']} {method})"
            return HEAD, f"{text} have no record of their own"
        case "effect":
            return _effect(record)
        case "effects":
            return (
                HEAD,
                f"{who}: {record['count']} more effects have no record of their own",
            )
        case "violation":
            return WRONG, f"{who} was stopped: {record['text']}"
        case "violations":
            return WRONG, f"{who} was stopped {record['count']} more times"
        case "chain":
            return DIM, f"conductor {record['version']} starts a chain ({record['mode']})"
        case "component":
            words = [record.get("file") or record.get("command") or record.get("attribute")]
            what = " ".join(map(str, [*words, *record.get("args", ())]))
            return DIM, f"{record['role']} {who}: {what}{_profile(record)}"
        case "loaded":
            return DIM, f"{who} is loaded, sha256 {record['sha256']}"
        case "end":
            why = record.get("failure")
            return (WRONG, f"the chain failed: {why}") if why else (DIM, "the chain ended")
        case _:
            style = WRONG if event == "failure" else HEAD
            return style, f"{who}: {event}: {record.get('text', '')}"


_OUTCOMES: Final = {
    "allowed": "{who} reached out of the chain: {what}{where}, {bytes}",
    "refused": "{who} was kept from {what}{where}, {bytes}",
    "failed": "{who} tried {what}{where}, {bytes}, and it failed",
}


def _effect(record: Record) -> Line:
    where = f" {record['where']}" if record.get("where") else ""
    words = {"what": record["what"], "bytes": counted(record["bytes"], "byte")}
    text = _OUTCOMES[record["outcome"]].format(who=record["component"], where=where, **words)
    why = f": {record['text']}" if record.get("text") else ""
    return (HEAD if record["outcome"] == "allowed" else WRONG), f"{text}{why}"


def _profile(record: Record) -> str:
    policy = record.get("policy")
    return f", profile {policy['profile']}" if policy else ""


def details(record: Record) -> Iterator[Line]:
    """The lines below it."""
    if record["event"] == "violation":
        where = f"{record['direction']} {record['method']} {record['pointer']}".rstrip()
        yield DIM, f"    rule {record['rule']}; {where}"
    if record["event"] == "change":
        yield DIM, f"    {_route(record)}"
        yield from _difference(record)


def _route(record: Record) -> str:
    """From where to where, with the ids that the message has in a trace."""
    parts = []
    if record["kind"] == "response":
        parts.append(f"to {_end(record, 'target', 1)}")
    else:
        if record["before"] is not None:
            parts.append(f"from {_end(record, 'source', 0)}")
        if record["after"] is not None:
            parts.append(f"to {_end(record, 'target', 1)}")
    if record["session"] is not None:
        parts.append(f"session {record['session']}")
    return ", ".join(parts)


def _end(record: Record, end: str, at: int) -> str:
    name = record[end] or f"the side of the {_WHO[record['direction']][at]}"
    id_ = record[f"{end}_id"]
    return name if id_ is None else f"{name} (id {json.dumps(id_, ensure_ascii=False)})"


def _difference(record: Record) -> Iterator[Line]:
    diff = record.get("diff")
    if diff is None:
        for end in ("before", "after"):
            if record[end] is not None:
                digest = record[end]
                yield (
                    PLAIN,
                    f"    {end:6}  {counted(digest['bytes'], 'byte')}, sha256 {digest['sha256']}",
                )
        return
    for path in record.get("repeated", ()):
        yield (
            WRONG,
            f"    {path or 'the whole'} has a name twice: programs differ on it",
        )
    for operation in diff:
        yield from _operation(operation)
    if more := record.get("more"):
        yield DIM, f"    … and {counted(more, 'more difference')}"


def _operation(operation: Record) -> Iterator[Line]:
    what = {"add": "added", "remove": "removed", "replace": "changed"}[operation["op"]]
    yield POINTER, f"    {operation['pointer'] or 'the whole'} {what}"
    if "at" in operation:
        sizes = [operation[f"{end}_digest"]["bytes"] for end in ("before", "after")]
        before, at = counted(sizes[0], "byte"), operation["at"]
        yield (
            DIM,
            f"      {before} before, {sizes[1]:,} after; at character {at}",
        )
        yield from _side(operation, "removed", REMOVED, "-")
        yield from _side(operation, "added", ADDED, "+")
        return
    old, new = operation.get("before"), operation.get("after")
    if isinstance(old, str) and isinstance(new, str):
        yield from unified(old, new)
        return
    yield from _side(operation, "before", REMOVED, "-")
    yield from _side(operation, "after", ADDED, "+")


def _side(operation: Record, name: str, style: str, sign: str) -> Iterator[Line]:
    if name in operation:
        for line in _worded(operation[name]):
            yield style, f"      {sign} {line}"
    elif f"{name}_cut" in operation:
        digest = operation[f"{name}_digest"]
        for line in operation[f"{name}_cut"].split("\n"):
            yield style, f"      {sign} {line}"
        yield DIM, f"        ({counted(digest['bytes'], 'byte')}, sha256 {digest['sha256']})"


def _worded(value: Any) -> list[str]:
    """A value as a person reads it: text without quotes, also that of a content block."""
    if isinstance(value, dict) and value.keys() == {"type", "text"} and value["type"] == "text":
        value = value["text"]
    if isinstance(value, str):
        return value.split("\n")
    return [json.dumps(value, ensure_ascii=False)]


def unified(old: str, new: str) -> Iterator[Line]:
    """The lines of a text that differ, with some around them."""
    before, after = old.split("\n"), new.split("\n")
    groups = difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT)
    for place, group in enumerate(groups):
        if place:
            yield DIM, "      …"
        for what, i, j, k, m in group:
            if what == "equal":
                yield from ((PLAIN, f"        {line}") for line in before[i:j])
                continue
            yield from ((REMOVED, f"      - {line}") for line in before[i:j])
            yield from ((ADDED, f"      + {line}") for line in after[k:m])
