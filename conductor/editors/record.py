"""The changes by `conductor setup` in the settings of editors, so that they can be taken back.

One private file for the user. It is written before the settings are, so that no text of ours is
ever in them without a record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.editors import jsonc
from conductor.editors.jsonc import Seam
from conductor.errors import UsageError
from conductor.spec import paths, private_files, untrusted_files

VERSION: Final = 1
_MOST: Final = 8 << 20


class Container(msgspec.Struct, frozen=True):
    """An object or a list that `setup` has made for its entries."""

    keys: tuple[str, ...]
    """The keys that lead to it."""
    seam: Seam
    was: str = ""
    """The text that stood in its place, such as `null`."""


class Kept(msgspec.Struct, frozen=True):
    """One entry."""

    written: str
    """The text that `setup` wrote last."""
    seam: Seam | None = None
    """The seam around it, if `setup` has added it."""
    was: str = ""
    """The entry that was there before, where `setup` has changed it."""
    wraps: bool = False
    """Whether the conductor stands in front of the entry's own command."""


class Settings(msgspec.Struct):
    """One file of settings."""

    target: str
    created: bool = False
    """Whether `setup` has made the file."""
    folders: list[str] = []
    """The folders that `setup` has made for it, the innermost first."""
    backup: str = ""
    """The copy of the file before the first change."""
    containers: list[Container] = []
    entries: dict[str, Kept] = {}


class Record(msgspec.Struct):
    """All files of settings, by their paths."""

    version: int = VERSION
    files: dict[str, Settings] = {}


def path() -> str:
    """The file of the record."""
    return os.path.join(paths.editors(), "record.json")


def load() -> Record:
    """The record; an empty one if there is no file. Raises `UsageError` for a file that cannot be
    read."""
    place = path()
    try:
        private_files.refuse_what_others_write(place)
        content = untrusted_files.read(place, _MOST, links=False)
        record = msgspec.json.decode(content, type=Record)
        for settings in record.files.values():
            for kept in settings.entries.values():
                _refuse_what_is_no_entry(kept)
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or f"it is damaged: {error}"
        raise _unusable(place, why) from None
    if record.version != VERSION:
        raise _unusable(place, f"it is of version {record.version}")
    return record


def _refuse_what_is_no_entry(kept: Kept) -> None:
    """Raises `ValueError` for texts that must not get into anybody's settings."""
    for text in (kept.written, kept.was):
        value = jsonc.parse(text)
        if text and (value is None or not value.is_object):
            raise ValueError("an entry in it is no object")


def save(record: Record) -> None:
    """Puts the record in place of the present one. Raises `UsageError`."""
    place = path()
    try:
        private_files.make_folder(place)
        private_files.replace(place, msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:
        raise UsageError(
            f"the changes of `setup` cannot be recorded in `{place}`: {error.strerror}",
            "make its folder writable, or set XDG_STATE_HOME to one that is",
        ) from None


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits until no other `setup` changes anything. Raises `UsageError` after a while."""
    place = f"{path()}.lock"
    with contextlib.ExitStack() as stack:
        try:
            private_files.make_folder(place)
            stack.enter_context(private_files.alone(place))
            private_files.refuse_what_others_write(place)  # the record may not be there yet
        except OSError as error:
            raise UsageError(
                f"`setup` cannot lock `{place}`: {error.strerror}",
                "wait for another `conductor setup` to end, or make the folder writable",
            ) from None
        yield


def _unusable(place: str, why: str) -> UsageError:
    return UsageError(
        f"the changes of `setup` so far cannot be read from `{place}`: {why}",
        "put that right, or move the file away: then `--remove` does not know what was there "
        "before, but the copies beside it in `backups` do",
    )
