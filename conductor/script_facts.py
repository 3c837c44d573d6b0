"""What a Python proxy says of itself, read off its source; nothing of it is run."""

from __future__ import annotations

import ast
from typing import Any

import msgspec

from conductor.script_settings import Field, fields
from conductor.scripts import Script


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Proxy(…)` that are written down as such."""

    version: str | None = None
    description: str | None = None
    profile: str | None = None
    wants: dict[str, str] = {}
    settings: dict[str, Field] = {}


def declared(script: Script, *, settings: bool = True) -> Declared:
    """What the script's `Proxy(…)` says; nothing where it is computed, or cannot be read.

    Without `settings` these are left out, which takes less time.
    """
    try:
        tree = ast.parse(script.files[script.main])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _named(node.func) == "Proxy":
                found = msgspec.convert(_arguments(node), Declared)
                if not settings:
                    return found
                return msgspec.structs.replace(found, settings=_settings(node, script))
    except (SyntaxError, ValueError, RecursionError, MemoryError, msgspec.ValidationError):
        return Declared()
    return Declared()


def _settings(node: ast.Call, script: Script) -> dict[str, Field]:
    """Those of the class that is given as `config`."""
    name = next((_named(one.value) for one in node.keywords if one.arg == "config"), "")
    others = [text for path, text in script.files.items() if path != script.main]
    return fields([script.files[script.main], *others], name) if name else {}


def _named(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _arguments(node: ast.Call) -> dict[str, Any]:
    found = {}
    for one in node.keywords:
        if one.arg in Declared.__struct_fields__ and one.arg != "settings":
            try:
                found[one.arg] = ast.literal_eval(one.value)
            except ValueError:
                continue  # an expression; its value is not known before it runs
    return found
