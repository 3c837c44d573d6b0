"""The facts that a policy reads of a message: its key, its session, and the thing it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.aliases import renamed
from conductor.core.json_text import Decoder, read_members, text_of
from conductor.core.jsonrpc import Params
from conductor.core.policy.key_table import KINDS, MCP_FAMILIES, UPDATE, update


class Heading(NamedTuple):
    """The facts that the engine reads of a message before it decides anything about it."""

    key: str
    session: str | None
    detail: str | tuple[str, ...] | None = None
    """The tool call or message an update is about, or the addresses of an MCP message."""


NO_HEADING: Final = Heading("", None)
"""The heading of messages that nobody puts in order."""


class Message(NamedTuple):
    """A request or a notification on its way, with its heading."""

    method: str
    params: Params
    heading: Heading

    @property
    def key(self) -> str:
        """The key by which policies name it."""
        return self.heading.key

    @property
    def session(self) -> str | None:
        """The session it belongs to; None if it names none."""
        return self.heading.session

    def renamed(self, ids: Mapping[str, str]) -> Message:
        """The message with other ids of sessions."""
        params = self.params
        return (
            self
            if isinstance(params, UnsetType)
            else read_message(self.method, Raw(renamed(bytes(params), ids)))
        )


NO_MESSAGE: Final = Message("", UNSET, NO_HEADING)

# The members of params that headings are read from, by their names on the wire.


class Update(msgspec.Struct):
    """The kind of an update, and the tool call or message it is about."""

    sessionUpdate: str = ""  # noqa: N815 - the wire's names
    toolCallId: str | None = None  # noqa: N815
    messageId: str | None = None  # noqa: N815


class SessionNames(msgspec.Struct):
    """The members that hold the name of a session."""

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


_session_update: Final = Decoder(SessionUpdate)
_session: Final = Decoder(SessionNames)
_inner: Final = Decoder(McpMessage)

_KEYS: Final = {kind: update(kind) for kind in KINDS}
_UNKNOWN: Final = update("")
_ADDRESSES: Final = (
    "connectionId",
    "connection_id",
    "serverId",
    "acpId",
    "acp_id",
    "acp_url",
    "url",
)
_SCP: Final = ("name",)


def session_of(params: Params) -> str | None:
    """The session a message belongs to, or None if it names none."""
    read = _session.find(params)
    return None if read is None else read.session


def heading(method: str, params: Params, session: str | None = None) -> Heading:
    """Reads a message's key, session and detail; never raises, whatever the bytes.

    `session`: the result of `session_of` for the params, where somebody has it already.
    """
    if method == UPDATE:
        read = _session_update.find(params)
        if read is None:
            return Heading(_UNKNOWN, session_of(params))
        held, session = read.update, read.session
        if held is None:
            return Heading(_UNKNOWN, session)
        key = _KEYS.get(held.sessionUpdate, _UNKNOWN)
        return Heading(key, session, held.toolCallId or held.messageId)
    if method.startswith(MCP_FAMILIES):
        return Heading(method, session_of(params), addresses(method, params))
    return Heading(method, session_of(params) if session is None else session)


def read_message(method: str, params: Params, session: str | None = None) -> Message:
    """A message with its heading (`heading`)."""
    return Message(method, params, heading(method, params, session))


def addresses(method: str, params: Params) -> tuple[str, ...]:
    """The servers and connections that an MCP message names."""
    members = read_members(params) or {}
    names = _SCP if method == "_scp/mcp" else _ADDRESSES
    return tuple(text_of(members[name]) for name in names if name in members)  # empty: nobody's


def inner_method(method: str, params: Params) -> str | None:
    """The method of MCP that a message of MCP over ACP is about."""
    read = _inner.find(params) if method.startswith(MCP_FAMILIES) else None
    return None if read is None else read.method


def size_of(params: Params) -> int:
    """Bytes that params take."""
    return 0 if isinstance(params, UnsetType) else memoryview(params).nbytes
