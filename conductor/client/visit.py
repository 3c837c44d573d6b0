"""The messages of a client that attaches to sessions of others (docs/remote.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from conductor.record.turns.messages import members

POLICIES: Final = {"full": "full", "pending": "pending_only", "none": "none"}
"""How much of the history a person wants, and the word for it on the wire."""
_MOST: Final = 1000


class Client(NamedTuple):
    """A client that is attached to a session."""

    id: str
    name: str
    role: str

    @property
    def shown(self) -> str:
        """The client's name for people."""
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


def about(held: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a session that a server of conductor adds to the agent's."""
    return members(members(held.get("_meta")).get("conductor"))


def session_of(entry: object) -> LiveSession:
    """A session as a list has it."""
    held = members(entry)
    said = about(held)
    clients = said.get("clients")
    id_, cwd, title = (str(held.get(key, "")) for key in ("sessionId", "cwd", "title"))
    all_ = tuple(map(client_of, clients if isinstance(clients, list) else []))
    return LiveSession(id_, cwd, title, said.get("turn") is True, all_)


def listed(answer: Mapping[str, Any]) -> list[LiveSession]:
    """The sessions that an answer lists."""
    sessions = answer.get("sessions")
    return [session_of(one) for one in (sessions if isinstance(sessions, list) else [])[:_MOST]]


def request(session: str, *, drives: bool, history: str, name: str) -> dict[str, Any]:
    """The params that attach to a session. `name`: the client's name for other clients."""
    role = "driver" if drives else "viewer"
    asked = {"sessionId": session, "role": role, "historyPolicy": POLICIES[history]}
    return {**asked, "clientInfo": {"name": name}} if name else asked
