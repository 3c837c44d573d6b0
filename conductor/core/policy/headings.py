"""What a policy reads of a message: its key, its session, and which of many things it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.aliases import renamed
from conductor.core.json_text import Decoder
from conductor.core.jsonrpc import Params
from conductor.core.policy.key_table import KINDS, MCP_FAMILIES, UPDATE, update
from conductor.core.policy.params import McpMessage, SessionNames, SessionUpdate


class Heading(NamedTuple):
    """What the engine reads of a message before it decides anything about it."""

    key: str
    session: str | None
    detail: str | tuple[str, ...] | None = None
    """The tool call or message an update is about, or the addresses of an MCP message."""


NO_HEADING: Final = Heading("", None)
"""Of what nobody puts in order."""


class Message(NamedTuple):
    """A request or a notification on its way, with its heading."""

    method: str
    params: Params
    heading: Heading

    @property
    def key(self) -> str:
        """What policies call it by."""
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

_session_update: Final = msgspec.json.Decoder(SessionUpdate).decode
_session: Final = msgspec.json.Decoder(SessionNames).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_text: Final = Decoder(str).decode

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


_Read = TypeVar("_Read")


def _read(decode: Callable[[Raw | bytes], _Read], params: Raw) -> _Read | None:
    """What is read of params, where that can be; half an emoji somewhere in them is no obstacle."""
    try:
        return decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        slowly: Callable[[Raw | bytes], _Read] = _SLOWLY[decode]
        return slowly(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def session_of(params: Params) -> str | None:
    """The session a message belongs to, or None if it names none."""
    if isinstance(params, UnsetType):
        return None
    read = _read(_session, params)
    return None if read is None else read.session


def heading(method: str, params: Params, session: str | None = None) -> Heading:
    """Reads a message's key and what else a policy needs; never raises, whatever the bytes.

    `session`: what `session_of` reads of the params, where somebody has read that already.
    """
    if method == UPDATE:
        if isinstance(params, UnsetType):
            return Heading(_UNKNOWN, None)
        read = _read(_session_update, params)
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
    if isinstance(params, UnsetType):
        return ()
    members = _read(_members, params) or {}
    named = []
    for name in _SCP if method == "_scp/mcp" else _ADDRESSES:
        if name in members:
            try:
                named.append(_text(members[name]))
            except (msgspec.DecodeError, UnicodeDecodeError):
                named.append("")  # nobody's
    return tuple(named)


_inner: Final = msgspec.json.Decoder(McpMessage).decode


_SLOWLY: Final[dict[Any, Any]] = {
    _session_update: Decoder(SessionUpdate).decode,
    _session: Decoder(SessionNames).decode,
    _members: Decoder(dict[str, Raw]).decode,
    _inner: Decoder(McpMessage).decode,
}
"""What reads the same where the texts hold half an emoji."""


def inner_method(method: str, params: Params) -> str | None:
    """The method of MCP that a message of MCP over ACP is about."""
    if not method.startswith(MCP_FAMILIES) or isinstance(params, UnsetType):
        return None
    read = _read(_inner, params)
    return None if read is None else read.method


def size_of(params: Params) -> int:
    """Bytes that params take."""
    return 0 if isinstance(params, UnsetType) else memoryview(params).nbytes
