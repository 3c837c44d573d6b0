"""The authors of the lines of a file, from the files of the component `attribution` in the project.

The component and this module read its files by the same code, `components/attribution/lines.py`.
The files lie in the project, so anybody may have written them: they are bounded and checked.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import pydantic

from conductor.errors import ConductorError, UsageError
from conductor.spec import paths, untrusted_files

LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a file that is looked at."""
_RECORDS: Final = 4 * 1024 * 1024
_ADD: Final = "`attribution` in the chain keeps them: `conductor agent attribution AGENT`"
_HALF: Final = 0.5
"""The part of a record's lines that a renamed file must still have."""


class Edit(pydantic.BaseModel):
    """An edit, as a record names it."""

    at: str
    """When it was made, ISO 8601."""
    agent: str | None = None
    """Its name and version."""
    model: str | None = None
    prompt: str = ""
    """The beginning of the prompt that asked for the edit."""
    proxy: str | None = None
    """The component that sent the prompt, if the user did not."""
    session: str = ""


class Range(pydantic.BaseModel):
    """Neighbouring lines of one edit."""

    start: int
    """The first line, from 1."""
    end: int
    """The last line."""
    edit: Edit | None
    """None: nobody knows whose they are."""


class Blame(pydantic.BaseModel):
    """The authors of the lines of a file."""

    file: str
    record: str | None
    """The path in the project whose record names the authors: another path for a file that was
    renamed; None: there is no record."""
    ranges: list[Range]


def blame(path: str, text: str | None = None) -> Blame:
    """The authors of the lines of a file.

    Args:
        path: The file.
        text: The content of the file, if it is not the content on disk.

    Raises:
        ConductorError: The file cannot be read, is no text, or the project has no records.
    """
    place = os.path.abspath(path)
    root = _root(place)
    text = _text(place) if text is None else text
    now = _lines().digests(text)
    name = os.path.relpath(place, root)
    found = _file(root, name)
    record, (runs, edits) = (name, found) if found else _renamed(root, now)
    if record is None:
        return Blame(file=path, record=None, ranges=[])
    owners, _ = _lines().moved(runs, now)
    held = [
        Range(start=start, end=end, edit=edits.get(edit))
        for start, end, edit in _lines().ranges(owners)
    ]
    return Blame(file=path, record=record, ranges=held)


@functools.cache
def _lines() -> ModuleType:
    """The component's module."""
    path = os.path.join(paths.components(), "attribution", "lines.py")
    spec = importlib.util.spec_from_file_location("conductor_attribution_lines", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _root(place: str) -> str:
    """The innermost folder above a file that has records."""
    folder = os.path.dirname(place)
    while not os.path.isdir(os.path.join(folder, _lines().FOLDER)):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            raise UsageError(
                f"`{place}`: no folder above it has records of edits (`{_lines().FOLDER}`)", _ADD
            )
    return folder


def _text(place: str) -> str:
    try:
        return untrusted_files.read(place, LARGEST).decode()
    except UnicodeDecodeError:
        raise UsageError(f"`{place}` is no text in UTF-8", "only texts have records") from None
    except OSError as error:
        raise UsageError(
            f"cannot read `{place}`: {error.strerror or error}", "name a file of the project"
        ) from None


_Runs = list[list[Any]]
_Edits = dict[str | None, Edit]


def _file(root: str, name: str) -> tuple[_Runs, _Edits] | None:
    """The record of a path; None: there is none."""
    held = _book(root, _lines().shard(name))
    found = held["files"].get(name)
    return None if found is None else (found["lines"], _edits(held))


def _renamed(root: str, now: list[str]) -> tuple[str | None, tuple[_Runs, _Edits]]:
    """The record of a file that is gone which fits a file without one best."""
    best, most, kept = None, 0, (_Runs(), _Edits())
    for name, runs, held in _records(root):
        if os.path.lexists(os.path.join(root, name)):
            continue
        _, fresh = _lines().moved(runs, now)
        known, same = len(_lines().unpacked(runs)[0]), fresh.count(False)
        if same > most and same >= _HALF * max(known, len(now)):
            best, most, kept = name, same, (runs, _edits(held))
    return best, kept


def _records(root: str) -> Iterator[tuple[str, _Runs, dict[str, Any]]]:
    for letter in _lines().SHARDS:
        held = _book(root, f"{_lines().FOLDER}/lines-{letter}.json")
        for name, one in held["files"].items():
            yield name, one["lines"], held


def _edits(held: dict[str, Any]) -> _Edits:
    found: _Edits = {}
    for name, one in held["edits"].items():
        try:
            found[name] = Edit.model_validate(one)
        except pydantic.ValidationError:
            continue  # its lines are nobody's
    return found


@functools.lru_cache(maxsize=32)
def _book(root: str, name: str) -> dict[str, Any]:
    place = os.path.join(root, name)
    try:
        held: dict[str, Any] = _lines().book(untrusted_files.read(place, _RECORDS).decode())
    except FileNotFoundError:
        held = _lines().book(None)
    except (OSError, ValueError, RecursionError) as error:
        raise ConductorError(
            f"`{place}` cannot be read: {error}", "move it away: new edits are kept anew"
        ) from None
    return held
