"""The runtime, where only a fault of its own could bring it down."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import pytest
import uvloop

from conductor.core import CHANNEL, Component
from conductor.run import performer
from conductor.run.planned import Planned
from conductor.run.records import Records
from conductor.run.runtime import Runtime
from conductor.spec.options import Options
from conductor.transports.memory import Channel, MemoryTransport

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


async def _agent(channel: Channel) -> None:
    while await channel.receive() is not None:
        pass


@pytest.mark.parametrize("loop", LOOPS)
def test_a_fault_in_a_callback_fails_the_chain_instead_of_leaving_it_waiting(loop: str) -> None:
    async def editor(channel: Channel) -> None:
        asyncio.get_running_loop().call_soon(channel.send, b"no JSON")
        while await channel.receive() is not None:
            pass

    def log(level: str, name: str, text: str) -> None:
        raise ZeroDivisionError("of ours")

    planned = Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(_agent))
    runtime = Runtime([planned], "agent", MemoryTransport(editor), Options(), Records(log))
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(asyncio.wait_for(runtime.run(), 60)) == 1
    assert runtime.failure is not None
    assert "internal error: ZeroDivisionError('of ours')" in runtime.failure.text


def test_a_fault_in_a_task_beside_the_messages_fails_the_chain_too() -> None:
    answers: list[bytes | None] = []

    async def broken() -> None:
        raise ZeroDivisionError("of ours")

    async def editor(channel: Channel) -> None:
        params = b'{"protocolVersion":1}'
        channel.send(b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":%b}' % params)
        runtime.start(broken())
        answers.append(await channel.receive())

    planned = Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(_agent))
    runtime = Runtime([planned], "agent", MemoryTransport(editor), Options())
    with asyncio.Runner() as runner:
        assert runner.run(asyncio.wait_for(runtime.run(), 60)) == 1
    assert answers[0] is not None
    assert "internal error: ZeroDivisionError('of ours')" in answers[0].decode()


async def _says_nothing_of_launching(channel: Channel) -> None:
    """A proxy of dialect `sacp` that answers `initialize` by itself, and passes over what it does
    not know as soon as it has its role."""
    flag = {"_meta": {"symposium": {"version": "1.0", "proxy": True}}}
    while (line := await channel.receive()) is not None:
        asked = json.loads(line)
        if asked["method"] == "initialize":
            said = {"result": {"protocolVersion": 1, "agentCapabilities": flag}}
        elif asked["method"].endswith("/initialize"):
            said = {"error": {"code": -32601, "message": "unknown"}}
        else:
            continue
        channel.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode())


def test_a_proxy_that_passes_over_its_launch_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(performer, "_LAUNCH", 0)
    answers: list[bytes | None] = []

    async def editor(channel: Channel) -> None:
        params = b'{"protocolVersion":1}'
        channel.send(b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":%b}' % params)
        answers.append(await channel.receive())

    planned = [
        Planned(Component("p"), MemoryTransport(_says_nothing_of_launching)),
        Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(_agent)),
    ]
    runtime = Runtime(planned, "agent", MemoryTransport(editor), Options())
    with asyncio.Runner() as runner:
        assert runner.run(asyncio.wait_for(runtime.run(), 60)) == 0
    assert answers[0] is not None
    assert json.loads(answers[0])["result"] == {"protocolVersion": 1, "agentCapabilities": {}}


class OfMineError(BaseException):
    """An error that is no `Exception`."""


@pytest.mark.parametrize("error", [ValueError("of mine"), OfMineError("of mine"), SystemExit(2)])
@pytest.mark.parametrize("place", ["client", "agent"])
def test_what_a_function_raises_fails_the_chain_with_its_name(
    error: BaseException, place: str
) -> None:
    async def failing(channel: Channel) -> None:
        await channel.receive()
        raise error

    async def editor(channel: Channel) -> None:
        channel.send(
            b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}'
        )
        if place == "client":
            raise error
        while await channel.receive() is not None:
            pass

    planned = Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(failing))
    upstream = MemoryTransport(editor)
    runtime = Runtime([planned], "agent", upstream, Options())
    with asyncio.Runner() as runner:
        assert runner.run(asyncio.wait_for(runtime.run(), 60)) == 1
    assert runtime.failure is not None
    assert f"raised {type(error).__name__}: {error}" in runtime.failure.text
    assert ("editor`" in runtime.failure.text) is (place == "client")
    assert upstream.error is (error if place == "client" else None)


def test_what_a_function_raises_at_the_end_is_in_the_log() -> None:
    lines: list[tuple[str, str, str]] = []

    async def agent(channel: Channel) -> None:
        while await channel.receive() is not None:
            pass
        raise ValueError("too late")

    async def editor(channel: Channel) -> None:
        return

    async def whole() -> int:
        planned = Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(agent))
        upstream = MemoryTransport(editor)
        log = lambda *line: lines.append(line)  # noqa: E731
        return await Runtime([planned], "agent", upstream, Options(drain=0), Records(log)).run()

    with asyncio.Runner() as runner:
        assert runner.run(asyncio.wait_for(whole(), 60)) == 0
    assert lines == [("error", "agent", "it raised ValueError: too late")]


def test_a_function_is_cancelled_until_it_ends() -> None:
    async def stubborn(channel: Channel) -> None:
        for _ in range(4):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        ended.append(True)

    async def editor(channel: Channel) -> None:
        return

    async def whole() -> int:
        planned = Planned(Component("agent", "agent `agent`", CHANNEL), MemoryTransport(stubborn))
        options = Options(drain=0, grace=0.01)
        upstream = MemoryTransport(editor)
        runtime = Runtime([planned], "agent", upstream, options)
        return await runtime.run()

    ended: list[bool] = []
    with asyncio.Runner() as runner:
        assert runner.run(asyncio.wait_for(whole(), 60)) == 0
    assert ended == [True]
