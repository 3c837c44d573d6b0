"""The client's end of a chain: requests to it, and requests and updates from it.

Runs as an in-process component (`conductor.transports.memory`), so that the chain sees the same
messages as from an editor. `conductor exec` and `conductor.open` are made of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from conductor.core import json_text
from conductor.core.jsonrpc import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
    REQUEST_CANCELLED,
    UNSUPPORTED_VERSION,
)
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import ConductorError, RequestError, UsageError
from conductor.record.turns.messages import decoded, members
from conductor.transports.memory import Channel
from conductor.transports.task_group import TaskGroup
from conductor.version import version

_GRACE: Final = 2.0
"""Seconds that tasks have to end once the connection has ended."""

CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}
"""The answer to a permission request when the turn is cancelled, or no option fits."""

ADVICE: Final = {
    AUTH_REQUIRED: "log in with the agent's own command first, then run this again",
    REFUSED: "a component of the chain refuses this, not the agent",
    UNSUPPORTED_VERSION: "use a version of the agent that speaks ACP version 1",
}
"""Error code -> hint."""

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Serves one method: params in, result out. A `RequestError` becomes the error of the answer."""

Hearer = Callable[[dict[str, Any]], None]
"""Takes a notification: its params."""

OnUpdate = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Takes the session and the update of a `session/update`."""

OnFrame = Callable[[bytes], Awaitable[None]]
"""Takes a frame from the chain, byte for byte."""


class ChainEnded(ConductorError):  # noqa: N818 - an event, not a mistake
    """The chain closed the connection while a request of the client was pending."""


class Connection:
    """One connection to a chain.

    An exception of a handler, `on_update` or `on_frame` ends the connection: the pending requests
    and all later ones raise the exception, and `defect` keeps it.

    Args:
        name: The client's name in `initialize`.
        handlers: By method: how requests of the chain are served.
        on_update: Takes each update, in order; the next message waits for it.
        on_frame: Takes each frame before anything else does.
        hears: By method: functions that take notifications.
    """

    def __init__(
        self,
        name: str,
        handlers: Mapping[str, Handler],
        *,
        on_update: OnUpdate,
        on_frame: OnFrame | None = None,
        hears: Mapping[str, Hearer] | None = None,
    ) -> None:
        self._name = name
        self._hears = hears or {}
        self._handlers = handlers
        self._on_update = on_update
        self._on_frame = on_frame
        self._channel: Channel | None = None
        self._tasks: TaskGroup | None = None
        """The tasks of the connection; None: nothing is read, or no longer."""
        self._reader: asyncio.Task[None] | None = None
        self._last_id = 0
        self._pending: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._serving: dict[object, tuple[str, str, asyncio.Task[Any]]] = {}
        """Requests of the chain, by id: method, session and task."""
        self._ended: BaseException | None = None
        self._cancelled: set[str] = set()
        """Sessions whose turn is cancelled and has not ended yet."""
        self.defect: BaseException | None = None
        """An exception of the client's own functions."""
        self.version = 1
        """Of ACP, as it was agreed."""
        self.agent: Sequence[str] = ()
        """The agent's command: a known agent's login is the hint for an error that asks for it."""

    @asynccontextmanager
    async def over(self, channel: Channel) -> AsyncIterator[None]:
        """Reads `channel`, and serves its messages, as long as the block lasts."""
        self._channel = channel
        self._tasks = group = TaskGroup(self._fail)
        await group.__aenter__()
        self._reader = group.create_task(self._read(channel))
        try:
            yield
        finally:
            self._tasks = None
            self._end(ChainEnded("the connection is closed"))
            for task in (self._reader, *(task for _, _, task in self._serving.values())):
                task.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):  # updates of turns may find no reader
                    await group.__aexit__(None, None, None)

    def start(self, work: Coroutine[Any, Any, None]) -> bool:
        """Starts a task, which ends with the connection. An error of the task ends the connection.
        False: the connection has ended."""
        if self._tasks is None:
            work.close()
            return False
        self._tasks.start(work)
        return True

    async def closed(self) -> None:
        """Returns once the chain sends nothing more."""
        assert self._reader is not None
        await asyncio.wait((self._reader,))

    # -- requests to the chain ------------------------------------------------------------------

    async def initialize(
        self,
        capabilities: Mapping[str, Any],
        meta: Mapping[str, Any] | None = None,
        versions: Sequence[int] = (1,),
    ) -> dict[str, Any]:
        """Sends `initialize`. Returns the result. `versions`: the client's versions of ACP, the
        highest last. Raises `RequestError`, also for another version."""
        name = {"name": f"conductor-{self._name}", "title": f"conductor {self._name}"}
        info = {**name, "version": version()}
        params: dict[str, Any] = {
            "protocolVersion": versions[-1],
            "clientInfo": info,
            "clientCapabilities": capabilities,
            **({"_meta": meta} if meta else {}),
        }
        if versions[-1] > 1:  # which names the agent reads, its answer tells
            shown = {key: capabilities[key] for key in ("_meta",) if key in capabilities}
            params |= {"info": info, "capabilities": shown}
        result = await self.request("initialize", params)
        spoken = result.get("protocolVersion")
        is_number = isinstance(spoken, int | float) and not isinstance(spoken, bool)
        if not is_number or spoken not in versions:
            own = " or ".join(map(str, versions))
            other = f"the agent speaks ACP version {spoken}, this client {own}"
            raise RequestError(
                UNSUPPORTED_VERSION,
                other if is_number else "the agent names no version of ACP in its answer",
                method="initialize",
                hint=f"use a version of the agent that speaks ACP version {own}",
            )
        self.version = 1 if spoken == 1 else 2
        return result

    async def new_session(self, cwd: str) -> dict[str, Any]:
        """Sends `session/new`; the answer, with the session's id. Raises `RequestError`."""
        result = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        if not isinstance(result.get("sessionId"), str):
            text = "the answer holds no sessionId"
            raise RequestError(INTERNAL_ERROR, text, method="session/new")
        return result

    async def prompt(self, session: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        """Sends `session/prompt`; the answer. Raises `RequestError`, also for an answer of ACP
        version 1 that does not say how the turn ended."""
        answer = await self.request("session/prompt", {"sessionId": session, "prompt": blocks})
        if self.version == 1 and not isinstance(answer.get("stopReason"), str):
            text = "the answer holds no stopReason"
            raise RequestError(INTERNAL_ERROR, text, method="session/prompt")
        return answer

    def cancel(self, session: str) -> None:
        """Cancels the session's turn, which then ends with the stop reason `cancelled`."""
        if self._ended is not None:
            return
        self._cancelled.add(session)
        self._send(method="session/cancel", params={"sessionId": session})
        for method, of, task in list(self._serving.values()):
            if method == PERMISSION and of == session:
                task.cancel()

    def turn_ended(self, session: str) -> None:
        """A turn of a session has ended, whoever began it. If it was cancelled here, questions of
        the next turn are asked again."""
        self._cancelled.discard(session)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request. Returns its result.

        Raises `RequestError` for an error, `ChainEnded`, and exceptions that the client's own
        functions have raised.
        """
        self.refuse_in_reader()
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        answer = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = method, answer
        self._send(id=self._last_id, method=method, params=params)
        result: dict[str, Any] = await answer
        return result

    def refuse_in_reader(self) -> None:
        """Raises `UsageError` in a function that the next message waits for: it would wait for
        ever."""
        if asyncio.current_task() is self._reader:
            raise UsageError(
                "`on_update` waits for the chain, and the chain's next message waits for it",
                "start a task for that (`asyncio.create_task`), and return",
            )

    def _send(self, **members: object) -> None:
        assert self._channel is not None
        self._channel.send(json_text.encode({"jsonrpc": "2.0", **members}))

    # -- messages from the chain ----------------------------------------------------------------

    async def _read(self, channel: Channel) -> None:
        """Handles messages in order: the answer that ends a turn follows its updates."""
        try:
            while (line := await channel.receive()) is not None:
                if self._on_frame is not None:
                    await self._on_frame(line)
                for message in _messages(line):
                    await self._dispatch(message)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)
        finally:
            self._end(ChainEnded("the chain ended without an answer"))

    def _fail(self, error: BaseException) -> None:
        """A function of the client failed."""
        self.defect = self.defect or error
        self._end(error)

    def _end(self, error: BaseException) -> None:
        self._ended = self._ended or error
        for _, answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)
        self._pending.clear()

    async def _dispatch(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), members(message.get("params"))
        if not isinstance(method, str):
            self._resolve(message)
            await asyncio.sleep(0)  # a caller that waits for the answer learns of it first
        elif "id" in message:
            self._serve(message["id"], method, params)
        elif method == "session/update":
            update = params.get("update")
            if isinstance(update, dict):
                await self._on_update(str(params.get("sessionId")), update)
        elif method == "$/cancel_request":
            about = params.get("requestId")
            serving = self._serving.get(about) if _is_id(about) else None
            if serving is not None:
                serving[2].cancel()
        elif method in self._hears:
            self._hears[method](params)

    def _resolve(self, message: dict[str, Any]) -> None:
        method, answer = self._pending.pop(message.get("id", 0), ("", None))
        if answer is None or answer.done():
            return
        if message.get("error") is None:
            answer.set_result(members(message.get("result")))
            return
        error = members(message["error"])
        code = error.get("code")
        code = code if isinstance(code, int) else INTERNAL_ERROR
        text = str(error.get("message") or "no reason given")
        hint = self._advice(AUTH_REQUIRED if _is_refused(error) else code)
        answer.set_exception(
            RequestError(code, text, details=error.get("data"), method=method, hint=hint)
        )

    def _advice(self, code: int) -> str:
        from conductor.spec import agents  # an error needs it, and no start

        known = agents.of_command(self.agent) if code == AUTH_REQUIRED else None
        return ADVICE.get(code, "") if known is None else agents.login_hint(known)

    def _serve(self, request_id: object, method: str, params: dict[str, Any]) -> None:
        if request_id in self._serving:
            raise _no_message()
        session = str(params.get("sessionId"))
        if self._tasks is None:
            return
        task = self._tasks.create_task(self._respond(request_id, method, session, params))
        self._serving[request_id] = method, session, task
        # A callback, since a task that is cancelled before it runs cannot answer.
        task.add_done_callback(lambda done: self._responded(request_id, done))

    async def _respond(
        self, request_id: object, method: str, session: str, params: dict[str, Any]
    ) -> None:
        try:
            self._send(id=request_id, result=await self._call_handler(method, session, params))
        except RequestError as error:
            data = {} if error.details is None else {"data": error.details}
            said = {"code": error.code, "message": error.message, **data}
            self._send(id=request_id, error=said)
        except asyncio.CancelledError:
            raise
        except BaseException as defect:
            self._send(id=request_id, error={"code": INTERNAL_ERROR, "message": str(defect)})
            self._fail(defect)

    def _responded(self, request_id: object, done: asyncio.Task[None]) -> None:
        method, session, _ = self._serving.pop(request_id)
        if not done.cancelled():
            return
        if method == PERMISSION and session in self._cancelled:
            self._send(id=request_id, result=CANCELLED)
        else:
            error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
            self._send(id=request_id, error=error)

    async def _call_handler(self, method: str, session: str, params: dict[str, Any]) -> Any:
        handler = self._handlers.get(method)
        if handler is None:
            text = f"Method not found: this client has no `{method}`"
            raise RequestError(METHOD_NOT_FOUND, text)
        if method == PERMISSION and not isinstance(params.get("sessionId"), str):
            raise RequestError(INVALID_PARAMS, "`sessionId` must be a string")
        if method == PERMISSION and session in self._cancelled:
            return CANCELLED
        return await handler(params)


def _messages(line: bytes) -> list[dict[str, Any]]:
    """The messages of a frame. A chain has checked that it is JSON-RPC; where a client connects by
    itself nobody has. Raises `ConductorError`."""
    try:
        frame = decoded(line)
    except ValueError:
        raise _no_message() from None
    found = [each for each in (frame if isinstance(frame, list) else [frame]) if members(each)]
    if not all(_is_id(each.get("id")) for each in found):
        raise _no_message()
    return found


def _no_message() -> ConductorError:
    text = "the server there sent something that is no message of ACP"
    return ConductorError(text, "check the address: a conductor has to listen there")


def _is_refused(error: dict[str, Any]) -> bool:
    """Whether a model's server refuses the agent: agents hand its 401 on as they please."""
    words = f"{error.get('message')} {error.get('data')}".replace("'", " ").split()
    return any(word.strip(":,.()[]{}") == "401" for word in words)


def _is_id(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
