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
from msgspec import Raw, UnsetType

from conductor.cli.client_output import OutputClosed, View
from conductor.core import jsonrpc
from conductor.transports.memory import Channel

PROTOCOL_VERSION: Final = 1
PERMISSION: Final = "session/request_permission"
REQUEST_CANCELLED: Final = -32800

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


class ChainEnded(Exception):  # noqa: N818 - names what happened
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
        self._pending: dict[bytes, asyncio.Future[Any]] = {}
        self._serving: dict[bytes, tuple[str, asyncio.Task[None]]] = {}
        self._session: str | None = None
        self._ended: Exception | None = None
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
            self.stop_reason = await self._turn()
            await self._view.finish()
        except (RpcError, ChainEnded, OutputClosed) as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - reported by whoever runs the chain
            self.defect = error
        finally:
            tasks = [reader, *(task for _, task in self._serving.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def cancel(self) -> bool:
        """Cancels the turn; False if none is running that could be cancelled."""
        if self._session is None or self.stage != "session/prompt" or self._channel is None:
            return False
        self._cancelled = True
        params = _encode({"sessionId": self._session})
        self._channel.send(jsonrpc.notification("session/cancel", params))
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
                jsonrpc.UNSUPPORTED_VERSION,
                f"the agent speaks ACP version {version}, this client {PROTOCOL_VERSION}",
            )
        session = await self._ask("session/new", {"cwd": self._cwd, "mcpServers": []})
        self._session = str(session.get("sessionId"))
        ended = await self._ask(
            "session/prompt",
            {"sessionId": self._session, "prompt": [{"type": "text", "text": self._prompt}]},
        )
        return str(ended.get("stopReason"))

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.stage = method
        if self._ended is not None:
            raise self._ended
        assert self._channel is not None
        number = b"%d" % len(_STAGES[: _STAGES.index(method)])
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self._channel.send(jsonrpc.request(number, method, _encode(params)))
        result = await answer
        return result if isinstance(result, dict) else {}

    # -- what we hear --------------------------------------------------------------------------

    async def _read(self, channel: Channel) -> None:
        """Takes everything in order: the answer that ends the turn comes after its updates."""
        try:
            while (line := await channel.receive()) is not None:
                await self._view.frame(line)
                for message in _messages(line):
                    await self._take(message)
            self._end(ChainEnded("the chain closed the connection"))
        except Exception as error:  # noqa: BLE001 - handed to the turn, which waits for it
            self._end(error)

    def _end(self, error: Exception) -> None:
        self._ended = error
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(error)

    async def _take(self, message: jsonrpc.Message) -> None:
        given = message.id
        if isinstance(message.method, UnsetType):
            self._answered(message)
        elif isinstance(given, Raw):
            self._serve(bytes(given), message.method, _object(message.params))
        elif message.method == "session/update":
            params = _object(message.params)
            update = params.get("update")
            # The id is unknown until `session/new` is answered, and there is but one session.
            if isinstance(update, dict) and params.get("sessionId") in (self._session, None):
                await self._view.update(update)
        elif message.method == "$/cancel_request":
            withdrawn = _encode(_object(message.params).get("requestId"))
            if withdrawn in self._serving:
                self._serving[withdrawn][1].cancel()

    def _answered(self, message: jsonrpc.Message) -> None:
        answer = self._pending.pop(bytes(message.id) if isinstance(message.id, Raw) else b"", None)
        if answer is None or answer.done():
            return
        if isinstance(message.error, Raw):
            body = _object(message.error)
            code = body.get("code")
            answer.set_exception(
                RpcError(
                    code if isinstance(code, int) else jsonrpc.INTERNAL_ERROR,
                    str(body.get("message", "no reason given")),
                    body.get("data"),
                )
            )
        else:
            answer.set_result(_object(message.result))

    def _serve(self, number: bytes, method: str, params: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._respond(number, method, params))
        self._serving[number] = (method, task)

    async def _respond(self, number: bytes, method: str, params: dict[str, Any]) -> None:
        assert self._channel is not None
        member, body = b"result", b"{}"
        try:
            body = _encode(await self._served(method, params))
        except RpcError as error:
            member, body = b"error", jsonrpc.error_object(error.code, error.message, error.data)
        except asyncio.CancelledError:
            if method == PERMISSION and self._cancelled:
                body = _encode(self._cancelled_permission)
            else:
                member = b"error"
                body = jsonrpc.error_object(REQUEST_CANCELLED, "the request was cancelled")
        finally:
            self._serving.pop(number, None)
        self._channel.send(jsonrpc.answer(number, member, body))

    async def _served(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        handler = self._handlers.get(method)
        if handler is None:
            raise RpcError(
                jsonrpc.METHOD_NOT_FOUND, f"Method not found: this client has no `{method}`"
            )
        if method == PERMISSION and self._cancelled:
            return self._cancelled_permission
        return await handler(params)


_STAGES: Final = ("initialize", "session/new", "session/prompt")


def _messages(line: bytes) -> list[jsonrpc.Message]:
    """The messages of a frame; the chain has checked it, so what is malformed is nobody's."""
    try:
        found = jsonrpc.parse(line)
        if isinstance(found, jsonrpc.Message):
            return [found]
        parsed = [jsonrpc.parse(bytes(raw)) for raw in found]
    except jsonrpc.Malformed:
        return []
    return [one for one in parsed if isinstance(one, jsonrpc.Message)]


def _object(raw: Raw | UnsetType) -> dict[str, Any]:
    """Raw JSON as a dict; an empty one for anything that is no object."""
    if isinstance(raw, UnsetType):
        return {}
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        value = json.loads(bytes(raw))  # takes lone surrogates, which editors and agents do send
    return value if isinstance(value, dict) else {}
