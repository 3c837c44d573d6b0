"""Requests to components, from when they are made until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from conductor.mcp.bridge.line import OnAnswer

if TYPE_CHECKING:
    from conductor.mcp.bridge.providers import Provider


class Call:
    """One request to a component."""

    __slots__ = (
        "cancelled",
        "first_error",
        "give_back",
        "id",
        "inner_id",
        "key",
        "method",
        "on_answer",
        "owner_id",
        "params",
        "provider",
        "raw",
        "request_id",
        "token",
    )

    def __init__(
        self,
        method: str,
        params: bytes | None,
        on_answer: OnAnswer,
        *,
        owner_id: bytes | None = None,
        request_id: str | None = None,
        raw: bytes | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.on_answer = on_answer
        self.owner_id = owner_id
        """Raw id of the client's request it serves."""
        self.request_id = request_id
        """The `requestId` to be used, where the client has given one."""
        self.raw = raw
        """The params of ACP to be used as they are, in the stateless generation."""
        self.provider: Provider | None = None
        self.id: bytes | None = None
        """Raw id it was sent under; None before that and after its answer."""
        self.inner_id: int | None = None
        """The id of the message inside, in generations that nest it."""
        self.key = ""
        self.token: Raw | None = None
        """The client's progress token, where the component got another."""
        self.first_error: bytes | None = None
        """How the first generation that was tried refused it."""
        self.cancelled = False
        self.give_back: Callable[[], None] | None = None
        """Takes it instead of an answer, where the component turns out to be of another generation
        than whoever asks; None: it is asked in that."""
