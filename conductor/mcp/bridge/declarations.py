"""Reads and rewrites the MCP servers of ACP transport in the params of a session's setup.

All forms of all generations: lists and objects keyed by name, at the top or under `tools`. Servers
of other transports stay as they are, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.mcp.bridge.json import read, text, value, write

SETUPS: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""Methods whose params may declare servers."""
ENDS: Final = frozenset({"session/close", "session/delete"})
"""Methods that end a session."""

_CONTAINERS: Final = ("mcpServers", "mcp_servers")
_HOLDER: Final = "tools"
_list: Final = json_text.Decoder(list[Raw]).find
_URL: Final = "acp:"
_OURS: Final = frozenset(
    {"name", "type", "transport", "serverId", "id", "url", "headers", "command", "args", "env"}
)
"""Members of a declaration that say how to reach its server; the new one keeps all others."""


class StdioDeclaration(msgspec.Struct, frozen=True):
    """How to reach a server: start a program."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str = ""
    """The folder that it starts in; empty: the agent's, or conductor's."""


class HttpDeclaration(msgspec.Struct, frozen=True):
    """How to reach a server: send requests to a URL."""

    url: str
    headers: tuple[tuple[str, str], ...]


Declaration = StdioDeclaration | HttpDeclaration


class Place(msgspec.Struct, frozen=True):
    """The place of a declaration: the path of its container, and its index or key there."""

    path: tuple[str, ...]
    key: int | str


class Declared(msgspec.Struct, frozen=True):
    """A declaration of a server of ACP transport."""

    place: Place
    name: str
    form: str
    """`serverId`, `id`, `url`, `scp` or `outside`: a key of `generations.LADDERS`."""
    id: str
    """The server's id in messages, without `acp:`; the name of an `scp` server."""
    reach: Declaration | None = None
    """How conductor reaches a server of the client's; None: it is a component's."""

    @property
    def url(self) -> str:
        """The server's URL, for generations that use one."""
        return _URL + self.id


class Names:
    """The names in use in one setup."""

    def __init__(self, taken: list[str]) -> None:
        self.taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number behind each name that was taken: so many equal names take no longer."""

    def give(self, name: str) -> str:
        """Takes `name` if it is free, else `name-2` and so on."""
        free, number = name, self._numbers.get(name, 1)
        while free in self.taken:
            number += 1
            free = f"{name}-{number}"
        self.taken.add(free)
        self._numbers[name] = number
        return free


def declared(params: Raw | bytes, prefix: str = "") -> tuple[list[Declared], Names]:
    """The servers of ACP transport in the params of a setup, and the names of all others.

    `prefix`: with it the client's servers of other transports are among the former, for conductor
    to reach them: with ids that begin so.
    """
    servers: list[Declared] = []
    taken: list[str] = []
    cwd = text(read(params).get("cwd")) or ""
    for path, container in _containers(params):
        for key, entry in _entries(container):
            fields = read(entry)
            name = text(fields.get("name")) or (key if isinstance(key, str) else "")
            form = _form(fields, name)
            reach = _reach(fields, cwd) if form is None and prefix else None
            if reach is not None:
                place, ident = Place(path, key), f"{prefix}{len(servers)}"
                servers.append(Declared(place, name, "outside", ident, reach))
            elif form is None:
                taken.append(name)
            else:
                servers.append(Declared(Place(path, key), name, *form))
    return servers, Names(taken)


def _containers(params: Raw | bytes) -> list[tuple[tuple[str, ...], Raw]]:
    fields = read(params)
    inside = read(fields.get(_HOLDER))
    return [((name,), fields[name]) for name in _CONTAINERS if name in fields] + [
        ((_HOLDER, name), inside[name]) for name in _CONTAINERS if name in inside
    ]


def _entries(container: Raw) -> list[tuple[int | str, Raw]]:
    listed = _list(container)
    if listed is not None:
        return list(enumerate(listed))
    return list(read(container).items())


def _form(fields: Mapping[str, Raw], name: str) -> tuple[str, str] | None:
    """The form of a declaration of ACP transport, and the server's id; None for all others."""
    kind, url = text(fields.get("type")), text(fields.get("url"))
    if kind == "acp":
        for form in ("serverId", "id"):
            ident = text(fields.get(form))
            if ident is not None:
                return form, ident
    if url is not None and url.startswith(_URL):
        return "url", url.removeprefix(_URL)
    return ("scp", name) if kind == "scp" else None


def _reach(fields: Mapping[str, Raw], cwd: str) -> Declaration | None:
    """How to reach a server of stdio or Streamable HTTP; None for all others."""
    kind = text(fields.get("type")) or text(fields.get("transport"))
    command, url = text(fields.get("command")), text(fields.get("url"))
    if command is not None and kind in (None, "stdio"):
        args = value(fields.get("args"))
        words = tuple(map(str, args)) if isinstance(args, list) else ()
        return StdioDeclaration(command, words, _read_pairs(fields.get("env")), cwd)
    if url is not None and kind in ("http", "streamable-http"):
        return HttpDeclaration(url, _read_pairs(fields.get("headers")))
    return None


def _read_pairs(raw: Raw | None) -> tuple[tuple[str, str], ...]:
    """Variables or headers: a list of names and values, or an object."""
    held = value(raw)
    if isinstance(held, dict):
        return tuple((str(name), str(held[name])) for name in held)
    listed = held if isinstance(held, list) else []
    pairs = (each for each in listed if isinstance(each, dict))
    return tuple((str(each.get("name", "")), str(each.get("value", ""))) for each in pairs)


class Entry(msgspec.Struct, frozen=True):
    """The declaration that replaces a component's."""

    name: str
    fields: dict[str, object] | None
    """How to reach the server; None: as declared."""


def reached_by(declaration: Declaration, version: int) -> dict[str, object]:
    """The members that reach a server behind one of our doors; `version`: of ACP."""
    if isinstance(declaration, HttpDeclaration):
        return {"type": "http", "url": declaration.url, "headers": _pairs(declaration.headers)}
    fields: dict[str, object] = {
        "command": declaration.command,
        "args": declaration.args,
        "env": _pairs(declaration.env),
    }
    # ACP v1 has no type for stdio servers, v2 demands it.
    return {"type": "stdio", **fields} if version == 2 else fields


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"name": name, "value": text_} for name, text_ in pairs]


def native(declared: Declared, form: str) -> dict[str, object] | None:
    """A server of ACP transport as the agent takes it. `form`: see `Support.form`."""
    if form == "scp":
        return None if declared.form == "scp" else {"type": "scp"}
    if form == "url":
        fields: dict[str, object] = {"type": "http", "url": declared.url, "headers": []}
        return None if declared.form == "url" else fields
    if declared.form == "serverId":
        return None
    # Agents of the draft read `id`, agents of the schema `serverId`.
    also = {"id": declared.id} if declared.form == "id" else {}
    return {"type": "acp", "serverId": declared.id, **also}


def rewritten(params: Raw | bytes, entries: Mapping[Place, Entry]) -> bytes:
    """The params with these declarations replaced; everything else stays as it was."""
    fields = read(params)
    for path, container in _containers(params):
        mine = {place.key: entry for place, entry in entries.items() if place.path == path}
        if not mine:
            continue
        listed = _list(container)
        if listed is not None:
            new = write([_entry(raw, mine.get(i)) for i, raw in enumerate(listed)])
        else:
            keyed = {}
            for name, raw in read(container).items():
                entry = mine.get(name)
                keyed[entry.name if entry else name] = _entry(raw, entry, keyed=True)
            new = write(keyed)
        *holder, name = path
        if holder:
            new = write({**read(fields[_HOLDER]), name: Raw(new)})
        fields[path[0]] = Raw(new)
    return write(fields)


def _entry(raw: Raw, entry: Entry | None, *, keyed: bool = False) -> Raw:
    if entry is None:
        return raw
    old = read(raw)
    if entry.fields is None:
        if "name" not in old or text(old["name"]) == entry.name:
            return raw
        return Raw(write({**old, "name": entry.name}))
    new = _keyed(entry.fields, old) if keyed else dict(entry.fields)
    # `type` and `name` first, as people write them; some agents show declarations to their users.
    first = {"type": new.pop("type")} if "type" in new else {}
    if not keyed or "name" in old:
        first["name"] = entry.name
    kept = {name: member for name, member in old.items() if name not in _OURS}
    return Raw(write({**first, **new, **kept}))


def _keyed(fields: dict[str, object], old: Mapping[str, Raw]) -> dict[str, object]:
    """The oldest form: pairs as an object, and `transport` where later forms have `type`."""
    new = dict(fields)
    for name in ("env", "headers"):
        if name in new:
            new[name] = {pair["name"]: pair["value"] for pair in value(write(new[name]))}
    if "transport" in old:
        new["transport"] = new.pop("type", "stdio")
    return new
