"""A small ACP v1 client: `initialize`, one session, one prompt, and requests from the chain.

Runs at the client end of a chain as an in-process component (`conductor.transports.memory`), so
the chain sees the same messages as from an editor.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from conductor.cli.client_output import OutputClosed, View
from conductor.cli.version import version
from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND
from conductor.transports.memory import Channel

PROTOCOL_VERSION: Final = 1
PERMISSION: Final = "session/request_permission"
REQUEST_CANCELLED: Final = -32800
UNSUPPORTED_VERSION: Final = -32022

CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}
"""The answer to a permission request when the turn is cancelled, or no option fits."""

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Serves one method: params in, result out. May raise `RpcError`."""

_encode = msgspec.json.Encoder().encode


class RpcError(Exception):
    """An error in a response, sent or received."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ChainEnded(Exception):  # noqa: N818 - an event, not a mistake
    """The chain closed the connection while a request of the client was pending."""


class Client:
    """One turn, from `initialize` to the answer of `session/prompt`.

    Afterwards `stop_reason` holds how the turn ended; or `error` holds why it did not, and `stage`
    the method of the request that failed.
    """

    def __init__(
        self,
        *,
        prompt: str,
        cwd: str,
        capabilities: dict[str, Any],
        view: View,
        handlers: Mapping[str, Handler],
    ) -> None:
        self._prompt = prompt
        self._cwd = cwd
        self._capabilities = capabilities
        self._view = view
        self._handlers = handlers
        self._channel: Channel | None = None
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._serving: dict[object, tuple[str, asyncio.Task[dict[str, Any]]]] = {}
        self._session: str | None = None
        self._ended: BaseException | None = None
        self._cancelled = False
        self.stage = ""
        self.stop_reason: str | None = None
        self.error: RpcError | ChainEnded | OutputClosed | None = None
        self.defect: Exception | None = None
        """An exception of the client itself."""

    async def run(self, channel: Channel) -> None:
        """The in-process component; returns when the turn is over."""
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
        """Whether the turn has ended."""
        return self.stop_reason is not None or self.error is not None

    def cancel(self) -> bool:
        """Cancels the turn; False if no prompt is pending."""
        if self._session is None or self.stage != "session/prompt" or self._channel is None:
            return False
        self._cancelled = True
        self._send(method="session/cancel", params={"sessionId": self._session})
        for method, task in list(self._serving.values()):
            if method == PERMISSION:
                task.cancel()
        return True

    # -- requests to the chain ------------------------------------------------------------------

    async def _turn(self) -> str:
        info = {"name": "conductor-exec", "title": "conductor exec", "version": version()}
        initialized = await self._request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientInfo": info,
                "clientCapabilities": self._capabilities,
            },
        )
        spoken = initialized.get("protocolVersion")
        if spoken != PROTOCOL_VERSION:
            raise RpcError(
                UNSUPPORTED_VERSION,
                f"the agent speaks ACP version {spoken}, this client {PROTOCOL_VERSION}",
            )
        session = await self._request("session/new", {"cwd": self._cwd, "mcpServers": []})
        session_id = session.get("sessionId")
        if not isinstance(session_id, str):
            raise RpcError(INTERNAL_ERROR, "the answer holds no sessionId")
        self._session = session_id
        turn = await self._request(
            "session/prompt",
            {"sessionId": session_id, "prompt": [{"type": "text", "text": self._prompt}]},
        )
        return str(turn.get("stopReason"))

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.stage = method
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        answer = self._pending[self._last_id] = asyncio.get_running_loop().create_future()
        self._send(id=self._last_id, method=method, params=params)
        result: dict[str, Any] = await answer
        return result

    def _send(self, **members: object) -> None:
        assert self._channel is not None
        self._channel.send(_encode({"jsonrpc": "2.0", **members}))

    # -- messages from the chain ----------------------------------------------------------------

    async def _read(self, channel: Channel) -> None:
        """Handles messages in order: the answer that ends the turn follows its updates."""
        try:
            while (line := await channel.receive()) is not None:
                await self._view.frame(line)
                for message in _messages(line):
                    await self._dispatch(message)
            self._end(ChainEnded("the chain closed the connection"))
        except Exception as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self._ended = error
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    async def _dispatch(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), _members(message.get("params"))
        if not isinstance(method, str):
            self._resolve(message)
        elif "id" in message:
            self._serve(message["id"], method, params)
        elif method == "session/update":
            update = params.get("update")
            # The id is unknown until the answer to `session/new`; there is only one session.
            if isinstance(update, dict) and self._session in (None, params.get("sessionId")):
                await self._view.update(update)
        elif method == "$/cancel_request":
            serving = self._serving.get(params.get("requestId"))
            if serving is not None:
                serving[1].cancel()

    def _resolve(self, message: dict[str, Any]) -> None:
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

    def _serve(self, request_id: object, method: str, params: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._call_handler(method, params))
        self._serving[request_id] = (method, task)
        # A callback, since a task that is cancelled before it runs cannot answer.
        task.add_done_callback(lambda done: self._respond(request_id, method, done))

    def _respond(self, request_id: object, method: str, done: asyncio.Task[dict[str, Any]]) -> None:
        self._serving.pop(request_id, None)
        if done.cancelled():
            if method == PERMISSION and self._cancelled:
                self._send(id=request_id, result=CANCELLED)
            else:
                error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
                self._send(id=request_id, error=error)
            return
        match done.exception():
            case None:
                self._send(id=request_id, result=done.result())
            case RpcError(code=code, message=message):
                self._send(id=request_id, error={"code": code, "message": message})
            case defect:
                self._send(id=request_id, error={"code": INTERNAL_ERROR, "message": str(defect)})
                self._end(defect)

    async def _call_handler(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        handler = self._handlers.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: this client has no `{method}`")
        if method == PERMISSION and self._cancelled:
            return CANCELLED
        return await handler(params)


def _messages(line: bytes) -> list[dict[str, Any]]:
    """The messages of a frame. The chain has checked that it is JSON-RPC."""
    try:
        frame = msgspec.json.decode(line)
    except msgspec.DecodeError:
        frame = json.loads(line)  # accepts lone surrogates, which some agents send
    return [each for each in (frame if isinstance(frame, list) else [frame]) if _members(each)]


def _members(value: object) -> dict[str, Any]:
    """An object's members; empty for anything else."""
    return value if isinstance(value, dict) else {}
