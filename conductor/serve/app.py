"""The HTTP side of a server: POST, GET, DELETE and WebSockets at one path, and what watches it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aiohttp import web

from conductor.errors import ConductorError
from conductor.serve import http_rules, websocket
from conductor.serve.access.gate import Denied, offered
from conductor.serve.client_sockets import ClientSocket
from conductor.serve.connections import Farewell, new_id
from conductor.serve.pulse import Pulse
from conductor.serve.streams import Refused, Streams
from conductor.transports.remote import wire

if TYPE_CHECKING:
    from conductor.serve.access.proof import Proof
    from conductor.serve.connections import Connection, Outlet
    from conductor.serve.server import Server

_ALIVE: Final = 15.0
"""Seconds after which an idle stream gets a comment."""
_LATE: Final = 408
_MANY: Final = 429
_OPENED: Final = 300.0
"""Seconds that a chain may take for `initialize`."""
_RATE: Final = 256 * 1024
"""Bytes of a body that give it one second more than a connection has to log in."""
_EVENTS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class App:
    """Answers the requests of clients."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def made(self) -> web.Application:
        """The application."""
        application = web.Application(client_max_size=self._server.settings.message)
        application.router.add_route("*", "/{path:.*}", self._serve)
        application.on_response_prepare.append(self._share)
        return application

    async def _share(self, request: web.Request, response: web.StreamResponse) -> None:
        """Lets a page of an allowed origin read any answer, also an error or a stream."""
        response.headers.update(http_rules.for_page(_lower(request), self._server.gate.allowed))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Serves one request, once it is clear who asks."""
        headers = _lower(request)
        path = request.path
        try:
            _check_repeated(request, headers)
            if path in ("/health", "/ready"):
                return self._looked(path)
            if self._is_allowed_preflight(request.method, headers):
                return web.Response(status=204)
            proof = await self._server.gate.proof(headers)
            self._known(request, proof)
            if path == "/metrics":
                return web.Response(text=self._server.metrics())
            named = self._server.named(path)
            if named is None:
                raise Denied(404, "nothing is served at this path")
            return await self._asked(request, headers, proof, named)
        except Denied as denied:
            self._server.denied(denied.status)
            challenge = {"WWW-Authenticate": 'Bearer realm="conductor"'} if denied.challenge else {}
            answer = web.Response(status=denied.status, text=denied.text, headers=challenge)
            if denied.status in (_MANY, _LATE):  # a further one takes its place
                answer.force_close()
            return answer
        except Refused as refused:
            return web.Response(status=refused.status, text=refused.text)

    def _known(self, request: web.Request, proof: Proof) -> None:
        """Counts the network connection of a request. Raises `Denied`."""
        try:
            self._server.known(request, proof.principal)
        except ConductorError as error:
            raise Denied(_MANY, f"{error.text}; {error.hint}") from None

    def _is_allowed_preflight(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether a page of an allowed origin asks, by a name of this server. Raises `Denied`."""
        if not http_rules.is_preflight(method, headers):
            return False
        self._server.gate.check_place(headers)
        return "origin" in headers

    def _looked(self, path: str) -> web.Response:
        if path == "/ready" and self._server.draining:
            return web.Response(status=503, text="draining")
        if path == "/ready" and not self._server.is_ready():
            return web.Response(status=503, text="what the chains need is away")
        return web.Response(text="ok")

    async def _asked(
        self, request: web.Request, headers: Mapping[str, str], proof: Proof, named: str
    ) -> web.StreamResponse:
        if request.method == "GET" and headers.get("upgrade", "").lower() == "websocket":
            return await self._socket(request, headers, proof, named)
        if request.method == "POST":
            return await self._post(request, headers, proof, named)
        if request.method == "GET":
            ruling: http_rules.Ruling = http_rules.get(headers)
        elif request.method == "DELETE":
            ruling = http_rules.delete(headers)
        else:
            raise web.HTTPMethodNotAllowed(request.method, http_rules.METHODS)
        return await self._ruled(request, ruling, proof, named)

    async def _ruled(
        self, request: web.Request, ruling: http_rules.Ruling, proof: Proof, named: str
    ) -> web.StreamResponse:
        if isinstance(ruling, http_rules.Refuse):
            if ruling.json:
                return web.Response(
                    status=ruling.status, body=ruling.json, content_type="application/json"
                )
            return web.Response(status=ruling.status, text=ruling.text)
        if isinstance(ruling, http_rules.Open):
            return await self._open(ruling, proof, named)
        connection = self._connection(proof, ruling.connection)
        if isinstance(ruling, http_rules.Forward):
            return await self._forward(ruling, connection)
        if isinstance(ruling, http_rules.Listen):
            return await self._listen(request, ruling, connection)
        connection.close()
        return web.Response(status=202)

    async def _post(
        self, request: web.Request, headers: Mapping[str, str], proof: Proof, named: str
    ) -> web.StreamResponse:
        """Reads the body, and counts it until it has been taken."""
        ruling = http_rules.post(headers, await self._body(request))
        return await self._ruled(request, ruling, proof, named)

    async def _body(self, request: web.Request) -> bytes:
        """The body of a request. Raises `Denied`."""
        settings, taken = self._server.settings, _taken(request)
        limit = settings.message
        if (request.content_length or 0) > limit:
            raise Denied(413, f"a message has at most {limit} bytes")
        loop, body = asyncio.get_running_loop(), bytearray()
        until = loop.time() + settings.login
        taken.refuse = functools.partial(
            request.content.set_exception,
            Denied(_MANY, "too many bytes of this principal are on their way; wait for them"),
        )
        taken.reads_body(True, request.content_length)
        try:
            async with asyncio.timeout_at(until) as late:
                async for part in request.content.iter_any():
                    body += part
                    if len(body) > limit:
                        raise Denied(413, f"a message has at most {limit} bytes")
                    late.reschedule(until + len(body) / _RATE)
            return bytes(body)
        except TimeoutError:
            raise Denied(_LATE, "the body of the request needs too long") from None
        finally:
            taken.refuse = taken.cut
            taken.reads_body(False)

    def _connection(self, proof: Proof, id_: str) -> Connection:
        """A connection of this principal: of others there is none."""
        connection = self._server.connection(proof, id_)
        if connection is None or not isinstance(connection.outlet, Streams):
            raise Denied(404, "there is no such connection")
        return connection

    # -- HTTP ------------------------------------------------------------------------------------

    async def _open(self, ruling: http_rules.Open, proof: Proof, named: str) -> web.StreamResponse:
        streams = Streams(ruling.id, self._server.kept(proof.principal))
        connection = self._joined(proof, streams, named)
        try:
            connection.received(ruling.frame)
            async with asyncio.timeout(_OPENED):
                body, failed = await streams.opening
        except TimeoutError:
            connection.close()
            return web.Response(status=504, text="the chain has not answered in time")
        except BaseException:
            connection.close()  # the client has left meanwhile
            raise
        if failed:
            connection.close()
            return web.Response(body=body, content_type="application/json")
        connection.expect()
        # The number tells a client that it may send a message again, and resume a stream of which
        # nothing has come.
        marked = {wire.CONNECTION: connection.id, wire.NUMBER: "0"}
        return web.Response(body=body, content_type="application/json", headers=marked)

    def _joined(self, proof: Proof, outlet: Outlet, named: str, id_: str = "") -> Connection:
        try:
            return self._server.join(proof, outlet, named, id_)
        except ConductorError as error:
            raise Denied(503, error.text) from None

    async def _forward(
        self, ruling: http_rules.Forward, connection: Connection
    ) -> web.StreamResponse:
        assert isinstance(connection.outlet, Streams)
        await connection.may_send()
        if connection.outlet.fresh(ruling.number):
            connection.received(ruling.frame)
        if not connection.outlet.readers:
            connection.expect()
        return web.Response(status=202)

    async def _listen(
        self, request: web.Request, ruling: http_rules.Listen, connection: Connection
    ) -> web.StreamResponse:
        streams = connection.outlet
        assert isinstance(streams, Streams)
        reader = streams.read(ruling.session, ruling.after)
        connection.linked()
        try:
            named = {wire.SESSION: ruling.session} if ruling.session is not None else {}
            marked = {wire.CONNECTION: connection.id, **named}
            response = web.StreamResponse(headers={**_EVENTS, **marked})
            await response.prepare(request)
            # An id at once: also who has heard nothing yet can come back and miss nothing.
            await response.write(b":\nid: %d\n\n" % reader.after)
            while (events := await reader.take(_ALIVE)) is not None:
                await response.write(b"".join(events) or b":\n\n")
            await response.write_eof()
            return response
        finally:
            streams.leave(reader)
            if not streams.readers:
                connection.cut()

    # -- WebSockets ------------------------------------------------------------------------------

    async def _socket(
        self, request: web.Request, headers: Mapping[str, str], proof: Proof, named: str
    ) -> web.StreamResponse:
        others = offered(headers).others
        if wire.RESUMED in others:
            return await self._linked(request, headers, proof, named)
        socket = self._new_socket([one for one in (wire.PLAIN,) if one in others])
        taken = _taken(request)
        outlet = websocket.SocketOutlet(taken, socket)
        connection = self._joined(proof, outlet, named)
        try:
            socket.headers[wire.CONNECTION] = connection.id
            await socket.prepare(request)
            if connection.closed is not None:
                await websocket.part(socket, connection.closed)
                return socket
            with _watched(taken, socket, lambda: connection.paused):
                await websocket.read(taken, socket, connection, self._server.settings.message)
        except BaseException:
            connection.lost()
            raise
        finally:
            outlet.drop()
        return socket

    async def _linked(
        self, request: web.Request, headers: Mapping[str, str], proof: Proof, named: str
    ) -> web.StreamResponse:
        """A WebSocket of a client that numbers its frames: a new connection, or the next link of
        one."""
        id_ = headers.get(http_rules.CONNECTION, "")
        if id_:
            found = self._server.connection(proof, id_)
            if found is None or not isinstance(found.outlet, websocket.LinkedOutlet):
                raise Denied(404, "there is no such connection")
            connection, outlet = found, found.outlet
        else:
            id_, settings = new_id(), self._server.settings
            outlet = websocket.LinkedOutlet(id_, settings.message, settings.unread)
            connection = self._joined(proof, outlet, named, id_)
            outlet.holds = self._server.received.entry(proof.principal, connection)
            outlet.failed = functools.partial(connection.close, Farewell.LIMIT)
        taken, socket = _taken(request), self._new_socket([wire.RESUMED], websocket.PACKET)
        try:
            socket.headers[wire.CONNECTION] = connection.id
            connection.stay()
            await socket.prepare(request)
            if connection.closed is not None:
                await websocket.part(socket, connection.closed)
                return socket
            outlet.linked(taken, socket)
            connection.linked()
            with _watched(taken, socket, lambda: False):
                await websocket.read_packets(taken, socket, connection, outlet)
        except BaseException:
            outlet.cut(socket)
            if not outlet.is_linked:  # else its client has come back by another
                connection.cut()
            raise
        return socket

    def _new_socket(self, protocols: list[str], most: int = 0) -> web.WebSocketResponse:
        return web.WebSocketResponse(
            compress=False,
            max_msg_size=most or self._server.settings.message,
            protocols=protocols,
            decode_text=False,
        )


class _Watched:
    """A WebSocket as a pulse sees it."""

    def __init__(
        self, taken: ClientSocket, socket: web.WebSocketResponse, held: Callable[[], bool]
    ) -> None:
        self._taken = taken
        self._held = held
        self.ping = socket.ping
        self.cut = taken.cut

    @property
    def heard(self) -> int:
        return self._taken.heard

    @property
    def held(self) -> bool:
        return self._held()

    @property
    def pending(self) -> int:
        return self._taken.pending

    @property
    def reached(self) -> bool | None:
        return self._taken.reached


def _taken(request: web.Request) -> ClientSocket:
    """The network connection of a request."""
    taken = request.protocol
    assert isinstance(taken, ClientSocket)
    return taken


@contextlib.contextmanager
def _watched(
    taken: ClientSocket, socket: web.WebSocketResponse, held: Callable[[], bool]
) -> Iterator[None]:
    """Cuts a WebSocket whose client is gone. `held`: whether nothing is read from it now."""
    pulse = Pulse(_Watched(taken, socket, held))
    watching = asyncio.get_running_loop().create_task(pulse.watch())
    try:
        yield
    finally:
        watching.cancel()


def _check_repeated(request: web.Request, headers: Mapping[str, str]) -> None:
    """Two readers of a repeated header could disagree, a server in front and this one. Raises
    `Denied`."""
    if len(headers) != len(request.headers):
        for name in http_rules.ONCE:
            if len(request.headers.getall(name, ())) > 1:
                raise Denied(400, f"the header `{name}` came twice")


def _lower(request: web.Request) -> dict[str, str]:
    """The headers of a request, their names in lower case."""
    return {name.lower(): value for name, value in request.headers.items()}
