"""The project of a chat as its page sees it: files as text, and the results of a plain search.

Nothing outside of its folder is read, and no link leads there.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from conductor.editor.urls import path_of
from conductor.errors import UsageError

_MOST_FILE: Final = 1024 * 1024
"""Bytes of a file that is shown or searched."""
_MOST_FILES: Final = 20_000
_MOST_READ: Final = 64 * 1024 * 1024
"""The most bytes of all files that one search reads."""
_MOST_FOUND: Final = 500
_LONGEST: Final = 400
"""Characters of a line that a search shows."""
_SKIPPED: Final = frozenset({"node_modules", "target", "__pycache__", "dist", "build", "venv"})
"""Folders that tools make. Folders whose names begin with a dot are skipped too."""
_WORD: Final = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_DEFINES: Final = (
    r"(?:(?:def|class|fn|func|function|struct|enum|union|trait|interface|type|typedef|module|mod"
    r"|namespace|package|record|protocol|macro_rules!|const|let|var|val|static|\#\s*define)"
    r"\s+(?:[*&]\s*|mut\s+|async\s+|\([^)\n]{1,80}\)\s*)?)"
)
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7})(?: .*)?$", re.MULTILINE)


class Project:
    """The files below a folder."""

    def __init__(self, folder: str) -> None:
        self._root = Path(folder).resolve()

    def file(self, url: str) -> dict[str, str]:
        """A file as text, by its URL or its path. Raises `UsageError`."""
        path = self._path(url)
        text = _text(path)
        if text is None:
            raise UsageError(
                f"`{self._short(path)}` is no text of at most {_MOST_FILE >> 20} MiB", ""
            )
        return {"text": text, "path": self._short(path), "url": path.as_uri()}

    def references(self, word: str) -> dict[str, Any]:
        """Where a word stands. Raises `UsageError`."""
        return self._search(rf"(?<![\w$]){re.escape(_word(word))}(?![\w$])")

    def definitions(self, word: str) -> dict[str, Any]:
        """The places where a word stands behind a word that defines, or gets a value at the
        beginning of a line. Raises `UsageError`."""
        name = re.escape(_word(word))
        return self._search(
            rf"(?m)(?:(?<![\w$]){_DEFINES}(?P<one>{name})(?![\w$])"
            rf"|^(?P<other>{name})\s*(?::[^=\n]{{1,200}})?:?=(?!=))"
        )

    def diagnostics(self, url: str) -> dict[str, Any]:
        """The errors in a file, or in all: conflicts that nobody has settled, JSON and TOML that
        cannot be read. Raises `UsageError`."""
        paths = iter([self._path(url)]) if url else self._files()
        found: list[dict[str, Any]] = []
        for path, text in _read(paths):
            for start, end, message in _wrong(path, text):
                found.append(
                    {**_at(path, text, start, end), "severity": "error", "message": message}
                )
                if len(found) == _MOST_FOUND:
                    return {"found": found, "cut": True}
        return {"found": found, "cut": False}

    # -- files ---------------------------------------------------------------------------------

    def _path(self, url: str) -> Path:
        path_there = path_of(url)
        if path_there is None and ("://" in url or not url or "\0" in url):
            raise UsageError(f"`{url[:200]}` is no file of this machine", "")
        name = url if path_there is None else path_there
        try:
            path = (self._root / name).resolve()
        except (OSError, RuntimeError, ValueError):
            raise UsageError(f"`{url[:200]}` is no path", "") from None
        if not path.is_relative_to(self._root):
            raise UsageError(f"`{name[:200]}` is outside of the folder of the chat", "")
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            raise UsageError(f"there is no file `{self._short(path)[:200]}`", "")
        return path

    def _short(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _files(self) -> Iterator[Path]:
        count = 0
        for folder, folders, names in os.walk(self._root):
            folders[:] = sorted(
                name for name in folders if name not in _SKIPPED and not name.startswith(".")
            )
            for name in sorted(names):
                count += 1
                if count > _MOST_FILES:
                    return
                path = Path(folder, name)
                if not path.is_symlink() and os.path.isfile(path):
                    yield path

    def _search(self, pattern: str) -> dict[str, Any]:
        wanted = re.compile(pattern)
        found: list[dict[str, Any]] = []
        for path, text in _read(self._files()):
            for match in wanted.finditer(text):
                name = match.lastgroup or 0
                found.append(_at(path, text, match.start(name), match.end(name)))
                if len(found) == _MOST_FOUND:
                    return {"found": found, "cut": True}
        return {"found": found, "cut": False}


def _word(word: str) -> str:
    if len(word) > 200 or not _WORD.fullmatch(word):
        raise UsageError(f"`{word[:80]}` is no name", "name a function, a class, a variable …")
    return word


def _read(paths: Iterator[Path]) -> Iterator[tuple[Path, str]]:
    left = _MOST_READ
    for path in paths:
        text = _text(path)
        if text is not None:
            left -= len(text)
            if left < 0:
                return
            yield path, text


def _text(path: Path) -> str | None:
    """The text of a file; None: it is large, or no text."""
    try:
        with path.open("rb") as file:
            held = file.read(_MOST_FILE + 1)
        text = held.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if len(held) > _MOST_FILE or "\0" in text else text


def _at(path: Path, text: str, start: int, end: int) -> dict[str, Any]:
    """A place in a file, and the line that it is in."""
    begin = text.rfind("\n", 0, start) + 1
    behind = text.find("\n", start)
    line = text[begin : behind if behind >= 0 else len(text)].rstrip("\r")
    return {
        "url": path.as_uri(),
        "start": _position(text, start),
        "end": _position(text, end),
        "text": line[:_LONGEST],
    }


def _position(text: str, at: int) -> dict[str, int]:
    begin = text.rfind("\n", 0, at) + 1
    return {"line": text.count("\n", 0, at) + 1, "column": at - begin + 1}


def _wrong(path: Path, text: str) -> Iterator[tuple[int, int, str]]:
    for match in _CONFLICT.finditer(text):
        yield match.start(), match.end(), "a conflict that nobody has settled"
    try:
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".toml":
            tomllib.loads(text)
    except json.JSONDecodeError as error:
        yield error.pos, error.pos, f"JSON: {error.msg}"
    except tomllib.TOMLDecodeError as error:
        at = _offset(text, str(error))
        yield at, at, f"TOML: {error}"
    except RecursionError:
        yield 0, 0, "it nests too deeply"
    except ValueError:
        yield 0, 0, "it has a number that is too long"


def _offset(text: str, words: str) -> int:
    """The place that an error of TOML names; the end of the text where it names none."""
    named = re.search(r"line (\d+), column (\d+)", words)
    if named is None:
        return len(text)
    begin = sum(map(len, text.splitlines(keepends=True)[: int(named[1]) - 1]))
    return min(begin + int(named[2]) - 1, len(text))
