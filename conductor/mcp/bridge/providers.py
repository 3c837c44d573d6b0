"""The component's end of a connection: opened, written to and closed in its generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Raw

from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    error_object,
)
from conductor.mcp.bridge import generations, limits
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.generations import Carried, Generation
from conductor.mcp.bridge.json import NULL, code, encode, read, text, write
from conductor.mcp.bridge.line import Line, OnAnswer
from conductor.mcp.bridge.revisions import CANCELLED
from conductor.mcp.bridge.servers import Server

_UNKNOWN: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST})
"""How a component says that it does not know a generation."""

_PROGRESS: Final = "notifications/progress"


class Owner(Protocol):
    """Whom a provider tells what the component says unasked."""

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """The component asks for something; `call`: the request it is about, if it said so."""

    def withdrawn(self, reply: OnAnswer) -> None:
        """… and does not want it any more."""

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """It sent a notification."""

    def gone(self) -> None:
        """It closed the connection."""


class Provider:
    """One connection to a component, or what stands for it where there are none."""

    def __init__(self, server: Server, line: Line, owner: Owner) -> None:
        self.server = server
        self.owner = owner
        self.generation = server.generation
        self.connection: bytes | None = None
        """Raw JSON of the connection's id."""
        self.number = server.fresh()
        self.latest = 0
        """When it was last asked something."""
        self._line = line
        self._state = "new"
        self._waiting: list[Callable[[], None]] = []
        self._first: Generation | None = None
        """The generation to connect in first, if that is not the server's likeliest."""
        self._openers: list[OnAnswer] = []
        self._calls: dict[Call, None] = {}
        self._asked: dict[bytes, OnAnswer] = {}
        server.providers.append(self)

    # -- opening -----------------------------------------------------------------------------

    def open(self, generation: Generation, then: OnAnswer) -> None:
        """Connects now, first in `generation`, which whoever asks speaks; `then` is told the id of
        the connection (null: the component has none), or why there is none."""
        self._first = generation
        self._openers.append(then)
        self._when_open(lambda: self._tell_openers(b"result", self.connection or NULL))

    def _tell_openers(self, member: bytes, body: bytes) -> None:
        openers, self._openers = self._openers, []
        for each in openers:
            each(member, body)

    def _when_open(self, then: Callable[[], None]) -> None:
        if self._state == "open":
            then()
            return
        self._waiting.append(then)
        if self._state == "new":
            self._state = "opening"
            self.generation = self._first or self.server.generation
            self._connect()

    def _connect(self) -> None:
        if self._state == "closed":
            return
        generation, setup = self.generation, self.server.setup
        if generation.connect is None:
            self._opened()
        elif generation.waits and not setup.settled:
            setup.when_settled(self._connect)
        else:
            if self.server.unanswered >= limits.OPEN:
                self._refused(self._full())
                return
            fields = generations.fill(generation.connect_with, self._values())
            self.server.unanswered += 1
            self._line.ask(generation.connect, write(fields), self._connected)

    def _full(self) -> bytes:
        return limits.refusal(self.server.label, f"{limits.OPEN} requests are not answered")

    def _values(self) -> dict[str, object]:
        declared, setup = self.server.declared, self.server.setup
        return {
            "id": declared.id,
            "url": declared.url,
            "name": declared.name,
            "session": Raw(setup.session) if setup.session is not None else None,
            "connection": Raw(self.connection) if self.connection is not None else None,
        }

    def _connected(self, member: bytes, body: bytes) -> None:
        self.server.unanswered -= 1
        if member == b"result":
            self.connection = generations.carried(body).connection
            if self._state == "closed":
                self._disconnect()
            elif self.connection is None:
                self._refused(_error(f"{self.server.label} was connected without an id"))
            else:
                if self.generation.name not in ("sdk-0.12", "sacp"):
                    self.server.confirm(self.generation)
                self._opened()
            return
        further = self._further() if code(body) in _UNKNOWN else None
        self._first = None
        if self._state == "closed":
            return
        if further is None:
            self._refused(body)
        else:
            self.generation = further
            self._connect()

    def _further(self) -> Generation | None:
        """The next generation that is connected to in another way."""
        if self._first is not None:
            return None if self.server.confirmed else self.server.generation
        found = self.server.after(self.generation)
        while found is not None and found.connect == self.generation.connect:
            found = self.server.after(found)
        return found

    def _opened(self) -> None:
        self._state = "open"
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def _refused(self, error: bytes) -> None:
        """It cannot be opened; whoever waits is told, and whoever asks later tries again."""
        self._state = "new"
        self._waiting.clear()
        self._tell_openers(b"error", error)
        for call in list(self._calls):
            self._done(call, b"error", call.first_error or error)

    # -- to the component ----------------------------------------------------------------------

    def request(self, call: Call) -> None:
        """Sends a request, now or once the connection is open."""
        call.provider = self
        if len(self._waiting) >= limits.OPEN:
            call.on_answer(b"error", self._full())
            return
        self._calls[call] = None
        self.latest = self.server.fresh()
        self._when_open(lambda: self._send(call))

    def _send(self, call: Call) -> None:
        if call not in self._calls or self._gives_back(call):
            return
        generation, server = self.generation, self.server
        if server.unanswered >= limits.OPEN:
            self._done(call, b"error", self._full())
            return
        server.unanswered += 1
        inner_id: str | int | None = None
        params = call.params
        if generation.numbered:
            inner_id = call.key = call.request_id or f"{server.listener}-{server.fresh()}"
            server.calls[call.key] = call
        elif generation.nested:
            inner_id = call.inner_id = server.fresh()
            params = self._with_token(call, params, inner_id)
        if generation.numbered and call.raw is not None:
            whole = call.raw
        else:
            whole = generations.message(generation, self._values(), call.method, params, inner_id)
        call.id = self._line.ask(
            generation.request, whole, lambda member, body: self._answered(call, member, body)
        )

    def _gives_back(self, call: Call) -> bool:
        """Whether a request was asked in a generation that is not the component's: then it goes
        back, with all that were asked so."""
        if call.give_back is None or self.server.generation.stateless:
            return False
        back = [each for each in self._calls if each.give_back is not None]
        for each in back:
            del self._calls[each]
        for each in back:
            assert each.give_back is not None
            each.give_back()
        return True

    def _with_token(self, call: Call, params: bytes | None, number: int) -> bytes | None:
        """Progress names no connection here, so its token must be one of this server's own."""
        held = read(params)
        meta = read(held.get("_meta"))
        token = meta.get("progressToken")
        if token is None:
            return params
        call.token, call.key = token, f"{self.server.listener}-{number}"
        self.server.calls[call.key] = call
        meta["progressToken"] = Raw(encode(call.key))
        return write({**held, "_meta": Raw(write(meta))})

    def _answered(self, call: Call, member: bytes, body: bytes) -> None:
        call.id = None
        self.server.unanswered -= 1
        self.server.calls.pop(call.key, None)
        if call not in self._calls:
            return  # nobody waits for it any more
        generation, server = self.generation, self.server
        if member == b"error" and self._gives_back(call):
            return
        if member == b"error" and not server.confirmed and code(body) in _UNKNOWN:
            found = server.after(generation)
            if found is not None and not call.cancelled and self._fits(found, body):
                call.first_error = call.first_error or body
                self._try(found, call)
                return
            if call.first_error is not None:  # none knows it, so that is what the first one meant
                self.generation = server.ladder[0]
                self._done(call, b"error", call.first_error)
                return
        elif member == b"result" and not server.confirmed:
            server.confirm(generation)
        self._done(call, *generations.outcome(generation, member, body))

    def _fits(self, found: Generation, body: bytes) -> bool:
        """Whether an error may mean that the component is of the generation `found`."""
        if self.connection is not None:
            return found.connect == self.generation.connect and code(body) == METHOD_NOT_FOUND
        return True

    def _try(self, found: Generation, call: Call) -> None:
        """Sends a request again, in another generation."""
        same = found.connect == self.generation.connect
        self.generation = found
        if same:
            self._send(call)
        else:
            self._state = "opening"
            self._waiting.append(lambda: self._send(call))
            self._connect()

    def _done(self, call: Call, member: bytes, body: bytes) -> None:
        self._calls.pop(call, None)
        call.on_answer(member, body)

    def notify(self, method: str, params: bytes | None) -> None:
        """Sends a notification, in order; generations that have none are told nothing, and neither
        is a component with which too many wait to be connected."""
        if len(self._waiting) < limits.OPEN:
            self._when_open(lambda: self._notify(method, params))

    def _notify(self, method: str, params: bytes | None) -> None:
        generation = self.generation
        if generation.notification is not None and self._state != "closed":
            whole = generations.message(generation, self._values(), method, params)
            self._line.tell(generation.notification, whole)

    def tell_cancelled(self, call: Call, params: bytes | None) -> None:
        """Passes on that a client has cancelled a request, by the id the component knows."""
        if self.generation.nested:
            params = write({**read(params), "requestId": call.inner_id})
        if call.id is not None:
            self.notify(CANCELLED, params)

    def cancel(self, call: Call, *, forget: bool = False) -> None:
        """Passes a cancellation on. `forget`: nobody waits for the answer."""
        call.cancelled = True
        if call.id is not None:
            self._line.cancel(call.id)
        if forget:
            self._calls.pop(call, None)

    # -- from the component --------------------------------------------------------------------

    def incoming_request(self, id_: bytes, message: Carried, call: Call | None) -> None:
        """The component asks the client something."""
        inner_id = message.inner_id
        # As it was asked: it may be that nothing else is known of the component yet.
        generation = generations.PACP if message.nested else self.generation

        def reply(member: bytes, body: bytes) -> None:
            if self._asked.pop(id_, None) is not None:
                self._line.answer(id_, *generations.enclose(generation, inner_id, member, body))

        self._asked[id_] = reply
        self.owner.asked(message.method or "", message.params, reply, call)

    def waits_for(self, id_: bytes) -> bool:
        """Whether the component still waits for an answer to a request of this id."""
        return id_ in self._asked

    def incoming_cancel(self, id_: bytes) -> bool:
        """The component does not want an answer any more; whether it had asked here."""
        reply = self._asked.get(id_)
        if reply is None:
            return False
        self.owner.withdrawn(reply)
        return True

    def incoming_notification(self, message: Carried, call: Call | None) -> None:
        """The component tells the client something."""
        params = message.params
        if message.method == _PROGRESS and self.generation.nested:
            held = read(params)
            found = self.server.calls.get(text(held.get("progressToken")) or "")
            if found is not None and found.token is not None:
                params = write({**held, "progressToken": found.token})
                assert found.provider is not None
                found.provider.owner.told(message.method, params, found)
                return
        self.owner.told(message.method or "", params, call)

    def disconnected(self) -> None:
        """The component closed the connection."""
        self.connection = None
        self._state = "closed"
        for call in list(self._calls):
            self._done(call, b"error", _error(f"{self.server.label} closed the connection"))
        self.owner.gone()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancels what is open, answers what the component asked, and disconnects."""
        if self in self.server.providers:
            self.server.providers.remove(self)
        for call in list(self._calls):
            self.cancel(call, forget=True)
        for reply in list(self._asked.values()):
            reply(b"error", _error(f"the agent has disconnected from {self.server.label}"))
        opened, self._state = self._state == "open", "closed"
        self._waiting.clear()
        self._tell_openers(b"error", _error(f"{self.server.label} is not offered any more"))
        if opened:
            self._disconnect()

    def _disconnect(self) -> None:
        generation = self.generation
        if generation.disconnect is None or self.connection is None:
            return
        params = write(generations.fill(generation.disconnect_with, self._values()))
        if generation.disconnect_asks:
            self._line.ask(generation.disconnect, params, lambda member, body: None)
        else:
            self._line.tell(generation.disconnect, params)


def _error(what: str) -> bytes:
    return error_object(INTERNAL_ERROR, what)
