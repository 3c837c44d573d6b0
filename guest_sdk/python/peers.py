"""Peer agents: agents beside the chain, of which the proxy is the client (`,allow=peer:NAME`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from . import checked
from .errors import Cancelled, ProxyError
from .jsontext import dumps
from .messages import Notification, Request, Update
from .reading import Answer, read
from .sessions import Asked, Seen, answered, show
from .tasks import Waiter
from .turns import Running, Turn

if TYPE_CHECKING:
    from .records import Record
    from .speaker import Speaker

ENVELOPE = "proxy/successor"
"""The method of a message to or from a peer agent, on side `s`."""


class Peer:
    """A peer agent: `async with proxy.peer("research").subsession(cwd="/project") as session:`
    opens a session with it."""

    def __init__(self, engine: Speaker, name: str) -> None:
        self._engine = engine
        self.name = name

    def subsession(
        self, *, cwd: str, on_request: Asked | None = None, **params: Any
    ) -> PeerSession:
        """A session with the peer agent: `async with` opens and closes it. The agent's
        requests there (permissions, files) are refused, unless `on_request` answers them."""
        return PeerSession(self, {"cwd": cwd, "mcpServers": [], **params}, on_request)

    def ask(self, method: str, params: dict[str, Any]) -> Waiter[Any]:
        """Sends it a request."""
        return self._engine.request("s", ENVELOPE, self._envelope(method, params))

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Sends it a notification."""
        self._engine.notify("s", ENVELOPE, self._envelope(method, params))

    def _envelope(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"peer": self.name, "method": method, "params": params}

    def adopt(self, session: PeerSession) -> None:
        """From now on the peer's messages in this session are for `session`."""
        self._engine.peer_sessions[self.name, session.id] = session

    def forget(self, session: PeerSession) -> None:
        """Later messages of the peer in this session concern nobody."""
        self._engine.peer_sessions.pop((self.name, session.id), None)

    @property
    def version(self) -> Any:
        """The version of ACP that the chain speaks, and so the peer agent."""
        return self._engine.version

    def show(self, seen: Seen | None, update: Update) -> None:
        """Calls the function that is to get each update."""
        show(self._engine, seen, update)


class PeerSession:
    """A session with a peer agent; neither the client nor the chain's agent hears of it."""

    def __init__(self, peer: Peer, params: dict[str, Any], on_request: Asked | None) -> None:
        self._peer = peer
        self._params = params
        self._on_request = on_request
        self._running = Running()
        self._seen: Seen | None = None
        self._left = False
        self.id = ""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        """Ends the session, where the agent can. Nobody is shown later messages of the agent."""
        self._peer.ask("session/close", {"sessionId": self.id})
        self._peer.forget(self)

    async def open(self) -> None:
        """Opens it, where it is to last beyond an `async with`."""
        opened = self._peer.ask("session/new", self._params)
        # Its first updates may come in the same delivery as the answer.
        opened.then(lambda: self._opened(opened))
        try:
            await opened
        except Cancelled:
            self._left = True
            raise

    def _opened(self, opened: Waiter[Any]) -> None:
        try:
            self.id = str(opened.result()["sessionId"])
        except (ProxyError, KeyError, TypeError):
            return  # the error reaches whoever awaits the answer
        self._peer.adopt(self)
        if self._left:  # nobody waits for it any more
            self._close()

    async def prompt(
        self, *blocks: str | dict[str, Any] | Record, on_update: Seen | None = None
    ) -> Turn:
        """Prompts the agent with text or content blocks; the agent's answer.

        A cancellation ends the agent's turn, too. `on_update` gets each update as it comes.
        """
        running = self._running = Running()
        self._seen = on_update
        content = [checked.block(block) for block in blocks]
        answer = self._peer.ask("session/prompt", {"sessionId": self.id, "prompt": content})
        answer.then(lambda: running.answered(answer, self._peer.version))
        try:
            await running.over
        except BaseException:
            if not answer.done:
                self.cancel()
            raise
        return running.turn()

    def cancel(self) -> None:
        """Stops the turn that runs."""
        self._peer.tell("session/cancel", {"sessionId": self.id})

    def updated(self, update: Update) -> None:
        """Keeps an update for the turn that runs."""
        self._peer.show(self._seen, update)
        self._running.heard(update)

    async def asked(self, request: Request) -> Any:
        """The answer to a request of the agent."""
        return await answered(self._on_request, request)


def opened(message: Request | Notification) -> tuple[str, Request | Notification] | None:
    """The peer agent that an envelope comes from, and the message in it; None: it is none."""
    held = message.params
    if not isinstance(held, dict) or not isinstance(held.get("method"), str):
        return None
    id_ = f'"id":{message.id},' if isinstance(message, Request) else ""
    inner = f'"method":{dumps(held["method"])},"params":{dumps(held.get("params", {}))}'
    one = read("s", f'{{"jsonrpc":"2.0",{id_}{inner}}}', None)
    return None if isinstance(one, Answer) else (str(held.get("peer")), one)


__all__ = ["ENVELOPE", "Peer", "PeerSession"]
