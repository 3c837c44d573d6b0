"""Messages and errors as they stand on the wire; `conductor.core.jsonrpc` reads and writes them.

msgspec makes their classes from their annotations, which a compiled module does not have. So they
stand in a module of their own, which is never compiled.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

_NONE: Final = (UNSET, Raw(b"null"))


class Message(msgspec.Struct, frozen=True, gc=False):
    """One JSON-RPC object as it stood on the wire; members that were absent are `UNSET`.

    `jsonrpc` is empty where it was absent or no string.
    """

    jsonrpc: str = ""
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def answers(self) -> bool:
        """Whether it has a member of responses. With a `method` too it is no message at all; but
        beside one, null is none: some peers write all members of a message in each."""
        if self.result is UNSET and self.error is UNSET:
            return False
        return self.method is UNSET or self.result not in _NONE or self.error not in _NONE


class ErrorObject(msgspec.Struct, frozen=True):
    """What is read of an error object; the defaults stand for what cannot be read."""

    code: int = 0
    message: str = "an error"
