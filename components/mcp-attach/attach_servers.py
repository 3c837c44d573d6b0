"""The servers a configuration names, and how ACP declares them. Standard library only."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Warn = Callable[[str], None]

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KEYS = {
    "stdio": {"command": str, "args": list, "env": dict},
    "http": {"url": str, "headers": dict},
    "sse": {"url": str, "headers": dict},
}
_IGNORED = {"type", "transport", "disabled"}
_ALIASES = {"streamable-http": "http", "streamableHttp": "http"}


@dataclass(frozen=True, slots=True)
class Server:
    """One server; `kind`: stdio, http or sse."""

    name: str
    kind: str
    address: str
    args: tuple[str, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)
    """The environment of the server, or its headers."""

    def entry(self, version: int) -> Json:
        """The declaration of the server in this version of ACP."""
        pairs = [{"name": name, "value": value} for name, value in self.pairs.items()]
        if self.kind == "stdio":
            kind = {"type": "stdio"} if version > 1 else {}
            args = list(self.args)
            return {**kind, "name": self.name, "command": self.address, "args": args, "env": pairs}
        return {"type": self.kind, "name": self.name, "url": self.address, "headers": pairs}


def servers(config: Mapping[str, Any], warn: Warn) -> list[Server]:
    """The servers that a configuration names; a faulty entry is told, and left out."""
    for key in config.keys() - {"servers", "mcpServers"}:
        warn(f"unknown setting `{key}`; there are `servers` and `mcpServers`")
    found: dict[str, Server] = {}
    for key in ("mcpServers", "servers"):
        listed = config.get(key, {})
        if not isinstance(listed, dict):
            warn(f"`{key}` must be an object of servers by name")
            continue
        for name, entry in listed.items():
            try:
                if not (isinstance(entry, dict) and entry.get("disabled") is True):
                    found[name] = _server(name, entry)
            except ValueError as error:
                warn(f"server `{name}` is left out: {error}")
    return list(found.values())


def _server(name: str, entry: Any) -> Server:
    if not isinstance(entry, dict):
        raise ValueError("it must be an object")
    given = entry.get("type", entry.get("transport", "stdio" if "command" in entry else "http"))
    kind = _ALIASES.get(given, given) if isinstance(given, str) else ""
    keys = _KEYS.get(kind)
    if keys is None:
        raise ValueError(f"its type must be {', '.join(_KEYS)}")
    for key, value in entry.items():
        if key not in keys and key not in _IGNORED:
            raise ValueError(f"`{key}` is no setting of a {kind} server")
        if key in keys and not isinstance(value, keys[key]):
            raise ValueError(f"`{key}` must be {_WORDS[keys[key]]}")
    address = entry.get("command" if kind == "stdio" else "url")
    if not address:
        raise ValueError("it needs a `command` or a `url`")
    pairs = entry.get("env" if kind == "stdio" else "headers", {})
    address = _expanded(address)
    return Server(
        name,
        kind,
        (shutil.which(address) or address) if kind == "stdio" else address,
        tuple(_expanded(each) for each in entry.get("args", [])),
        {key: _expanded(value) for key, value in pairs.items()},
    )


_WORDS = {str: "a text", list: "a list of texts", dict: "an object of texts"}


def _expanded(text: Any) -> str:
    """The text with ``${NAME}`` and ``${NAME:-DEFAULT}`` replaced from our environment."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} must be a text")

    def replacement(found: re.Match[str]) -> str:
        value = os.environ.get(found[1], found[2])
        if value is None:
            raise ValueError(f"the variable {found[1]} is not set")
        return value

    return _VARIABLE.sub(replacement, text)


def supported(version: int, result: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of server an agent takes, by its answer to ``initialize``."""
    if version > 1:
        session = _object(_object(result.get("capabilities")).get("session"))
        held = _object(session.get("mcp"))
        return frozenset(kind for kind in _KEYS if held.get(kind) is not None)
    held = _object(_object(result.get("agentCapabilities")).get("mcpCapabilities"))
    return frozenset({"stdio", *(kind for kind in ("http", "sse") if held.get(kind) is True)})


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
