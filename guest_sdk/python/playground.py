"""Tests of a proxy without a conductor: a client, an agent and services in one object.

    @played
    async def test_greeting():
        async with Playground(proxy, grants=["clock"]) as p:
            turn = await p.prompt("hello")
            assert turn.text == …

Nothing here takes time: a call returns when everybody waits for something from outside.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, ParamSpec, Self

from .engine import Engine
from .errors import METHOD_NOT_FOUND, ProxyError
from .jsontext import dumps, loads
from .playground_editor import FAMILIES, PretendEditor
from .playground_mcp import McpClient
from .pretend import Services
from .proxy import Proxy
from .records import Record
from .sessions import Turn

P = ParamSpec("P")

_TEXT: Final = "agent_message_chunk"
CLOCK: Final = "2025-10-08T12:34:56+00:00"


def played(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes an async test an ordinary function, which pytest or `test_greeting()` can run."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import asyncio

        asyncio.run(test(*args, **kwargs))

    return run


class Agent:
    """The agent of a playground: it repeats its prompt, unless told otherwise.

    `answer`: called with each request as a `Record` (`method`, `params`); it returns the
    result. None: the request gets the usual answer. `HOLD`: it stays open, see `reply`.
    """

    HOLD: Final = object()

    def __init__(self, playground: Playground) -> None:
        self._playground = playground
        self.answer: Callable[[Record], Any] | None = None
        self.input: Callable[[Record], Any] | None = None
        """Answers the requests of an MCP tool (`sampling/createMessage`, `elicitation/create`):
        called with each request; it returns the result. None: neither is offered."""
        self.requests: list[Record] = []
        """All requests it got, each with `id`, `method`, `params`."""
        self.notifications: list[Record] = []
        self._sessions = 0

    @property
    def prompts(self) -> list[str]:
        """The texts of the prompts it got."""
        return [
            "\n".join(b.get("text", "") for b in one.raw["params"].get("prompt", []))
            for one in self.requests
            if one.method == "session/prompt"
        ]

    def update(self, session: str, kind: str, **members: Any) -> None:
        """Sends an update."""
        update = {"sessionUpdate": kind, **members}
        self.notify("session/update", {"sessionId": session, "update": update})

    def say(self, session: str, said: str) -> None:
        """Sends text."""
        self.update(session, _TEXT, content={"type": "text", "text": said})

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self._playground.send("s", {"method": method, "params": params})

    def request(self, method: str, params: Any) -> int:
        """Sends a request; its id. `Playground.answer_to("s", id)` is the answer."""
        return self._playground.send("s", {"method": method, "params": params}, request=True)

    def reply(self, request: Record, result: Any) -> None:
        """Answers a request that was held."""
        self._playground.send("s", {"id": request.raw["id"], "result": result})

    def asked(self, request: dict[str, Any]) -> None:
        """Takes a request."""
        record = Record(request)
        self.requests.append(record)
        try:
            result = self.answer(record) if self.answer is not None else None
            if result is self.HOLD:
                return
            result = self._usual(record) if result is None else result
        except ProxyError as error:
            self._playground.send("s", {"id": request["id"], "error": error.body()})
        else:
            self._playground.send("s", {"id": request["id"], "result": result})

    def _usual(self, request: Record) -> Any:
        params = request.raw.get("params", {})
        match request.method:
            case "initialize":
                return {
                    "protocolVersion": params.get("protocolVersion", 1),
                    "agentCapabilities": {},
                }
            case "session/new" | "session/fork":
                self._sessions += 1
                return {"sessionId": f"session-{self._sessions}"}
            case "session/prompt":
                said = "\n".join(b.get("text", "") for b in params.get("prompt", []))
                self.say(params["sessionId"], said)
                return {"stopReason": "end_turn"}
            case "session/load" | "session/resume" | "session/close":
                return {}
        raise ProxyError(f"Method not found: {request.method}", METHOD_NOT_FOUND)


class Playground(McpClient):
    """A proxy with a client before it, an agent behind it and a conductor around it.

    Args:
        proxy: the proxy.
        config: its settings.
        grants: the rights to services that it has, such as `read:**`; None: all.
        clock: the time, ISO 8601; `p.services.advance(seconds)` moves it and fires timers.
        files: the project's files by absolute path, for the `files` service.
        fetch: answers `fetch`: called with its parameters, returns its result, or the text.
        answer: how the agent answers (`Agent.answer`).
        client: how the client answers: called with each request (`Record`); returns the result.
        editor: the abilities of the client's editor, of `panel`, `comment`, `operation`, `log`;
            `p.editor` holds the shown things.
    """

    def __init__(
        self,
        proxy: Proxy[Any],
        *,
        config: dict[str, Any] | None = None,
        grants: Iterable[str] | None = None,
        clock: str = CLOCK,
        files: Mapping[str, str] | None = None,
        fetch: Callable[[dict[str, Any]], Any] | None = None,
        answer: Callable[[Record], Any] | None = None,
        client: Callable[[Record], Any] | None = None,
        editor: Iterable[str] = (),
    ) -> None:
        self._engine = Engine(proxy)
        self.editor = PretendEditor(self, editor)
        self.agent = Agent(self)
        self.agent.answer = answer
        self.client = client
        self.services = Services(
            self._conductor, datetime.datetime.fromisoformat(clock), grants, files or {}, fetch
        )
        self.heard: list[Record] = []
        """Everything the client was sent but answers, in order."""
        self.lines: list[str] = []
        """Everything that passed the channel: `> ` to the proxy, `< ` from it."""
        self._config = config or {}
        self._answers: dict[tuple[str, Any], dict[str, Any]] = {}
        self._inbox: list[str] = []
        self._busy = self._initialized = False
        self._count = 0
        self._life = 1
        self.session = ""
        """The session `prompt` uses, opened when first needed."""

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exception: object) -> None:
        """Ends."""

    def __enter__(self) -> Self:
        grants = self.services.grants
        params = {
            "name": self._engine.proxy.name,
            "config": self._config,
            "grants": None if grants is None else sorted(grants),
            "limits": {},
            **({"instance": str(self._life), "kept": self.services.kept} if self._life > 1 else {}),
        }
        self._put("c", {"jsonrpc": "2.0", "method": "configure", "params": params})
        return self

    def __exit__(self, *exception: object) -> None:
        """Ends."""

    def restart(self, proxy: Proxy[Any] | None = None) -> None:
        """Puts a new instance of the proxy in place, as after a failure. It knows the members that
        the former has kept, and the sessions go on. `proxy`: its new build; None: the same."""
        self._life += 1
        self._engine = Engine(proxy or self._engine.proxy)
        self.__enter__()

    # -- the client ----------------------------------------------------------------------------

    async def initialize(self, **params: Any) -> Any:
        """Initializes the chain; the result. Where the editor can something, the first session
        does that by itself."""
        self._initialized = True
        meta = {"_meta": {"symposium": self.editor.section()}} if self.editor.can else {}
        return await self.request(
            "initialize", {"protocolVersion": 1, "clientCapabilities": meta, **params}
        )

    async def new_session(self, cwd: str = "/project", **params: Any) -> str:
        """Opens a session; its id."""
        if self.editor.can and not self._initialized:
            await self.initialize()
        setup = {"cwd": cwd, "mcpServers": [], **params}
        result = await self.request("session/new", setup)
        self.session = str(result["sessionId"])
        return self.session

    async def prompt(self, *blocks: str | dict[str, Any], session: str = "") -> Turn:
        """Sends a prompt; the turn as the client saw it."""
        return self.turn(await self.start_prompt(*blocks, session=session))

    async def start_prompt(self, *blocks: str | dict[str, Any], session: str = "") -> int:
        """Sends a prompt; its id, for `turn`, `cancel` and `answer_to`."""
        session = session or self.session or await self.new_session()
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        self._mark = len(self.heard)
        params = {"sessionId": session, "prompt": content}
        return self.send("p", {"method": "session/prompt", "params": params}, request=True)

    def turn(self, id: int) -> Turn:  # noqa: A002 - the protocol's name
        """The end of a turn. Raises `ProxyError` for an error, `AssertionError` if it goes on."""
        result = self.result("p", id)
        updates = [
            Record(one.raw["params"]["update"])
            for one in self.heard[self._mark :]
            if one.raw.get("method") == "session/update"
        ]
        said = [u.content.get("text", "") for u in updates if u.get("sessionUpdate") == _TEXT]
        return Turn("".join(said), str(result.get("stopReason", "")), updates)

    async def request(self, method: str, params: Any) -> Any:
        """Sends any request as the client; its result. Raises `ProxyError` for an error."""
        return self.result("p", self.send("p", {"method": method, "params": params}, request=True))

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification as the client."""
        self.send("p", {"method": method, "params": params})

    def cancel(self, id: int) -> None:  # noqa: A002 - the protocol's name
        """Cancels one of the client's requests."""
        self.notify("$/cancel_request", {"requestId": id})

    def result(self, side: str, id: int) -> Any:  # noqa: A002 - the protocol's name
        """The result of a request by the client (`p`) or the agent (`s`)."""
        answer = self.answer_to(side, id)
        assert answer is not None, "the request is not answered yet:\n" + "\n".join(self.lines)
        if "error" in answer:
            error = answer["error"]
            raise ProxyError(error.get("message", ""), error.get("code", 0), error.get("data"))
        return answer.get("result")

    def answer_to(self, side: str, id: int) -> dict[str, Any] | None:  # noqa: A002 - as above
        """The whole answer to a request, or None if there is none yet."""
        return self._answers.get((side, id))

    # -- lines ---------------------------------------------------------------------------------

    def send(self, side: str, message: dict[str, Any], *, request: bool = False) -> int:
        """Gives the proxy a message from the client (`p`) or the agent (`s`); its id."""
        self._count += 1
        number = self._count
        id_ = {"id": number} if request else {}
        self._put(side, {"jsonrpc": "2.0", **id_, **message})
        return number

    def feed(self, line: str) -> None:
        """Gives the proxy one raw line of the channel."""
        self._inbox.append(line)
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                given = self._inbox.pop(0)
                self.lines.append("> " + given)
                for said in self._engine.receive([given]):
                    self.lines.append("< " + said)
                    self._said(said[0], loads(said[1:]))
        finally:
            self._busy = False

    def _put(self, side: str, message: dict[str, Any]) -> None:
        if side == "s" and self.services.above:
            message = _renamed(message, self.services.above)
        self.feed(side + dumps(message))

    def _conductor(self, message: dict[str, Any]) -> None:
        self._put("c", message)

    def _said(self, side: str, message: dict[str, Any]) -> None:
        if side == "s" and self.services.bound:
            message = _renamed(message, self.services.bound)
        if "method" not in message:
            self._answers[side, message.get("id")] = message
        elif side == "c":
            self.services.asked(message)
        elif side == "p":
            self._at_client(message)
        elif "id" in message:
            self.agent.asked(message)
        else:
            self.agent.notifications.append(Record(message))

    def _at_client(self, message: dict[str, Any]) -> None:
        self.heard.append(Record(message))
        method = message["method"]
        if method.startswith(FAMILIES):
            self._at_editor(method, message)
        elif "id" not in message:
            return
        elif self.client is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}
            self._put("p", {"jsonrpc": "2.0", "id": message["id"], "error": error})
        else:
            result = self.client(Record(message))
            self._put("p", {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _at_editor(self, method: str, message: dict[str, Any]) -> None:
        try:
            answer = {"result": self.editor.asked(method, message["params"])}
        except ProxyError as error:
            answer = {"error": error.body()}
        if "id" in message:
            self._put("p", {"jsonrpc": "2.0", "id": message["id"], **answer})


def _renamed(message: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """A message with the session's other id."""
    for name in ("params", "result"):
        held = message.get(name)
        if isinstance(held, dict) and isinstance(held.get("sessionId"), str):
            id_ = held["sessionId"]
            message = {**message, name: {**held, "sessionId": ids.get(id_, id_)}}
    return message


__all__ = ["Agent", "Playground", "played"]
