"""The MCP capabilities in an agent's response to `initialize`, and those that proxies see.

Small, since it is loaded while an editor waits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.json_text import read_members, write_members
from conductor.mcp.bridge.json import decoded, read, value

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
    scp: bool = False
    """Servers of type `scp`: an agent of SCP has `"proxy": false` in its `symposium` section."""
    wanted: str = "auto"
    """The user's wish for the kind of declarations: one of `conductor.mcp.KINDS`."""

    @property
    def form(self) -> str:
        """The form of declarations that the agent reads: `acp`, `url` or `scp`."""
        if self.acp or not (self.old or self.scp):
            return "acp"
        return "url" if self.old else "scp"

    @property
    def kind(self) -> str:
        """The kind that a declaration of ACP transport becomes."""
        if self.wanted != "auto":
            return self.wanted
        if self.acp or self.old or self.scp:
            return "acp"
        return "http" if self.http else "stdio"


def support(result: Raw | bytes) -> Support:
    """The capabilities in the result of `initialize`; nothing but stdio if it has none."""
    fields = read(result)
    newer = value(fields.get("protocolVersion")) == 2
    agent = decoded(fields.get("capabilities" if newer else "agentCapabilities"))
    metas = (_path(agent, "_meta"), decoded(fields.get("_meta")))
    scp = any(_path(meta, "symposium").get("proxy") is False for meta in metas)
    if newer:
        mcp = _path(agent, "session", "mcp")
        # An object means support; null is the same as nothing.
        http, acp = (isinstance(mcp.get(kind), dict) for kind in ("http", "acp"))
        return Support(2, http, acp, scp=scp)
    mcp = _path(agent, "mcpCapabilities")
    places = [place for meta in metas for place in (meta, _path(meta, "symposium"))]
    old = any(place.get(_OLD) is True for place in places)
    return Support(1, mcp.get("http") is True, mcp.get("acp") is True, old, scp)


def _path(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """The object at a path; empty if there is none."""
    for name in names:
        inner = fields.get(name)
        fields = inner if isinstance(inner, dict) else {}
    return fields


def shown(result: Raw | bytes) -> bytes | None:
    """The result of `initialize` for proxies: with support of ACP transport.

    None if the result has that already, or has no place for it.
    """
    agent, fields = support(result), read_members(result)
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
        The id of the request, the agent's support (None if it answers with an error, or with
        nothing that counts), and the line for proxies. None if the line answers none of them.
    """
    message = jsonrpc.message_of(frame)
    if message is None or isinstance(message.method, str):
        return None
    id_ = bytes(message.id) if isinstance(message.id, Raw) else None
    if id_ is None or id_ not in pending:
        return None
    found = jsonrpc.outcome(message)
    if found is None or found[0] == b"error":
        return id_, None, frame
    result = found[1]
    new = shown(result)
    line = frame if new is None else jsonrpc.answer(id_, b"result", new)[:-1]
    return id_, support(result), line


def _with(fields: dict[str, Raw], path: tuple[str, ...], name: str, new: Raw) -> Raw | None:
    """The object with `name` set at the end of `path`; all else stays, byte by byte."""
    if not path:
        return write_members({**fields, name: new})
    inside = fields.get(path[0], Raw(b"null"))
    below = {} if bytes(inside) == b"null" else read_members(inside)
    if below is None:
        return None  # not an object, which only the agent can repair
    changed = _with(below, path[1:], name, new)
    return None if changed is None else write_members({**fields, path[0]: changed})
