"""URLs of files, as comments and operations of an editor name them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

_FILE: Final = re.compile(r"file:(?://([^/?#]*))?([^?#]*)", re.IGNORECASE)


def path_of(url: str) -> str | None:
    """The path that the URL of a file names; None: it is none, or of another machine."""
    found = _FILE.match(url)
    if found is None or (found[1] or "localhost").lower() != "localhost":
        return None
    return unquote(found[2])
