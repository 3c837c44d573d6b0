"""Regular expressions that are compiled when they are first used.

An editor waits for the start of a chain. Compiling all of ours took a seventh of that time, and
most patterns are for changes by components, or for errors.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """Stands for an `re.Pattern`; has its methods from their first use on."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Only for attributes that are not there yet; `re` keeps the compiled pattern until then.
        compiled: re.Pattern[Any] = re.compile(self._text, self._flags)
        value = getattr(compiled, name)
        setattr(self, name, value)
        return value


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, but compiles the pattern, and finds mistakes, only at the first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
