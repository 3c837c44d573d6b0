"""The exceptions a caller or a user meets; rendered as `error: …`, blank line, `hint: …`.

ConductorError
├── UsageError       what was asked for cannot be: unknown name, bad option (exit code 2)
└── ComponentError   a component could not be started or has failed (exit code 1)
"""

from __future__ import annotations

from typing import Any

from conductor.foreign import marked


class ConductorError(Exception):
    """A failure with a sentence for a person, a hint what to do, and details for machines.

    Both texts may quote other people: they are kept as they can be shown (`conductor.foreign`).
    """

    exit_code = 1

    def __init__(self, text: str, hint: str = "", data: dict[str, Any] | None = None) -> None:
        self.text = marked(text)
        self.hint = marked(hint)
        super().__init__(self.text)
        self.data = data or {}


class UsageError(ConductorError):
    """What was asked for cannot be: an unknown name, a bad option, a file that is not there."""

    exit_code = 2


class ComponentError(ConductorError):
    """A component could not be started, or has failed."""
