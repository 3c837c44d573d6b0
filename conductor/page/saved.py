"""A trace and its page as one file, which opens without conductor and without a network.

Modules do not load from a file, so they are put into one script; a hash in the policy of the page
allows it, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError
from conductor.page.server import STATIC
from conductor.record.turns import reader as turns
from conductor.record.turns.model import Head, Row, Turn, TurnDetail
from conductor.spec.private_files import open_private, reason
from conductor.spec.redaction import redacted

_MOST: Final = 64 * 1024 * 1024
"""The most bytes of data in one page: a browser reads them at once."""
_START: Final = "trace.html"
_MODULE: Final = "trace.js"
_IMPORT: Final = re.compile(
    r'^import (?:\* as (?P<whole>\w+)|\{(?P<names>[^}]*)\}) from "\./(?P<module>\w+)\.js";$',
    re.MULTILINE,
)
_EXPORT: Final = re.compile(
    r"^export (?P<what>(?:async )?function\*? (?P<function>\w+)|class (?P<class>\w+)"
    r"|const (?P<const>\w+))",
    re.MULTILINE,
)

_encode: Final = json_text.encode


class _Held(msgspec.Struct):
    """The data of a saved page."""

    head: Head
    turns: list[Turn]
    details: dict[int, TurnDetail]
    rows: list[Row]
    lines: dict[int, str]
    before: dict[int, int]
    """The event that an event passes on, by its number."""


def save(trace: str, path: str, *, number: int | None = None) -> int:
    """Writes the page of a trace to a new file; its bytes.

    Args:
        trace: The file of the trace.
        path: The file to write, for its owner only.
        number: The turn to save; None: all of them.

    Raises `UsageError`.
    """
    page = written(_held(turns.opened(trace), number))
    try:
        fd = open_private(path, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(fd, "wb") as file:
            file.write(page)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write `{path}`: {reason(error)}", "check the path") from None
    return len(page)


def _held(trace: turns.Reader, number: int | None) -> _Held:
    """All that the page shows. Raises `UsageError` for more than it may hold."""
    if number is not None and not 0 <= number < trace.count:
        raise UsageError(f"there is no turn {number}", f"the turns are 0 to {trace.count - 1}")
    wanted = [turn for turn in trace.turns if number is None or turn.number == number]
    shown = {turn.number for turn in wanted}
    # A turn is found by its place: turns that are not saved are there without their content.
    summaries = [t if t.number in shown else Turn(number=t.number) for t in trace.turns]
    made = _Held(trace.head(), summaries, {}, [], {}, {})
    size = 0
    for turn in wanted:
        made.details[turn.number] = trace.detail(turn.number)
        size += len(_encode(made.details[turn.number]))
        for place, _ in trace.of_turn(turn):
            row = trace.row(place)
            if row is None:
                continue
            made.rows.append(row)
            made.lines[place] = redacted(trace.line(place), most=_MOST).decode("utf-8", "replace")
            before = trace.before(place)
            if before is not None:
                made.before[place] = before
            size += len(made.lines[place])
            if size > _MOST:
                raise UsageError(
                    f"the page would hold more than {_MOST >> 20} MiB",
                    "save one turn with --turn NUMBER, or look at it with `conductor log view`",
                )
    made.rows.sort(key=lambda row: row.n)
    # The texts that are made of the lines, too.
    return json_text.decode(redacted(_encode(made), most=_MOST), type=_Held)


def written(held: Any) -> bytes:
    """The page with its style, its script and this data in it."""
    page, style = _read(_START), _read("style.css")
    script = bundled(_MODULE)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # `<` ends no script where it is an escape; in JSON it only stands in strings.
    data = _encode(held).decode().replace("<", "\\u003c")
    parts = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    end = (
        f'<script type="application/json" id="saved">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    page = page.replace('<link rel="stylesheet" href="style.css">\n', parts)
    page = page.replace(f'<script type="module" src="{_MODULE}"></script>\n', "")
    return json_text.utf8(page.replace("</body>", end))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    with open(os.path.join(STATIC, name), encoding="utf-8") as file:
        return file.read()


def bundled(start: str) -> str:
    """A module and all its imports, as one script: each module in a function of its own."""
    parts: dict[str, str] = {}
    _bundle(start.removesuffix(".js"), parts)
    return '"use strict";\n' + "".join(parts.values())


def _bundle(name: str, parts: dict[str, str]) -> None:
    if name in parts:
        return
    text = _read(f"{name}.js")
    for found in _IMPORT.finditer(text):
        _bundle(found["module"], parts)
    exported = [f["function"] or f["class"] or f["const"] for f in _EXPORT.finditer(text)]
    text = _IMPORT.sub(_imported, text)
    text = _EXPORT.sub(lambda found: found["what"], text)
    names = ", ".join(exported)
    parts[name] = f"const module_{name} = (() => {{\n{text}\nreturn {{ {names} }};\n}})();\n"


def _imported(found: re.Match[str]) -> str:
    module = f"module_{found['module']}"
    if found["whole"]:
        return f"const {found['whole']} = {module};"
    return f"const {{{found['names']}}} = {module};"
