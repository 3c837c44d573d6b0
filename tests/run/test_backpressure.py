"""Who waits while a peer cannot take more: of a chain, and of `Backpressure` alone."""

import asyncio
import json
from collections.abc import Callable

from conductor.core import UPSTREAM
from conductor.run.backpressure import Backpressure
from conductor.spec.options import Options
from conductor.transports.memory import Channel, MemoryTransport
from tests.run.chains import Chain, agent, answer, proxy, run

SMALL = Options(high_water=1000, low_water=100, hard_water=10_000, stall=30, grace=1, drain=1)


class Held(MemoryTransport):
    """A transport that holds as much as a test says."""

    def __init__(self) -> None:
        super().__init__(answer)
        self.bytes = 0
        self.paused = False

    @property
    def buffered(self) -> int:
        return self.bytes

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


def flowing(
    play: Callable[[Backpressure, dict[str, Held], list[str]], None], options: Options
) -> None:
    """Plays with the flow of client, proxies `p` and `q`, and agent `a`."""

    async def whole() -> None:
        transports = {name: Held() for name in (UPSTREAM, "p", "q", "a")}
        stalled: list[str] = []
        play(
            Backpressure(transports, [UPSTREAM, "a"], options, stalled.append), transports, stalled
        )

    asyncio.run(whole())


def waiting(transports: dict[str, Held]) -> list[str]:
    """Who is paused."""
    return [name for name, transport in transports.items() if transport.paused]


def test_the_ends_wait_first_and_proxies_above_the_hard_mark_only() -> None:
    def play(flow: Backpressure, peers: dict[str, Held], _: list[str]) -> None:
        peers["q"].bytes = 1000
        flow.wrote("q", "p")
        assert waiting(peers) == []
        peers["q"].bytes = 1001
        flow.wrote("q", "p")
        assert waiting(peers) == [UPSTREAM, "a"]
        peers["q"].bytes = 10_001
        flow.wrote("q", "p")
        assert waiting(peers) == [UPSTREAM, "p", "a"]
        peers["q"].bytes = 101
        flow.drained("q")
        assert waiting(peers) == [UPSTREAM, "p", "a"]
        peers["q"].bytes = 100
        flow.drained("q")
        assert waiting(peers) == []

    flowing(play, SMALL)


def test_nobody_waits_for_its_own_outbox_and_who_waits_for_two_waits_for_both() -> None:
    def play(flow: Backpressure, peers: dict[str, Held], _: list[str]) -> None:
        peers[UPSTREAM].bytes = peers["p"].bytes = 50_000
        flow.wrote(UPSTREAM, UPSTREAM)
        assert waiting(peers) == ["a"]
        flow.wrote("p", "a")
        assert waiting(peers) == [UPSTREAM, "a"]
        flow.forget(UPSTREAM)
        assert waiting(peers) == [UPSTREAM, "a"]
        flow.forget("p")
        assert waiting(peers) == []

    flowing(play, SMALL)


def held(chain: Chain) -> int:
    """Bytes that wait for the client."""
    text = dict(chain.runtime.health())[UPSTREAM].split(", ")[-1]
    return int(text.partition(" bytes wait")[0].replace(",", "")) if "bytes wait" in text else 0


def test_a_client_that_does_not_read_stops_the_agent_and_nothing_is_lost() -> None:
    sent = 200

    async def flood(channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            message = json.loads(line)
            for number in range(sent):
                content = {"type": "text", "text": f"{number:03}" + "x" * 200}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                params = {"sessionId": "s1", "update": update}
                body = {"jsonrpc": "2.0", "method": "session/update", "params": params}
                channel.send(json.dumps(body).encode())
            result = {"protocolVersion": 1, "agentCapabilities": {}}
            body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            channel.send(json.dumps(body).encode())

    async def play(chain: Chain) -> None:
        chain.reading.clear()
        answer = await chain.begin("initialize", {"protocolVersion": 1})
        # The proxy empties what it holds, up to the hard mark.
        while held(chain) <= SMALL.hard_water:
            await asyncio.sleep(0)
        for _ in range(1000):  # turns of the loop, not time: no more may come in them
            await asyncio.sleep(0)
        assert SMALL.hard_water < held(chain) < SMALL.hard_water + SMALL.high_water
        chain.reading.set()
        assert "result" in await answer
        await chain.until(lambda: len(chain.texts()) == sent)
        assert [int(text[:3]) for text in chain.texts()] == list(range(sent))

    assert run(play, proxy("p"), agent(flood), options=SMALL) == 0


def test_a_peer_that_takes_nothing_while_others_wait_is_closed_and_named() -> None:
    async def stuck(channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            if b"initialize" in line or line.startswith(b"s"):
                channel.send((b"s" if line[:1] == b"p" else b"p") + line[1:])
            else:
                await asyncio.Event().wait()

    async def play(chain: Chain) -> None:
        await chain.call("initialize", {"protocolVersion": 1})
        first = await chain.begin("session/new", {"cwd": "/", "mcpServers": []})
        await chain.begin("session/new", {"cwd": "/" + "x" * 2000, "mcpServers": []})
        error = (await first)["error"]
        assert "proxy `p` is stalled: it took nothing for 0.1 s" in error["message"]

    options = Options(high_water=1000, low_water=100, stall=0.1, grace=0.1, drain=1)
    assert run(play, proxy("p", stuck), agent(), options=options) == 1
