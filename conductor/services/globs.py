"""Globs over relative paths: `*` and `?` within a name, `**` over any number of folders. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_SHOWN: Final = r"(?!\.)[^/]+"
"""One name that is not hidden."""


@lru_cache(maxsize=256)
def compile_glob(glob: str) -> re.Pattern[str]:
    """A pattern that fully matches the paths a glob stands for.

    `**` is a whole part of the path and stands for no folder as well; `[` has no special meaning.
    As in a shell, names that begin with a dot are only meant where the dot is written: `**` is not
    `.env`, nor anything below `.git`.
    Raises `ValueError` for a glob that is empty, absolute or goes up.
    """
    parts = glob.split("/")
    if not glob or parts[0] == "" or ".." in parts or "\0" in glob:
        raise ValueError(f"`{glob}` is no glob of paths below a folder")
    if "" in parts:
        raise ValueError(f"`{glob}` has an empty part")
    pattern = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            pattern += f"{_SHOWN}(?:/{_SHOWN})*" if last else f"(?:{_SHOWN}/)*"
        else:
            if "**" in part:
                raise ValueError(f"`{glob}`: `**` is a whole part of a path")
            unhidden = r"(?!\.)" if part[0] in "*?" else ""
            pattern += unhidden + "".join(map(_one, part)) + ("" if last else "/")
    return re.compile(pattern, re.DOTALL)


def _one(char: str) -> str:
    return {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))


def matches(globs: tuple[str, ...], path: str) -> bool:
    """Whether one of the globs stands for `path`, which is relative and has `/` in it."""
    return any(compile_glob(glob).fullmatch(path) for glob in globs)
