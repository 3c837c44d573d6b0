"""The chain's work for components that fail, take too long, or have a new build."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.core import CHANNEL, DIALECTS, Component
from conductor.errors import ComponentError
from conductor.run.planned import Configuration, Planned
from conductor.spec.model import Spec
from conductor.transports.base import Events
from conductor.transports.memory import Channel, MemoryTransport
from tests.run.chains import Chain, Timeless, agent, answer, pass_through, proxy, run

DONE = {"stopReason": "end_turn"}


def test_a_proxy_that_fails_is_started_again_and_its_request_is_answered() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        error = (await chain.prompt("crash p"))["error"]
        assert error["data"]["component"] == "p"
        assert "proxy `p` raised CrashError" in error["message"]
        assert (await chain.prompt("and now?"))["result"] == DONE
        assert "it is started again (1 of 3)" in "".join(chain.log)
        assert dict(chain.runtime.health())["p"].startswith("running, started again 1 time,")

    assert run(play, proxy("p", on_failure="restart"), agent()) == 0


def test_a_proxy_that_keeps_failing_ends_the_chain() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        for number in range(1, 4):
            assert "error" in await chain.prompt("crash p")
            await chain.logged(f"({number} of 3)")
        assert "error" in await chain.prompt("crash p")
        assert chain.runtime.failure is not None

    assert run(play, proxy("p", on_failure="restart"), agent()) == 1


def test_the_chain_goes_on_without_a_proxy_that_may_be_bypassed() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert "error" in await chain.prompt("crash p")
        assert (await chain.prompt("without it"))["result"] == DONE
        assert chain.texts() == ["without it"]
        assert dict(chain.runtime.health())["p"].startswith("left out of the chain")

    assert run(play, proxy("p", on_failure="bypass"), proxy("q"), agent()) == 0


def test_a_failure_of_any_other_component_ends_the_chain_and_names_it() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        other, mine = await chain.begin_prompt("wait"), await chain.prompt("crash q")
        assert mine["error"]["data"]["component"] == "q"
        assert (await other)["error"]["data"]["component"] == "q"
        assert chain.runtime.failure is not None

    assert run(play, proxy("p"), proxy("q"), agent()) == 1


class NoStart(MemoryTransport):
    """A component that cannot be started."""

    async def open(self, events: Events) -> None:
        """Raises."""
        raise ComponentError("no such program", "install it")


def test_a_component_that_cannot_be_started_fails_the_first_request() -> None:
    async def play(chain: Chain) -> None:
        error = (await chain.call("initialize", {"protocolVersion": 1}))["error"]
        assert "agent `agent`: no such program" in error["message"]

    planned = agent()
    broken = type(planned)(planned.component, NoStart(answer))
    assert run(play, proxy("p"), broken) == 1


def test_a_new_build_takes_over_between_two_messages(tmp_path: Path) -> None:
    file = tmp_path / "p.wasm"
    file.write_bytes(b"old")
    builds: list[bytes] = []

    async def build(channel: Channel) -> None:
        builds.append(file.read_bytes())
        await pass_through(channel)

    async def play(chain: Chain) -> None:
        await chain.initialize()
        held = await chain.begin_prompt("wait")
        file.write_bytes(b"newer")
        chain.runtime.reload()
        await asyncio.sleep(0.1)
        assert not any("replaced" in line for line in chain.log), "a request is open"
        assert (await chain.prompt("go on"))["result"] == DONE
        assert (await held)["result"] == DONE
        await chain.logged("p replaced by its new build")
        assert (await chain.prompt("again"))["result"] == DONE
        assert builds == [b"old", b"newer"]

    assert run(play, proxy("p", build, files=(str(file),)), agent()) == 0


def test_a_new_build_that_does_not_start_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "p.wasm"
    file.touch()
    planned = proxy("p", files=(str(file),))
    broken = type(planned)(
        planned.component, planned.transport, lambda: NoStart(answer), files=planned.files
    )

    async def play(chain: Chain) -> None:
        await chain.initialize()
        chain.runtime.reload()
        await chain.logged("error p the new build is not used: no such program")
        assert (await chain.prompt("as before"))["result"] == DONE

    assert run(play, broken, agent()) == 0


def built(name: str, file: Path, *builds: Callable[[Channel], Awaitable[None]]) -> Planned:
    """A proxy with these builds, one after the other."""
    file.touch()
    left = list(builds)
    return msgspec.structs.replace(
        proxy(name, left.pop(0), files=(str(file),), on_failure="bypass"),
        renew=lambda: MemoryTransport(left.pop(0)),
    )


async def _ends(channel: Channel) -> None:
    """The component ends before it has its role."""
    await channel.receive()


def test_a_new_build_that_does_not_take_its_role_is_not_used_and_others_are(
    tmp_path: Path,
) -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        chain.runtime.reload()
        await chain.logged("q started anew, from the same files as before")
        assert any(line.startswith("error p the new build is not used: ") for line in chain.log)
        assert (await chain.prompt("as before"))["result"] == DONE
        assert not any("goes on without it" in line for line in chain.log)

    first = built("p", tmp_path / "p", pass_through, _ends)
    second = built("q", tmp_path / "q", pass_through, pass_through, pass_through)
    assert run(play, first, second, agent()) == 0


def test_a_reload_brings_back_what_was_left_out(tmp_path: Path) -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert "error" in await chain.prompt("crash p")
        assert dict(chain.runtime.health())["p"].startswith("left out of the chain")
        chain.runtime.reload()
        await chain.logged("p started anew, from the same files as before")
        assert dict(chain.runtime.health())["p"].startswith("running")
        assert "error" in await chain.prompt("crash p")
        assert (await chain.prompt("without it"))["result"] == DONE

    file = tmp_path / "p"
    file.touch()
    assert run(play, proxy("p", on_failure="bypass", files=(str(file),)), agent()) == 0


def test_changed_settings_are_sent_to_the_component(tmp_path: Path) -> None:
    configured: list[Any] = []
    file = tmp_path / "p.json"

    async def listening(channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            if line.startswith(b"c"):
                configured.append(json.loads(line[1:])["params"]["config"])
            elif line[:1] in b"ps":
                channel.send((b"s" if line[:1] == b"p" else b"p") + line[1:])

    async def play(chain: Chain) -> None:
        await chain.initialize()
        for text in ('{"n": 2}', '{"n": 2}', "no JSON"):
            file.write_text(text)
            chain.runtime.reload()
        await chain.logged("error p its settings stay as they were: ")
        assert (await chain.prompt("x"))["result"] == DONE
        assert configured == [{"n": 1}, {"n": 2}]

    component = Component("p", "proxy `p`", CHANNEL, configure=b'{"config": {"n": 1}}')
    planned = proxy(
        "p",
        listening,
        component=component,
        configurations=(Configuration(Spec(name="p", config_file=str(file))),),
    )
    assert run(play, planned, agent()) == 0


async def _deaf(channel: Channel) -> None:
    """Answers `initialize` and no more."""
    while (line := await channel.receive()) is not None:
        message = json.loads(line)
        if message.get("method") == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
            channel.send(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            )


def test_a_request_is_failed_after_the_component_s_timeout() -> None:
    async def play(chain: Chain) -> None:
        assert "result" in await chain.call("initialize", {"protocolVersion": 1})
        error = (await chain.call("session/new", {"cwd": "/", "mcpServers": []}))["error"]
        assert error["message"].startswith(
            "agent `agent` did not answer `session/new` within 0.5 s"
        )
        assert error["data"]["timeout"] == 0.5
        assert chain.runtime.failure is None

    assert run(play, agent(_deaf, timeout=0.5), loop=Timeless) == 0


@pytest.mark.parametrize("silent", ["agent", "proxy", "peer"])
def test_silence_is_an_error_without_a_timeout(silent: str) -> None:
    """A peer agent that is silent ends no chain."""

    async def mute(channel: Channel) -> None:
        while await channel.receive() is not None:
            pass

    async def play(chain: Chain) -> None:
        answer = await chain.call("initialize", {"protocolVersion": 1})
        if silent == "peer":
            assert "result" in answer
            await chain.logged("agent `peer` did not answer `initialize` within 0.2 s")
            assert chain.runtime.failure is None
        else:
            assert f"`{silent}` did not answer `initialize` within 0.2 s" in str(answer["error"])

    def late(name: str, **more: Any) -> Component:
        label = f"proxy `{name}`" if name == "proxy" else f"agent `{name}`"
        return Component(name, label, patience=0.2, program=True, **more)

    acp = late("proxy", dialect=DIALECTS["acp"])
    first = proxy("proxy", mute, component=acp) if silent == "proxy" else proxy("p")
    last = proxy("agent", mute if silent == "agent" else answer, component=late("agent"))
    others = [last]
    if silent == "peer":
        others.insert(0, proxy("peer", mute, component=late("peer", peer_agent=True)))
    assert run(play, first, *others, loop=Timeless) == (0 if silent == "peer" else 1)


def test_a_turn_in_which_nothing_moves_is_ended() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        ended = await chain.prompt("wait")
        assert "nothing came from agent `agent` for 0.05 s" in str(ended)

    planned = agent(quiet=0.05)
    limited = Component("agent", "agent `agent`", limited=True)
    assert run(play, type(planned)(limited, planned.transport, quiet=0.05), loop=Timeless) == 0


async def _slow(channel: Channel) -> None:
    """An agent whose turns take ten seconds, in each of which it says something."""
    while (line := await channel.receive()) is not None:
        message = json.loads(line)
        answered = {"jsonrpc": "2.0", "id": message["id"], "result": DONE}
        if message["method"] == "session/prompt":
            said = {"sessionUpdate": "agent_message_chunk", "content": {"text": "x"}}
            params = {"sessionId": "s1", "update": said}
            for _ in range(10):
                await asyncio.sleep(1)
                told = {"jsonrpc": "2.0", "method": "session/update", "params": params}
                channel.send(json.dumps(told).encode())
        elif message["method"] == "initialize":
            answered["result"] = {"protocolVersion": 1, "agentCapabilities": {}}
        else:
            answered["result"] = {"sessionId": "s1"}
        channel.send(json.dumps(answered).encode())


@pytest.mark.parametrize("limit", [{"quiet": 3.0}, {"timeout": 3.0}, {"quiet": 3.0, "timeout": 1}])
def test_a_turn_in_which_something_moves_is_not_ended(limit: dict[str, Any]) -> None:
    """Nor does the time for other requests end one."""

    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert (await chain.prompt("slowly"))["result"] == DONE
        assert chain.texts() == ["x"] * 10
        assert chain.log == []

    limited = Component("agent", "agent `agent`", limited="quiet" in limit)
    planned = msgspec.structs.replace(agent(_slow, **limit), component=limited)
    assert run(play, planned, loop=Timeless) == 0


def test_a_guest_that_never_took_its_role_is_not_started_again() -> None:
    """The guest would only fail in the same manner."""

    async def failing(channel: Channel) -> None:
        await channel.receive()
        raise ValueError("never ready")

    async def play(chain: Chain) -> None:
        error = (await chain.call("initialize", {"protocolVersion": 1}))["error"]
        assert "never ready" in error["message"]
        assert not any("started again" in line for line in chain.log)

    assert run(play, proxy("p", failing, on_failure="restart", guests=("p",)), agent()) == 1
