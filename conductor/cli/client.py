"""A small ACP v1 client: initialize, one session, one prompt, and what the agent asks meanwhile.

Runs at the client end of a chain as an in-process component (`conductor.transports.memory`), so
what it says and hears is exactly what an editor would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from conductor.cli.client_output import OutputClosed, View
from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND
from conductor.transports.memory import Channel

PROTOCOL_VERSION: Final = 1
PERMISSION: Final = "session/request_permission"
REQUEST_CANCELLED: Final = -32800
UNSUPPORTED_VERSION: Final = -32022

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Serves one method: params in, result out. May raise `RpcError`."""

_encode = msgspec.json.Encoder().encode


class RpcError(Exception):
    """An error in a response, ours or one we got."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ChainEnded(Exception):  # noqa: N818 - an event, not a mistake
    """The chain closed the connection while something was asked of it."""


class Client:
    """One turn, from `initialize` to the answer of `session/prompt`.

    Afterwards `stop_reason` holds how the turn ended, or `error` why there was none and `stage`
    the request that failed.
    """

    def __init__(
        self,
        *,
        prompt: str,
        cwd: str,
        info: dict[str, str],
        capabilities: dict[str, Any],
        view: View,
        handlers: Mapping[str, Handler],
        cancelled_permission: dict[str, Any],
    ) -> None:
        self._prompt = prompt
        self._cwd = cwd
        self._info = info
        self._capabilities = capabilities
        self._view = view
        self._handlers = handlers
        self._cancelled_permission = cancelled_permission
        self._channel: Channel | None = None
        self._asked = 0
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._serving: dict[object, tuple[str, asyncio.Task[dict[str, Any]]]] = {}
        self._session: str | None = None
        self._ended: BaseException | None = None
        self._cancelled = False
        self.stage = ""
        self.stop_reason: str | None = None
        self.error: RpcError | ChainEnded | OutputClosed | None = None
        self.defect: Exception | None = None
        """What went wrong in the client itself."""

    async def run(self, channel: Channel) -> None:
        """The in-process component: returns when the turn is over, however it ended."""
        self._channel = channel
        reader = asyncio.get_running_loop().create_task(self._read(channel))
        try:
            await self._run()
        except Exception as error:
            self.defect = error
        finally:
            tasks = [reader, *(task for _, task in self._serving.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        try:
            self.stop_reason = await self._turn()
        except (RpcError, ChainEnded, OutputClosed) as error:
            self.error = error
        try:
            await self._view.finish()
        except OutputClosed as error:
            self.error = self.error or error

    @property
    def over(self) -> bool:
        """Whether the turn has ended, in whatever way."""
        return self.stop_reason is not None or self.error is not None

    def cancel(self) -> bool:
        """Cancels the turn; False if none is running that could be cancelled."""
        if self._session is None or self.stage != "session/prompt" or self._channel is None:
            return False
        self._cancelled = True
        self._send(method="session/cancel", params={"sessionId": self._session})
        for method, task in list(self._serving.values()):
            if method == PERMISSION:
                task.cancel()
        return True

    # -- what we ask ---------------------------------------------------------------------------

    async def _turn(self) -> str:
        settled = await self._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientInfo": self._info,
                "clientCapabilities": self._capabilities,
            },
        )
        version = settled.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            raise RpcError(
                UNSUPPORTED_VERSION,
                f"the agent speaks ACP version {version}, this client {PROTOCOL_VERSION}",
            )
        session = await self._ask("session/new", {"cwd": self._cwd, "mcpServers": []})
        given = session.get("sessionId")
        if not isinstance(given, str):
            raise RpcError(INTERNAL_ERROR, "the answer holds no sessionId")
        self._session = given
        ended = await self._ask(
            "session/prompt",
            {"sessionId": self._session, "prompt": [{"type": "text", "text": self._prompt}]},
        )
        return str(ended.get("stopReason"))

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.stage = method
        if self._ended is not None:
            raise self._ended
        self._asked += 1
        answer = self._pending[self._asked] = asyncio.get_running_loop().create_future()
        self._send(id=self._asked, method=method, params=params)
        result: dict[str, Any] = await answer
        return result

    def _send(self, **members: object) -> None:
        assert self._channel is not None
        self._channel.send(_encode({"jsonrpc": "2.0", **members}))

    # -- what we hear --------------------------------------------------------------------------

    async def _read(self, channel: Channel) -> None:
        """Takes everything in order: the answer that ends the turn comes after its updates."""
        try:
            while (line := await channel.receive()) is not None:
                await self._view.frame(line)
                for message in _messages(line):
                    await self._take(message)
            self._end(ChainEnded("the chain closed the connection"))
        except Exception as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self._ended = error
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    async def _take(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), _members(message.get("params"))
        if not isinstance(method, str):
            self._answered(message)
        elif "id" in message:
            self._serve(message["id"], method, params)
        elif method == "session/update":
            update = params.get("update")
            # The id is unknown until `session/new` is answered, and there is but one session.
            if isinstance(update, dict) and self._session in (None, params.get("sessionId")):
                await self._view.update(update)
        elif method == "$/cancel_request":
            serving = self._serving.get(params.get("requestId"))
            if serving is not None:
                serving[1].cancel()

    def _answered(self, message: dict[str, Any]) -> None:
        answer = self._pending.pop(message.get("id", 0), None)
        if answer is None or answer.done():
            return
        if "error" in message:
            error = _members(message["error"])
            code = error.get("code")
            answer.set_exception(
                RpcError(
                    code if isinstance(code, int) else INTERNAL_ERROR,
                    str(error.get("message", "no reason given")),
                    error.get("data"),
                )
            )
        else:
            answer.set_result(_members(message.get("result")))

    def _serve(self, number: object, method: str, params: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._served(method, params))
        self._serving[number] = (method, task)
        # A callback, since a task that is cancelled before it has begun could not answer.
        task.add_done_callback(lambda done: self._respond(number, method, done))

    def _respond(self, number: object, method: str, done: asyncio.Task[dict[str, Any]]) -> None:
        self._serving.pop(number, None)
        if done.cancelled():
            if method == PERMISSION and self._cancelled:
                self._send(id=number, result=self._cancelled_permission)
            else:
                error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
                self._send(id=number, error=error)
            return
        match done.exception():
            case None:
                self._send(id=number, result=done.result())
            case RpcError(code=code, message=message):
                self._send(id=number, error={"code": code, "message": message})
            case defect:
                self._send(id=number, error={"code": INTERNAL_ERROR, "message": str(defect)})
                self._end(defect)

    async def _served(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        handler = self._handlers.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: this client has no `{method}`")
        if method == PERMISSION and self._cancelled:
            return self._cancelled_permission
        return await handler(params)


def _messages(line: bytes) -> list[dict[str, Any]]:
    """The messages of a frame, which the chain has checked to be JSON-RPC."""
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        found = json.loads(line)  # takes lone surrogates, which agents do send
    return [one for one in (found if isinstance(found, list) else [found]) if _members(one)]


def _members(value: object) -> dict[str, Any]:
    """An object's members; none for anything else."""
    return value if isinstance(value, dict) else {}
