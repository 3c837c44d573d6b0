"""A server's facts about the pages of its tools (MCP Apps): in its list of tools, and in a page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.json import decoded, meta, read, text, with_meta, write

_SCHEME: Final = "ui://"
_PAGE: Final = "text/html;profile=mcp-app"
_OLD: Final = "ui/resourceUri"
CLAIM: Final = {protocol.APPS: {"mimeTypes": [_PAGE]}}
"""The extension of MCP by which a client says that it shows pages."""

_list: Final = json_text.Decoder(list[Raw]).find


class AppTool(msgspec.Struct, frozen=True):
    """A tool that has a page, or that pages may call."""

    title: str
    page: str
    """The URI of its page; empty: it has none."""
    of_pages: bool
    """Whether pages of its server may call it."""


def listed(body: bytes) -> tuple[dict[str, AppTool], bytes]:
    """The tools with a page or for pages in a result of `tools/list`; and the result without the
    tools that are for pages alone."""
    fields = read(body)
    raws = _list(fields.get("tools")) or []
    found: dict[str, AppTool] = {}
    kept: list[Raw] = []
    for raw in raws:
        tool = read(raw)
        name, about = text(tool.get("name")), meta(tool)
        ui = decoded(about.get("ui"))
        page = ui.get("resourceUri") or text(about.get(_OLD)) or ""
        seen_by = ui.get("visibility", ["model", "app"])
        seen_by = seen_by if isinstance(seen_by, list) else []
        if name is not None and (ui or page):
            title = text(tool.get("title")) or name
            is_page = isinstance(page, str) and page.startswith(_SCHEME)
            found[name] = AppTool(title, page if is_page else "", "app" in seen_by)
        if not ui or "model" in seen_by:
            kept.append(raw)
    return found, body if len(kept) == len(raws) else write({**fields, "tools": kept})


def page(uri: str, body: bytes) -> str | None:
    """The HTML in a result of `resources/read`; None: it has no page of this URI."""
    for raw in _list(read(body).get("contents")) or []:
        held: dict[str, Any] = decoded(raw)
        kind = str(held.get("mimeType")).replace(" ", "").casefold()
        if held.get("uri") != uri or kind != _PAGE:
            continue
        if isinstance(held.get("text"), str):
            return str(held["text"])
        try:
            return base64.b64decode(str(held.get("blob")), validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return None


def claiming(method: str, params: bytes | None) -> bytes | None:
    """The params of a client's request. Where they tell the client's capabilities, they get the
    word that the client shows pages."""
    begins = method == protocol.INITIALIZE
    if params is None or not (begins or protocol.CAPABILITIES.encode() in params):
        return params  # spares large params the parsing
    fields = read(params)
    if begins:
        return write({**fields, "capabilities": _able(fields.get("capabilities"))})
    about = meta(fields)
    if protocol.CAPABILITIES not in about:
        return params
    able = _able(about[protocol.CAPABILITIES])
    return with_meta(fields, {**about, protocol.CAPABILITIES: able})


def _able(capabilities: Raw | None) -> Mapping[str, object]:
    fields = read(capabilities)
    return {**fields, "extensions": {**CLAIM, **read(fields.get("extensions"))}}
