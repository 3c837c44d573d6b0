"""The two-way `_meta` handshake of the dialects `sacp`, `pacp` and `scp`.

The conductor offers the proxy role inside a plain `initialize`, the proxy echoes it in its result.
Offer and echo stay on their hop: neither the next component nor the client ever sees them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

_decode = msgspec.json.Decoder(dict[str, Raw])
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode

VERSION: Final = "1.0"
_CAPABILITIES: Final = ("clientCapabilities", "agentCapabilities", "capabilities")


def add(params: Raw | UnsetType, *, capabilities: str) -> Raw:
    """`params` (or a result) with the proxy flag in both places peers look for it.

    `capabilities` is the member that holds `_meta.symposium`: `clientCapabilities` in a v1
    request, `agentCapabilities` in a v1 result, `capabilities` in v2.
    """
    members = _decode.decode(b"{}" if params is UNSET else params)
    members["_meta"] = _flagged(members.get("_meta"), bare=True)
    held = _read(members.get(capabilities))
    inner = _flagged(Raw(_encode(held["_meta"])) if "_meta" in held else None, bare=False)
    held["_meta"] = inner
    members[capabilities] = Raw(_encode(held))
    return Raw(_encode(members))


def present(body: Raw | bytes | UnsetType) -> bool:
    """Whether the proxy flag stands in `body`, in any of the places the generations put it."""
    if isinstance(body, UnsetType) or b"proxy" not in bytes(body):
        return False
    members = _read(body)
    holders = [members.get("_meta"), *(_meta(members.get(name)) for name in _CAPABILITIES)]
    return any(_holds(holder) for holder in holders)


def remove(body: Raw | UnsetType) -> Raw | UnsetType:
    """`body` without the flag; what the flag was alone in goes too, all else stays as it is."""
    if isinstance(body, UnsetType) or not present(body):
        return body
    members = _decode.decode(body)
    _clean(members, "_meta")
    for name in _CAPABILITIES:
        if name in members:
            inner = _decode.decode(members[name])
            if "_meta" in inner:
                _clean(inner, "_meta")
                members[name] = Raw(_encode(inner))
    return Raw(_encode(members))


def _read(raw: Raw | bytes | UnsetType | None) -> dict[str, Any]:
    if raw is None or isinstance(raw, UnsetType):
        return {}
    try:
        return _object.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _meta(capabilities: object) -> object:
    return capabilities.get("_meta") if isinstance(capabilities, dict) else None


def _holds(meta: object) -> bool:
    if not isinstance(meta, dict):
        return False
    symposium = meta.get("symposium")
    return meta.get("proxy") is True or (
        isinstance(symposium, dict) and symposium.get("proxy") is True
    )


def _flagged(meta: Raw | None, *, bare: bool) -> Raw:
    held = _read(meta)
    symposium = held.get("symposium")
    held["symposium"] = {
        "version": VERSION,
        **(symposium if isinstance(symposium, dict) else {}),
        "proxy": True,
    }
    if bare:
        held["proxy"] = True
    return Raw(_encode(held))


def _clean(members: dict[str, Raw], key: str) -> None:
    held = _read(members.get(key))
    if held.get("proxy") is True:
        del held["proxy"]
    symposium = held.get("symposium")
    if isinstance(symposium, dict) and symposium.get("proxy") is True:
        del symposium["proxy"]
        if set(symposium) <= {"version"}:
            del held["symposium"]
    if held:
        members[key] = Raw(_encode(held))
    else:
        members.pop(key, None)
