"""Reads and checks the options that only `conductor exec` has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from conductor.cli import client_files, client_permissions, exec_, fast, options
from conductor.errors import UsageError

FS: Final = fast.one_of(*client_files.MODES)
FORMAT: Final = fast.one_of(*exec_.FORMATS)
_MODES: Final = fast.one_of(*client_permissions.MODES, *client_permissions.SYNONYMS)


def prompt(text: str) -> str:
    """The prompt's text, read from standard input for `-`. Raises `UsageError`."""
    if text == "-":
        text = sys.stdin.buffer.read().decode(errors="replace")
    if not text.strip():
        raise UsageError("the prompt is empty", 'give one: -p "what day is it?"')
    return text


def folder(text: str) -> str:
    """The absolute path of a folder that exists. Raises `UsageError`."""
    path = Path(text).absolute()
    if not path.is_dir():
        raise UsageError(f"no such folder: `{text}`", "--cwd names the session's directory")
    return str(Path(os.path.normpath(path)))


def time_limit(text: str | None) -> float | None:
    """Seconds above zero, or None for no limit. Raises `UsageError`."""
    if text is None:
        return None
    number = options.read("--timeout", text, fast.seconds)
    if number == 0:
        raise UsageError("`--timeout 0` leaves no time for an answer", "leave it out for no limit")
    return number


def permissions(text: str | None, *, prompt_from_stdin: bool) -> str:
    """One of `client_permissions.MODES`: by default `ask` where there is somebody to ask.

    Raises `UsageError`.
    """
    terminal = os.isatty(0) and os.isatty(2) and not prompt_from_stdin and hasattr(os, "ttyname")
    if text is None:
        return "ask" if terminal else "deny"
    mode = options.read("--permissions", text, _MODES)
    mode = client_permissions.SYNONYMS.get(mode, mode)
    if mode == "ask" and not terminal:
        raise UsageError(
            "there is no terminal to ask for permission on",
            "use --permissions deny or --permissions allow-once",
        )
    return mode
