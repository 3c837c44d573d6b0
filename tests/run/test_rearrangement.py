"""A chain that must change at once, whatever is open; requests of the conductor's own."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import pytest

from conductor.core import CHANNEL, Component
from conductor.core.policy.policy_words import PolicyWords
from conductor.errors import ComponentError, ConductorError
from conductor.run import rearrangement
from conductor.run.launch import Launcher
from conductor.run.owner import Owner
from conductor.run.planned import Belongings, Planned
from conductor.spec.model import Spec
from conductor.transports.base import Events
from conductor.transports.memory import Channel, MemoryTransport
from tests.run.chains import Chain, CrashError, Timeless, agent, pass_through, proxy, run

DONE = {"stopReason": "end_turn"}
NARROW = PolicyWords(("none",))


class Plans:
    """Plans components by their names: `make` has what makes each."""

    agent_last = True
    guardian = None

    def __init__(self, **make: Callable[[], Planned]) -> None:
        self._make = make

    def plan(self, specs: Sequence[Spec], running: Sequence[Planned] = ()) -> list[Planned]:
        """For each spec the component that runs, if its spec is the same, and else a new
        component."""
        same = {each.specs[0].name: each for each in running if each.specs[0] in specs}
        return [same.get(spec.name) or planned(self._make[spec.name](), spec) for spec in specs]


class Prepared(Owner):
    """Who has a chain run, as far as these tests change it themselves."""

    def __init__(self, launcher: Plans) -> None:
        self.launcher = cast("Launcher", launcher)


class Answers(Owner):
    """Keeps what the client answers."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, bytes]] = []

    def replied(self, token: int, member: bytes, body: bytes) -> None:
        """The client has answered."""
        self.answers.append((token, member, body))


def planned(one: Planned, spec: Spec) -> Planned:
    """A component that is planned from a spec."""
    return msgspec.structs.replace(one, specs=(spec,))


def changing(
    play: Any,
    first: Planned,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **make: Callable[[], Planned],
) -> int:
    """Runs a chain of `p` and an agent that may change."""
    owner = Prepared(Plans(**make))
    chain = planned(first, Spec(name="p")), planned(agent(), Spec(name="agent"))
    return run(play, *chain, owner=owner, loop=loop)


class Holding:
    """A proxy that keeps a prompt which holds "keep", and passes it on when it is let."""

    def __init__(self) -> None:
        self.kept = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, channel: Channel) -> None:
        other = {b"p": b"s", b"s": b"p"}
        while (line := await channel.receive()) is not None:
            if b"keep" in line:
                self.kept.set()
                await self.let.wait()
                update = {"sessionUpdate": "agent_message_chunk", "content": {"text": "late"}}
                params = {"sessionId": "s1", "update": update}
                late = {"jsonrpc": "2.0", "method": "session/update", "params": params}
                channel.send(b"p" + json.dumps(late).encode())
            if (side := other.get(line[:1])) is not None:
                channel.send(side + line[1:])


SPECS = [Spec(name="p", policy=NARROW), Spec(name="agent")]


def test_what_must_go_at_once_does_not_wait_for_what_it_holds() -> None:
    old = Holding()

    async def play(chain: Chain) -> None:
        await chain.initialize()
        kept = await chain.begin_prompt("keep")
        await old.kept.wait()
        assert await chain.runtime.rearrange(SPECS, now=True)
        error = (await kept)["error"]
        assert error["message"] == "the chain has been given other components"
        old.let.set()
        assert (await chain.prompt("and now?"))["result"] == DONE
        assert chain.texts() == ["and now?"]
        assert [name for name, _ in chain.runtime.health()] == ["client", "p", "agent"]

    assert changing(play, proxy("p", old), p=lambda: proxy("p", pass_through)) == 0


class Missing(MemoryTransport):
    """Cannot be opened."""

    async def open(self, events: Events) -> None:
        raise ComponentError("it is gone", "bring it back")


def test_what_must_go_goes_also_if_nothing_can_take_its_place() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert not await chain.runtime.rearrange(SPECS)  # it may stay until another can start
        assert (await chain.prompt("still"))["result"] == DONE
        assert not await chain.runtime.rearrange(SPECS, now=True)
        assert chain.runtime.failure is not None
        assert "may not go on, and nothing can take its place" in chain.runtime.failure.text

    gone = msgspec.structs.replace(proxy("p"), transport=Missing(pass_through))
    assert changing(play, proxy("p", on_failure="restart"), p=lambda: gone) == 1


class Counted(MemoryTransport):
    """A transport that tells whether it was closed."""

    closed = 0

    async def close(self, grace: float) -> None:
        """Closes it."""
        self.closed += 1
        await super().close(grace)


async def short_lived(channel: Channel) -> None:
    """A proxy that takes its role, and ends a little later."""
    life = asyncio.ensure_future(pass_through(channel))
    await asyncio.wait((life,), timeout=0.07)
    raise CrashError("as it was told to")


def test_what_ends_before_it_joins_takes_nobodys_place() -> None:
    """The component has taken its role, and the chain looks whether anything is still on its
    way."""

    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert not await chain.runtime.rearrange(SPECS)
        await chain.logged("the chain stays as it was: proxy `p`")
        assert (await chain.prompt("still"))["result"] == DONE

    old = proxy("p", on_failure="restart")
    assert changing(play, old, Timeless, p=lambda: proxy("p", short_lived)) == 0


async def slow(channel: Channel) -> None:
    """An agent with turns of so many seconds as their prompts say; another's goes on beside it."""

    async def ends(id_: object, text: str) -> None:
        await asyncio.sleep(float(text))
        channel.send(json.dumps({"jsonrpc": "2.0", "id": id_, "result": DONE}).encode())

    turns = []
    while (line := await channel.receive()) is not None:
        message = json.loads(line)
        if message["method"] == "session/prompt":
            text = message["params"]["prompt"][0]["text"]
            turns.append(asyncio.ensure_future(ends(message["id"], text)))
        elif "id" in message:
            told = {"protocolVersion": 1, "sessionId": "s1", "agentCapabilities": {}}
            channel.send(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": told}).encode()
            )


@pytest.mark.parametrize("long", [0.2, 2, 5])
def test_a_chain_whose_turns_always_overlap_is_renewed(
    long: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rearrangement, "_PATIENCE", 0.6)

    async def play(chain: Chain) -> None:
        await chain.initialize()
        renewed = asyncio.ensure_future(chain.runtime.rearrange(SPECS))
        turns = [await chain.begin_prompt(str(long))]
        while not renewed.done():
            await asyncio.sleep(long / 2)
            turns.append(await chain.begin_prompt(str(long)))
        assert renewed.result()
        for turn in turns:
            assert (await turn)["result"] == DONE

    chain = planned(proxy("p"), Spec(name="p")), planned(agent(slow), Spec(name="agent"))
    owner = Prepared(Plans(p=lambda: proxy("p", pass_through)))
    assert run(play, *chain, owner=owner, loop=Timeless) == 0


def test_what_has_started_for_a_chain_that_cannot_be_is_closed() -> None:
    """Of three components two have one name."""
    made = [Counted(pass_through), Counted(pass_through)]
    new = [msgspec.structs.replace(proxy("q"), transport=each) for each in made]

    async def play(chain: Chain) -> None:
        await chain.initialize()
        specs = [Spec(name="p"), Spec(name="q"), Spec(name="q", source="q"), Spec(name="agent")]
        assert not await chain.runtime.rearrange(specs)
        await chain.logged("the chain stays as it was: two components have the same name")
        assert [each.closed for each in made] == [1, 1]
        assert (await chain.prompt("still"))["result"] == DONE

    assert changing(play, proxy("p"), q=new.pop) == 0


def test_one_that_has_ended_is_not_paused() -> None:
    """Nor one that the chain does not have."""

    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert "error" in await chain.prompt("crash p")
        for paused in (True, False):
            with pytest.raises(ConductorError, match="`p` has ended, and the chain goes on"):
                await chain.runtime.pause("p", paused=paused)
        assert (await chain.prompt("without it"))["result"] == DONE

    assert changing(play, proxy("p", on_failure="bypass")) == 0


def test_the_conductor_asks_the_client_while_prompts_wait() -> None:
    async def play(chain: Chain) -> None:
        chain.runtime.router.hold()
        await chain.initialize()
        prompt = await chain.begin_prompt("hi")
        chain.runtime.ask("_agree", b'{"to":1}', 7)
        await chain.until(lambda: chain.received[-1].get("method") == "_agree")
        asked = chain.received.pop()
        assert asked["params"] == {"to": 1}
        assert not prompt.done()
        await chain.send(id=asked["id"], result={"agreed": True})
        while not owner.answers:
            await asyncio.sleep(0)
        ((token, member, body),) = owner.answers
        assert (token, member, json.loads(body)) == (7, b"result", {"agreed": True})
        chain.runtime.release()
        assert (await prompt)["result"] == DONE

    owner = Answers()
    assert run(play, proxy("p"), agent(), owner=owner) == 0


def test_a_client_that_has_left_answers_nothing() -> None:
    async def play(chain: Chain) -> None:
        owner.chain = chain
        chain.runtime.router.hold()
        await chain.initialize()
        await chain.begin_prompt("hi")
        chain.runtime.ask("_agree", b"{}", 1)

    class Releasing(Answers):
        chain: Chain

        def replied(self, token: int, member: bytes, body: bytes) -> None:
            super().replied(token, member, body)
            self.chain.runtime.release()

    owner = Releasing()
    assert run(play, proxy("p"), agent(), owner=owner) == 0
    ((_, member, body),) = owner.answers
    assert member == b"error"
    assert json.loads(body)["message"] == "the client has closed its end"


def test_guests_of_a_new_host_get_what_they_kept_in_any_other() -> None:
    one, other = Belongings(), Belongings()
    one.kept["a"].update(b'{"count":1}')
    one.started(["a", "b"])
    other.own["c"] = {"acp:c"}
    other.started(["c"])
    one.known = other.known = frozenset({"acp:c", "acp:d"})
    new = Belongings.of([one, None, other])
    new.kept["a"].update(b'{"count":2}')
    assert (one.kept["a"].to_json(), new.kept["a"].to_json()) == (b'{"count":1}', b'{"count":2}')
    assert new.by_owner() == {"c": ["acp:c"], "": ["acp:d"]}
    new.started(["a", "e"])
    assert (new.starts["a"], new.starts["b"], new.starts["e"]) == (2, 1, 1)
    assert one.starts["a"] == 1


@pytest.mark.proves("from a proxy to the conductor")
def test_what_a_component_requests_before_it_joins_is_bounded() -> None:
    """As a host of guests that was taken over, which reports without end."""

    async def flooding(channel: Channel) -> None:
        report = b'c{"jsonrpc":"2.0","method":"owned","params":{"x":"%b"}}' % (b"x" * 1_000_000)
        for _ in range(200):
            channel.send(report)
            await asyncio.sleep(0)
        await pass_through(channel)

    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert not await chain.runtime.rearrange(SPECS)
        assert any("requests too much before it joins" in line for line in chain.log)
        assert (await chain.prompt("still"))["result"] == DONE

    host = Component("p", "the host", CHANNEL, services=frozenset({"owned"}))
    made = proxy("p", flooding, component=host, guests=("g",))
    assert changing(play, proxy("p"), p=lambda: made) == 0
