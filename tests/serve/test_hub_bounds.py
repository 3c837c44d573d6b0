"""The store of a hub is bounded: histories, notifications that come early, requests, sessions."""

import tracemalloc

import pytest

from conductor.serve.hub import HubLimits
from tests.harness.hub.world import Agent, Client, World

MANY = 10_000


def crowd(limits: HubLimits, sessions: int) -> tuple[World, Client, Agent]:
    """A client that has opened many sessions."""
    world = World(limits=limits)
    client = world.client("one")
    agent = client.begin()
    for number in range(sessions):
        client.new(agent, f"s{number}")
    return world, client, agent


def test_ten_thousand_sessions() -> None:
    world, client, agent = crowd(HubLimits(sessions=MANY), MANY)
    client.ask("session/new")
    assert f"{MANY} live sessions" in client.one()["error"]["message"]
    for number in range(0, MANY, 97):
        agent.update(f"s{number}", number=number)
    assert [one["params"]["update"]["number"] for one in client.take()] == [*range(0, MANY, 97)]
    assert len(world.hub.sessions) == MANY
    world.left(client)
    assert world.hub.sessions == []
    assert not world.agents


def test_histories_have_a_bound_each_and_together() -> None:
    limits = HubLimits(history_bytes=20_000, all_history_bytes=50_000)
    world, client, agent = crowd(limits, 5)
    for number in range(1_000):
        agent.update(f"s{number % 4}", content={"type": "text", "text": "x" * 100})
        client.take()
        sizes = [info.history_bytes for info in world.hub.sessions]
        assert max(sizes) <= limits.history_bytes
        assert sum(sizes) <= limits.all_history_bytes
    # A session of which nothing was dropped is complete, however many others are not.
    agent.update("s4", content={"type": "text", "text": "y"})
    other = world.client("two")
    other.begin()
    *history, result = other.attach("s4")
    assert len(history) == 1
    assert result["result"]["_meta"]["conductor"]["complete"] is True
    assert other.attach("s0")[-1]["result"]["_meta"]["conductor"]["complete"] is False


def test_an_update_larger_than_all_histories() -> None:
    world, client, agent = crowd(HubLimits(history_bytes=100, all_history_bytes=100), 1)
    agent.update("s0", text="x" * 1000)
    assert client.kinds() == ["agent_message_chunk"]
    assert [info.history_bytes for info in world.hub.sessions] == [0]


def test_what_comes_before_its_session_has_a_name_is_bounded() -> None:
    _world, client, agent = crowd(HubLimits(), 0)
    client.ask("session/new")
    tracemalloc.start()
    try:
        for number in range(3_000):
            agent.update(f"soon-{number % 3}", text="x" * 2_000)
        assert tracemalloc.get_traced_memory()[0] < 3 << 20
    finally:
        tracemalloc.stop()
    agent.answer(agent.one(), {"sessionId": "soon-1"})
    seen = client.kinds()
    assert seen[0] == "result"
    assert 100 < len(seen) < 400
    client.new(agent, "soon-2")  # what came before has been forgotten
    agent.update("soon-2")
    assert client.kinds() == ["agent_message_chunk"]


def test_a_session_has_a_number_of_clients() -> None:
    world, _client, _agent = crowd(HubLimits(attached=2), 1)
    second, third = world.client("two"), world.client("three")
    second.begin()
    third.begin()
    second.attach("s0")
    assert second.attach("s0")[-1]["result"]["role"] == "driver"
    for method in ("session/attach", "session/load"):
        third.ask(method, sessionId="s0")
        assert "2 clients" in third.one()["error"]["message"]


def test_a_chain_has_a_number_of_requests() -> None:
    world = World(shares=True, limits=HubLimits(open_requests=2), owned=["old"])
    one, two = world.client("one"), world.client("two")
    agent = one.begin()
    two.begin()
    one.new(agent, "s")
    two.attach("s")
    one.ask("_a")
    one.ask("_b")
    prompt = two.prompt("s")
    assert "2 open requests" in two.result(prompt)["message"]
    assert world.hub.open_turns == 0
    two.take()
    two.ask("session/load", sessionId="old")
    assert "2 open requests" in two.one()["error"]["message"]
    assert [info.session for info in world.hub.sessions] == ["s"]


@pytest.mark.parametrize("member", ["clientId", "clientInfo"])
def test_names_of_clients_are_short(member: str) -> None:
    _world, client, _ = crowd(HubLimits(), 1)
    name = "x" * 100_000
    value = name if member == "clientId" else {"name": name, "version": name}
    result = client.attach("s0", **{member: value})[-1]["result"]
    assert len(str(result["connectedClients"])) < 1_000


def test_other_limits_hold_at_once() -> None:
    world, client, agent = crowd(HubLimits(), 2)
    world.hub.limits = HubLimits(sessions=2, history_bytes=1_000, prompt_seconds=10.0)
    client.ask("session/new")
    assert "2 live sessions" in client.one()["error"]["message"]
    for number in range(100):
        agent.update("s0", number=number)
    assert max(info.history_bytes for info in world.hub.sessions) <= 1_000
    client.prompt("s1")
    world.later(11.0)
    assert agent.take()[-1]["method"] == "session/cancel"
