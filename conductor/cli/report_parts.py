"""The parts of a report (`conductor doctor --report`), each a heading and a text for strangers.

All goes through `_clean`: no secret of known shape or name, no value of a variable with the name of
a secret, neither the user's name nor their home folder, nothing that a terminal obeys.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from conductor.cli import config_show, doctor, doctor_data, pages
from conductor.cli.data_kinds import KINDS
from conductor.errors import ConductorError, hide, visible, without_shapes
from conductor.packages import store
from conductor.packages.store import Damaged
from conductor.spec import paths, retention
from conductor.spec.private_files import reason
from conductor.spec.redaction import clean_text, is_secret, redacted
from conductor.version import version

_LOGS: Final = 3
_MOST: Final = 64 * 1024
"""The most bytes of a log file, taken from its end."""
_MOST_RING: Final = 512 * 1024
"""The most bytes of a ring."""
_LONGEST: Final = 4096
"""The most characters of a line."""

_KEPT: Final = ("type", "ts", "protocol", "from", "to", "method", "is_error")
_KEPT_ABOUT: Final = (
    "bytes", "n", "of", "passes", "method", "protocol", "ms", "past", "lost", "by",
    "code", "carrier",
)  # fmt: skip
_KEPT_VERDICT: Final = ("component", "rule", "direction", "method")
"""Members of an event that hold nothing of its message."""


class Part(NamedTuple):
    """A part of a report."""

    title: str
    text: str


def parts(*, with_content: bool) -> list[Part]:
    """The parts, in their order. `with_content`: the ring with the content of its messages."""
    for name, value in os.environ.items():
        if is_secret(name) and value:
            hide(value, f"[variable {name}]")
    plain = [
        Part("Versions", "\n".join(_versions())),
        Part("Doctor", "\n".join(doctor.lines(doctor.checks(), pages.WIDEST))),
        Part("Configuration", _configuration()),
        Part("Installed components", "\n".join(_installed()) or "none"),
        Part("Variables that are set (names only)", "\n".join(_variables()) or "none"),
        Part("What is kept", "\n".join(_kept())),
        *_logs(),
        *_ring(with_content=with_content),
    ]
    cleaner = _Cleaner()
    return [Part(cleaner.clean(part.title), cleaner.clean(part.text)) for part in plain]


# -- the parts -------------------------------------------------------------------------------------


def _versions() -> Iterator[str]:
    from wasm_host.engine import wasmtime_version

    yield f"conductor {version()}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()})"
    yield f"wasmtime {wasmtime_version()}"
    yield platform.platform()


def _configuration() -> str:
    try:
        return "\n".join(config_show.page())
    except ConductorError as error:
        return f"cannot be read: {error.with_hint}"


def _installed() -> Iterator[str]:
    try:
        receipts = store.receipts()
    except ConductorError as error:
        yield f"cannot be read: {error.text}"
        return
    for each in receipts:
        if isinstance(each, Damaged):
            yield f"{each.name}: {each.why}"
        else:
            yield f"{each.name} {each.release or '(no version)'}, {each.source}"


def _variables() -> Iterator[str]:
    for name in sorted(os.environ):
        if name.startswith(("CONDUCTOR_", "XDG_")) or name in ("TERM", "LANG"):
            yield name


def _kept() -> Iterator[str]:
    for row in map(doctor_data.row_of, KINDS):
        yield f"{row['kind']}: " + (row["problem"] or f"{row['number']}, {row['bytes']} bytes")


def _logs() -> Iterator[Part]:
    for name, text in _newest(paths.logs(), retention.LOGS, _LOGS, _MOST):
        yield Part(f"Log {name}", text)


def _ring(*, with_content: bool) -> Iterator[Part]:
    for name, text in _newest(paths.rings(), retention.RINGS, 1, _MOST_RING):
        lines = (_event(line, with_content=with_content) for line in text.splitlines())
        how = "secrets taken out" if with_content else "without the texts of messages"
        yield Part(f"Ring {name}, {how}", "\n".join(line for line in lines if line))


def _newest(folder: str, rule: retention.Rule, number: int, most: int) -> Iterator[tuple[str, str]]:
    """The name and the end of the newest files of a folder of ours."""
    if not os.path.lexists(folder):
        return
    try:
        for each in retention.files(folder, rule.suffix)[:number]:
            path = os.path.join(folder, each.name)
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
                text = file.read(most).decode(errors="replace")
            # The first line is cut, so nobody knows which entry had it.
            yield each.name, text.partition("\n")[2] if size > most else text
    except (OSError, sqlite3.Error) as error:
        yield f"in {folder}", f"cannot be read: {reason(error)}"


def _event(line: str, *, with_content: bool) -> str:
    """A line of a trace as it may be shown; empty: nothing of it may."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(event, dict):
        return ""
    if with_content:
        method = event.get("method")
        return redacted(line.encode(), method if isinstance(method, str) else None).decode()
    shown = _only(event, _KEPT)
    for name, kept in (("_conductor", _KEPT_ABOUT), ("verdict", _KEPT_VERDICT)):
        if isinstance(event.get(name), dict):
            shown[name] = _only(event[name], kept)
    if isinstance(whom := event.get("unwatched"), dict):  # readers need these components' names
        shown["unwatched"] = _only(whom, tuple(whom))
    return json.dumps(shown)


def _only(members: Mapping[str, Any], kept: tuple[str, ...]) -> dict[str, Any]:
    """Some members, if they are short texts or numbers."""
    plain = {name: members[name] for name in kept if name in members}
    return {
        name: value[:100] if isinstance(value, str) else value
        for name, value in plain.items()
        if isinstance(value, str | int | float | None)
    }


# -- the removal of secrets ------------------------------------------------------------------------


class _Cleaner:
    """Turns a text into a text for strangers."""

    def __init__(self) -> None:
        home = os.path.expanduser("~")
        places = {home, os.path.realpath(home)} - {"/", "", "~"}
        self._homes = sorted(places, key=len, reverse=True)
        names = {_user(): "[user]", platform.node(): "[machine]"}
        self._names = [
            (re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), shown)
            for name, shown in names.items()
            if len(name) > 2 and name not in ("root", "localhost")
        ]

    def clean(self, text: str) -> str:
        """The text as it may be given away."""
        lines = without_shapes(text).splitlines()
        # A line that is too long is cut before it is searched.
        return "\n".join(self._line(line[:_LONGEST]) for line in lines)

    def _line(self, line: str) -> str:
        line = clean_text(visible(line)).replace("\t", "  ")
        for home in self._homes:
            line = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", line)
        for name, shown in self._names:
            line = name.sub(shown, line)
        return line


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
