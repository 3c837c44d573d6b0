"""A whole chain in one process: a real `Runtime` over components that are async functions.

async def play(chain: Chain) -> None:
    await chain.initialize()
    assert (await chain.prompt("hello"))["result"] == {"stopReason": "end_turn"}

assert run(play, proxy("p"), agent()) == 0
"""

import asyncio
import itertools
import json
import selectors
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

from conductor.core import CHANNEL, Component
from conductor.run.planned import Planned
from conductor.run.records import Records
from conductor.run.runtime import Runtime
from conductor.spec.options import Options
from conductor.transports.memory import Channel, MemoryTransport

Json = dict[str, Any]
_Given = TypeVarTuple("_Given")
_Made = TypeVar("_Made")

PATIENCE: Final = 30.0
"""Seconds that only a hang takes."""

INITIALIZE: Final[Json] = {"protocolVersion": 1}


class CrashError(Exception):
    """A component ends badly."""


async def pass_through(channel: Channel) -> None:
    """A proxy of dialect `channel`: passes everything on to its other side, unchanged."""
    other = {b"p": b"s", b"s": b"p"}
    while (line := await channel.receive()) is not None:
        if (side := other.get(line[:1])) is not None:
            channel.send(side + line[1:])


def proxy(
    name: str,
    behaviour: Callable[[Channel], Awaitable[None]] = pass_through,
    *,
    component: Component | None = None,
    **more: Any,
) -> Planned:
    """A proxy that a line with "crash NAME" in it ends; `more`: further fields of `Planned`."""

    async def run(channel: Channel) -> None:
        crashing = _Crashing(channel, f"crash {name}".encode())
        await behaviour(crashing)

    def transport() -> MemoryTransport:
        return MemoryTransport(run)

    component = component or Component(name, f"proxy `{name}`", CHANNEL)
    return Planned(component, transport(), transport, **more)


class _Crashing(Channel):
    """Raises `CrashError` where a line holds a word."""

    def __init__(self, channel: Channel, word: bytes) -> None:
        self._inner = channel
        self._word = word

    async def receive(self) -> bytes | None:
        line = await self._inner.receive()
        if line is not None and self._word in line:
            raise CrashError("as it was told to")
        return line

    def send(self, line: bytes) -> None:
        self._inner.send(line)


async def answer(channel: Channel) -> None:
    """An agent that answers each prompt after echoing its text in an update.

    A prompt that holds "wait" is answered when one that holds "go on" comes.
    """
    waiting: list[Json] = []

    def reply(request: Json, result: Json) -> None:
        channel.send(_line(id=request["id"], result=result))

    while (line := await channel.receive()) is not None:
        message: Json = json.loads(line)
        match message.get("method"):
            case "initialize":
                reply(message, {"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                reply(message, {"sessionId": "s1"})
            case "session/prompt":
                waiting.append(message)
                text = message["params"]["prompt"][0]["text"]
                if "wait" in text:
                    continue
                content = {"type": "text", "text": text}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                params = {"sessionId": "s1", "update": update}
                channel.send(_line(method="session/update", params=params))
                while waiting:
                    reply(waiting.pop(0), {"stopReason": "end_turn"})


def agent(
    behaviour: Callable[[Channel], Awaitable[None]] = answer, name: str = "agent", **more: Any
) -> Planned:
    """An agent; `more` are further fields of `Planned`."""

    def transport() -> MemoryTransport:
        return MemoryTransport(behaviour)

    return Planned(Component(name, f"agent `{name}`"), transport(), transport, **more)


class Chain:
    """A running chain and its client, which a test plays."""

    def __init__(self, planned: Sequence[Planned], options: Options, **more: Any) -> None:
        """`more`: further arguments of `Records`, and an `owner`."""
        self.log: list[str] = []
        """Lines: level, component and text."""
        self.received: list[Json] = []
        """The messages that the client received, in order."""
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._channel: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self.reading = asyncio.Event()
        """Whether the client reads; cleared, it takes nothing."""
        self.reading.set()
        upstream = MemoryTransport(self._client)
        owner = more.pop("owner", None)
        records = Records(self._log, **more)
        self.runtime = Runtime(planned, "agent", upstream, options, records, owner)

    def _log(self, *words: str) -> None:
        self.log.append(" ".join(words))
        self._changed.set()

    async def _client(self, channel: Channel) -> None:
        self._channel.set_result(channel)
        reading = asyncio.ensure_future(self._read(channel))
        leaving = asyncio.ensure_future(self._left.wait())
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        leaving.cancel()

    async def _read(self, channel: Channel) -> None:
        while await self.reading.wait() and (line := await channel.receive()) is not None:
            message: Json = json.loads(line)
            self.received.append(message)
            self._changed.set()
            if "method" not in message:
                self._answers.pop(message["id"]).set_result(message)

    async def send(self, **message: Any) -> None:
        """Sends a message as the client."""
        channel = await self._channel
        channel.send(_line(**message))

    async def begin(self, method: str, params: Json) -> asyncio.Future[Json]:
        """Sends a request; the future holds the response."""
        number = next(self._numbers)
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        await self.send(id=number, method=method, params=params)
        return future

    async def call(self, method: str, params: Json) -> Json:
        """Sends a request; the response."""
        return await (await self.begin(method, params))

    async def initialize(self) -> None:
        """Sets the conversation up."""
        assert "result" in await self.call("initialize", INITIALIZE)
        assert "result" in await self.call("session/new", {"cwd": "/", "mcpServers": []})

    async def begin_prompt(self, text: str) -> asyncio.Future[Json]:
        """Sends a prompt; the future holds the response."""
        prompt = [{"type": "text", "text": text}]
        return await self.begin("session/prompt", {"sessionId": "s1", "prompt": prompt})

    async def prompt(self, text: str) -> Json:
        """Sends a prompt; the response."""
        return await (await self.begin_prompt(text))

    def texts(self) -> list[str]:
        """The texts of the updates received so far."""
        updates = [m["params"]["update"] for m in self.received if m.get("method")]
        return [update["content"]["text"] for update in updates]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds; it is checked when something was logged or received."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def logged(self, text: str) -> None:
        """Waits until a line of the log holds `text`."""
        await self.until(lambda: any(text in line for line in self.log))

    def leave(self) -> None:
        """Closes the client's end."""
        self._left.set()


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


class _Skipping(selectors.DefaultSelector):
    """Waits for no time: where nothing else is to be done, the clock goes on at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """The events that are ready; a wait takes no time, but moves the clock."""
        ready = super().select(0 if timeout else timeout)
        if timeout and not ready:
            self.now += timeout
        return ready


class Timeless(asyncio.SelectorEventLoop):
    """A loop whose clock stands still while anything is to be done. What threads are to do is done
    at once: the clock would go on while one works."""

    def __init__(self) -> None:
        """The clock of the loop begins at 0."""
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """The seconds that were skipped."""
        return self._skipping.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Given], _Made], *args: *_Given
    ) -> asyncio.Future[_Made]:
        """Calls the function."""
        done: asyncio.Future[_Made] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # whatever it raises is for who waits for it
            done.set_exception(error)
        return done


def run(
    play: Callable[[Chain], Awaitable[None]],
    *planned: Planned,
    options: Options | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **more: Any,
) -> int:
    """Runs a chain while `play` plays its client, which then leaves; the exit code. What is open
    then has all the time it needs, unless `options` are against it. `loop`: makes the event loop.
    `more`: further arguments of `Runtime`."""

    async def whole() -> int:
        chain = Chain(planned, options or Options(grace=1, drain=PATIENCE), **more)
        async with asyncio.timeout(PATIENCE):
            running = asyncio.ensure_future(chain.runtime.run())
            try:
                await play(chain)
            finally:
                chain.leave()
                code = await running
        return code

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(whole())
