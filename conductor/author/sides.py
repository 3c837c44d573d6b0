"""Lines of a component on one connection, as the same lines with side bytes. Pure.

A guest has a side byte in each line. A program on one connection wraps messages of its successor
in envelopes, and calls services of the conductor by methods of their own.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import dialects
from conductor.core.dialects import ENVELOPES
from conductor.core.jsonrpc import Malformed
from conductor.core.service_table import ALIASES, PREFIX

SIDES: Final = (b"p", b"s", b"c")
"""Side bytes: predecessor, successor, conductor. No JSON-RPC message begins with one."""


def split(line: bytes) -> tuple[bytes, bytes]:
    """The side byte of a line, empty on a connection without any, and the text behind it."""
    return (line[:1], line[1:]) if line.startswith(SIDES) else (b"", line)


def opened(method: str, params: Raw | UnsetType) -> tuple[str, str, Raw | UnsetType]:
    """Side, method and params of a request or notification on one connection."""
    if method in ENVELOPES:
        try:
            inner = dialects.unwrap(params)
        except Malformed:
            return "p", method, params  # no envelope after all: the predecessor gets it unchanged
        if inner.peer:
            return "s", method, params  # as a guest writes it
        return "s", inner.method, inner.params
    service = called_service(method)
    return ("p", method, params) if service is None else ("c", service, params)


def called_service(method: str) -> str | None:
    """The service that a method on one connection calls; None for all other methods."""
    name = ALIASES.get(method, method.removeprefix(PREFIX))
    return None if name == method else name
