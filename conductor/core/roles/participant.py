"""The answers of a conductor that takes part in SCP, before it has a successor.

The client of an SCP proxy initializes it first, and then names the components behind it by
`_scp/proxy`. Until then each other request is an error. The chain gets the client's `initialize`
under the id of `_scp/proxy`: so the answer to `_scp/proxy` is the chain's answer to `initialize`,
with the capabilities of the agent.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import json_text, jsonrpc
from conductor.core.dialects import INITIALIZE, LAUNCH, ROLE_METHODS
from conductor.core.json_text import read_members
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    Params,
)
from conductor.core.roles.initialize_params import (
    add_offer,
    has_section,
    select_version,
    version_of,
)

MOST_SERVERS: Final = 64
"""The most successors that a client may name."""

_LONGEST_METHOD: Final = 1024
_NO_REQUEST: Final = (
    'a request has an id, `"jsonrpc":"2.0"`, and a method of at most 1,024 characters'
)
_NO_SCP: Final = (
    "this is a proxy of SCP, and the client does not take part in SCP: its `initialize` has no "
    "`_meta.symposium`\nhint: an editor starts `conductor agent`; another conductor needs no "
    "`--dialect`"
)
_ONCE: Final = f"`{LAUNCH}` comes once: the chain is there, and does not change"
_SERVERS: Final = '`{}` has `servers`: a list of {{"name", "command", "args", "env"}}'


class Variable(msgspec.Struct, frozen=True):
    """A variable of a server's environment."""

    name: str
    value: str


class Server(msgspec.Struct, frozen=True):
    """A successor that a client names: a stdio `McpServer` of ACP."""

    command: str
    name: str = ""
    args: list[str] = []
    env: list[Variable] = []
    type: Literal["stdio"] = "stdio"


class Launch(NamedTuple):
    """A client has named the successors."""

    id: bytes
    servers: list[Server]
    initialize: bytes
    """A frame: the client's `initialize`, under the id of its `_scp/proxy`."""


class _Servers(msgspec.Struct, frozen=True):
    servers: list[Server]


_named = json_text.Decoder(_Servers)
_listed = json_text.Decoder(list[Server])


class Participant:
    """The client's messages up to `_scp/proxy`."""

    def __init__(self, version: str) -> None:
        """`version`: the version of this conductor."""
        self._info = {"name": "conductor", "version": version}
        self._initialize: Params = UNSET

    def receive(self, frame: bytes) -> bytes | Launch | None:
        """Takes a frame of the client. Returns the frame that answers it, or a `Launch` if it names
        the successors, or None where it gets no answer. Never raises."""
        if not frame or frame.isspace():
            return None
        key: bytes | None = None
        try:
            message = jsonrpc.parse(frame)
            if not isinstance(message, Message):
                raise Malformed(INVALID_REQUEST, "`initialize` comes first, and not in an array")
            key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
            if isinstance(message.method, UnsetType) or message.id is UNSET:
                return None
            if key is None or message.jsonrpc != "2.0" or len(message.method) > _LONGEST_METHOD:
                raise Malformed(INVALID_REQUEST, _NO_REQUEST)
            return self._request(key, message.method, message.params)
        except Malformed as error:
            body = jsonrpc.error_object(error.code, error.text)
            return jsonrpc.answer(error.id or key or b"null", b"error", body)

    def _request(self, key: bytes, method: str, params: Params) -> bytes | Launch:
        if method in ROLE_METHODS:
            raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
        if isinstance(self._initialize, UnsetType):
            if method != INITIALIZE:
                raise Malformed(INVALID_REQUEST, f"expected `{INITIALIZE}` request")
            return jsonrpc.answer(key, b"result", self._initialized(params))
        if method != LAUNCH:
            text = f"`{method}` before `{LAUNCH}`: this proxy has no successor yet"
            raise Malformed(INVALID_REQUEST, text)
        initialize = jsonrpc.request(key, INITIALIZE, self._initialize)[:-1]
        return Launch(key, _servers(params), initialize)

    def _initialized(self, params: Params) -> Raw:
        """The result of `initialize`: nothing but that this is a proxy."""
        selected = select_version(params)
        if not has_section(params):
            raise Malformed(INVALID_REQUEST, _NO_SCP)
        self._initialize = params
        version = version_of(read_members(selected) or {})
        members: dict[str, object] = {"protocolVersion": version}
        if version == 2:
            members |= {"info": self._info, "capabilities": {}}
        else:
            members["agentCapabilities"] = {}
        answer = add_offer(Raw(json_text.encode(members)), "agent")
        assert isinstance(answer, Raw)
        return answer


def repeated(frame: bytes) -> bytes | None:
    """The answer to a request `_scp/proxy` once there is a chain; None for every other frame."""
    if b"_scp" not in frame:
        return None
    message = jsonrpc.message_of(frame)
    if message is None or message.method != LAUNCH:
        return None
    key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
    if key is None:
        return None
    return jsonrpc.answer(key, b"error", jsonrpc.error_object(INVALID_REQUEST, _ONCE))


def _servers(params: Params) -> list[Server]:
    """The successors in the params of `_scp/proxy`; SCP does not name their member, so a list
    alone will do. Raises `Malformed`."""
    text = bytes(params) if isinstance(params, Raw) else b"null"
    try:
        servers = _listed.decode(text) if text[:1] == b"[" else _named.decode(text).servers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(INVALID_PARAMS, f"{_SERVERS.format(LAUNCH)}: {error}") from None
    if not 0 < len(servers) <= MOST_SERVERS:
        count = f"`{LAUNCH}` names {len(servers)} successors; it takes 1 to {MOST_SERVERS}"
        raise Malformed(INVALID_PARAMS, count)
    for server in servers:
        words = [server.command, server.name, *server.args]
        words += [word for each in server.env for word in (each.name, each.value)]
        odd = any(not each.name or "=" in each.name for each in server.env)
        if not server.command or odd or any("\0" in word for word in words):
            raise Malformed(
                INVALID_PARAMS, f"`{LAUNCH}` names a command or a variable that cannot be one"
            )
    return servers
