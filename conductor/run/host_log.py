"""How the process that hosts guests writes its log to standard error, which the parent reads."""

from __future__ import annotations

from typing import Final

from conductor.patterns import lazy_pattern

ENTRY: Final = lazy_pattern(r"(debug|info|warning|error): ([^:\n]+): (.*)")
"""An entry: level, component and text."""
FURTHER: Final = "  "
"""How a further line of an entry begins."""
