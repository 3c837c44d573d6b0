"""A client that opens with `initialize`, and a component that speaks MCP without sessions.

The component's `server/discover` answers `initialize`; what a session would remember (the client's
capabilities, its log level, what it has subscribed to) goes along with each request. Where the
component wants input, the client is asked, and the request is made again with the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, canonical_id, error_object
from conductor.mcp.bridge import limits
from conductor.mcp.bridge.adapters import Request, cancelled
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.consumers import Consumer
from conductor.mcp.bridge.json import EMPTY, encode, members_of, read, text, write
from conductor.mcp.bridge.line import OnAnswer
from conductor.mcp.bridge.providers import Provider
from conductor.mcp.bridge.revisions import (
    ACKNOWLEDGED,
    CANCELLED,
    CAPABILITIES,
    CLIENT,
    LATEST_SESSION,
    LISTEN,
    LOG_LEVEL,
    MODERN,
    NEEDS,
    SERVER,
    SESSIONS,
    SUBSCRIPTION,
    VERSION,
)

_ONLY_MODERN: Final = ("resultType", "ttlMs", "cacheScope")


class Upgrade:
    """One client's session over a component that has none."""

    def __init__(self, consumer: Consumer, provider: Provider) -> None:
        self._consumer = consumer
        self._provider = provider
        self._server = provider.server
        self._calls: dict[bytes, Call] = {}
        self._info: Raw | None = None
        self._able: dict[str, Raw] = {}
        self._level: Raw | None = None
        self._offered: dict[str, dict[str, object]] = {}
        self._uris: dict[str, None] = {}
        self._listening: Call | None = None

    # -- from the client -----------------------------------------------------------------------

    def request(self, asked: Request) -> None:
        """The client asks."""
        id_, method, params = asked.id, asked.method, asked.params
        match method:
            case "initialize":
                self._initialize(id_, params)
            case "ping":
                self._consumer.answer(id_, b"result", EMPTY)
            case "logging/setLevel":
                self._level = read(params).get("level")
                self._consumer.answer(id_, b"result", EMPTY)
            case "resources/subscribe" | "resources/unsubscribe":
                self._subscribe(id_, read(params), add=method == "resources/subscribe")
            case _:
                self._pass(id_, method, params)

    def notification(self, method: str, params: bytes | None) -> None:
        """The client tells: only a cancellation means something to the component."""
        if method == "notifications/initialized":
            if any(self._filter().values()):
                self._listen()
        elif method == CANCELLED:
            key = cancelled(params)
            call = self._calls.pop(key, None) if key is not None else None
            if call is not None and call.owner_id is not None:
                self._provider.cancel(call, forget=True)
                self._consumer.give_up(call.owner_id)

    def cancel(self, key: bytes) -> None:
        """The client's request of this id is to be cancelled, and answered nevertheless."""
        call = self._calls.get(key)
        if call is not None:
            self._provider.cancel(call)

    def closed(self) -> None:
        """The client is gone."""
        self._provider.close()

    # -- the session -----------------------------------------------------------------------------

    def _initialize(self, id_: bytes, params: bytes | None) -> None:
        held = read(params)
        self._info = held.get("clientInfo")
        self._able = read(held.get("capabilities"))
        asked = text(held.get("protocolVersion")) or ""
        discovered = read(self._server.discovered)
        able = discovered.get("capabilities", Raw(b'{"tools":{}}'))
        self._offered = {
            name: one for name, one in members_of(able).items() if isinstance(one, dict)
        }
        info = read(discovered.get("_meta")).get(SERVER)
        answer: dict[str, object] = {
            "protocolVersion": asked if asked in SESSIONS else LATEST_SESSION,
            "capabilities": able,
            "serverInfo": info or {"name": self._server.name, "version": "0"},
        }
        if "instructions" in discovered:
            answer["instructions"] = discovered["instructions"]
        self._consumer.answer(id_, b"result", write(answer))

    def _filter(self) -> dict[str, object]:
        """What the client is to be notified of."""
        kinds = ("tools", "prompts", "resources")
        wanted: dict[str, object] = {
            f"{kind}ListChanged": True
            for kind in kinds
            if self._offered.get(kind, {}).get("listChanged") is True
        }
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        return wanted

    def _subscribe(self, id_: bytes, held: dict[str, Raw], *, add: bool) -> None:
        if self._offered.get("resources", {}).get("subscribe") is not True:
            text_ = f"{self._server.label} has no subscriptions to resources"
            self._consumer.answer(id_, b"error", error_object(METHOD_NOT_FOUND, text_))
            return
        uri = text(held.get("uri")) or ""
        if add and uri not in self._uris and len(self._uris) >= limits.SUBSCRIPTIONS:
            what = f"{limits.SUBSCRIPTIONS} resources are subscribed to"
            error = limits.refusal(self._server.label, what)
            self._consumer.answer(id_, b"error", error)
            return
        if add:
            self._uris[uri] = None
        else:
            self._uris.pop(uri, None)
        self._listen()
        self._consumer.answer(id_, b"result", EMPTY)

    def _listen(self) -> None:
        """Subscribes anew; the subscription before ends when this one is acknowledged."""
        before, wanted = self._listening, self._filter()

        def ended(member: bytes, body: bytes) -> None:
            if self._listening is call:
                self._listening = None

        call = Call(LISTEN, self._stamped(write({"notifications": wanted})), ended)
        self._listening = call if wanted else None
        if wanted:
            self._provider.request(call)
        if before is not None:
            self._provider.cancel(before, forget=True)

    def _stamped(self, params: bytes | None) -> bytes:
        """Params with what the component must know of the client."""
        held = read(params)
        meta: dict[str, object] = dict(read(held.get("_meta")))
        meta[VERSION] = MODERN
        meta[CAPABILITIES] = {
            name: one for name, one in self._able.items() if name in NEEDS.values()
        }
        if self._info is not None:
            meta[CLIENT] = self._info
        if self._level is not None:
            meta[LOG_LEVEL] = self._level
        return write({**held, "_meta": Raw(write(meta))})

    # -- requests --------------------------------------------------------------------------------

    def _pass(self, id_: bytes, method: str, params: bytes | None) -> None:
        key = canonical_id(id_) or id_
        held = dict(read(params))

        def send(rounds: int) -> None:
            def answered(member: bytes, body: bytes) -> None:
                if member == b"result" and b'"input_required"' in body:
                    result = read(body)
                    if text(result.get("resultType")) == "input_required":
                        self._fulfil(key, result, held, lambda: send(rounds + 1), rounds)
                        return
                self._answer(key, member, body)

            call = Call(method, self._stamped(write(held)), answered, owner_id=id_)
            self._calls[key] = call
            self._provider.request(call)

        send(0)

    def _answer(self, key: bytes, member: bytes, body: bytes) -> None:
        call = self._calls.pop(key, None)
        if call is not None and call.owner_id is not None:
            self._consumer.answer(call.owner_id, member, plain(body))

    def _fail(self, key: bytes, what: str) -> None:
        self._answer(key, b"error", error_object(INTERNAL_ERROR, f"{self._server.label} {what}"))

    def _fulfil(
        self,
        key: bytes,
        result: dict[str, Raw],
        held: dict[str, Raw],
        again: Callable[[], None],
        rounds: int,
    ) -> None:
        """Asks the client what the component wants to know, and repeats the request."""
        wanted = read(result.get("inputRequests"))
        for name in ("requestState", "inputResponses"):
            held.pop(name, None)
        if "requestState" in result:
            held["requestState"] = result["requestState"]
        if rounds >= limits.ROUNDS:
            self._fail(key, f"wanted input more than {limits.ROUNDS} times for one request")
            return
        if len(wanted) > limits.INPUTS:
            self._fail(key, f"wanted {len(wanted)} inputs at once, more than {limits.INPUTS}")
            return
        responses: dict[str, Raw] = {}
        for request in wanted.values():
            asked = read(request)
            method = text(asked.get("method")) or ""
            if NEEDS.get(method) not in self._able:
                self._fail(key, f"wants `{method}`, which the agent's MCP client does not offer")
                return
        if not wanted:
            again()
            return

        def take(name: str) -> OnAnswer:
            def answered(member: bytes, body: bytes) -> None:
                if key not in self._calls:
                    return  # it has been answered, or cancelled
                if member == b"error":
                    self._answer(key, member, body)
                    return
                responses[name] = Raw(body)
                if len(responses) == len(wanted):
                    held["inputResponses"] = Raw(write(responses))
                    again()

            return answered

        owner_id = self._calls[key].owner_id
        for name, request in wanted.items():
            asked = read(request)
            params = bytes(asked["params"]) if "params" in asked else None
            self._consumer.ask(text(asked.get("method")) or "", params, take(name), owner_id)

    # -- from the component --------------------------------------------------------------------

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """A component without sessions asks nothing this way."""
        text_ = f"`{method}`: a server of this revision asks with an `input_required` result"
        reply(b"error", error_object(METHOD_NOT_FOUND, text_))

    def withdrawn(self, reply: OnAnswer) -> None:
        """Nothing is ever left open."""

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """Progress, log messages, and what was subscribed to."""
        if method == ACKNOWLEDGED:
            return
        if params is not None and SUBSCRIPTION.encode() in params:
            held = read(params)
            meta = read(held.get("_meta"))
            meta.pop(SUBSCRIPTION, None)
            held.pop("_meta", None)
            params = write({**held, "_meta": Raw(write(meta))} if meta else held)
        self._consumer.tell(method, params, call.owner_id if call is not None else None)


def plain(body: bytes) -> bytes:
    """A result without what only the revision without sessions has."""
    if b'"resultType"' not in body:
        return body
    held = read(body)
    return encode({name: one for name, one in held.items() if name not in _ONLY_MODERN})
