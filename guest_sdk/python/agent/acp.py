"""The requests of ACP to an agent, by method. Each returns a result, or raises `ProxyError`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ..errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProxyError
from . import options as choices
from .sessions import Session, UnknownSession
from .shapes import V1, V2, Shape
from .turns import Turn

if TYPE_CHECKING:
    from ..messages import Message, Request
    from .declared import Agent
    from .running import Running

_LONGEST_KEY: Final = 255
METHODS: Final = {
    "initialize": "initialize",
    "session/new": "new",
    "session/load": "load",
    "session/resume": "resume",
    "session/list": "list",
    "session/close": "close",
    "session/set_mode": "set_mode",
    "session/set_config_option": "set_option",
    "session/prompt": "prompt",
    "session/cancel": "cancel",
}
"""Methods, and which function of `Acp` each is for."""

Json = dict[str, Any]


class Acp:
    """The sessions of an agent, and the methods on them."""

    def __init__(self, agent: Agent, running: Running) -> None:
        self._agent = agent
        self._running = running
        self.shape: Shape = V1
        self.client: Json = {}
        """The client's capabilities."""
        self.sessions: dict[str, Session] = {}

    async def initialize(self, request: Request) -> Json:
        """Settles the version: 2 where it is asked for, else 1."""
        params = request.params
        asked = params.get("protocolVersion")
        if type(asked) is not int or not 0 <= asked <= 0xFFFF:
            raise ProxyError("`protocolVersion` is a whole number, such as 1", INVALID_PARAMS)
        if asked >= 2 and not isinstance(params.get("info"), dict):
            raise ProxyError("`info` is missing, which ACP 2 asks for", INVALID_PARAMS)
        self.shape = V2 if asked >= 2 else V1
        self._running.version = self.shape.number
        client = self.shape.client(params)
        self.client = client if isinstance(client, dict) else {}
        return self.shape.initialized(self._agent)

    # -- sessions ------------------------------------------------------------------------------

    async def new(self, request: Request) -> Json:
        """Opens a session."""
        session = self._set_up(request, str(uuid.uuid4()))
        if self._agent.opener is not None:
            await _called(self._agent.opener, session)
        self.sessions[session.id] = session
        return {"sessionId": session.id, **self._shown(session)}

    async def load(self, request: Request) -> Json:
        """Brings a session back, with its past (version 1)."""
        self._only(V1, request)
        return await self._load(request, replays=True)

    async def resume(self, request: Request) -> Json:
        """Brings a session back; its past only where version 2 asks for it."""
        start = request.params.get("replayFrom")
        replays = self.shape is V2 and isinstance(start, dict) and start.get("type") == "start"
        return await self._load(request, replays=replays)

    async def _load(self, request: Request, *, replays: bool) -> Json:
        if self._agent.loader is None:
            raise _not_found(request)
        name = request.params.get("sessionId")
        if not isinstance(name, str):
            raise ProxyError("`sessionId` is missing", INVALID_PARAMS)
        session = self._set_up(request, name)
        before = self.sessions.get(name)
        if before is not None:
            session.take_over(before)
        session.replays = replays
        await _called(self._agent.loader, session)
        session.replays = False
        self.sessions[name] = session
        if self.shape is V2 and replays:
            session.send({"sessionUpdate": "replay_complete"})
        if self.shape is V2:
            state = "running" if session.turns else "idle"
            session.send({"sessionUpdate": "state_update", "state": state})
        return self._shown(session)

    async def list(self, request: Request) -> Json:
        """The sessions that the agent can list."""
        if self._agent.lister is None:
            raise _not_found(request)
        cwd = request.params.get("cwd")
        found = await _called(self._agent.lister, cwd if isinstance(cwd, str) else None)
        return {"sessions": list(found)}

    async def close(self, request: Request) -> Json:
        """Ends a session: its turns are cancelled."""
        session = self._session(request)
        del self.sessions[session.id]
        session.cancel()
        while session.turns:
            await asyncio.wait([turn.task for turn in session.turns])
        if self._agent.closer is not None:
            await _called(self._agent.closer, session)
        return {}

    def _set_up(self, request: Request, name: str) -> Session:
        params = request.params
        if not isinstance(params.get("cwd"), str):
            raise ProxyError("`cwd` is missing, the folder to work in", INVALID_PARAMS)
        servers = params.get("mcpServers") or []
        if not isinstance(servers, list) or not all(isinstance(one, dict) for one in servers):
            raise ProxyError("`mcpServers` is a list of servers", INVALID_PARAMS)
        return Session(self._running, name, params)

    def _session(self, request: Message) -> Session:
        name = request.params.get("sessionId")
        session = self.sessions.get(name) if isinstance(name, str) else None
        if session is None:
            raise UnknownSession(name)
        return session

    # -- choices of the user -------------------------------------------------------------------

    def _shown(self, session: Session) -> Json:
        return self.shape.options(self._agent.options, session.options)

    async def set_mode(self, request: Request) -> Json:
        """Chooses a mode (version 1)."""
        self._only(V1, request)
        await self._choose(self._session(request), choices.MODE, request.params.get("modeId"))
        return {}

    async def set_option(self, request: Request) -> Json:
        """Chooses an option."""
        session, params = self._session(request), request.params
        await self._choose(session, params.get("configId"), params.get("value"))
        return {"configOptions": self._shown(session).get("configOptions", [])}

    async def _choose(self, session: Session, name: Any, value: Any) -> None:
        name = choices.chosen(self._agent.options, name, value)
        before = session.options[name]
        session.options[name] = value
        if self._agent.chooser is not None:
            try:
                await _called(self._agent.chooser, session, name, value)
            except BaseException:
                session.options[name] = before
                raise

    # -- turns ---------------------------------------------------------------------------------

    async def prompt(self, request: Request) -> Json:
        """Answers a prompt: in version 1 once the turn is over, in version 2 once it begins."""
        session, prompt = self._session(request), request.params.get("prompt")
        if not isinstance(prompt, list) or not all(isinstance(one, dict) for one in prompt):
            raise ProxyError("`prompt` is a list of content blocks", INVALID_PARAMS)
        key = self._key(request)
        before = session._submitted.get(key)
        if before is not None and not (before.done() and before.exception()):
            return dict(await asyncio.shield(before))  # sent again: it is there already
        turn = Turn(session, request, self._agent)
        if key:
            session._submitted[key] = turn.begun
        session.turns.append(turn)
        turn.task = self._running.host(turn.run())
        turn.task.add_done_callback(lambda _: session.turns.remove(turn))
        mine = asyncio.current_task()
        assert mine is not None
        mine.add_done_callback(lambda _: turn.accepted.set())  # behind the write of the answer
        awaited = turn.task if self.shape is V1 else turn.begun
        while True:
            try:
                result: Json = await asyncio.shield(awaited)
            except asyncio.CancelledError:
                if awaited.cancelled():
                    raise
                turn.cancel()
            else:
                return result

    def _key(self, request: Request) -> str:
        """The key of a prompt that may be sent again (version 2); empty: the prompt has no key."""
        key = request.params.get("idempotencyKey") if self.shape is V2 else None
        if key is None:
            return ""
        if isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY:
            return key
        raise ProxyError(f"`idempotencyKey` has 1 to {_LONGEST_KEY} characters", INVALID_PARAMS)

    async def cancel(self, notification: Message) -> None:
        """Stops the turns of a session."""
        session = self.sessions.get(str(notification.params.get("sessionId")))
        if session is not None:
            session.cancel()

    async def extension(self, message: Message) -> Any:
        """Calls the function that the author declared for a method that ACP does not have."""
        return await _called(self._agent.extensions[message.method], message.params)

    def _only(self, shape: Shape, request: Request) -> None:
        if self.shape is not shape:
            raise _not_found(request)


def _not_found(request: Request) -> ProxyError:
    return ProxyError(f"Method not found: {request.method}", METHOD_NOT_FOUND)


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    found = function(*arguments)
    return await found if isinstance(found, Awaitable) else found
