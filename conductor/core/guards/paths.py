"""Whether a path lies inside folders, by its spelling alone: symbolic links are not followed."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ROUNDS: Final = 5
"""How often a path may be percent-encoded upon itself; one that is more often lies nowhere."""

_escape = re.compile(rb"%([0-9A-Fa-f]{2})")
_control = re.compile(r"[\x00-\x1f\x7f]").search
_drive = re.compile(r"/?([A-Za-z]:)(?=/|$)").match
_elsewhere = re.compile(r"~(?:[A-Za-z_/]|$)|\$[A-Za-z_{(]|%[A-Za-z_]+%").match
"""Somebody's home, or what a shell puts in its place."""
_CUTS: Final = ("?", "#")
_DOTS: Final = ("", ".", "..")


def decoded(text: str) -> list[str]:
    """A text, and what it is percent-decoded, until nothing is left to decode.

    Empty where that takes too long.
    """
    rounds = [text]
    while _escape.search(raw := rounds[-1].encode(errors="surrogatepass")):
        if len(rounds) > _ROUNDS:
            return []
        plain = _escape.sub(lambda found: bytes([int(found[1], 16)]), raw)
        rounds.append(plain.decode(errors="replace"))
    return rounds


def inside(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path, however it is read, lies inside one of the folders.

    A relative path does where it does not climb out of where it begins. A path may be read with or
    without what stands behind `?` and `#`, and in compatibility forms of its letters.
    """
    rounds = decoded(path)
    if not rounds:
        return False
    readings = {rounds[-1]}
    for text in rounds:
        for cut in _CUTS:
            readings.update(decoded(text.partition(cut)[0])[-1:])
    return all(
        _lies(one, folders) and (one.isascii() or _lies(_plain(one), tuple(map(_plain, folders))))
        for one in readings
    )


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _lies(path: str, folders: tuple[str, ...]) -> bool:
    if _control(path) or _elsewhere(path):
        return False
    parts = _parts(path)
    if parts is None:
        return False
    if not is_absolute(path):
        return True
    homes = (_parts(folder) for folder in folders if is_absolute(folder))
    return any(home is not None and parts[: len(home)] == home for home in homes)


def is_absolute(path: str) -> bool:
    """Whether a path says where it begins."""
    text = path.replace("\\", "/")
    return text.startswith("/") or _drive(text) is not None


def _parts(path: str) -> list[str] | None:
    """The steps of a path, a drive or nothing first where it is absolute; None if it climbs out.

    With backslashes or a drive it may be one of Windows, where case does not count, and `..` and
    steps of dots and spaces are nobody's need.
    """
    text = path.replace("\\", "/")
    drive = _drive(text)
    steps = ([drive[1]] if drive else [""]) if is_absolute(path) else []
    rest = text[drive.end() :] if drive else text
    first = len(steps)
    windows = drive is not None or "\\" in path
    for step in rest.split("/"):
        if windows and (step.strip(" .") == "" and step not in ("", ".")):
            return None
        if step not in _DOTS:
            steps.append(step)
        elif step == "..":
            if len(steps) > first:
                steps.pop()
            elif not first:
                return None
    return [step.casefold() for step in steps] if drive else steps
