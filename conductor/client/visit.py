"""A client that attaches to sessions which others have, where a conductor serves them.

It has no session of its own, so no chain starts for it (docs/remote.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from conductor.client.chat_session import members
from conductor.client.connection import Connection
from conductor.errors import RequestError, UsageError

RESOURCE_NOT_FOUND: Final = -32002
POLICIES: Final = {"full": "full", "pending": "pending_only", "none": "none"}
"""How much of what has been a person wants, and its word on the wire."""
ATTACHES: Final = {"conductor": {"attaches": True}}
"""`_meta` of `initialize`."""

_MOST: Final = 1000


class Client(NamedTuple):
    """A client that is attached to a session."""

    id: str
    name: str
    role: str

    @property
    def shown(self) -> str:
        """What people call it."""
        return f"{self.name} ({self.id})" if self.name else self.id


class LiveSession(NamedTuple):
    """A session that is live on a server."""

    id: str
    cwd: str
    title: str
    turn: bool
    """Whether a turn is open."""
    clients: tuple[Client, ...]


def client_of(value: object) -> Client:
    """A client as messages name it."""
    held = members(value)
    return Client(*(str(held.get(key, "")) for key in ("clientId", "name", "role")))


def session_of(entry: object) -> LiveSession:
    """A session as a list has it."""
    held = members(entry)
    about = members(members(held.get("_meta")).get("conductor"))
    clients = about.get("clients")
    id_, cwd, title = (str(held.get(key, "")) for key in ("sessionId", "cwd", "title"))
    all_ = tuple(map(client_of, clients if isinstance(clients, list) else []))
    return LiveSession(id_, cwd, title, about.get("turn") is True, all_)


async def introduced(connection: Connection, place: str) -> None:
    """Begins as a client that only attaches.

    Raises:
        UsageError: Nobody can attach to anything there.
        RequestError: The server has refused.
    """
    answer = await connection.initialize({"fs": {}, "terminal": False}, ATTACHES)
    check(answer.get("agentCapabilities"), place)


def check(capabilities: object, place: str) -> None:
    """Raises `UsageError` where nobody can attach to anything."""
    can = members(members(capabilities).get("sessionCapabilities"))
    if not isinstance(can.get("attach"), dict):
        raise UsageError(
            f"{place} lets nobody attach to a session",
            "`conductor serve` and `conductor agent --listen` do",
        )


async def live(connection: Connection) -> list[LiveSession]:
    """The sessions that are live there. Raises `RequestError`."""
    listed = (await connection.request("session/list", {})).get("sessions")
    return [session_of(one) for one in (listed if isinstance(listed, list) else [])[:_MOST]]


async def attached(
    connection: Connection, session: str, *, drives: bool, history: str, name: str = ""
) -> Mapping[str, Any]:
    """Attaches to a session; what the server says of it. `name`: what others see the client as.

    Raises:
        UsageError: There is no such session.
        RequestError: The server has refused.
    """
    role = "driver" if drives else "viewer"
    asked: dict[str, object] = {"sessionId": session, "role": role}
    asked["historyPolicy"] = POLICIES[history]
    if name:
        asked["clientInfo"] = {"name": name}
    try:
        return await connection.request("session/attach", asked)
    except RequestError as error:
        if error.code != RESOURCE_NOT_FOUND:
            raise
        hint = "`conductor attach ADDRESS --list` shows those that are live"
        raise UsageError(f"no session `{session}` is live there", hint) from None
