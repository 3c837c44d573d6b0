"""The NATS client of a bus, and words for its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from nats import errors
from nats.aio.client import Client


class BusClient(Client):
    """A client that sees the cluster lose a server: the others then list the servers left."""

    def __init__(self, secure: bool) -> None:
        """`secure`: on each connection TLS begins before anything is sent."""
        super().__init__()
        self._secure = secure
        self.shrunk: float | None = None
        """When that was last."""
        self._urls: set[str] = set()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._secure:
            # A stranger who answers there may say that it wants no TLS, and would get the login.
            info["tls_required"] = True
        urls = {*(info.get("connect_urls") or ())}
        if self._urls - urls:
            self.shrunk = asyncio.get_running_loop().time()
        self._urls = urls
        await super()._process_info(info, initial_connection)

    @property
    def answers(self) -> int:
        """How often the server has answered a ping."""
        return self._pongs_received

    @property
    def is_asked(self) -> bool:
        """Whether a ping has no answer yet."""
        return bool(self._pongs)

    def ping(self) -> Coroutine[object, object, None]:
        """Asks the server for a sign of life."""
        return self._send_ping()


def is_final(error: Exception) -> bool:
    """Whether a further try cannot help."""
    text = str(error).lower()
    refused = isinstance(error, errors.AuthorizationError) or "authorization" in text
    return refused or "invalid connect url" in text


def why(error: Exception) -> str:
    text = getattr(error, "description", None) or str(error)
    return text.removeprefix("nats: ").strip("'\" ") or type(error).__name__
