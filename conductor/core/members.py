"""A JSON object opened one level deep: values stay raw, so what nobody touches stays as it is."""

from __future__ import annotations

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import surrogates

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def read(raw: Raw | bytes | UnsetType | None) -> dict[str, Raw] | None:
    """The members of a JSON object (of several with one name the last), or None if it is none."""
    if raw is None or isinstance(raw, UnsetType):
        return None
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _with_surrogates(bytes(raw))


def _with_surrogates(raw: bytes) -> dict[str, Raw] | None:
    try:
        found = _decode(surrogates.hide(raw) or raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # not JSON, or a name that is no text
    return {name: Raw(surrogates.show(bytes(value))) for name, value in found.items()}


def write(members: dict[str, Raw]) -> Raw:
    """The object with these members."""
    return Raw(_encode(members))
