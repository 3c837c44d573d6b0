"""A component as a JSON object: `{"command": "python", "args": ["proxy.py"], "grant": "clock"}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.errors import UsageError

_HINT: Final = (
    'an object has "command" (with "args" and "env"), "wasm" or "name", '
    'e.g. {"command": "python", "args": ["my_proxy.py"]}; every option may be a key of it'
)


class Written(msgspec.Struct):
    """What the object says. Exactly one of `command`, `wasm` and `component` is set."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] | None = None
    wasm: str | None = None
    component: str | None = None
    """What it would be called on a command line, without options."""
    options: list[tuple[str, Any]] = []
    """All other keys, for `conductor.spec.component_options.read`."""


_KEYS: Final = ("command", "args", "env", "wasm", "component")


def read(text: str) -> Written:
    """Reads an object. Raises `UsageError`."""
    try:
        held = msgspec.json.decode(text, type=dict[str, Any])
        said = {key: held.pop(key) for key in _KEYS if key in held}
        given = msgspec.convert(said, Written)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"cannot read component {text[:80]}: {error}", _HINT) from None
    kinds = [one for one in (given.command, given.wasm, given.component) if one is not None]
    if not kinds and isinstance(held.get("name"), str):
        given.component = held.pop("name")
    elif len(kinds) != 1:
        raise UsageError("a component object says exactly once what it is", _HINT)
    given.options = _options(held)
    return given


def _options(held: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Options by key; `config` and `limits` are objects here."""
    options: list[tuple[str, Any]] = []
    for key, value in held.items():
        if key == "config" and isinstance(value, dict):
            options += [(f"config.{inner}", _text(each)) for inner, each in value.items()]
        elif key == "limits" and isinstance(value, dict):
            options += [(f"limit.{inner}", each) for inner, each in value.items()]
        else:
            options.append((key, value))
    return options


def _text(value: Any) -> Any:
    """A setting as options take it: text stays text, whatever it looks like."""
    return msgspec.json.encode(value).decode() if isinstance(value, str) else value
