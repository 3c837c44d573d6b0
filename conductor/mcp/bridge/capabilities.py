"""What an agent says of MCP servers in its answer to `initialize`, and what proxies are shown.

Small, since it is loaded while an editor waits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.json_text import read_members, write_members

_OLD: Final = "mcp_acp_transport"


class Support(msgspec.Struct, frozen=True):
    """The kinds of MCP servers an agent takes."""

    version: int = 1
    """The ACP version that was settled on."""
    http: bool = False
    acp: bool = False
    """Servers of ACP transport (`mcpCapabilities.acp`; v2: `capabilities.session.mcp.acp`)."""
    old: bool = False
    """Servers with an `acp:` URL (the `mcp_acp_transport` flag of the first generations)."""

    def kind(self, asked: str = "auto") -> str:
        """What a declaration of ACP transport becomes; `asked`: one of `conductor.mcp.KINDS`."""
        if asked != "auto":
            return asked
        if self.acp or self.old:
            return "acp"
        return "http" if self.http else "stdio"


def support(result: Raw | bytes) -> Support:
    """What the result of `initialize` says; nothing but stdio where it says nothing."""
    held = read_members(result) or {}
    version = _value(held.get("protocolVersion"))
    if version == 2:
        mcp = _object(_object(_object(_value(held.get("capabilities"))).get("session")).get("mcp"))
        return Support(2, _marked(mcp.get("http")), _marked(mcp.get("acp")))
    agent = _object(_value(held.get("agentCapabilities")))
    mcp = _object(agent.get("mcpCapabilities"))
    metas = (_object(agent.get("_meta")), _object(_value(held.get("_meta"))))
    places = [place for meta in metas for place in (meta, _object(meta.get("symposium")))]
    old = any(place.get(_OLD) is True for place in places)
    return Support(1, mcp.get("http") is True, mcp.get("acp") is True, old)


def shown(result: Raw | bytes) -> bytes | None:
    """The result of `initialize` as proxies get it: with support of ACP transport.

    None where it says so already, or is none that could say it.
    """
    found, held = support(result), read_members(result)
    if found.acp or held is None:
        return None
    if found.version == 2:
        changed = _with(held, ("capabilities", "session", "mcp"), "acp", Raw(b"{}"))
    else:
        changed = _with(held, ("agentCapabilities", "mcpCapabilities"), "acp", Raw(b"true"))
    return bytes(changed) if changed is not None else None


def answered(frame: bytes, asked: Collection[bytes]) -> tuple[bytes, Support | None, bytes] | None:
    """What a line of the agent's says if it answers one of the `initialize` requests `asked` (ids).

    That id, what the agent takes (None: it answers with an error), and the line for proxies.
    """
    try:
        message = jsonrpc.parse(frame)
    except jsonrpc.Malformed:
        return None
    if isinstance(message, list) or isinstance(message.method, str):
        return None
    id_ = bytes(message.id) if isinstance(message.id, Raw) else None
    if id_ is None or id_ not in asked:
        return None
    if not isinstance(message.result, Raw):
        return id_, None, frame
    new = shown(message.result)
    line = frame if new is None else jsonrpc.answer(id_, b"result", new)[:-1]
    return id_, support(message.result), line


def _with(held: dict[str, Raw], path: tuple[str, ...], name: str, new: Raw) -> Raw | None:
    """The object with `name` set at the end of `path`; all else stays as it was, byte by byte."""
    if not path:
        return write_members({**held, name: new})
    inside = held.get(path[0], Raw(b"null"))
    below = {} if bytes(inside) == b"null" else read_members(inside)
    if below is None:
        return None  # it is something else than an object: not ours to repair
    changed = _with(below, path[1:], name, new)
    return None if changed is None else write_members({**held, path[0]: changed})


def _value(raw: Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _marked(value: Any) -> bool:
    """Whether a v2 marker is there: an object, where null is the same as nothing."""
    return isinstance(value, dict)
