"""The own messages of an engine: requests, notifications, services; and its background work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import failures, keeping
from .errors import Answered, Cancelled, Refused
from .jsontext import dumps
from .lanes import Lanes
from .messages import session_of
from .sessions import Session, SubSession
from .tasks import Loop, Task, Waiter, current

if TYPE_CHECKING:
    from .editor import Capabilities
    from .handling import Handling
    from .mcp import Host
    from .peers import PeerSession
    from .proxy import Proxy
    from .reading import Answer
    from .turns import Parting, Running

OTHER: Final = {"p": "s", "s": "p"}
CANCEL: Final = "$/cancel_request"


class Speaker:
    """The half of an engine that handlers use."""

    def __init__(self, proxy: Proxy[Any]) -> None:
        self.proxy = proxy
        proxy.used = True
        self.name: str = proxy.name
        """The name of the proxy in its chain."""
        self.lanes = Lanes()
        self.sessions: dict[str, Session] = {}
        self.kept: dict[str, Any] = {}
        """The members that former lives have kept (`keep`)."""
        self._out: list[str] = []
        self.loop = Loop(self)
        self._awaited: dict[tuple[str, str], Waiter[Any]] = {}
        self._handlings: dict[tuple[str, str], Handling] = {}
        """Requests in the hands of handlers, by side and raw id."""
        self._subsessions: dict[str, SubSession] = {}
        self.peers: list[str] = []
        """The peer agents that the proxy reaches."""
        self.peer_sessions: dict[tuple[str, str], PeerSession] = {}
        """Its sessions with them, by peer and session."""
        self.version: Any = None
        """The version of ACP that client and agent agreed on, if the proxy was shown it."""
        self.capabilities: Capabilities | None = None
        """The abilities of the editor; None: the proxy was not shown `initialize`."""
        self.turns: dict[str, Running | Parting] = {}
        """Turns that the proxy has begun in sessions of the client, by session, and what parts
        those that are over from what comes next."""
        self.mcp: Host | None = None
        """Its MCP servers, where it has any."""
        self._count = 0

    def request(self, side: str, method: str, params: Any) -> Waiter[Any]:
        """Asks the client (`p`), the agent (`s`) or the conductor (`c`)."""
        id_ = self._fresh() if side != "c" else str(self._number())
        waiter: Waiter[Any] = Waiter()
        self._awaited[side, id_] = waiter
        handling = self._speaking(side)
        if handling is not None:
            if handling.own is None:
                handling.own = set()
            handling.own.add((side, id_))
        named = f'{side}{{"jsonrpc":"2.0","id":{id_},"method":{dumps(method)}'
        self._out.append(f'{named},"params":{dumps(params)}}}' if params else named + "}")
        return waiter

    def serve(self, service: str, params: dict[str, Any]) -> Waiter[Any]:
        """Asks the conductor for a service. The waiter raises `Refused`."""
        asked: Waiter[Any] = self.request("c", service, params)
        served: Waiter[Any] = Waiter()

        def then() -> None:
            try:
                served.resolve(asked.result())
            except Answered as error:
                body = {"code": error.code, "message": error.message, "data": error.data}
                served.fail(Refused(service, body))

        asked.then(then)
        return served

    def notify(self, side: str, method: str, params: Any) -> None:
        """Tells the client, the agent or the conductor."""
        self._speaking(side)
        self._out.append(
            f'{side}{{"jsonrpc":"2.0","method":{dumps(method)},"params":{dumps(params)}}}'
        )

    def log(self, level: str, text: str) -> None:
        """Writes a line in the conductor's log."""
        self.notify("c", "log", {"level": level, "message": text})

    def start(self, work: Any, what: str) -> Task:
        """Runs a coroutine in the background; its failure is logged."""

        async def run() -> Any:
            try:
                return await work
            except Cancelled:
                return None
            except (Exception, SystemExit) as error:  # nobody awaits it
                failures.report(self, f"{what} failed", error)
                return None

        return self.loop.start(run(), None)

    def spawn(self, work: Any) -> Task:
        """Runs a coroutine as part of what is being handled; it is awaited by whoever began it."""
        running = current()
        return self.loop.start(work, running.context if running is not None else None)

    def session(self, id: str) -> Session:  # noqa: A002 - the protocol's name
        """The session of this id, known from now on."""
        found = self.sessions.get(id)
        if found is None:
            kept = self.kept.pop(keeping.of_session(id), None) if self.kept else None
            found = self.sessions[id] = Session(self, id, kept)
        return found

    def adopt(self, sub: SubSession) -> None:
        """From now on the agent's messages in this session stay here."""
        self._subsessions[sub.id] = sub

    def disown(self, sub: SubSession) -> None:
        """The agent says nothing more in this session."""
        self._subsessions.pop(sub.id, None)

    def held_prompt(self, session: str) -> Handling | None:
        """A prompt of the user's in a session that is here, and not with the agent."""
        for handling in self._handlings.values():
            if (
                handling.side == "p"
                and handling.sent_as is None
                and handling.message.method == "session/prompt"
                and session_of(handling.message) == session
            ):
                return handling
        return None

    def _speaking(self, side: str) -> Handling | None:
        task = current()
        handling = task.context if task is not None and task.owner is self else None
        if handling is not None and side in OTHER:
            handling.speaks()
        return handling

    def message_id(self) -> dict[str, Any]:
        """The members that name the message of the proxy's own chunk: version 2 demands them."""
        if self.version != 2:
            return {}
        return {"messageId": self.unique()}

    def unique(self) -> str:
        """An id that nothing else has."""
        return f"{self.name}-{self._number()}"

    def _fresh(self) -> str:
        return f'"py-{self._number()}"'

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _send_cancel(self, side: str, id_: str) -> None:
        if side in OTHER:
            self._out.append(
                f'{side}{{"jsonrpc":"2.0","method":"{CANCEL}","params":{{"requestId":{id_}}}}}'
            )


def settle(waiter: Waiter[Any], answer: Answer, *, own: bool = True) -> None:
    """Resolves or fails a waiter by an answer. `own`: to a request of the proxy's own."""
    if answer.failed:
        waiter.fail(Answered(answer.raw(), answer.value, own=own))
    else:
        waiter.resolve(answer.value)
