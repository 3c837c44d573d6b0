"""Writes lock files. Only `conductor lock` loads this: it takes its time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import tomlkit
from tomlkit.items import Table

import wasm_host
from conductor.author.caged import CagedReader
from conductor.core.dialects import CHANNEL
from conductor.core.policy.rules import TRUSTED
from conductor.errors import UsageError
from conductor.spec.catalog import Spec
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.lock.values import VERSION, Entry

_BY_SHAPE: Final = ("core", "component")
_OF_PROXIES: Final = ("services", "rights", "grants", "fails", "on_violation", "on_failure")
_OF_POLICED: Final = ("rights", "grants", "fails")
_LONG: Final = ("imports", "rights", "files")
"""Lists with a line for each of what is in them."""

_NOT_PINNED: Final = {
    "command": "Not pinned: what the program loads when it runs, such as the libraries of its "
    "interpreter, what npx or uvx download, and its own updates.",
    "python": "Not pinned: what the module imports.",
}
_FREE: Final = (
    "Not pinned: agents update themselves. A change is reported; --lock-agent refuses it."
)


def described(entry: Entry, spec: Spec) -> Entry:
    """The entry with what a reader wants to know of a module. Raises `UsageError` for one that
    would be refused."""
    if spec.wasm is None or spec.script:
        return entry
    try:
        with CagedReader() as reader:
            info = reader.module(spec.wasm, {**DEFAULT_LIMITS, **spec.limits}["module_bytes"])
    except wasm_host.LoadError as error:
        raise UsageError(f"{spec.label('proxy')}: {error}", error.hint) from None
    if info.digest != entry.sha256:
        raise UsageError(
            f"{spec.label('proxy')} changed while it was being locked",
            "wait for its build to end, then lock it",
        )
    if info.problems:
        raise UsageError(
            f"{spec.label('proxy')} would be refused: it {'; it '.join(info.problems)}",
            "`conductor inspect` says more",
        )
    return msgspec.structs.replace(
        entry,
        size=info.size,
        carrier=info.carrier,
        imports=[f"{module}.{name}" if name else module for module, name, _ in info.imports],
        dialect=CHANNEL.name if info.carrier in _BY_SHAPE else entry.dialect,
    )


def document(entries: Sequence[Entry], head: Iterable[str]) -> str:
    """The text of a lock file; `head` are the lines of the comment it begins with."""
    made = tomlkit.document()
    for line in head:
        made.add(tomlkit.comment(_printable(line)))
    made.add(tomlkit.nl())
    made.add("version", tomlkit.item(VERSION))
    tables = tomlkit.aot()
    for entry in entries:
        tables.append(_table(entry))
    made.add("component", tables)
    return tomlkit.dumps(made)


def _table(entry: Entry) -> Table:
    table = tomlkit.table()
    for name in Entry.__struct_fields__:
        value = getattr(entry, name)
        if not _left_out(entry, name, value):
            table.add(name, _item(name, value))
        if name == "sha256":
            for line in _remarks(entry):
                table.add(tomlkit.comment(line))
    return table


def _left_out(entry: Entry, name: str, value: Any) -> bool:
    if value is None or (name == "pinned" and entry.role != "agent"):
        return True
    if (name in _OF_PROXIES and entry.role != "proxy") or (
        name in _OF_POLICED and entry.profile == TRUSTED
    ):
        return True
    return name in ("files", "env", "limits") and not value


def _remarks(entry: Entry) -> Iterable[str]:
    if not entry.pinned:
        yield _FREE
    elif entry.kind in _NOT_PINNED:
        yield _NOT_PINNED[entry.kind]


def _item(name: str, value: Any) -> Any:
    plain = msgspec.to_builtins(value)
    if isinstance(plain, list):
        array = tomlkit.array()
        for one in plain:
            array.append(_inline(one) if isinstance(one, dict) else one)
        return array.multiline(name in _LONG and bool(plain))
    if name == "env":
        return _inline(plain)
    return tomlkit.item(plain)


def _inline(held: dict[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(held)
    return table


def _printable(line: str) -> str:
    """A line as it may stand in a comment."""
    return "".join(char if char.isprintable() else " " for char in line)


def save(path: str, text: str) -> None:
    """Puts a lock file in place, whole or not at all. Raises `UsageError`."""
    path = os.path.realpath(path)
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(fresh, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", "name another file with --output"
        ) from None
