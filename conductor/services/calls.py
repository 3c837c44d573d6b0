"""The common part of all functions of services: the caller, the params, the refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from conductor.core import json_text, jsonrpc

Shape = TypeVar("Shape")

REFUSED = -31901
"""JSON-RPC code of a service that could not, or would not, perform a call."""


class Grantee(msgspec.Struct, frozen=True):
    """A proxy that may call services."""

    name: str
    identity: str
    """The same from run to run: stored values belong to it."""
    grants: frozenset[str] | None
    """As the user wrote them (`read:**/AGENTS.md`); None: everything is granted."""
    limits: Mapping[str, int]
    """All limits of the component, by name (`conductor.spec.limits`)."""


class ServiceError(Exception):
    """A call that a service refuses."""

    def __init__(
        self,
        reason: str,
        text: str,
        code: int = REFUSED,
        *,
        private: str = "",
        data: Mapping[str, object] | None = None,
    ) -> None:
        """
        Args:
            reason: One word for programs.
            text: A sentence for people.
            code: The JSON-RPC error code.
            private: For the user's log only, such as paths the component must not learn.
            data: More for programs.
        """
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.code = code
        self.private = private
        self.data = data or {}

    def body(self, call: str) -> bytes:
        """The JSON-RPC error object."""
        data = {"service": call, "reason": self.reason, **self.data}
        return jsonrpc.error_object(self.code, f"{call}: {self.text}", data)


def bad_params(text: str) -> ServiceError:
    """The error for params that the service does not accept."""
    return ServiceError("params", text, jsonrpc.INVALID_PARAMS)


def read(params: bytes | None, shape: type[Shape]) -> Shape:
    """Decodes params strictly. Raises `ServiceError` that says where they are wrong."""
    try:
        return json_text.decode(params or b"{}", type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_params(str(error)) from None
