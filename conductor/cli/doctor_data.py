"""`conductor doctor --data`, `--clean`: shows and deletes files that conductor keeps."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from typing import Any, Final

from conductor.cli import pages, report
from conductor.cli.data_kinds import KINDS, Item, Kind, failed, named
from conductor.errors import ConductorError, UsageError, agrees, counted, one_line, visible_path
from conductor.spec.limits import size_in_words
from conductor.spec.private_files import reason

_UNITS: Final = {"m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


def show(*, as_json: bool) -> int:
    """Shows the kinds of files, with their numbers and sizes."""
    rows = [row_of(kind) for kind in KINDS]
    if as_json:
        report.say_json({"kinds": rows})
        return 0
    for row in rows:
        problem = f"cannot be read: {row['problem']}" if row["problem"] else ""
        much = f"{row['number']:>6}  {size_in_words(row['bytes']):>9}  {_age(row['oldest'])}"
        report.say(f"{row['kind']:<11}{problem or much}")
        for text in (f"{row['what']}: {visible_path(row['place'])}", f"stays: {row['rule']}"):
            lines = pages.wrapped(f"{'':<11}{text}", pages.columns(), " " * 13)
            report.say(*lines.splitlines())
        for one in row.get("components", ()):
            name = one_line(one["component"], 40)
            count = counted(one["number"], "place")
            report.say(f"{'':<13}{name:<24} {count:>10}  {size_in_words(one['bytes']):>9}")
    report.say("", "Traces, audits and metrics are where you have put them.")
    return 0


def row_of(kind: Kind) -> dict[str, Any]:
    """A kind as `--json` has it."""
    place, items, problem = kind.place(), list[Item](), ""
    try:
        items = kind.found(place)
    except (OSError, sqlite3.Error) as error:
        problem = reason(error)
    row: dict[str, Any] = {
        "kind": kind.name,
        "what": kind.what,
        "place": place,
        "number": len(items),
        "bytes": sum(one.size for one in items),
        "oldest": min((one.used for one in items if one.used), default=None),
        "rule": kind.rule,
        "problem": problem,
    }
    if kind.name == "values":
        mine: dict[str, list[int]] = {}
        for one in items:
            mine.setdefault(one.component, []).append(one.size)
        row["components"] = [
            {"component": name, "number": len(sizes), "bytes": sum(sizes)}
            for name, sizes in sorted(mine.items())
        ]
    return row


def clean(
    kind: str,
    *,
    component: str | None = None,
    older: str | None = None,
    damaged: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Deletes files of a kind. Raises `ConductorError`.

    Args:
        kind: One of `conductor.cli.data_kinds.KINDS`.
        component: Of values: only the values of this component.
        older: Delete items that are unused for so long, as in `7d`; None: all.
        damaged: Of values: remove the file, which cannot be read.
        yes: Do not ask.
        as_json: Print JSON, for programs.
    """
    wanted = named(kind)
    if (component is not None or damaged) and wanted.name != "values":
        flag = "--damaged" if damaged else "--component"
        raise UsageError(f"`{flag}` is for `values`", f"leave it out, to delete {wanted.name}")
    place = wanted.place()
    if damaged:
        return _delete_file(wanted, place, yes=yes, as_json=as_json)
    items = _chosen(wanted, place, component, _seconds(older))
    size = sum(one.size for one in items)
    if items and wanted.removed is not None:
        much = f"{len(items)} of {wanted.what}, {size_in_words(size)}"
        if not yes and not _agreed(f"delete {much}, in {visible_path(place)}"):
            return 1
        try:
            number = wanted.removed(place, items)
        except (OSError, sqlite3.Error) as error:
            raise failed(wanted, error) from None
    else:
        number = 0
    if as_json:
        report.say_json({"kind": wanted.name, "deleted": number, "left": len(items) - number})
        return 0
    report.say(f"deleted {number} of {wanted.what}")
    if number < len(items):
        stay = len(items) - number
        report.say(f"{stay} {agrees(stay, 'stays', 'stay')}: chains that run use them")
    return 0


def _chosen(kind: Kind, place: str, component: str | None, age: float) -> list[Item]:
    try:
        items = kind.found(place)
    except (OSError, sqlite3.Error) as error:
        raise failed(kind, error) from None
    if component is not None:
        items = [one for one in items if one.component == component]
        if not items:
            raise UsageError(
                f"no values are kept for `{one_line(component)}`",
                "`conductor doctor --data` shows for which components there are some",
            )
    return [one for one in items if one.used <= time.time() - age]


def _delete_file(kind: Kind, place: str, *, yes: bool, as_json: bool) -> int:
    """Removes the file of values, readable or not."""
    from conductor.services import kept_values

    if not yes and not _agreed(f"remove the whole file {visible_path(place)}"):
        return 1
    try:
        kept_values.delete_file(place)
    except BlockingIOError:
        raise ConductorError("a chain uses that file", "end the chain, then try again") from None
    except OSError as error:
        raise failed(kind, error) from None
    if as_json:
        report.say_json({"kind": kind.name, "deleted": 1, "left": 0})
    else:
        report.say(f"removed {visible_path(place)}")
    return 0


def _agreed(what: str) -> bool:
    """Whether the user, who is asked, agrees. Raises `UsageError` where nobody can be asked."""
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError(f"to {what} needs your yes, and nobody can be asked", "add `--yes`")
    if report.agrees(what):
        return True
    report.say("nothing was deleted")
    return False


def _seconds(text: str | None) -> float:
    """An age in seconds. Raises `UsageError`."""
    if text is None:
        return 0.0
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match is None:
        raise UsageError(f"invalid value `{one_line(text)}` for `--older`", "such as 12h, 7d or 4w")
    return int(match[1]) * _UNITS[match[2]]


def _age(oldest: float | None) -> str:
    if oldest is None:
        return ""
    days = int((time.time() - oldest) // (24 * 3600))
    return f"oldest: {days} days" if days > 1 else "oldest: today or yesterday"
