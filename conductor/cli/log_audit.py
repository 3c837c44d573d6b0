"""An audit in `conductor log show`: a row for each record, and who did what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from conductor.cli import report
from conductor.cli.log_rows import DID, DIM, HEAD, PLAIN, WRONG, Line, Rows
from conductor.cli.log_verify import EXIT_BROKEN, records
from conductor.core import json_text
from conductor.errors import counted, one_line
from conductor.record.audit.file import BrokenChainError
from conductor.record.diff import NOTHING
from conductor.record.exact_json import Nothing
from conductor.record.turns import edits
from conductor.record.turns.filter import Filter
from conductor.record.turns.model import Change, Edit, Item, Row

Record = dict[str, Any]

_decode = json_text.Decoder(dict[str, Any]).decode


def show(path: str, wanted: Filter, *, as_json: bool, whole: bool) -> int:
    """Prints the wanted records of the unbroken part; 1 if that is not all of the file.

    Raises `UsageError` for a file that cannot be read.
    """
    words = _Words(Rows(whole=whole))
    broken: BrokenChainError | None = None
    empty = True
    try:
        for sealed, _, line in records(path):
            empty = False
            record = _decode(line)
            if not wanted.matches(row_of(sealed.seq, record), text_of(line)):
                continue
            if as_json:
                report.say_line(line)
            else:
                words.record(record, line)
    except BrokenChainError as error:
        broken = error
    if broken is None and empty:
        report.error(
            f"`{path}` holds no record at all", "if it was an audit, somebody has emptied it"
        )
        return EXIT_BROKEN
    if not as_json:
        words.end(broken)
    return 0 if broken is None else altered(path, broken)


def altered(path: str, broken: BrokenChainError) -> int:
    """Says that somebody has altered the audit; the exit code."""
    report.error(
        f"`{path}`: {broken}; only the lines before this line are shown",
        "keep the file unchanged: the lines before this line are as they were written",
    )
    return EXIT_BROKEN


def text_of(line: bytes) -> Callable[[int], str]:
    """A record as filters look for words in it."""
    return lambda _: line.decode()


_CHANGES: Final = {"modified": Change.CHANGED}
"""The audit's names of changes that have another name in a trace."""
_KINDS: Final = {"violation": "verdict", "would": "would", "effect": "effect"}
"""The types of records that are no message, for filters; all other records are a `notice`."""


def row_of(number: int, record: Record) -> Row:
    """A record as filters see it: as the line of a trace about the same."""
    words = {name: value for name, value in record.items() if isinstance(value, str)}
    event, change = record["event"], words.get("change", "")
    is_change = event == "change"
    return Row(
        n=number, at=0.0,
        kind=words.get("kind", "") if is_change else _KINDS.get(event, "notice"),
        source=words.get("component", ""), target=words.get("target", ""),
        method=words.get("method") or words.get("what") or event,
        session=words.get("session", ""), bytes=0, ms=0.0, ms_in=0.0,
        change=_CHANGES.get(change, change), protocol="acp", error=words.get("rule", ""),
        pair=-1, turn=0,
    )  # fmt: skip


class _Words:
    """An account for people."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._day = ""
        self._counts: Counter[tuple[str, str]] = Counter()
        """How often a component did something, by the event and by words for it."""
        self._shown = 0

    def record(self, record: Record, line: bytes) -> None:
        """Prints a record, and counts it."""
        self._shown += 1
        day, _, time = str(record["ts"]).partition("T")
        if day != self._day:
            self._day = day
            report.say_styled((DIM, f"{day}, UTC"))
        try:
            lines = list(rows_of(record, f"{time[:12]:<12}  ", self._rows))
            if did := _in_short(record):
                self._counts[record["event"], f"{record['component']}: {did}"] += 1
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            lines = [(WRONG, f"no record conductor writes: {line.decode()}")]
        report.say_styled(*lines)

    def end(self, broken: BrokenChainError | None) -> None:
        """Prints the acts of each component, with their numbers."""
        if not self._shown and broken is None:
            report.say_styled((PLAIN, "no record is chosen (see `conductor help filters`)"))
        if self._counts:
            report.say_styled((PLAIN, ""), (HEAD, "In short"))
        for (_, did), count in sorted(self._counts.items()):
            text = f"  {one_line(did)}, {counted(count, 'time')}"
            report.say_styled((PLAIN, self._rows.fit(text)))
        if broken is None:
            report.say_styled((DIM, "The record is unbroken."))


# -- records in words ------------------------------------------------------------------------------

_DID: Final[dict[str, str]] = {
    **{change.value: did for change, did in DID.items()},
    "modified": DID[Change.CHANGED],
    "reordered": "passed on {} after later messages",
    "rebound": "had {} go on in another session of the agent's",
}
_WHO: Final = {"down": ("client", "agent"), "up": ("agent", "client")}


_SENTENCES: Final = {
    "allowed": (HEAD, "{who} reached out of the chain: {what}{where}, {bytes}"),
    "refused": (WRONG, "{who} was kept from {what}{where}, {bytes}{why}"),
    "failed": (WRONG, "{who} tried {what}{where}, {bytes}, and it failed{why}"),
    "changes": (HEAD, "{who}: {count} more like this ({change} {method}) {no_record}"),
    "effects": (HEAD, "{who}: {count} more effects {no_record}"),
    "violations": (WRONG, "{who}: refused {count} more times"),
    "chain": (DIM, "conductor {version} starts a chain ({mode})"),
    "component": (DIM, "{role} {who}: {command}{rights}"),
    "loaded": (DIM, "{who} is loaded, sha256 {sha256}"),
    "end": (DIM, "the chain ended"),
    "ended": (WRONG, "the chain failed{why}"),
}
"""Records that are no change and no refusal, by event, outcome, or the end of the chain."""


def rows_of(record: Record, begin: str, rows: Rows) -> Iterator[Line]:
    """The rows of a record; the first row has `begin`, its time, in front."""
    event, who = record["event"], one_line(str(record.get("component", "")), 60)
    text = str(record.get("text", ""))
    named = "" if f"`{who}`" in text else who
    match event:
        case "change":
            yield from _change(record, who, begin, rows)
        case "violation" | "would":
            item = Item(kind=_KINDS[event], at=0.0, text=text, status=record["rule"], component=who)
            yield from rows.item(item, begin)
            where = f"{record['direction']} {record['method']} {record['pointer']}".rstrip()
            yield DIM, rows.fit(f"      {one_line(where)}")
        case "failure":
            yield from rows.item(Item(kind="error", at=0.0, text=text, component=named), begin)
        case _ if (sentence := _sentence(record, who)) is not None:
            style, text = sentence
            yield style, rows.fit(f"{begin}{one_line(text, 2_000)}")
        case _:
            item = Item(kind="notice", at=0.0, text=f"{event}: {text}", component=who)
            yield from rows.item(item, begin)


def _sentence(record: Record, who: str) -> Line | None:
    """A record in one sentence; None: there is none for it."""
    name = "ended" if record.get("failure") else record.get("outcome") or record["event"]
    found = _SENTENCES.get(str(name))
    if found is None:
        return None
    words = [record.get("file") or record.get("command") or record.get("attribute")]
    why = record.get("failure") or record.get("text")
    policy = record.get("policy")
    known = {
        **record,
        "who": who,
        "method": record.get("method") or "other methods",
        "no_record": "have no record of their own",
        "command": " ".join(map(str, [*words, *record.get("args", ())])),
        "rights": f", {'+'.join(policy['rights'])}" if policy else "",
        "where": f" {record['where']}" if record.get("where") else "",
        "bytes": counted(record.get("bytes", 0), "byte"),
        "why": f": {why}" if why else "",
    }
    return found[0], found[1].format_map(known)


def _in_short(record: Record) -> str:
    """The act of a component, in a few words; empty: it did nothing that counts."""
    match record["event"]:
        case "change":
            return str(_DID[record["change"]].format(_what(record)))
        case "effect":
            return f"{record['what']} {record['outcome']}"
        case "violation":
            return "refused"
        case "would":
            return f"watched, rule `{record['rule']}`"
    return ""


def _what(record: Record) -> str:
    """The message of a change."""
    method = one_line(record["method"])
    is_answer = record["kind"] == "response" and record["change"] != "answered"
    return f"answer to {method}" if is_answer else method


def _change(record: Record, who: str, begin: str, rows: Rows) -> Iterator[Line]:
    """The changes of a message by a component, as of a visit in a trace."""
    change, what = record["change"], _what(record)
    made = [found for operation in record.get("diff") or () for found in _edits(operation)]
    if change == "modified" and made:
        for edit, place in made:
            yield from rows.edit(who, edit, what, place, begin)
            begin = " " * len(begin)
    else:
        yield rows.change(f"{who} {_DID[change].format(what)}", begin)
        for edit, _ in made:
            yield from rows.values(edit)
    for path in record.get("repeated", ()):
        text = f"{one_line(path) or 'the message'} has a name twice: programs differ on it"
        yield WRONG, rows.fit(f"      {text}")
    if more := record.get("more"):
        yield DIM, f"      … and {counted(more, 'more difference')}"
    if record.get("diff") is None:
        yield from _digests(record)
    yield DIM, rows.fit(f"      {one_line(_route(record), 2_000)}")


def _digests(record: Record) -> Iterator[Line]:
    """The digests in place of texts that are not on record."""
    for end in ("before", "after"):
        if (digest := record[end]) is not None:
            size = counted(digest["bytes"], "byte")
            yield PLAIN, f"      {end:6}  {size}, sha256 {digest['sha256']}"


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


def _edits(operation: Record) -> Iterator[tuple[Edit, str]]:
    """A difference on record as edits, each with its place in the message."""
    place, names = operation["pointer"], ("before", "after")
    absent: Nothing | str = NOTHING
    path = tuple(int(step) if step.isdecimal() else step for step in place.split("/")[1:])
    if "at" in operation:  # of a long text only the different part is on record
        place, names, absent = f"{place} from character {operation['at']}", ("removed", "added"), ""
    before, after = (operation.get(n, operation.get(f"{n}_cut", absent)) for n in names)
    for edit in edits.of_operation(operation["op"], path, before, after):
        yield edit, one_line(place)
