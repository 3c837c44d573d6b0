"""Paths of components that are written in a file: relative ones start from the file's folder.

An editor starts conductor in a folder that nobody knows. So a path in a file means the same
wherever conductor is started. Nothing changes the current folder of a component.
"""

from __future__ import annotations

import os
from typing import Any

from conductor.spec import secrets
from conductor.spec.component_options import Options
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import which

_MARKED = ("./", "../", "~/")


def path(text: str, here: str) -> str:
    """The absolute form of a path; a `/` at its end stays."""
    return os.path.join(here, os.path.expanduser(text).removeprefix("./"))


def word(text: str, here: str) -> str:
    """A component of one word: a path, or a name that stays as it is."""
    scheme, colon, rest = text.partition(":")
    if colon:
        from conductor.transports.remote.address import SCHEMES, between

        if scheme in SCHEMES and SCHEMES[scheme].is_path:
            return ",".join(_socket(one, scheme, here) for one in between(text))
    if colon and (scheme in ("py", "path") or rest.startswith("//")):
        return text
    whole = path(text, here)
    is_file = text.endswith(".wasm") or text == MANIFEST
    if text.endswith(".py"):
        is_file = os.path.exists(whole) or not which(text)
    return whole if "/" in text or text in (".", "..") or is_file else text


def _socket(address: str, scheme: str, here: str) -> str:
    own, _, rest = address.partition(":")
    if own != scheme or not rest or rest.startswith("//"):
        return address
    return f"{scheme}:{path(rest, here)}"


def command(words: list[str], here: str) -> list[str]:
    """A command: its program if that is a path, and the arguments that are marked as paths."""
    program, *arguments = words
    if "/" in program:
        program = path(program, here)
    return [program, *(path(a, here) if _is_marked(a) else a for a in arguments)]


def _is_marked(argument: str) -> bool:
    return argument.startswith(_MARKED) or argument in (".", "..")


def options(written: Options, here: str) -> Options:
    """The options of a component: its file of settings, and the files that hold secrets."""
    return [(key, _option(key, value, here)) for key, value in written]


def _option(key: str, value: Any, here: str) -> Any:
    if key == "token" and isinstance(value, str):
        return secrets.anchored({secrets.KEY: value}, here)[secrets.KEY]
    if key == "ca" and isinstance(value, str) and value:
        return path(value, here)
    if key == "config" and isinstance(value, str) and value and not value.startswith('"'):
        return path(value, here)
    return secrets.anchored(value, here) if isinstance(value, dict | list) else value
