"""The two-way `_meta` handshake of the dialects `sacp`, `pacp` and `scp`.

The conductor offers the proxy role inside a plain `initialize`, the proxy echoes it in its result.
Offer and echo stay on their hop: neither the next component nor the client ever sees them, while
what else a client or agent says in its own `symposium` section (that it has one at all means
something) passes every hop.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members, write_members
from conductor.core.roles.versions import version_of

VERSION: Final = Raw(b'"1.0"')
_CAPABILITIES: Final = ("clientCapabilities", "agentCapabilities", "capabilities")
_TRUE: Final = Raw(b"true")

Shape = frozenset[str]
"""Which of the places the flag is put in were there before it: `/_meta`, `/_meta/symposium`, each
capability member and the same two below it."""

NOTHING: Final = Shape()
RESULT: Final = Shape(f"/{name}" for name in _CAPABILITIES)
"""A result keeps its capability member even if it is empty: whoever wrote it may need it there."""


def add(body: Raw | UnsetType, who: str) -> Raw | UnsetType:
    """`initialize` params (`who` is `client`) or result (`agent`) with the flag where peers look.

    That is `_meta.proxy`, `_meta.symposium.proxy` and `_meta.symposium.proxy` of the capability
    member, `clientCapabilities` or `agentCapabilities` in ACP v1, `capabilities` in v2. What is no
    object stays as it is.
    """
    held = {} if isinstance(body, UnsetType) else read_members(body)
    if held is None:
        return body
    capabilities = "capabilities" if version_of(held) == 2 else f"{who}Capabilities"
    _flag(held, bare=True)
    inner = read_members(held.get(capabilities, Raw(b"{}")))
    if inner is not None:
        _flag(inner, bare=False)
        held[capabilities] = write_members(inner)
    return write_members(held)


def _flag(holder: dict[str, Raw], *, bare: bool) -> None:
    meta = read_members(holder.get("_meta", Raw(b"{}")))
    if meta is None:
        return
    section = read_members(meta.get("symposium")) or {}
    meta["symposium"] = write_members({"version": VERSION, **section, "proxy": _TRUE})
    if bare:
        meta["proxy"] = _TRUE
    holder["_meta"] = write_members(meta)


def present(body: Raw | bytes | UnsetType) -> bool:
    """Whether the flag stands in `body`, in any of the places the generations put it."""
    if isinstance(body, UnsetType) or b"proxy" not in bytes(body):
        return False
    for _, holder in _holders(read_members(body)):
        meta = read_members(holder.get("_meta")) or {}
        section = read_members(meta.get("symposium")) or {}
        if _is_true(meta) or _is_true(section):
            return True
    return False


def shape(body: Raw | bytes | UnsetType) -> Shape:
    """Which of the places the flag is put in are there."""
    found: set[str] = set()
    for path, holder in _holders(read_members(body)):
        found.add(path)
        if "_meta" in holder:
            found.add(f"{path}/_meta")
            if "symposium" in (read_members(holder["_meta"]) or {}):
                found.add(f"{path}/_meta/symposium")
    return frozenset(found)


def remove(body: Raw | UnsetType, kept: Shape | None = None) -> Raw | UnsetType:
    """`body` without the flag, all else as it is.

    `kept` is the shape `body` had before it was flagged on this hop: of what is empty now, that
    stays, and the rest goes although the flag itself may be gone already. None: nothing is known,
    so only what the flag stood in alone goes with it.
    """
    if kept is None and not present(body):
        return body
    held = read_members(body)
    changed = False
    for path, holder in _holders(held):
        if _unflag(holder, path, kept):
            changed = True
            if held is not None and path:
                held[path[1:]] = write_members(holder)
                if not holder and path not in (kept or NOTHING):
                    del held[path[1:]]
    return write_members(held) if held is not None and changed else body


def _unflag(holder: dict[str, Raw], path: str, kept: Shape | None) -> bool:
    """Takes the flag out of one holder's `_meta`; whether anything changed."""
    meta = read_members(holder.get("_meta"))
    if meta is None:
        return False
    before = dict(meta)
    if _is_true(meta):
        del meta["proxy"]
    _unflag_section(meta, f"{path}/_meta/symposium", kept)
    if not meta and f"{path}/_meta" not in (kept or NOTHING) and (before or kept is not None):
        del holder["_meta"]
        return True
    if meta == before:
        return False
    holder["_meta"] = write_members(meta)
    return True


def _unflag_section(meta: dict[str, Raw], path: str, kept: Shape | None) -> None:
    section = read_members(meta.get("symposium"))
    if section is None or not (_is_true(section) or kept is not None):
        return
    before = dict(section)
    if _is_true(section):
        del section["proxy"]
    if path not in (kept or NOTHING) and set(section) <= {"version"}:
        del meta["symposium"]
    elif section != before:
        meta["symposium"] = write_members(section)


def _is_true(holder: dict[str, Raw]) -> bool:
    return holder.get("proxy") == _TRUE


def _holders(body: dict[str, Raw] | None) -> list[tuple[str, dict[str, Raw]]]:
    """The objects of `body` whose `_meta` may carry the flag, with their paths."""
    if body is None:
        return []
    found = [("", body)]
    for name in _CAPABILITIES:
        inner = read_members(body.get(name))
        if inner is not None:
            found.append((f"/{name}", inner))
    return found
