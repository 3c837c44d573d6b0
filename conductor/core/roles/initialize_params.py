"""The members that the conductor reads and rewrites in the params and the result of `initialize`.

The ACP version: chosen from the first `initialize`, as an agent would. It is an upper bound: every
proxy and the agent negotiate below it.

The proxy offer of the dialects `sacp`, `pacp` and `scp`: the conductor offers the role inside a
plain `initialize`, the proxy echoes it in its result. Both stay on their hop, so neither the next
component nor the client sees them. Other members of a client's or agent's own `symposium` section
pass every hop: already the section itself means something. A proxy that is offered the role always
gets a section; for a plain editor, the section says that the editor can show nothing.

A proxy of dialect `scp` answers before it has a successor. Its answer is composed of its own result
and its successor's.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params

# -- the version -----------------------------------------------------------------------------------

NEWEST_VERSION: Final = 2
"""The latest ACP version the conductor knows."""

_NONE: Final = Raw(b"null")
_number = json_text.Decoder(int)


def select_version(params: Params) -> Raw:
    """The params to send down the chain, unchanged unless the version must be: 0 becomes 1,
    anything above 2 becomes 2.

    Raises:
        Malformed: (-32602) the version is no integer of 0..65535, or exactly 2 without a valid
            `info`.
    """
    members = read_members(params)
    offered = version_of(members) if members is not None else None
    if members is None or offered is None or not 0 <= offered <= 65535:
        raise Malformed(
            INVALID_PARAMS, "initialize.protocolVersion must be a valid ACP protocol version"
        )
    chosen = min(max(offered, 1), NEWEST_VERSION)
    has_info = _has_info(members)
    if offered == NEWEST_VERSION and not has_info:
        raise Malformed(
            INVALID_PARAMS, "initialize.info with `name` and `version` is required in ACP v2"
        )
    if offered == chosen:
        assert isinstance(params, Raw)
        return params
    members["protocolVersion"] = Raw(b"%d" % chosen)
    if chosen == NEWEST_VERSION and not has_info:
        # A client of version 3 need not send `info`, but an agent of version 2 insists on it.
        members["info"] = Raw(b'{"name":"unknown","version":"unknown"}')
    return write_members(members)


def version_of(members: dict[str, Raw]) -> int | None:
    """The `protocolVersion` among the members of an `initialize` request or result, if any."""
    return _number.find(members.get("protocolVersion"))


def _has_info(members: dict[str, Raw]) -> bool:
    info = read_members(members.get("info")) or {}
    return all(bytes(info.get(name, _NONE)).startswith(b'"') for name in ("name", "version"))


# -- the offer -------------------------------------------------------------------------------------

_OFFER_VERSION: Final = Raw(b'"1.0"')
_CAPABILITIES: Final = ("clientCapabilities", "agentCapabilities", "capabilities")
_TRUE: Final = Raw(b"true")
_NOTHING: Final = (Raw(b"false"), Raw(b"null"))
_CANNOT_SHOW: Final = {"html_panel": Raw(b"false"), "file_comment": Raw(b"false")}
"""The members of the section for a plain editor, which has written none."""

Shape = frozenset[str]
"""The places of the flag that were there before the flag: `/_meta`, `/_meta/symposium`, each
capability member and the same two below it."""

EMPTY: Final = Shape()
RESULT: Final = Shape(f"/{name}" for name in _CAPABILITIES)
"""A result keeps its capability member even if it is empty: its reader may need it there."""


def add_offer(body: Params, who: str) -> Params:
    """`initialize` params (`who` is `client`) or result (`agent`) with the flag where peers look.

    That is `_meta.proxy`, `_meta.symposium.proxy` and `_meta.symposium.proxy` of the capability
    member, `clientCapabilities` or `agentCapabilities` in ACP v1, `capabilities` in v2. A body that
    is no object stays as it is.
    """
    members = {} if isinstance(body, UnsetType) else read_members(body)
    if members is None:
        return body
    capabilities = "capabilities" if version_of(members) == 2 else f"{who}Capabilities"
    inner = read_members(members.get(capabilities, Raw(b"{}")))
    said = who == "agent" or any(map(_has_section, (members, inner)))
    flagged = _flagged(members, {}, {"proxy": _TRUE})
    if inner is not None:
        shown = {} if said else _CANNOT_SHOW
        flagged[capabilities] = write_members(_flagged(inner, shown, {}))
    return write_members(flagged)


def add_agent(result: Raw) -> Raw:
    """A result of `initialize` for an editor that takes part in SCP: it says that this is an agent
    of SCP, unless the agent says so itself."""
    members = read_members(result)
    if members is None or has_section(result):
        return result
    name = "capabilities" if version_of(members) == 2 else "agentCapabilities"
    inner = read_members(members.get(name, Raw(b"{}")))
    meta = read_members((inner or {}).get("_meta", Raw(b"{}")))
    if inner is None or meta is None:
        return result
    meta["symposium"] = write_members({"version": _OFFER_VERSION, "proxy": Raw(b"false")})
    inner["_meta"] = write_members(meta)
    members[name] = write_members(inner)
    return write_members(members)


def _has_section(holder: dict[str, Raw] | None) -> bool:
    return "symposium" in (read_members((holder or {}).get("_meta")) or {})


def _flagged(
    holder: dict[str, Raw], shown: dict[str, Raw], beside: dict[str, Raw]
) -> dict[str, Raw]:
    """A holder with the flag in its `_meta`.

    Args:
        shown: Members of the section that it may have already.
        beside: Members that stand beside the section.
    """
    meta = read_members(holder.get("_meta", Raw(b"{}")))
    if meta is None:
        return holder
    section = {**shown, **(read_members(meta.get("symposium")) or {})}
    written = write_members({"version": _OFFER_VERSION, **section, "proxy": _TRUE})
    return {**holder, "_meta": write_members({**meta, "symposium": written, **beside})}


def has_offer(body: Raw | bytes | UnsetType) -> bool:
    """Whether the flag stands in `body`, in any of the places the generations put it."""
    if isinstance(body, UnsetType) or b"proxy" not in bytes(body):
        return False
    for _, holder in _holders(read_members(body)):
        meta = read_members(holder.get("_meta")) or {}
        section = read_members(meta.get("symposium")) or {}
        if _is_true(meta) or _is_true(section):
            return True
    return False


def has_section(body: Raw | bytes | UnsetType) -> bool:
    """Whether `body` has a `symposium` section, as an editor has that takes part in SCP."""
    return any(_has_section(holder) for _, holder in _holders(read_members(body)))


def offer_shape(body: Raw | bytes | UnsetType) -> Shape:
    """The places of the flag that are there."""
    paths: set[str] = set()
    for path, holder in _holders(read_members(body)):
        paths.add(path)
        if "_meta" in holder:
            paths.add(f"{path}/_meta")
            if "symposium" in (read_members(holder["_meta"]) or {}):
                paths.add(f"{path}/_meta/symposium")
    return frozenset(paths)


def remove_offer(body: Params, kept: Shape | None = None) -> Params:
    """`body` without the flag, all else as it is.

    Args:
        kept: the shape `body` had before it was flagged on this hop. Of the objects that are empty
            now, those in it stay and the others go, even where the flag itself is gone already.
            None: not known, so an object goes only if it held nothing but the flag.
    """
    if kept is None and not has_offer(body):
        return body
    members = read_members(body)
    after = _unflagged(members or {}, "", kept)
    for name in _CAPABILITIES:
        inner = read_members((members or {}).get(name))
        holder = _unflagged(inner or {}, f"/{name}", kept)
        if inner is None or holder == inner:
            continue
        if holder or f"/{name}" in (kept or EMPTY):
            after = {**after, name: write_members(holder)}
        else:
            after = _without(after, name)
    return write_members(after) if members is not None and after != members else body


def _without(members: dict[str, Raw], name: str) -> dict[str, Raw]:
    return {key: value for key, value in members.items() if key != name}


def _unflagged(holder: dict[str, Raw], path: str, kept: Shape | None) -> dict[str, Raw]:
    """A holder without the flag in its `_meta`."""
    meta = read_members(holder.get("_meta"))
    if meta is None:
        return holder
    after = _without(meta, "proxy") if _is_true(meta) else meta
    after = _without_section(after, f"{path}/_meta/symposium", kept)
    if not after and f"{path}/_meta" not in (kept or EMPTY) and (meta or kept is not None):
        return _without(holder, "_meta")
    return holder if after == meta else {**holder, "_meta": write_members(after)}


def _without_section(meta: dict[str, Raw], path: str, kept: Shape | None) -> dict[str, Raw]:
    """A `_meta` without the flag in its section, or without the section."""
    section = read_members(meta.get("symposium"))
    if section is None or not (_is_true(section) or kept is not None):
        return meta
    after = _without(section, "proxy") if _is_true(section) else section
    # A proxy that echoes the section may echo the members that we sent with it.
    own = {key for key, value in after.items() if _CANNOT_SHOW.get(key) != value}
    if path not in (kept or EMPTY) and own <= {"version"}:
        return _without(meta, "symposium")
    return meta if after == section else {**meta, "symposium": write_members(after)}


def _is_true(holder: dict[str, Raw]) -> bool:
    return holder.get("proxy") == _TRUE


def _holders(body: dict[str, Raw] | None) -> list[tuple[str, dict[str, Raw]]]:
    """The objects of `body` that may carry the flag in their `_meta`, with their paths."""
    if body is None:
        return []
    holders = [("", body)]
    for name in _CAPABILITIES:
        inner = read_members(body.get(name))
        if inner is not None:
            holders.append((f"/{name}", inner))
    return holders


# -- the answer of a proxy that answers before it has a successor ----------------------------------

_DEEPEST: Final = 5
"""Capabilities are compared down to here, `capabilities/session/mcp/acp/…`: each level costs."""

_OF_OTHERS: Final = {1: ("capabilities", "info"), 2: ("agentCapabilities", "agentInfo")}
"""The members of a result of `initialize` that one version has and the other has not."""


def composed(own: bytes, launched: bytes, successor: bytes) -> bytes:
    """The answer of an `scp` proxy to `initialize`: its successor's members, and beyond these its
    own.

    The proxy's result of `_scp/proxy` holds its successor's members as the proxy shows them, so the
    proxy may hide some. If this result is none of `initialize`, the successor's answer counts as it
    is. The proxy's own members are added where they are missing, `false` or null; but none that the
    version of that answer does not have.

    Args:
        own: the proxy's result of `initialize`.
        launched: its result of `_scp/proxy`.
        successor: the result that it got of `initialize`.
    """
    whole = read_members(Raw(launched)) or {}
    if version_of(whole) is None:
        whole = read_members(Raw(successor)) or {}
    foreign = _OF_OTHERS.get(version_of(whole) or 0, ())
    for name, value in (read_members(remove_offer(Raw(own))) or {}).items():
        if name in foreign:
            continue
        if name in _CAPABILITIES or name == "_meta":
            whole[name] = _merged(whole.get(name, _NONE), value)
        else:
            whole.setdefault(name, value)
    return bytes(write_members(whole))


def _merged(there: Raw, value: Raw, depth: int = 1) -> Raw:
    """A member of two answers as one: the value that is there, and the members of `value` beyond
    it."""
    if there in _NOTHING:
        return value
    inner, more = read_members(there), read_members(value)
    if depth == _DEEPEST or inner is None or more is None:
        return there
    both = {key: _merged(inner.get(key, _NONE), each, depth + 1) for key, each in more.items()}
    return write_members({**inner, **both})
