"""What a Python proxy says of itself, read off its source; nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from conductor.spec.python_guest.scripts import Script
from conductor.spec.python_guest.settings import MOST_READ, UNREADABLE, Field, fields, too_much

_PROFILE: Final = "profile"


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Proxy(…)` that are written down as such."""

    version: str | None = None
    description: str | None = None
    profiles: tuple[str, ...] = ()
    """Every profile that is declared, once each; what is no text as it is written."""
    hidden: bool = False
    """Whether none is, but the source may name one in a way that cannot be read off it."""
    wants: dict[str, str] = {}
    settings: dict[str, Field] = {}


class _Read(NamedTuple):
    """What sources hold: the calls of `Proxy`, and whether a profile is named outside of them."""

    calls: list[ast.Call]
    elsewhere: bool


def declared(script: Script, *, settings: bool = True) -> Declared:
    """What `Proxy(…)` says in a script; nothing where it is computed, or cannot be read.

    Without `settings` these are left out, which takes less time.
    """
    others = [text for path, text in script.files.items() if path != script.main]
    found = _read([script.files[script.main]])
    if not found.calls:
        further = _read(others)
        found = _Read(further.calls, found.elsewhere or further.elsewhere)
    said: dict[str, Any] = {}
    profiles: dict[str, None] = {}
    hidden = found.elsewhere
    wants: dict[str, str] = {}
    for one in (keyword for call in found.calls for keyword in call.keywords):
        try:
            value = ast.literal_eval(one.value) if one.arg is not None else None
            if one.arg in ("version", "description"):
                said.setdefault(one.arg, _plain(value, str))
            elif one.arg == "wants":
                wants |= _plain(value, dict[str, str])
            elif one.arg == _PROFILE and value is not None:
                profiles[value if isinstance(value, str) else ast.unparse(one.value)] = None
            hidden = hidden or one.arg is None
        except (*UNREADABLE, msgspec.ValidationError):
            hidden = hidden or one.arg == _PROFILE
    return Declared(
        profiles=tuple(profiles),
        hidden=hidden and not profiles,
        wants=wants,
        settings=_settings(found.calls, script, others) if settings else {},
        **said,
    )


def _read(sources: Iterable[str]) -> _Read:
    calls = []
    elsewhere = False
    left = MOST_READ
    for source in sources:
        try:
            if too_much(source, left):
                raise ValueError("too much to be read")
            left -= len(source)
            tree = ast.parse(source)
        except UNREADABLE:
            elsewhere = elsewhere or _PROFILE in source
            continue
        own: set[ast.keyword] = set()
        for node in ast.walk(tree):  # a call comes before what is in it
            if isinstance(node, ast.Call) and _named(node.func) == "Proxy":
                calls.append(node)
                own.update(node.keywords)
            elif isinstance(node, ast.keyword):
                elsewhere = elsewhere or (node.arg == _PROFILE and node not in own)
            elif isinstance(node, ast.Constant):
                elsewhere = elsewhere or node.value == _PROFILE
    return _Read(calls, elsewhere)


def _plain(value: Any, kind: Any) -> Any:
    """A value that is of a kind and can be passed on. Raises one of `UNREADABLE`, or
    `ValidationError`."""
    found = msgspec.convert(value, kind)
    msgspec.json.encode(found)  # half a character cannot be
    return found


def _settings(calls: Iterable[ast.Call], script: Script, others: list[str]) -> dict[str, Field]:
    """Those of the class that is given as `config`."""
    given = (_named(one.value) for call in calls for one in call.keywords if one.arg == "config")
    name = next(given, "")
    return fields([script.files[script.main], *others], name) if name else {}


def _named(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
