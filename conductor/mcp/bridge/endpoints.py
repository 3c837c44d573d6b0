"""The bridge's ends of its connections: where it sends messages, and who takes the responses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import Message
from conductor.mcp.bridge.effects import CloseClient, Effect, NoResponse, ToClient
from conductor.mcp.bridge.json import NULL
from conductor.mcp.bridge.protocol import CANCELLED

OnResponse = Callable[[bytes, bytes], None]
"""Takes a response: the name of its member (`result` or `error`), and that member as raw JSON."""


def ignore(member: bytes, body: bytes) -> None:
    """For a request whose response changes nothing."""


class Endpoint(ABC):
    """The receiver of the messages for a server."""

    @abstractmethod
    def request(self, method: str, params: bytes, on_response: OnResponse) -> bytes:
        """Sends a request; its raw id."""

    @abstractmethod
    def notify(self, method: str, params: bytes) -> None:
        """Sends a notification."""

    @abstractmethod
    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the neighbour."""

    @abstractmethod
    def cancel(self, id_: bytes) -> None:
        """Asks to cancel a pending request; it gets a response nevertheless."""


class AcpEndpoint(Endpoint):
    """Sends the bridge's own messages to one neighbour, the chain or the agent.

    Each request's id begins with `prefix`, which no other peer uses, so that responses to the
    bridge can be distinguished from responses that pass through.
    """

    def __init__(self, emit: Callable[[bytes], None], prefix: str) -> None:
        self._emit = emit
        self._prefix = prefix
        self._last = 0
        self._pending: dict[bytes, OnResponse] = {}

    def request(self, method: str, params: bytes, on_response: OnResponse) -> bytes:
        """Sends a request; its raw id."""
        self._last += 1
        id_ = b'"%b%d"' % (self._prefix.encode(), self._last)
        self._pending[id_] = on_response
        self._emit(jsonrpc.request(id_, method, params))
        return id_

    def notify(self, method: str, params: bytes) -> None:
        """Sends a notification."""
        self._emit(jsonrpc.notification(method, params))

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the neighbour."""
        self._emit(jsonrpc.answer(id_, member, body))

    def cancel(self, id_: bytes) -> None:
        """Asks to cancel a pending request. ACP wants a response to it nevertheless."""
        if id_ in self._pending:
            self._emit(jsonrpc.notification(CANCEL, b'{"requestId":%b}' % id_))

    def received_response(self, message: Message) -> bool:
        """Takes a response of the neighbour; False if the request was not the bridge's."""
        key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
        on_response = self._pending.pop(key, None) if key is not None else None
        if on_response is None:
            return False
        on_response(*outcome_of(message))
        return True


def outcome_of(message: Message) -> tuple[bytes, bytes]:
    """The member of a response that counts, and its body."""
    member, body = jsonrpc.outcome(message) or (b"result", NULL)
    return member, bytes(body)


class ClientConnection(ABC):
    """The agent's end: an MCP client's connection to the bridge."""

    def asked(self, id_: bytes, method: str, params: bytes | None) -> bytes | None:
        """The client has sent a request. Returns the params that go on."""
        return params

    @abstractmethod
    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the client."""

    @abstractmethod
    def no_response(self, id_: bytes) -> None:
        """The client has cancelled its request, and gets no result."""

    @abstractmethod
    def request(
        self, method: str, params: bytes | None, on_response: OnResponse, related: bytes | None
    ) -> bytes | None:
        """Sends the client a request. Returns its raw id, or None if the client takes no requests.

        `related`: raw id of the client's request that this one belongs to.
        """

    @abstractmethod
    def notify(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Sends the client a notification."""

    def cancel(self, id_: bytes, related: bytes | None) -> None:
        """Cancels a request to the client, by its raw id."""
        self.notify(CANCELLED, b'{"requestId":%b}' % id_, related)

    @abstractmethod
    def close(self) -> None:
        """Closes the connection."""


class DoorConnection(ClientConnection):
    """A client that speaks plain MCP through a door."""

    def __init__(self, name: str, emit: Callable[[Effect], None]) -> None:
        self.name = name
        self._emit = emit
        self._last = 0
        self._pending: dict[bytes, OnResponse] = {}

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        self._send(jsonrpc.answer(id_, member, body), None)

    def no_response(self, id_: bytes) -> None:
        self._emit(NoResponse(self.name, id_))

    def request(
        self, method: str, params: bytes | None, on_response: OnResponse, related: bytes | None
    ) -> bytes | None:
        self._last += 1
        id_ = b"%d" % self._last
        self._pending[id_] = on_response
        self._send(jsonrpc.request(id_, method, params or b"{}"), related)
        return id_

    def notify(self, method: str, params: bytes | None, related: bytes | None) -> None:
        self._send(jsonrpc.notification(method, params if params is not None else b"{}"), related)

    def cancel(self, id_: bytes, related: bytes | None) -> None:
        self._pending.pop(id_, None)
        super().cancel(id_, related)

    def close(self) -> None:
        self._emit(CloseClient(self.name))

    def received_response(self, id_: bytes, message: Message) -> None:
        """Takes a response of the client; a response to no request of ours is dropped."""
        on_response = self._pending.pop(id_, None)
        if on_response is not None:
            on_response(*outcome_of(message))

    def _send(self, frame: bytes, related: bytes | None) -> None:
        self._emit(ToClient(self.name, frame[:-1], related))
