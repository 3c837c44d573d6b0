"""The manifests of the bundled components as JSON: a reader of TOML takes 5 ms of a start.

`components/manifests.json` has of each bundled component the text of `component.toml` and its
tables. A text that has changed since is read as TOML, so the file never contradicts the manifest.
`python -m tests.docs.tables` draws it anew.
"""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from conductor.spec import paths

FILE: Final = "manifests.json"
"""In the folder of the bundled components."""


class Entry(msgspec.Struct, frozen=True):
    """One manifest."""

    text: str
    tables: msgspec.Raw


def tables(name: str, text: bytes) -> dict[str, Any] | None:
    """The tables of the manifest of the bundled component `name`, which has this text; None: the
    file does not have this text."""
    try:
        with open(os.path.join(paths.components(), FILE), "rb") as file:
            entries = msgspec.json.decode(file.read(), type=dict[str, msgspec.Raw])
        entry = msgspec.json.decode(entries[name], type=Entry)
        if entry.text.encode() != text:
            return None
        found: dict[str, Any] = msgspec.json.decode(entry.tables)
    except (OSError, KeyError, ValueError):  # a `DecodeError` is a ValueError
        return None
    return found


def encoded(manifests: dict[str, tuple[str, dict[str, Any]]]) -> bytes:
    """The file of these manifests, by name: texts and tables."""
    lines = (
        msgspec.json.encode(name)
        + b":"
        + msgspec.json.encode(Entry(text, msgspec.Raw(msgspec.json.encode(tables))))
        for name, (text, tables) in sorted(manifests.items())
    )
    return b"{\n" + b",\n".join(lines) + b"\n}\n"
