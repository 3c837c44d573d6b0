"""A client that opens with `initialize`, and a component that speaks MCP without sessions.

The component's `server/discover` answers `initialize`. Each request carries what a session would
remember: the client's capabilities, its log level and its subscriptions. Where the component wants
input, the bridge asks the client, and repeats the request with the client's responses.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, canonical_id, error_object
from conductor.mcp import limits
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.calls import PendingCall, Request, ServerRequest
from conductor.mcp.bridge.endpoints import ClientConnection, OnResponse
from conductor.mcp.bridge.json import EMPTY, meta, objects, read, text, with_meta, write
from conductor.mcp.bridge.servers import ServerConnection
from conductor.mcp.bridge.translations import Translation

_ONLY_MODERN: Final = ("resultType", "ttlMs", "cacheScope")


class _Repeated(msgspec.Struct, eq=False):
    """A client's request, which the bridge sends again for each round of input."""

    key: bytes
    id: bytes
    method: str
    fields: dict[str, Raw]
    rounds: int = 0


class Upgrade(Translation):
    """One client's session with a component that has none."""

    def __init__(self, client: ClientConnection, server: ServerConnection) -> None:
        super().__init__(client, server)
        self._label = server.server.label
        self._client_info: Raw | None = None
        self._client_capabilities: dict[str, Raw] = {}
        self._log_level: Raw | None = None
        self._capabilities: dict[str, dict[str, Any]] = {}
        """The component's."""
        self._uris: dict[str, None] = {}
        """Resources that the client has subscribed to, in order."""
        self._listening: PendingCall | None = None

    # -- the session -----------------------------------------------------------------------------

    def _request(self, request: Request) -> None:
        id_, fields = request.id, read(request.params)
        match request.method:
            case "initialize":
                self._initialize(id_, fields)
            case "ping":
                self._client.respond(id_, b"result", EMPTY)
            case "logging/setLevel":
                self._log_level = fields.get("level")
                self._client.respond(id_, b"result", EMPTY)
            case "resources/subscribe" | "resources/unsubscribe":
                self._subscribe(id_, fields, add=request.method == "resources/subscribe")
            case _:
                self._send(_Repeated(canonical_id(id_) or id_, id_, request.method, fields))

    def _notification(self, method: str, params: bytes | None) -> None:
        # Stateless MCP has no notifications of clients; this notification ends our handshake.
        if method == "notifications/initialized" and any(self._wanted().values()):
            self._listen()

    def _initialize(self, id_: bytes, fields: dict[str, Raw]) -> None:
        self._client_info = fields.get("clientInfo")
        self._client_capabilities = read(fields.get("capabilities"))
        version = text(fields.get("protocolVersion"))
        server = self._server.server
        discovered = read(server.discovered)
        capabilities = discovered.get("capabilities", Raw(b'{"tools":{}}'))
        self._capabilities = objects(capabilities)
        info = meta(discovered).get(protocol.SERVER)
        result: dict[str, object] = {
            "protocolVersion": version if version in protocol.SESSIONS else protocol.LATEST_SESSION,
            "capabilities": capabilities,
            "serverInfo": info or {"name": server.name, "version": "0"},
        }
        if "instructions" in discovered:
            result["instructions"] = discovered["instructions"]
        pins, body = server.pins, write(result)
        self._client.respond(id_, b"result", body if pins is None else pins.shown(body))

    def _wanted(self) -> dict[str, object]:
        """The notifications that the client gets, as `subscriptions/listen` names them."""
        wanted: dict[str, object] = {
            f"{kind}ListChanged": True
            for kind in ("tools", "prompts", "resources")
            if self._capabilities.get(kind, {}).get("listChanged") is True
        }
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        return wanted

    def _subscribe(self, id_: bytes, fields: dict[str, Raw], *, add: bool) -> None:
        if self._capabilities.get("resources", {}).get("subscribe") is not True:
            reason = f"{self._label} has no subscriptions to resources"
            self._client.respond(id_, b"error", error_object(METHOD_NOT_FOUND, reason))
            return
        uri = text(fields.get("uri")) or ""
        if add and uri not in self._uris and len(self._uris) >= limits.SUBSCRIPTIONS:
            what = f"{limits.SUBSCRIPTIONS} resources are subscribed to"
            self._client.respond(id_, b"error", self._server.server.refusal(what))
            return
        if add:
            self._uris[uri] = None
        else:
            self._uris.pop(uri, None)
        self._listen()
        self._client.respond(id_, b"result", EMPTY)

    def _listen(self) -> None:
        """Replaces the subscription. The former subscription ends after the new one has begun, so
        that no notification is lost in between."""
        old, wanted = self._listening, self._wanted()

        def ended(member: bytes, body: bytes) -> None:
            if self._listening is call:
                self._listening = None

        call = PendingCall(
            protocol.LISTEN, self._with_session(read(write({"notifications": wanted}))), ended
        )
        self._listening = call if wanted else None
        if wanted:
            self._server.request(call)
        if old is not None:
            self._server.cancel(old, forget=True)

    def _with_session(self, fields: dict[str, Raw]) -> bytes:
        """The params with all that a session would remember of the client."""
        about: dict[str, object] = dict(meta(fields))
        about[protocol.VERSION] = protocol.MODERN
        about[protocol.CAPABILITIES] = {
            name: raw
            for name, raw in self._client_capabilities.items()
            if name in protocol.NEEDS.values()
        } | protocol.pages(self._client_capabilities)
        if self._client_info is not None:
            about[protocol.CLIENT] = self._client_info
        if self._log_level is not None:
            about[protocol.LOG_LEVEL] = self._log_level
        return with_meta(fields, about)

    # -- requests, repeated with input ---------------------------------------------------------

    def _send(self, request: _Repeated) -> None:
        def responded(member: bytes, body: bytes) -> None:
            if member == b"result" and b'"input_required"' in body:
                result = read(body)
                if text(result.get("resultType")) == "input_required":
                    self._input_required(request, result)
                    return
            self._respond(request, member, body)

        params = self._with_session(request.fields)
        call = PendingCall(request.method, params, responded, client_id=request.id)
        self._calls[request.key] = call
        self._server.request(call)

    def _respond(self, request: _Repeated, member: bytes, body: bytes) -> None:
        if self._calls.pop(request.key, None) is not None:
            self._client.respond(request.id, member, _without_modern(body))

    def _input_required(self, request: _Repeated, result: dict[str, Raw]) -> None:
        for name in ("requestState", "inputResponses"):
            request.fields.pop(name, None)
        if "requestState" in result:
            request.fields["requestState"] = result["requestState"]
        wanted = {name: read(raw) for name, raw in read(result.get("inputRequests")).items()}
        problem = self._problem(request, wanted)
        if problem:
            error = error_object(INTERNAL_ERROR, f"{self._label} {problem}")
            self._respond(request, b"error", error)
            return
        request.rounds += 1
        if wanted:
            self._request_inputs(request, wanted)
        else:
            self._send(request)

    def _problem(self, request: _Repeated, wanted: dict[str, dict[str, Raw]]) -> str:
        """Why the client cannot give the wanted input; empty if it can."""
        if request.rounds >= limits.INPUT_ROUNDS:
            return f"wanted input more than {limits.INPUT_ROUNDS} times for one request"
        if len(wanted) > limits.INPUTS:
            return f"wanted {len(wanted)} inputs at once, more than {limits.INPUTS}"
        for input_ in wanted.values():
            method = text(input_.get("method")) or ""
            if protocol.NEEDS.get(method) not in self._client_capabilities:
                return f"wants `{method}`, which the agent's MCP client does not offer"
        return ""

    def _request_inputs(self, request: _Repeated, wanted: dict[str, dict[str, Raw]]) -> None:
        responses: dict[str, Raw] = {}

        def collect(name: str) -> OnResponse:
            def responded(member: bytes, body: bytes) -> None:
                if request.key not in self._calls:
                    return  # the request has failed, or the client has cancelled it
                if member == b"error":
                    self._respond(request, member, body)
                    return
                responses[name] = Raw(body)
                if len(responses) == len(wanted):
                    request.fields["inputResponses"] = Raw(write(responses))
                    self._send(request)

            return responded

        for name, input_ in wanted.items():
            params = bytes(input_["params"]) if "params" in input_ else None
            method = text(input_.get("method")) or ""
            self._client.request(method, params, collect(name), request.id)

    # -- from the component --------------------------------------------------------------------

    def server_request(self, request: ServerRequest) -> None:
        method = request.method
        reason = f"`{method}`: a server of this revision asks with an `input_required` result"
        request.reply(b"error", error_object(METHOD_NOT_FOUND, reason))

    def server_notification(
        self, method: str, params: bytes | None, call: PendingCall | None
    ) -> None:
        if method == protocol.ACKNOWLEDGED:
            return
        if params is not None and protocol.SUBSCRIPTION.encode() in params:
            fields = read(params)
            about = meta(fields)
            about.pop(protocol.SUBSCRIPTION, None)
            params = with_meta(fields, about)
        self._client.notify(method, params, call.client_id if call is not None else None)


def _without_modern(body: bytes) -> bytes:
    """A result without the members that only the revision without sessions has."""
    if b'"resultType"' not in body:  # spares large results the parsing
        return body
    return write({name: raw for name, raw in read(body).items() if name not in _ONLY_MODERN})
