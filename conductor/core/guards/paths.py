"""Whether a path lies inside folders, by its spelling alone: symbolic links are not followed."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from conductor.patterns import lazy_pattern

_ROUNDS: Final = 5
"""How often a path may be percent-encoded upon itself; encoded more often, it lies nowhere."""

_escape = lazy_pattern(rb"%([0-9A-Fa-f]{2})")
_control = lazy_pattern(r"[\x00-\x1f\x7f]")
_drive = lazy_pattern(r"/?([A-Za-z]:)")
_elsewhere = lazy_pattern(r"~(?:[A-Za-z_/\\]|$)|\$[A-Za-z_{]|%[A-Za-z_]+%")
"""Somebody's home, or a variable for which a shell puts a path."""
_slash = lazy_pattern(r"%(?:2f|5c)", re.IGNORECASE)
_up = lazy_pattern(r"\.\.(?:[?#]|$)")
"""A step up; some programs cut off the part from `?` and `#` on."""
_Form: TypeAlias = Literal["NFC", "NFKC"]
_FORMS: Final[tuple[_Form, ...]] = ("NFC", "NFKC")
"""How programs write the letters of a name: a path lies inside however it is written."""


def decoded(text: str) -> list[str]:
    """A text, and its percent-decoded forms, until nothing is left to decode.

    Empty where that takes too long.
    """
    rounds = [text]
    while _escape.search(raw := rounds[-1].encode(errors="surrogatepass")):
        if len(rounds) > _ROUNDS:
            return []
        plain = _escape.sub(lambda escape: bytes([int(escape[1], 16)]), raw)
        rounds.append(plain.decode(errors="replace"))
    return rounds


def inside(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path, however it is read, lies inside one of the folders.

    An absolute path does if it begins with a folder and does not climb out of the folder. A
    relative path does if it does not climb above the place where it begins: at no step, so that
    it may be cut anywhere.
    """
    return all(_lies(path, folders, form) for form in _FORMS)


def climbs(path: str) -> bool:
    """Whether a path, however it is read, goes up further than down at any step."""
    return any((steps := _read(path, form)) is None or _goes_up(steps) for form in _FORMS)


def is_absolute(path: str) -> bool:
    """Whether a path says where it begins."""
    text = path.replace("\\", "/")
    return text.startswith("/") or _drive.match(text) is not None


def _lies(path: str, folders: tuple[str, ...], form: _Form) -> bool:
    plain = _plain(path, form)
    if plain is None or _control.search(plain) or _elsewhere.match(plain):
        return False
    steps = _steps(plain)
    if steps is None:
        return False
    if not is_absolute(plain):
        return not _goes_up(steps)
    return any(
        steps[: len(home)] == home and not _goes_up(steps[len(home) :])
        for home in (_home(folder, form) for folder in folders)
        if home is not None
    )


@lru_cache(maxsize=16_384)  # one for each folder of 4,096 sessions, and more
def _home(folder: str, form: _Form) -> list[str] | None:
    plain = _plain(folder, form) or ""
    whole = posixpath.normpath(plain.replace("\\", "/"))
    return _steps(whole) if is_absolute(whole) else None


def _read(path: str, form: _Form) -> list[str] | None:
    plain = _plain(path, form)
    return None if plain is None else _steps(plain)


def _plain(path: str, form: _Form) -> str | None:
    """A path with nothing left to decode; None where it says different things on the way: with an
    encoded slash in it, a step up leads elsewhere."""
    rounds = decoded(path)
    if not rounds:
        return None
    plain = unicodedata.normalize(form, rounds[-1])
    return None if ".." in plain and any(map(_slash.search, rounds)) else plain


def _steps(path: str) -> list[str] | None:
    """The steps of a path, a drive or nothing first where it is absolute.

    With backslashes or a drive it may be one of Windows, where case does not count. Nobody needs
    `..` there, nor steps of dots and spaces, nor a path below the present folder of a drive: None.
    """
    text = path.replace("\\", "/")
    drive = _drive.match(text)
    rest = text[drive.end() :] if drive else text
    steps = [step for step in rest.split("/") if step not in ("", ".")]
    windows = drive is not None or "\\" in path
    if windows and any(step.strip(" .") == "" for step in steps):
        return None
    if drive is None:
        return ["", *steps] if text.startswith("/") else steps
    return None if rest and rest[0] != "/" else [step.casefold() for step in (drive[1], *steps)]


def _goes_up(steps: list[str]) -> bool:
    depth = 0
    for step in steps:
        depth += -1 if _up.match(step) else 1
        if depth < 0:
            return True
    return False
