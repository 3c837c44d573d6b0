"""The state of a hub, its effects as they come, and the steps of every request: it is accepted,
passed on, taken back and answered. Every part of the hub works on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Raw

from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    Malformed,
    Message,
    Params,
    canonical_id,
    dropped,
)
from conductor.errors import counted
from conductor.serve.hub import frames
from conductor.serve.hub.effects import Effect, LogLine, ToChain, ToClient
from conductor.serve.hub.history import Budget
from conductor.serve.hub.limits import HubLimits
from conductor.serve.hub.state import Asked, Chain, Client, Hop, Live

VIEWER: Final = "this client is a viewer"

_LOGGED: Final = 20
"""The answers of one hop to no request that the log names."""
_LONGEST_ID: Final = 1024
"""Bytes: an id is kept until the request is answered."""


class Floor:
    """The clients and chains that are there, and the effects to perform.

    Attributes:
        out: the effects of the call that is being performed.
        turning: the sessions with an open turn.
    """

    def __init__(self, owns: Callable[[str], bool], limits: HubLimits) -> None:
        self.owns = owns
        self.limits = limits
        self.clients: dict[str, Client] = {}
        self.chains: dict[str, Chain] = {}
        self.live: dict[str, dict[Live, None]] = {}
        """The live sessions by id; chains that know nothing of each other may use the same."""
        self.budget = Budget(limits.all_history_bytes, limits.history_bytes)
        self.turning: dict[Live, None] = {}
        self.out: list[Effect] = []
        self.opened: list[Client] = []
        """Clients whose `initialize` is answered: their messages behind it go on."""
        self.again: list[Asked] = []
        """Requests that have waited, and are to be looked at once more."""

    def set_limits(self, limits: HubLimits) -> None:
        """Other limits hold from now on."""
        self.limits = limits
        self.budget.most, self.budget.of_one = limits.all_history_bytes, limits.history_bytes

    # -- sending -------------------------------------------------------------------------------

    def tell(self, client: Client, frame: bytes, scope: str | None) -> None:
        """A client gets a frame."""
        self.out.append(ToClient(client.name, frame, scope))

    def tell_all(self, clients: Iterable[Client], frame: bytes, scope: str | None) -> None:
        """Clients get the same frame."""
        for client in clients:
            self.out.append(ToClient(client.name, frame, scope))

    def send(self, hop: Hop, frame: bytes, scope: str | None = None) -> None:
        """A hop gets a frame, if it is still there."""
        if isinstance(hop, Client):
            if hop.name in self.clients:
                self.out.append(ToClient(hop.name, frame, scope))
        elif hop.name in self.chains:
            self.out.append(ToChain(hop.name, frame))

    # -- requests ------------------------------------------------------------------------------

    def accept(self, hop: Hop, id_: Raw, method: str, params: Params, now: float = 0.0) -> Asked:
        """A request of a hop, now open.

        Raises:
            Malformed: its id is none, or in use, or too many are open.
        """
        key, known, most = canonical_id(id_), None, self.limits.open_requests
        if key is None:
            text = "a request id must be null, a 64-bit integer or a string"
        elif key == b"null" and hop.version >= 2:
            text = "ACP protocol v2 request ids must be a string or an integer, not null"
        elif len(key) > _LONGEST_ID:
            text = f"a request id has at most {_LONGEST_ID} bytes, this one has {len(key)}"
            known = key
        elif key in hop.received:
            text, known = f"request id {key.decode(errors='replace')} is still in use", key
        elif len(hop.received) >= most:
            text, known = f"this connection has {counted(most, 'request')} without an answer", key
        else:
            asked = hop.received[key] = Asked(hop, bytes(id_), key, method, params, now)
            return asked
        raise Malformed(INVALID_REQUEST, text, known)

    def pass_on(self, asked: Asked, hop: Hop, params: Params | None = None) -> bool:
        """Passes a request to a hop. Returns False if the hop has no room for another request.
        `params`: in place of the request's own."""
        if len(hop.sent) >= self.limits.open_requests:
            return False
        hop.last_id += 1
        id_ = asked.to[hop] = b"%d" % hop.last_id
        hop.sent[id_] = asked
        params = asked.params if params is None else params
        self.send(hop, frames.request(id_, asked.method, params), asked.scope)
        return True

    def forward(self, asked: Asked, chain: Chain, params: Params | None = None) -> None:
        """A chain gets a client's request, or that is refused."""
        if not self.pass_on(asked, chain, params):
            most = self.limits.open_requests
            self.full(asked, f"a chain has at most {most} open requests")

    def cancelled(self, asked: Asked) -> None:
        """Tells all hops that have a request that it is cancelled."""
        for hop, id_ in asked.to.items():
            self.send(hop, frames.cancel(id_))

    def take_back(self, asked: Asked, hop: Hop) -> None:
        """Tells a hop that its answer to a request is not needed; the answer will go nowhere."""
        id_ = asked.to.pop(hop)
        hop.sent.pop(id_, None)
        hop.taken_back[id_] = None
        if len(hop.taken_back) > self.limits.open_requests:
            del hop.taken_back[next(iter(hop.taken_back))]
        self.send(hop, frames.cancel(id_))

    # -- answers -------------------------------------------------------------------------------

    def answered(self, hop: Hop, message: Message) -> Asked | None:
        """A hop answers. Returns the request, which the hop no longer has; None: unknown id."""
        key = canonical_id(message.id) if isinstance(message.id, Raw) else None
        asked = hop.sent.pop(key or b"", None)
        if asked is not None:
            del asked.to[hop]
        elif key in hop.taken_back:
            del hop.taken_back[key]
        else:
            hop.dropped += 1
            if hop.dropped <= _LOGGED:
                who = hop.client_id if isinstance(hop, Client) else hop.name
                more = "; further ones are not logged" if hop.dropped == _LOGGED else ""
                open_ = (one.method for one in hop.sent.values())
                self.out.append(LogLine(who, f"{dropped(key, open_)}{more}"))
        return asked

    def finish(self, asked: Asked, member: bytes, body: Raw | bytes) -> None:
        """Answers a request, if somebody waits for it; no client has it any more."""
        origin, asked.origin = asked.origin, None
        if origin is not None:
            del origin.received[asked.key]
            self.send(origin, frames.answer(asked.raw_id, member, body), asked.scope)

    def refuse(self, asked: Asked, code: int, text: str, hint: str = "", **data: object) -> None:
        """Answers a request with an error of the hub's."""
        self.finish(asked, b"error", frames.error_body(code, text, hint, **data))

    def views(self, asked: Asked) -> None:
        """Refuses a request of a client that may only watch."""
        hint = "only a driver may do this: connect with a token that may drive"
        self.refuse(asked, INVALID_REQUEST, VIEWER, hint)

    def full(self, asked: Asked, text: str) -> None:
        """Refuses a request because of a limit."""
        self.refuse(asked, INVALID_REQUEST, text, "end some of them, or ask for a higher limit")

    def unknown(self, asked: Asked) -> None:
        """Refuses a request for a session that is not there, or is none of this principal's."""
        text = "there is no such session"
        self.refuse(asked, RESOURCE_NOT_FOUND, text, sessionId=asked.scope)

    def own(self, asked: Asked, client: Client) -> Chain | None:
        """The own chain of a request's sender; without a chain the request is refused."""
        if client.chain is None:
            self.refuse(asked, INTERNAL_ERROR, *client.ended)
        return client.chain

    def refuse_held(self, client: Client, error: Raw) -> None:
        """`initialize` has failed: the requests behind it are answered with the same error."""
        held, client.held, client.held_bytes = client.held, [], 0
        for one in held:
            if isinstance(one, Asked):
                self.finish(one, b"error", error)

    # -- finding -------------------------------------------------------------------------------

    @staticmethod
    def seen(client: Client, session: str) -> Live | None:
        """The session that a client is attached to by this name, or for which a sub-agent of this
        name works."""
        found = client.attached.get(session)
        if found is None:
            above = (one.chain.live(session) for one in client.attached.values())
            found = next((one for one in above if one and client in one.attached), None)
        return found

    def find(self, client: Client, session: str) -> Live | None:
        """The live session that an id means to a client: a session it is attached to, else a
        session of its own chain, else the eldest."""
        found = client.attached.get(session)
        if found is None and client.chain is not None:
            found = client.chain.sessions.get(session)
        return found or next(iter(self.live.get(session, ())), None)
