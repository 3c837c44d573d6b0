"""How a service says no."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from conductor.core import jsonrpc

Shape = TypeVar("Shape")

REFUSED = -32000
"""JSON-RPC code of a service that could not, or would not, do what was asked."""


class ServiceError(Exception):
    """A request that a service refuses. `reason` is one word for programs, the text for people.

    `ours`: what of it is the user's business and not the component's, for the log.
    """

    def __init__(self, reason: str, text: str, code: int = REFUSED, *, ours: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.code = code
        self.ours = ours

    def body(self, service: str) -> bytes:
        """The JSON-RPC error object."""
        data = {"service": service, "reason": self.reason}
        return jsonrpc.error_object(self.code, f"{service}: {self.text}", data)


def bad_params(text: str) -> ServiceError:
    """The params are not what the service takes."""
    return ServiceError("params", text, jsonrpc.INVALID_PARAMS)


def read(params: bytes | None, shape: type[Shape]) -> Shape:
    """Decodes params strictly. Raises `ServiceError` that says where they are wrong."""
    try:
        return msgspec.json.decode(params or b"{}", type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_params(str(error)) from None
