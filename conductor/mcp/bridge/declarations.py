"""MCP servers of ACP transport in a session's setup: found, and put as an agent can take them.

All forms of all generations: lists and objects keyed by name, at the top or under `tools`. What is
not of ACP transport stays as it was, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.json_text import write_members
from conductor.mcp.bridge.json import encode, read, text, value

SETUPS: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""Methods whose params may declare servers."""
ENDS: Final = frozenset({"session/close", "session/delete"})
"""Methods that end a session."""

_CONTAINERS: Final = ("mcpServers", "mcp_servers")
_HOLDER: Final = "tools"
_URL: Final = "acp:"
_OURS: Final = frozenset(
    {"name", "type", "transport", "serverId", "id", "url", "headers", "command", "args", "env"}
)
"""Members of a declaration that say how a server is reached; all others are kept."""


class StdioDeclaration(msgspec.Struct, frozen=True):
    """A server that is reached by starting a program."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


class HttpDeclaration(msgspec.Struct, frozen=True):
    """A server that is reached at a URL."""

    url: str
    headers: tuple[tuple[str, str], ...]


Declaration = StdioDeclaration | HttpDeclaration


class Place(msgspec.Struct, frozen=True):
    """Where a declaration stood: the path of its container, its index or key there."""

    path: tuple[str, ...]
    key: int | str


class Declared(msgspec.Struct, frozen=True):
    """A server of ACP transport, as it was declared."""

    place: Place
    name: str
    form: str
    """`serverId`, `id`, `url` or `scp`: a key of `generations.LADDERS`."""
    id: str
    """What it is called by in messages: its id without `acp:`; of an `scp` server the name."""

    @property
    def url(self) -> str:
        """The URL that names it, in generations that use one."""
        return _URL + self.id


class Names:
    """The names taken in one setup."""

    def __init__(self, taken: list[str]) -> None:
        self._taken = set(taken)

    def give(self, name: str) -> str:
        """`name` if it is free, else `name-2` and so on; it is taken from then on."""
        free, number = name, 1
        while free in self._taken:
            number += 1
            free = f"{name}-{number}"
        self._taken.add(free)
        return free


def declared(params: Raw | bytes) -> tuple[list[Declared], Names]:
    """The servers of ACP transport in the params of a setup, and the names all others have."""
    found, taken = [], []
    for path, container in _containers(params):
        for key, entry in _entries(container):
            held = read(entry)
            name = text(held.get("name")) or (key if isinstance(key, str) else "")
            form = _form(held, name)
            if form is None:
                taken.append(name)
            else:
                found.append(Declared(Place(path, key), name, *form))
    return found, Names(taken)


def _containers(params: Raw | bytes) -> list[tuple[tuple[str, ...], Raw]]:
    held = read(params)
    inside = read(held.get(_HOLDER))
    return [((name,), held[name]) for name in _CONTAINERS if name in held] + [
        ((_HOLDER, name), inside[name]) for name in _CONTAINERS if name in inside
    ]


def _entries(container: Raw) -> list[tuple[int | str, Raw]]:
    listed = _list(container)
    if listed is not None:
        return list(enumerate(listed))
    return list(read(container).items())


def _list(container: Raw) -> list[Raw] | None:
    try:
        return msgspec.json.decode(container, type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _form(held: Mapping[str, Raw], name: str) -> tuple[str, str] | None:
    """The form of a declaration and the id in it, if it is one of ACP transport."""
    kind, url = text(held.get("type")), text(held.get("url"))
    if kind == "acp":
        for form in ("serverId", "id"):
            ident = text(held.get(form))
            if ident is not None:
                return form, ident
    if url is not None and url.startswith(_URL):
        return "url", url.removeprefix(_URL)
    return ("scp", name) if kind == "scp" else None


class Entry(msgspec.Struct, frozen=True):
    """What stands in place of a declaration."""

    name: str
    fields: dict[str, object] | None
    """How the server is reached; None: as it was declared."""


def stdio(declaration: StdioDeclaration, version: int) -> dict[str, object]:
    """A stdio server; ACP v2 wants its type, v1 has none."""
    env = [{"name": name, "value": held} for name, held in declaration.env]
    fields: dict[str, object] = {
        "command": declaration.command,
        "args": declaration.args,
        "env": env,
    }
    return {"type": "stdio", **fields} if version == 2 else fields


def http(declaration: HttpDeclaration) -> dict[str, object]:
    """A server at a URL."""
    headers = [{"name": name, "value": held} for name, held in declaration.headers]
    return {"type": "http", "url": declaration.url, "headers": headers}


def native(one: Declared, *, old: bool) -> dict[str, object] | None:
    """A server of ACP transport as an agent takes them; `old`: one that wants an `acp:` URL."""
    if old:
        return None if one.form == "url" else {"type": "http", "url": one.url, "headers": []}
    if one.form == "serverId":
        return None
    # Agents of the draft between read `id`, those of the schema `serverId`.
    also = {"id": one.id} if one.form == "id" else {}
    return {"type": "acp", "serverId": one.id, **also}


def rewritten(params: Raw | bytes, entries: Mapping[Place, Entry]) -> bytes:
    """The params with these declarations replaced; everything else stays as it was."""
    held = read(params)
    for path, container in _containers(params):
        mine = {place.key: entry for place, entry in entries.items() if place.path == path}
        if not mine:
            continue
        listed = _list(container)
        if listed is not None:
            new = encode([_entry(raw, mine.get(i)) for i, raw in enumerate(listed)])
        else:
            keyed = {}
            for name, raw in read(container).items():
                entry = mine.get(name)
                keyed[entry.name if entry else name] = _entry(raw, entry, keyed=True)
            new = write_members(keyed)
        if len(path) == 2:
            inside = {**read(held[path[0]]), path[1]: Raw(new)}
            held[path[0]] = write_members(inside)
        else:
            held[path[0]] = Raw(new)
    return bytes(write_members(held))


def _entry(raw: Raw, entry: Entry | None, *, keyed: bool = False) -> Raw:
    if entry is None:
        return raw
    held = read(raw)
    if entry.fields is None:
        if "name" not in held or text(held["name"]) == entry.name:
            return raw
        return write_members({**held, "name": Raw(encode(entry.name))})
    fields = dict(entry.fields)
    kept = {name: one for name, one in held.items() if name not in _OURS}
    if keyed:
        fields = _keyed(fields, held)
    first: dict[str, object] = {}
    if "type" in fields:
        first["type"] = fields.pop("type")
    if not keyed or "name" in held:
        first["name"] = entry.name
    return Raw(encode({**first, **fields, **kept}))


def _keyed(fields: dict[str, object], held: Mapping[str, Raw]) -> dict[str, object]:
    """The oldest form: pairs as an object, and `transport` where later ones have `type`."""
    new = dict(fields)
    for name in ("env", "headers"):
        if name in new:
            pairs = value(encode(new[name]))
            new[name] = {one["name"]: one["value"] for one in pairs}
    if "transport" in held:
        new["transport"] = new.pop("type", "stdio")
    return new
