"""A lock file: its contents, its strict reader, and its writer.

`Lock` is its one declaration (`conductor.spec.toml_files`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from conductor.core.policy import words
from conductor.errors import UsageError
from conductor.spec import private_files, toml_files, untrusted_files
from conductor.spec.programs import NAME_RULE, is_name
from conductor.spec.toml_files import Mistake

if TYPE_CHECKING:
    import tomlkit.items

VERSION: Final = 3

_REMAKE: Final = "`conductor lock COMPONENT…` writes it anew"
_MOST: Final = 16 * 1024 * 1024
"""Bytes of a lock file; a server with 10,000 tools takes one MiB."""

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script among a command's arguments."""

    path: str
    sha256: Digest


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One component, in the order of the file. A missing key allows nothing.

    Informative only: `program`, `version`, `size`, `carrier`, `imports`, and `source` of modules.
    """

    name: str
    role: Literal["proxy", "agent"]
    kind: Literal["bundled", "module", "script", "command", "python", "remote"]
    source: str
    """A module's path, relative to the lock file unless the user wrote an absolute one; else the
    user's word: a bundled component's name, a program, `py:module:attribute`."""
    version: str | None = None
    signer: str | None = None
    """The signer of the package in which an installed component came."""
    sha256: Digest | None = None
    """Of the module, of the program, or of all files of a bundled program."""
    pinned: bool = True
    """Whether a changed digest is refused, or only reported (agents that update themselves)."""
    size: int | None = None
    carrier: str | None = None
    imports: list[str] | None = None
    program: str | None = None
    """The path of the program."""
    args: list[str] | None = None
    """The arguments of a command, without words that look like a secret."""
    env: dict[str, str] | None = None
    files: list[File] = []
    dialect: str | None = None
    """None: detected when it starts."""
    rights: list[str] = []
    """The words for its rights."""
    meaning: str = ""
    """Their meaning at that time (`words.meaning`)."""
    fails: Literal["closed", "open"] = "closed"
    hold: float | None = None
    on_violation: Literal["pass", "fail"] = "fail"
    enforce: Literal["all", "watch", "watch-rights"] = "all"
    on_failure: str = "fail"
    timeout: float | None = None
    isolation: str | None = None
    config: str | None = None
    """JSON, without values that look like a secret."""
    config_file: str | None = None
    """The file of settings that it reads; the user may change its content."""
    limits: dict[str, int] = {}


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server, with the digests of its offers (`conductor.spec.tools`)."""

    name: str
    owner: str = ""
    """The component that declares it; empty: the client."""
    key: Digest
    """The digest of who serves: the running component, command or URL belongs to it."""
    offers: dict[str, dict[str, Digest]] = {}
    """By the words of kinds, and by names."""


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lock file: components from the client's side on, and the offers of their MCP servers."""

    version: int
    component: list[Entry]
    server: list[Server] = []


# -- reading ---------------------------------------------------------------------------------------


def read(path: str) -> Lock:
    """The lock in a file. Raises `UsageError` with the line of the mistake."""
    return parse(content(path), path)


def content(path: str) -> bytes:
    """The bytes of the file. Raises `UsageError`."""
    try:
        return untrusted_files.read(path, _MOST)
    except untrusted_files.TooLargeError:
        raise UsageError(f"{path} is too large to be a lock file", _REMAKE) from None
    except FileNotFoundError:
        raise UsageError(
            f"no lock file `{path}`",
            "make one with `conductor lock COMPONENT…`, name another with -c lock-file=FILE, "
            "or run without it: -c locked=false",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read the lock file `{path}`: {error.strerror or error}", "check the path"
        ) from None


def parse(data: bytes, path: str) -> Lock:
    """Reads the text of a lock file; errors name it `path`. Raises `UsageError`."""
    where = f"cannot read the lock file `{path}`"
    text, tables = toml_files.read(data, where, _REMAKE)
    try:
        _check_version(tables)
        lock = toml_files.convert(tables, Lock, "a lock file")
        for at, entry in enumerate(lock.component):
            _check(entry, at)
    except Mistake as mistake:
        if mistake.at != ("version",):  # the hint for an author is for files that people write
            mistake.hint = ""
        raise mistake.placed(text, where, f"it is not to be edited by hand; {_REMAKE}") from None
    return lock


def _check_version(tables: dict[str, Any]) -> None:
    version = tables.get("version")
    if version == VERSION:
        return
    what = f"its format is version {version!r}" if "version" in tables else "it has no version"
    raise Mistake(
        f"{what}; this conductor knows version {VERSION}",
        "version",
        hint=f"use the conductor that wrote it, or remove it: {_REMAKE}",
    )


def _check(entry: Entry, at: int) -> None:
    if not is_name(entry.name):
        raise Mistake(f"a name is {NAME_RULE}", "component", at, "name")
    for name in entry.rights:
        try:
            words.read([name])
        except ValueError as error:
            raise Mistake(str(error), "component", at, "rights") from None


# -- writing ---------------------------------------------------------------------------------------
# Only `conductor lock` writes. tomlkit takes 20 ms to import, so it is imported there.

_OF_PROXIES: Final = ("rights", "meaning", "fails", "on_violation")
_OF_POLICED: Final = ("fails",)
_LEFT_OUT_IF_EMPTY: Final = ("files", "env", "limits")
_LONG: Final = ("imports", "rights", "files")
"""Lists that have a line for each element."""

_NOT_PINNED: Final = {
    "command": "Not pinned: what the program loads when it runs, such as the libraries of its "
    "interpreter, what npx or uvx download, and its own updates.",
    "python": "Not pinned: what the module imports.",
    "remote": "Not pinned: what runs at the address.",
}
_FREE: Final = (
    "Not pinned: agents update themselves. A change is reported; --lock-agent refuses it."
)


def document(entries: Sequence[Entry], head: Iterable[str], servers: Sequence[Server] = ()) -> str:
    """The text of a lock file; `head` are the lines of the comment it begins with."""
    import tomlkit

    made = tomlkit.document()
    for line in head:
        printable = "".join(char if char.isprintable() else " " for char in line)
        made.add(tomlkit.comment(printable))
    made.add(tomlkit.nl())
    made.add("version", tomlkit.item(VERSION))
    tables = tomlkit.aot()
    for entry in entries:
        tables.append(_table(entry))
    made.add("component", tables)
    offers = tomlkit.aot()
    for server in servers:
        offers.append(tomlkit.item(msgspec.to_builtins(server)))
    if servers:
        made.add("server", offers)
    return tomlkit.dumps(made)


def _table(entry: Entry) -> tomlkit.items.Table:
    import tomlkit

    table = tomlkit.table()
    for name in Entry.__struct_fields__:
        value = getattr(entry, name)
        if not _is_left_out(entry, name, value):
            table.add(name, _item(name, value))
        if name == "sha256":
            remark = _NOT_PINNED.get(entry.kind, "") if entry.pinned else _FREE
            if remark:
                table.add(tomlkit.comment(remark))
    return table


def _is_left_out(entry: Entry, name: str, value: Any) -> bool:
    return (
        value is None
        or (name == "pinned" and entry.role != "agent")
        or (name in _OF_PROXIES and entry.role != "proxy")
        or (name in _OF_POLICED and words.TRUSTED in entry.rights)
        or (name in _LEFT_OUT_IF_EMPTY and not value)
        or (name == "enforce" and value == "all")
    )


def _item(name: str, value: Any) -> Any:
    import tomlkit

    plain = msgspec.to_builtins(value)
    if isinstance(plain, list):
        array = tomlkit.array()
        for element in plain:
            array.append(_inline(element) if isinstance(element, dict) else element)
        return array.multiline(name in _LONG and bool(plain))
    return _inline(plain) if name == "env" else tomlkit.item(plain)


def _inline(members: dict[str, Any]) -> tomlkit.items.InlineTable:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(members)
    return table


def save(path: str, text: str) -> None:
    """Puts a lock file in place, whole or not at all. Raises `UsageError`."""
    path = os.path.realpath(path)
    try:
        private_files.replace(path, text.encode(), mode=0o666)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", "name another file with --output"
        ) from None
