"""One MCP client of the agent's, and the way its messages go, chosen by what it says first."""

from __future__ import annotations

from collections.abc import Callable

from conductor.core.jsonrpc import METHOD_NOT_FOUND, error_object
from conductor.mcp.bridge import limits
from conductor.mcp.bridge.adapters import Adapter, Request
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.consumers import Consumer
from conductor.mcp.bridge.downgrade import Downgrade
from conductor.mcp.bridge.generations import Generation
from conductor.mcp.bridge.json import EMPTY
from conductor.mcp.bridge.line import Line, OnAnswer
from conductor.mcp.bridge.providers import Provider
from conductor.mcp.bridge.relay import Relay
from conductor.mcp.bridge.revisions import DISCOVER, INITIALIZE, PROBE, modern
from conductor.mcp.bridge.servers import Server
from conductor.mcp.bridge.upgrade import Upgrade


class Client:
    """A client of one server. What it says before its way is clear waits in order."""

    def __init__(
        self, server: Server, line: Line, consumer: Consumer, speaks: Generation | None = None
    ) -> None:
        """`speaks`: the generation of an agent that takes servers of ACP transport."""
        self.server = server
        self._speaks = speaks
        self.consumer = consumer
        self._line = line
        self._adapter: Adapter | None = None
        self._modern = False
        self._first = ""
        """The method of its first request."""
        self._provider = Provider(server, line, self)
        self._choosing = False
        self._waiting: list[Callable[[], None]] = []
        self._ended = False
        server.clients.append(self)

    # -- from the client -----------------------------------------------------------------------

    def open(self, generation: Generation, then: OnAnswer) -> None:
        """The client connects, in its generation; as of `Provider.open`."""
        self._provider.open(generation, then)

    def request(self, asked: Request) -> None:
        """The client asks."""
        if self._modern and asked.method == "initialize" and self._adapter is not None:
            # It had tried the revision without sessions, and did not like what it found.
            self._adapter.closed()
            self._adapter = None
            self._provider = Provider(self.server, self._line, self)
        if self._adapter is not None:
            self._adapter.request(asked)
            return
        if len(self._waiting) >= limits.OPEN:
            error = limits.refusal(self.server.label, f"{limits.OPEN} messages wait for it")
            self.consumer.answer(asked.id, b"error", error)
            return
        self._waiting.append(lambda: self.request(asked))
        if not self._choosing:
            self._modern = modern(asked.method, asked.params)
            if self._speaks is not None and self._speaks.stateless:
                self._modern = asked.method != INITIALIZE
            self._first = asked.method
            probe = Call(DISCOVER, PROBE, lambda member, body: self._probed(asked.id, member, body))
            if asked.method == DISCOVER:  # what the client asks first is what has to be known first
                probe.params, probe.raw = asked.params, asked.raw
                probe.request_id = asked.request_id
            self._choose(probe)

    def notification(self, method: str, params: bytes | None) -> None:
        """The client tells."""
        if self._adapter is not None:
            self._adapter.notification(method, params)
        elif self._choosing and len(self._waiting) < limits.OPEN:
            self._waiting.append(lambda: self.notification(method, params))

    def cancel(self, key: bytes) -> None:
        """A request of the client's is to be cancelled, and answered nevertheless."""
        if self._adapter is not None:
            self._adapter.cancel(key)
        elif len(self._waiting) < limits.OPEN:
            self._waiting.append(lambda: self.cancel(key))

    def closed(self) -> None:
        """The client is gone."""
        if not self._ended:
            self._ended = True
            self.server.clients.remove(self)
            if self._adapter is not None:
                self._adapter.closed()
            self._provider.close()

    def drop(self) -> None:
        """Ends the client's connection."""
        self.consumer.drop()
        self.closed()

    # -- the way -------------------------------------------------------------------------------

    def _choose(self, probe: Call) -> None:
        """Finds out what the component speaks, unless that is known, and goes on by that.

        Of the client's own generation a component is not asked: what the client says tells."""
        self._choosing = True
        generation = self.server.generation
        known = not generation.stateless or self.server.discovered is not None
        if known or (self._speaks is generation and self._first != INITIALIZE):
            self._chosen()
        else:
            self._provider.request(probe)

    def _probed(self, id_: bytes, member: bytes, body: bytes) -> None:
        server = self.server
        if not server.generation.stateless:
            self._chosen()  # it knew nothing of that, and was connected to
        elif member == b"result":
            server.discovered = body
            if self._first == DISCOVER:
                self._waiting.pop(0)
                self.consumer.answer(id_, member, body)
            self._chosen()
        elif server.confirmed:
            server.discovered = EMPTY  # it does not say what it is; it may serve nevertheless
            self._chosen()
        else:
            self._refused(id_, body)

    def _chosen(self) -> None:
        stateless, confirmed = self.server.generation.stateless, self.server.confirmed
        if self._speaks is self.server.generation and self._first != INITIALIZE:
            self._adapter = Relay(
                self.consumer, self._provider, None if confirmed else self._given_back
            )
        elif stateless == self._modern:
            self._adapter = Relay(self.consumer, self._provider)
        elif stateless:
            self._adapter = Upgrade(self.consumer, self._provider)
        else:
            self._provider.close()  # it may have been opened to find out; all share one session
            self._adapter = Downgrade.of(self.server, self._line).port(self.consumer)
        self._go_on()

    def _given_back(self, asked: Request) -> None:
        """The component is of another generation than the client's request was passed on in."""
        if isinstance(self._adapter, Relay):
            self._adapter = None
            self._chosen()
        self.request(asked)

    def _go_on(self) -> None:
        self._choosing = False
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def _refused(self, id_: bytes, error: bytes) -> None:
        """The component could not be asked: the request that led to it fails, later ones try."""
        self._choosing = False
        self._waiting.pop(0)
        self.consumer.answer(id_, b"error", error)
        self._go_on()

    # -- from the component --------------------------------------------------------------------

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """The component asks for something."""
        if self._adapter is not None:
            self._adapter.asked(method, params, reply, call)
        else:
            text = f"`{method}`: the MCP client has not said anything yet"
            reply(b"error", error_object(METHOD_NOT_FOUND, text))

    def withdrawn(self, reply: OnAnswer) -> None:
        """It does not want the answer any more."""
        if self._adapter is not None:
            self._adapter.withdrawn(reply)

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """The component sent a notification."""
        if self._adapter is not None:
            self._adapter.told(method, params, call)

    def gone(self) -> None:
        """The component closed the connection."""
        self.drop()
