"""The HTTP side of a server: POST, GET, DELETE and WebSockets at one path; paths for monitors."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from conductor.errors import ConductorError
from conductor.http.request import CLOSE, Refused, Request, Response, plain
from conductor.serve import http_rules, websocket
from conductor.serve.access.gate import offered
from conductor.serve.client_sockets import ClientSocket, taken
from conductor.serve.connections import Farewell, new_id
from conductor.serve.pulse import Pulse
from conductor.serve.streams import Streams
from conductor.transports.remote import wire

if TYPE_CHECKING:
    from conductor.http.websocket import WebSocket
    from conductor.serve.access.proof import Proof
    from conductor.serve.connections import Connection, Outlet
    from conductor.serve.server import Server

_ALIVE: Final = 15.0
"""Seconds after which an idle stream gets a comment."""
_OPENED: Final = 300.0
"""Seconds that a chain may take for `initialize`."""
_EVENTS: Final = (("content-type", wire.EVENTS), ("cache-control", "no-cache"))


class App:
    """Answers the requests of clients."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def serve(self, request: Request) -> None:
        """Answers a request."""
        # A page of an allowed origin may read any answer, also an error or a stream.
        request.more = (*http_rules.for_page(request.headers, self._server.gate.allowed).items(),)
        try:
            response = await self._response(request)
        except Refused as refused:
            self._server.denied(refused.status)
            raise
        if response is not None:
            await request.respond(response)

    async def _response(self, request: Request) -> Response | None:
        """The answer to a request, once it is clear who asks; None: it was sent."""
        headers, path = request.headers, request.path
        # A server in front and this server could disagree about a repeated header.
        if repeated := headers.repeated(http_rules.ONCE):
            raise Refused(400, f"the header `{repeated}` came twice")
        if path in ("/health", "/ready"):
            return self._looked(path)
        if self._is_allowed_preflight(request):
            return Response(status=204)
        proof = await self._server.gate.proof(headers)
        self._known(request, proof)
        if path == "/metrics":
            return plain(200, self._server.metrics())
        named = self._server.named(path)
        if named is None:
            raise Refused(404, "nothing is served at this path")
        return await self._asked(request, proof, named)

    def _known(self, request: Request, proof: Proof) -> None:
        """Counts the network connection of a request. Raises `Refused`."""
        try:
            self._server.known(request, proof.principal)
        except ConductorError as error:
            # A later request takes its place.
            raise Refused(429, f"{error.text}; {error.hint}", CLOSE) from None

    def _is_allowed_preflight(self, request: Request) -> bool:
        """Whether a page of an allowed origin asks, by a name of this server. Raises `Refused`."""
        if not http_rules.is_preflight(request.method, request.headers):
            return False
        self._server.gate.check_place(request.headers)
        return "origin" in request.headers

    def _looked(self, path: str) -> Response:
        if path == "/ready" and self._server.draining:
            return plain(503, "draining")
        if path == "/ready" and not self._server.is_ready():
            return plain(503, "a part that the chains need is away")
        return plain(200, "ok")

    async def _asked(self, request: Request, proof: Proof, named: str) -> Response | None:
        headers = request.headers
        if request.method == "GET" and headers.get("upgrade", "").lower() == "websocket":
            return await self._socket(request, proof, named)
        if request.method == "POST":
            return await self._post(request, proof, named)
        if request.method == "GET":
            ruling: http_rules.Ruling = http_rules.get(headers)
        elif request.method == "DELETE":
            ruling = http_rules.delete(headers)
        else:
            allowed = ", ".join(http_rules.METHODS)
            return plain(405, f"methods are: {allowed}", (("allow", allowed),))
        return await self._ruled(request, ruling, proof, named)

    async def _ruled(
        self, request: Request, ruling: http_rules.Ruling, proof: Proof, named: str
    ) -> Response | None:
        if isinstance(ruling, http_rules.Refuse):
            if ruling.json:
                return Response(ruling.json, ruling.status)
            return plain(ruling.status, ruling.text)
        if isinstance(ruling, http_rules.Open):
            return await self._open(ruling, proof, named)
        connection = self._connection(proof, ruling.connection)
        if isinstance(ruling, http_rules.Forward):
            return await self._forward(ruling, connection)
        if isinstance(ruling, http_rules.Listen):
            return await self._listen(request, ruling, connection)
        connection.close()
        return Response(status=202)

    async def _post(self, request: Request, proof: Proof, named: str) -> Response | None:
        """Reads the body, and counts it until it has been taken."""
        ruling = http_rules.post(request.headers, await self._body(request))
        return await self._ruled(request, ruling, proof, named)

    async def _body(self, request: Request) -> bytes:
        """The body of a request. Raises `Refused`."""
        limit = self._server.settings.message
        if int(request.headers.get("content-length", "0")) > limit:
            raise Refused(413, f"a message has at most {limit} bytes")
        return await request.body(limit)

    def _connection(self, proof: Proof, id_: str) -> Connection:
        """A connection of this principal: of others there is none."""
        connection = self._server.connection(proof, id_)
        if connection is None or not isinstance(connection.outlet, Streams):
            raise Refused(404, "there is no such connection")
        return connection

    # -- HTTP ------------------------------------------------------------------------------------

    async def _open(self, ruling: http_rules.Open, proof: Proof, named: str) -> Response | None:
        streams = Streams(ruling.id, self._server.kept(proof.principal))
        connection = self._joined(proof, streams, named)
        try:
            connection.received(ruling.frame)
            async with asyncio.timeout(_OPENED):
                body, failed = await streams.opening
        except TimeoutError:
            connection.close()
            return plain(504, "the chain has not answered in time")
        except BaseException:
            connection.close()  # the client has left meanwhile
            raise
        if failed:
            connection.close()
            return Response(body)
        connection.expect()
        # The number tells a client that it may send a message again, and resume a stream of which
        # nothing has come.
        marked = ((wire.CONNECTION, connection.id), (wire.NUMBER, "0"))
        return Response(body, headers=marked)

    def _joined(self, proof: Proof, outlet: Outlet, named: str, id_: str = "") -> Connection:
        try:
            return self._server.join(proof, outlet, named, id_)
        except ConductorError as error:
            raise Refused(503, error.text) from None

    async def _forward(self, ruling: http_rules.Forward, connection: Connection) -> Response | None:
        assert isinstance(connection.outlet, Streams)
        await connection.may_send()
        if connection.outlet.fresh(ruling.number):
            connection.received(ruling.frame)
        if not connection.outlet.readers:
            connection.expect()
        return Response(status=202)

    async def _listen(
        self, request: Request, ruling: http_rules.Listen, connection: Connection
    ) -> Response | None:
        streams = connection.outlet
        assert isinstance(streams, Streams)
        reader = streams.read(ruling.session, ruling.after)
        connection.linked()
        try:
            named = [(wire.SESSION, ruling.session)] if ruling.session is not None else []
            request.begin(200, (*_EVENTS, (wire.CONNECTION, connection.id), *named))
            # An id at once: also who has heard nothing yet can come back and miss nothing.
            await request.send(b":\nid: %d\n\n" % reader.after)
            while (events := await reader.take(_ALIVE)) is not None:
                await request.send(b"".join(events) or b":\n\n")
            request.end()
            return None
        finally:
            streams.leave(reader)
            if not streams.readers:
                connection.cut()

    # -- WebSockets ------------------------------------------------------------------------------

    async def _socket(self, request: Request, proof: Proof, named: str) -> Response | None:
        if wire.RESUMED in offered(request.headers).others:
            return await self._linked(request, proof, named)
        outlet = websocket.SocketOutlet()
        connection = self._joined(proof, outlet, named)
        try:
            socket = self._upgraded(request, connection, wire.PLAIN, self._server.settings.message)
            outlet.linked(socket)
            with _watched(taken(request), socket, lambda: connection.paused):
                await websocket.read(socket, connection)
        except BaseException:
            connection.lost()
            raise
        finally:
            outlet.drop()
        return None

    async def _linked(self, request: Request, proof: Proof, named: str) -> Response | None:
        """A WebSocket of a client that numbers its frames: a new connection, or the next link of
        an old connection."""
        id_ = request.headers.get(http_rules.CONNECTION, "")
        if id_:
            found = self._server.connection(proof, id_)
            if found is None or not isinstance(found.outlet, websocket.LinkedOutlet):
                raise Refused(404, "there is no such connection")
            connection, outlet = found, found.outlet
        else:
            id_, settings = new_id(), self._server.settings
            outlet = websocket.LinkedOutlet(id_, settings.message, settings.unread)
            connection = self._joined(proof, outlet, named, id_)
            outlet.holds = self._server.received.entry(proof.principal, connection)
            outlet.failed = functools.partial(connection.close, Farewell.LIMIT)
        socket = self._upgraded(request, connection, wire.RESUMED, websocket.PACKET)
        try:
            outlet.linked(socket)
            connection.linked()
            with _watched(taken(request), socket, lambda: False):
                await websocket.read_packets(socket, connection, outlet)
        except BaseException:
            outlet.cut(socket)
            if not outlet.is_linked:  # else its client has come back by another
                connection.cut()
            raise
        return None

    def _upgraded(
        self, request: Request, connection: Connection, protocol: str, most: int
    ) -> WebSocket:
        """The WebSocket that a request becomes. Raises `Refused`."""
        request.more = (*request.more, (wire.CONNECTION, connection.id))
        try:
            return request.upgrade([protocol], most)
        except Refused:
            connection.expect()
            raise


@contextlib.contextmanager
def _watched(link: ClientSocket, socket: WebSocket, held: Callable[[], bool]) -> Iterator[None]:
    """Cuts a WebSocket whose client is gone. `held`: whether nothing is read from it now."""
    watching = link.start(Pulse(link, socket.ping, held).watch())
    try:
        yield
    finally:
        watching.cancel()
