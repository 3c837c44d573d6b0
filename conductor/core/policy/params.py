"""The members of params that headings are read from, by their names on the wire."""

from __future__ import annotations

import msgspec


class Update(msgspec.Struct):
    """What an update is, and the tool call or message it is about."""

    sessionUpdate: str = ""  # noqa: N815 - the wire's names
    toolCallId: str | None = None  # noqa: N815
    messageId: str | None = None  # noqa: N815


class SessionNames(msgspec.Struct):
    """Where the name of a session stands."""

    sessionId: str | None = None  # noqa: N815
    session_id: str | None = None

    @property
    def session(self) -> str | None:
        """The name, in today's spelling where there are two; an empty name is a name."""
        return self.session_id if self.sessionId is None else self.sessionId


class SessionUpdate(SessionNames):
    """`session/update`."""

    update: Update | None = None


class McpMessage(msgspec.Struct):
    """A message of MCP over ACP."""

    method: str | None = None
