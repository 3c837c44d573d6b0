"""The MCP capabilities in an agent's response to `initialize`, and those that proxies see.

Small, since it is loaded while an editor waits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import jsonrpc, members

_OLD: Final = "mcp_acp_transport"


class Support(msgspec.Struct, frozen=True):
    """The kinds of MCP servers an agent takes."""

    version: int = 1
    """The negotiated version of ACP."""
    http: bool = False
    acp: bool = False
    """Servers of ACP transport (`mcpCapabilities.acp`; v2: `capabilities.session.mcp.acp`)."""
    old: bool = False
    """Servers with an `acp:` URL (the `mcp_acp_transport` flag of the first generations)."""

    def kind(self, wanted: str = "auto") -> str:
        """What a declaration of ACP transport becomes; `wanted`: one of `conductor.mcp.KINDS`."""
        if wanted != "auto":
            return wanted
        if self.acp or self.old:
            return "acp"
        return "http" if self.http else "stdio"


def support(result: Raw | bytes) -> Support:
    """The capabilities in the result of `initialize`; nothing but stdio if it has none."""
    fields = members.read(result) or {}
    version = _value(fields.get("protocolVersion"))
    if version == 2:
        mcp = _object(
            _object(_object(_value(fields.get("capabilities"))).get("session")).get("mcp")
        )
        return Support(2, _marked(mcp.get("http")), _marked(mcp.get("acp")))
    agent = _object(_value(fields.get("agentCapabilities")))
    mcp = _object(agent.get("mcpCapabilities"))
    metas = (_object(agent.get("_meta")), _object(_value(fields.get("_meta"))))
    places = [place for meta in metas for place in (meta, _object(meta.get("symposium")))]
    old = any(place.get(_OLD) is True for place in places)
    return Support(1, mcp.get("http") is True, mcp.get("acp") is True, old)


def shown(result: Raw | bytes) -> bytes | None:
    """The result of `initialize` for proxies: with support of ACP transport.

    None if the result has that already, or has no place for it.
    """
    agent, fields = support(result), members.read(result)
    if agent.acp or fields is None:
        return None
    if agent.version == 2:
        changed = _with(fields, ("capabilities", "session", "mcp"), "acp", Raw(b"{}"))
    else:
        changed = _with(fields, ("agentCapabilities", "mcpCapabilities"), "acp", Raw(b"true"))
    return bytes(changed) if changed is not None else None


def response(
    frame: bytes, pending: Collection[bytes]
) -> tuple[bytes, Support | None, bytes] | None:
    """Reads a line of the agent, which may answer one of the `pending` `initialize` requests (ids).

    Returns:
        The id of that request, the agent's support (None if it answers with an error), and the
        line for proxies. None if the line answers none of them.
    """
    try:
        message = jsonrpc.parse(frame)
    except jsonrpc.Malformed:
        return None
    if isinstance(message, list) or isinstance(message.method, str):
        return None
    id_ = bytes(message.id) if isinstance(message.id, Raw) else None
    if id_ is None or id_ not in pending:
        return None
    if not isinstance(message.result, Raw):
        return id_, None, frame
    new = shown(message.result)
    line = frame if new is None else jsonrpc.answer(id_, b"result", new)[:-1]
    return id_, support(message.result), line


def _with(fields: dict[str, Raw], path: tuple[str, ...], name: str, new: Raw) -> Raw | None:
    """The object with `name` set at the end of `path`; all else stays, byte by byte."""
    if not path:
        return members.write({**fields, name: new})
    inside = fields.get(path[0], Raw(b"null"))
    below = {} if bytes(inside) == b"null" else members.read(inside)
    if below is None:
        return None  # not an object, which only the agent can repair
    changed = _with(below, path[1:], name, new)
    return None if changed is None else members.write({**fields, path[0]: changed})


def _value(raw: Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _marked(value: Any) -> bool:
    """Whether a v2 capability is there: an object. Null means that it is missing."""
    return isinstance(value, dict)
