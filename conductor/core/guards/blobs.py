"""What is encoded in a block of a prompt: an agent may read a text out of it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from conductor.core.guards.reading import Absent, Json, as_object

_PLAIN: Final = str.maketrans("-_", "+/", "\t\n\r =")
"""Both alphabets of base64 as one, without the padding."""
_textual = re.compile(r"text|json|xml|ya?ml|script", re.IGNORECASE).search


def as_bytes(blob: Json | Absent) -> bytes | None:
    """What a blob holds; None where it is no base64, which every program would read differently."""
    if not isinstance(blob, str):
        return None
    bare = blob.translate(_PLAIN)
    if "=" in blob.rstrip("=\t\n\r "):
        return None
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):  # no base64, no ASCII
        return None


def as_text(blob: Json, holder: Json) -> str:
    """The text that a member `blob` of `holder` holds; empty where it holds none.

    What is no text says so by bytes that no text has, unless it is said to be one.
    """
    text = (as_bytes(blob) or b"").decode(errors="replace")
    said = str(as_object(holder).get("mimeType"))
    odd = "\0" in text and "\ufffd" in text
    return "" if odd and _textual(said) is None else text
