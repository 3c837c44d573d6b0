"""Globs over relative paths: `*` and `?` within a name, `**` over any number of folders. Pure.

A component chooses globs, and names of files may be anybody's, so a glob is matched in time that
grows with the path, however many stars it has: what stands between two stars is taken where it is
found first and never looked for again. That loses nothing: the later star would have spanned the
difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

MOST: Final = 1024
"""Characters of a glob."""

_SHOWN: Final = r"(?!\.)[^/]+"
"""One name that is not hidden."""

_FOLDERS: Final = "**"


@lru_cache(maxsize=256)
def compile_glob(glob: str) -> re.Pattern[str]:
    """A pattern that fully matches the paths a glob stands for.

    `**` is a whole part of the path and stands for no folder as well; `[` has no special meaning.
    As in a shell, names that begin with a dot are only meant where the dot is written: `**` is not
    `.env`, nor anything below `.git`.
    Raises `ValueError` for a glob that is empty, absolute, too long or goes up.
    """
    if len(glob) > MOST:
        raise ValueError(f"a glob has at most {MOST:,} characters, not {len(glob):,}")
    parts = glob.split("/")
    if not glob or parts[0] == "" or ".." in parts or "\0" in glob:
        raise ValueError(f"`{glob}` is no glob of paths below a folder")
    if "" in parts:
        raise ValueError(f"`{glob}` has an empty part")
    if any(_FOLDERS in part and part != _FOLDERS for part in parts):
        raise ValueError(f"`{glob}`: `**` is a whole part of a path")
    first, *others = _groups(parts)
    pattern = "".join(f"{name}/" for name in first)
    for group in others[:-1]:
        if group:  # else `**/**`, which is `**`
            pattern += f"(?>(?:{_SHOWN}/)*?{''.join(f'{name}/' for name in group)})"
    if not others:
        pattern = pattern[:-1]
    elif others[-1]:
        pattern += f"(?:{_SHOWN}/)*{'/'.join(others[-1])}"
    else:
        pattern += f"{_SHOWN}(?:/{_SHOWN})*"
    return re.compile(pattern, re.DOTALL)


def _groups(parts: list[str]) -> Iterator[list[str]]:
    """Patterns of the names before the first `**`, between two of them, and after the last."""
    group: list[str] = []
    for part in parts:
        if part == _FOLDERS:
            yield group
            group = []
        else:
            group.append(_name(part))
    yield group


def _name(part: str) -> str:
    """A pattern for one name."""
    unhidden = r"(?!\.)" if part[0] in "*?" else ""
    first, *others = ("".join(map(_one, piece)) for piece in part.split("*"))
    found = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    last = f"[^/]*{others[-1]}" if others else ""
    return f"{unhidden}{first}{found}{last}"


def _one(char: str) -> str:
    return "[^/]" if char == "?" else re.escape(char)


def matches(globs: tuple[str, ...], path: str) -> bool:
    """Whether one of the globs stands for `path`, which is relative and has `/` in it."""
    return any(compile_glob(glob).fullmatch(path) for glob in globs)
