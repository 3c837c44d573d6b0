"""A running agent: the engine of proxies, with nobody behind it, in a loop of asyncio.

A request is a `Handling` of the engine, as in a proxy. Its work is a task of asyncio, so that
authors may await anything; the engine waits for the task as for an answer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .. import failures
from ..engine import Engine
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Cancelled,
    ProxyError,
)
from ..jsontext import dumps, loads
from ..messages import Request
from ..proxy import Proxy
from ..reading import head, read
from ..sessions import Session as Passed
from ..tasks import Waiter, current
from .acp import METHODS, Acp

if TYPE_CHECKING:
    from .declared import Agent

_MOST = 64
"""The most lines that are gathered for one write, where nothing waits meanwhile."""


class _Answering(Proxy[dict[str, Any]]):
    """An agent as the engine knows it: a proxy that answers everything itself."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.name)
        self.used = True

    def builtin(self, running: Engine) -> dict[str, Any]:
        """The methods of ACP."""
        assert isinstance(running, Running)
        return dict.fromkeys(METHODS, running.answer)

    def innermost(self, running: Engine) -> dict[str, Any]:
        """All others."""
        assert isinstance(running, Running)
        self.handlers["*"] = [running.answer]
        return {}


class Running(Engine):
    """One running instance of an agent; `write` takes each line for the client."""

    def __init__(self, agent: Agent, write: Callable[[str], None]) -> None:
        super().__init__(_Answering(agent))
        self._of_all = [self.answer]
        self.agent = agent
        self.acp = Acp(agent, self)
        self._write = write
        self._tasks: set[asyncio.Task[Any]] = set()
        self._flushing = False
        self.room: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Waits until the written lines have been read, where that takes time."""

    # -- lines ---------------------------------------------------------------------------------

    def feed(self, line: str) -> None:
        """Takes a line of the client."""
        if not line.strip():
            return
        error = self._wrong(line)
        if error is _SILENT:
            return
        if error is not None:
            self._out.append(f'p{{"jsonrpc":"2.0","id":{error[0]},"error":{dumps(error[1])}}}')
        else:
            self._line("p", line)
        self.flush()

    def _wrong(self, line: str) -> tuple[str, dict[str, Any]] | None:
        """The id and the error that answer a line which is no message; None: it is one."""
        try:
            said = loads(line)
        except (ValueError, RecursionError) as error:
            return "null", _error(PARSE_ERROR, f"Parse error: {error}")
        if not isinstance(said, dict):
            what = "; send each of a batch by itself" if isinstance(said, list) else ""
            return "null", _error(INVALID_REQUEST, f"a message is a JSON object{what}")
        if "method" not in said and ("result" in said or "error" in said):
            return None
        asked = said.get("id")
        if "id" in said and (isinstance(asked, bool) or not isinstance(asked, str | int | None)):
            return "null", _error(INVALID_REQUEST, "an id is a string, a whole number or null")
        if said.get("jsonrpc") != "2.0" or not isinstance(said.get("method"), str):
            return "null", _error(INVALID_REQUEST, 'a message has `"jsonrpc":"2.0"` and a `method`')
        if "id" not in said:
            return None if isinstance(said.get("params", {}), dict) else _SILENT
        raw = _raw_id(line)
        if ("p", raw) in self._handlings:
            # Answered by its id, it would answer the first request.
            return "null", _error(INVALID_REQUEST, f"the id {raw[:80]} is already in use")
        if not isinstance(said.get("params") or {}, dict):
            return raw, _error(INVALID_PARAMS, "`params` is an object")
        return None

    def flush(self) -> None:
        """Lets waiting work go on, and writes the messages since the last call."""
        self.loop.run()
        out, self._out = self._out, []
        for said in out:
            if said[0] == "p":
                self._write(said[1:])
            elif said[0] == "c":
                _log(self.agent.name, said[1:])

    def notify(self, side: str, method: str, params: Any) -> None:
        """Tells the client something; it is written soon."""
        super().notify(side, method, params)
        self._soon()

    async def spoken(self) -> None:
        """Lets messages leave; waits while the client does not read."""
        if len(self._out) >= _MOST:
            self.flush()
            await asyncio.sleep(0)  # a cancellation comes in even while it talks without end
        if self.room is not None:
            await self.room()

    def _soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush_once)

    def _flush_once(self) -> None:
        self._flushing = False
        self.flush()

    # -- requests to the agent -----------------------------------------------------------------

    async def answer(self, message: Any, following: Any) -> Any:
        """The handler of every message."""
        task = current()
        assert task is not None
        self.lanes.release(task.context)  # sessions keep their turns in order themselves
        found = getattr(self.acp, METHODS.get(message.method, "extension"))
        if not isinstance(message, Request):
            if message.method in METHODS or message.method in self.agent.extensions:
                return await self._hosted(message, found(message))
            return None
        if message.method not in METHODS and message.method not in self.agent.extensions:
            raise ProxyError(f"Method not found: {message.method}", METHOD_NOT_FOUND)
        return await self._hosted(message, found(message))

    async def _hosted(self, message: Any, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine of asyncio for a handler; its result, also when it was cancelled."""
        task = self.host(work)
        while True:
            done: Waiter[None] = Waiter()
            task.add_done_callback(lambda _, done=done: self._ended(done))  # type: ignore[misc]
            try:
                await done
            except Cancelled:
                stop(task)
                continue
            break
        if task.cancelled():
            raise Cancelled
        error = task.exception()
        if error is None or isinstance(error, ProxyError):
            return task.result()
        raise self.failed(message.method, error)

    def failed(self, method: str, error: BaseException) -> ProxyError:
        """The error that answers a request, for a mistake of the author's; it is logged too."""
        failures.report(self, f"the handler of `{method}` failed", error)
        told = f"agent `{self.agent.name}` failed at `{method}`: {failures.sentence(error)}"
        return ProxyError(told, INTERNAL_ERROR, {"traceback": failures.story(error).splitlines()})

    def _ended(self, done: Waiter[None]) -> None:
        done.resolve(None)
        self.flush()

    def host(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of asyncio that ends with the agent."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """The client is gone: running work is cancelled, and waits until it has ended."""
        while self._tasks:
            for task in self._tasks:
                stop(task)
            await asyncio.wait(self._tasks)
            await asyncio.sleep(0)
        self.flush()

    # -- requests of the agent -----------------------------------------------------------------

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Asks the client. Raises `Answered` for its error; if cancelled, the client learns that
        nobody waits any more."""
        waiter: Waiter[Any] = self.request("p", method, params)
        self._soon()
        answered = asyncio.Event()
        waiter.then(answered.set)
        try:
            await answered.wait()
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise
        return waiter.result()

    def _give_up(self, waiter: Waiter[Any]) -> None:
        for key, one in list(self._awaited.items()):
            if one is waiter:
                del self._awaited[key]
                self._send_cancel(*key)
        self._soon()

    # -- not an agent's ------------------------------------------------------------------------

    def session(self, id: str) -> Passed:  # noqa: A002 - the protocol's name
        """A view for the engine; the agent's sessions are its own."""
        return Passed(self, id)

    def _cancel_turn(self, session: str | None) -> None:
        """Nothing: the handler of `session/cancel` does it."""

    def _pass_answer(self, side: str, said: str) -> None:
        """Nothing: an answer that nobody waits for."""


def stop(task: asyncio.Task[Any]) -> None:
    """Cancels a task, once: its clean-up is not cancelled again."""
    if not task.cancelling():
        task.cancel()


_SILENT: tuple[str, dict[str, Any]] = ("", {})
"""Stands for a notification that cannot be read: nothing answers it."""


def _error(code: int, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


def _raw_id(line: str) -> str:
    """The id of a request as it is written."""
    found = head(line)
    if found is not None:
        return found[0]
    request = read("p", line, None)
    assert isinstance(request, Request)
    return request.id


def _log(name: str, said: str) -> None:
    sys.stderr.write(f"{name}: {loads(said)['params']['message']}\n")
