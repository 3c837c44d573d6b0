"""A connection and its chain; `test_hub_*.py` have several."""

import json
from typing import Any

import pytest

from conductor.errors import ConductorError
from conductor.serve.hub import CloseChain, Hub, HubLimits, OpenChain, ToChain, ToClient
from tests.harness.hub.world import World


def test_ids_are_mapped() -> None:
    hub = Hub(shares=False, owns=lambda _: True)
    hub.joined("one")
    asked = b'{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":1}}'
    opened, sent = hub.from_client("one", asked, 0)
    assert opened == OpenChain("chain-1", "one")
    assert sent == ToChain("chain-1", asked.replace(b'"a"', b"1"))
    (answer,) = hub.from_chain("chain-1", b'{"jsonrpc":"2.0","id":1,"result":{}}\n', 0)
    assert isinstance(answer, ToClient)
    assert answer.connection == "one"
    capabilities: dict[str, Any] = {"sessionCapabilities": {"attach": {}}}
    told = {"jsonrpc": "2.0", "id": "a", "result": {"agentCapabilities": capabilities}}
    assert json.loads(answer.frame) == told
    assert hub.left("one") == [CloseChain("chain-1")]


def test_a_turn() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.ask("session/new", cwd="/", mcpServers=[])
    agent.update("s", "available_commands_update", availableCommands=[])
    assert client.kinds() == []
    agent.answer(agent.one(), {"sessionId": "s"})
    # Updates of a session that come before its name are sent behind the name.
    assert client.scopes == [None, "s"]
    assert client.kinds() == ["result", "available_commands_update"]
    assert world.owned == {"s"}

    prompt = client.prompt("s")
    asked = agent.one()
    assert world.hub.open_turns == 1
    agent.update("s", content={"type": "text", "text": "hi"})
    agent.permission("s")
    update, question = client.take()
    assert update["params"]["update"]["content"]["text"] == "hi"
    client.answer(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert agent.one()["result"]["outcome"]["optionId"] == "yes"
    agent.answer(asked, {"stopReason": "end_turn"})
    assert client.scopes == ["s"]
    assert client.result(prompt) == {"stopReason": "end_turn"}
    assert world.hub.open_turns == 0


def test_a_turn_of_version_2_ends_when_its_session_is_idle() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin(2)
    client.new(agent, "s")
    watcher = world.client("two")
    watcher.begin(2)
    watcher.attach("s")
    client.prompt("s")
    assert watcher.kinds() == ["prompt_received"]
    asked = agent.one()
    agent.update("s", "state_update", state="running")
    agent.update("s", "user_message", messageId="m", content=[])
    agent.answer(asked, {"messageId": "m"})
    assert world.hub.open_turns == 1
    agent.update("s", "state_update", state="idle", stopReason="end_turn")
    assert world.hub.open_turns == 0
    assert client.kinds() == ["state_update", "user_message", "result", "state_update"]
    assert watcher.kinds() == ["state_update", "user_message", "state_update", "turn_complete"]


def test_a_turn_of_version_2_whose_prompt_is_answered_last() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin(2)
    client.new(agent, "s")
    client.prompt("s")
    asked = agent.one()
    agent.update("s", "state_update", state="running")
    agent.update("s", "state_update", state="idle")
    assert world.hub.open_turns == 1
    agent.answer(asked, {"messageId": "m"})
    assert world.hub.open_turns == 0
    client.prompt("s")
    agent.send(id=agent.one()["id"], error={"code": -32800, "message": "cancelled"})
    assert world.hub.open_turns == 0
    agent.update("s", "state_update", state="running")  # of its own
    assert world.hub.open_turns == 1
    agent.update("s", "state_update", state="idle")
    assert world.hub.open_turns == 0


def test_of_two_prompts_of_version_2_the_accepted_one_keeps_the_turn_open() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin(2)
    client.new(agent, "s")
    client.prompt("s")
    client.prompt("s")
    first, second = agent.take()
    agent.answer(first, {"messageId": "m"})
    agent.send(id=second["id"], error={"code": 1, "message": "one at a time"})
    assert world.hub.open_turns == 1
    agent.update("s", "state_update", state="running")
    agent.update("s", "state_update", state="idle")
    assert world.hub.open_turns == 0


BROKEN: list[tuple[bytes, int, Any]] = [
    (b"{", -32700, None),
    (b"\xff", -32700, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', -32600, None),
    (b"7", -32600, None),
    (b"{}", -32600, None),
    (b'{"id":7}', -32600, 7),
    (b'{"id":1.5,"method":"x"}', -32600, None),
    (b'{"id":1.0,"method":"x"}', -32600, 1.0),
    (b'{"id":true,"method":"x"}', -32600, None),
    (b'{"id":9223372036854775808,"method":"x"}', -32600, None),
    (b'{"id":"' + b"x" * 2000 + b'","method":"x"}', -32600, "x" * 2000),
    (b'{"id":1,"method":5}', -32600, 1),
    (b'{"id":1,"method":"x","result":1}', -32600, 1),
    (b'{"id":3,"method":"session/new"}', -32600, 3),
    (b'{"id":3,"method":"session/prompt","params":{"sessionId":7}}', -32600, 3),
    (b"[" * 2000, -32600, None),
]


@pytest.mark.parametrize(("frame", "code", "id_"), BROKEN)
def test_what_is_wrong_before_initialize(frame: bytes, code: int, id_: Any) -> None:
    world = World()
    client = world.client("one")
    client.raw(frame)
    answer = client.one()
    assert (answer["error"]["code"], answer["id"]) == (code, id_)
    assert not world.agents


WRONG: list[tuple[bytes, int, str]] = [
    (b'{"id":1,"method":"initialize","params":{}}', -32600, "open another one"),
    (b'{"id":1,"method":"session/prompt","params":{"sessionId":7}}', -32602, "must be a string"),
    (b'{"id":1,"method":"session/load","params":{"sessionId":7}}', -32602, "must be a string"),
    (b'{"id":1,"method":"session/load","params":[]}', -32602, "needs a `sessionId`"),
    (b'{"id":1,"method":"session/attach"}', -32602, "needs a `sessionId`"),
    (b'{"id":1,"method":"session/detach","params":{"sessionId":"x"}}', -32002, "no such"),
    (b'{"id":1,"method":"session/prompt","params":{"sessionId":"x"}}', -32002, "no such"),
    (b'{"id":1,"method":"session/delete","params":{"sessionId":"x"}}', -32002, "no such"),
    (b'{"id":1,"method":"session/load","params":{"sessionId":"x"}}', -32002, "no such"),
    (b'{"id":1,"method":"session/attach","params":{"sessionId":"x"}}', -32002, "no such"),
]


@pytest.mark.parametrize(("frame", "code", "text"), WRONG)
def test_what_is_wrong_later(frame: bytes, code: int, text: str) -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.raw(frame)
    error = client.one()["error"]
    assert error["code"] == code
    assert text in error["message"]
    assert not agent.seen


def test_a_version_2_id_is_not_null() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin(2)
    client.send(id=None, method="_x")
    assert client.one()["error"]["code"] == -32600
    agent.send(id="odd", method="_x", result=5)
    client.send(id=client.one()["id"], result=1)
    assert agent.one()["id"] == "odd"
    agent.send(id=1.5, method="_x")
    assert agent.one()["id"] is None


def test_an_id_in_use_is_refused() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.send(id="x", method="authenticate", params={})
    client.send(id="\u0078", method="authenticate", params={})
    assert "still in use" in client.one()["error"]["message"]
    agent.answer(agent.one(), {})
    client.send(id="x", method="authenticate", params={})
    assert not client.take()[1:]
    agent.one()
    # So is one of the chain's.
    agent.send(id=1, method="_a", params={})
    agent.send(id=1, method="_b", params={})
    assert "still in use" in agent.one()["error"]["message"]
    client.answer(client.take()[-1], {})
    agent.one()
    agent.send(id=1, method="_c", params={})
    assert client.one()["method"] == "_c"


def test_what_was_never_asked_is_dropped() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.send(id=5, result={})
    agent.send(id=5, result={})
    agent.send(id="5", error={"code": 1, "message": ""})
    agent.raw(b"{}")
    agent.raw(b"{")
    agent.notify("$/cancel_request", requestId=77)
    agent.notify("$/cancel_request")
    client.notify("$/cancel_request", requestId=77)
    client.notify("$/cancel_request")
    client.notify("session/cancel", sessionId="x")
    client.notify("session/cancel", sessionId=5)
    agent.notify("_of", sessionId=5)
    agent.update("x")
    agent.notify("session/update", sessionId="x", update=7)
    assert not client.seen
    assert not agent.seen
    assert [line.partition(":")[0] for line in world.log] == ["client-1", "chain-1", "chain-1"]
    agent.raw(b"[]")
    assert agent.one()["error"]["code"] == -32600
    assert world.hub.from_client("nobody", b"{}", 0) == []
    assert world.hub.from_chain("nobody", b"{}", 0) == []
    assert world.hub.left("nobody") == []
    assert world.hub.chain_ended("nobody", "") == []


def test_notifications_without_a_session_pass() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.notify("_a", x=1)
    assert agent.one() == {"jsonrpc": "2.0", "method": "_a", "params": {"x": 1}}
    agent.notify("_b")
    assert client.one()["method"] == "_b"


def test_a_request_is_cancelled_hop_by_hop() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    asked = client.ask("authenticate", methodId="x")
    sent = agent.one()["id"]
    client.notify("$/cancel_request", requestId=asked)
    assert agent.one()["params"] == {"requestId": sent}
    agent.send(id=sent, error={"code": -32800, "message": "cancelled"})
    assert client.result(asked)["code"] == -32800
    client.take()
    question = agent.ask("_ask")
    got = client.one()["id"]
    agent.notify("$/cancel_request", requestId=question)
    assert client.one()["params"] == {"requestId": got}
    client.send(id=got, error={"code": -32800, "message": "cancelled"})
    assert agent.one()["error"]["code"] == -32800


def test_an_answer_without_result_and_error_is_an_error() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    asked = client.ask("authenticate")
    agent.send(id=agent.one()["id"])
    assert client.result(asked)["code"] == -32603
    client.take()
    agent.ask("_ask")
    client.send(id=client.one()["id"])
    assert agent.one()["error"]["code"] == -32603


def test_a_chain_that_ends() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.new(agent, "s")
    asked, prompt = client.ask("authenticate"), client.prompt("s")
    agent.permission("s")
    question = client.take()[-1]
    world.ended(agent, "the agent has crashed", "look at its log")
    for id_ in (asked, prompt):
        error = client.result(id_)
        assert (error["code"], error["message"]) == (-32603, "the agent has crashed")
        assert error["data"] == {"hint": "look at its log"}
    cancelled = [one for one in client.take() if one.get("method") == "$/cancel_request"]
    assert [one["params"]["requestId"] for one in cancelled] == [question["id"]]
    assert world.hub.open_turns == 0
    assert world.hub.sessions == []
    client.ask("session/new")
    assert client.one()["error"]["message"] == "the agent has crashed"
    again = client.begin()
    client.ask("session/load", sessionId="s", cwd="/", mcpServers=[])
    assert again.one()["params"]["sessionId"] == "s"


def test_initialize_may_be_refused() -> None:
    world = World()
    client = world.client("one")
    client.ask("initialize", protocolVersion="x")
    (agent,) = world.agents.values()
    client.ask("session/new")
    client.notify("_x/hello")
    agent.send(id=agent.one()["id"], error={"code": -32602, "message": "version"})
    assert [one["error"]["message"] for one in client.take()] == ["version", "version"]
    assert not world.agents
    client.begin()
    assert len(world.agents) == 1


def test_what_is_sent_behind_initialize_waits_for_its_answer() -> None:
    world = World(shares=True, limits=HubLimits(open_requests=5, history_bytes=1000))
    client, other = world.client("one"), world.client("two")
    for each in (client, other):
        each.ask("initialize", protocolVersion=1)
    (agent,) = world.agents.values()
    first = client.ask("session/new", cwd="/")
    client.notify("_x/hello", text="hello")
    asked = client.ask("_x/ask")
    withdrawn = client.ask("_x/withdrawn")
    client.notify("$/cancel_request", requestId=withdrawn)
    again = client.ask("initialize", protocolVersion=1)
    large = client.ask("_x/large", text="x" * 1000)
    client.notify("_x/large", text="x" * 1000)
    assert client.result(withdrawn)["code"] == -32800
    assert "is initialized" in client.result(again)["message"]
    assert "before `initialize`" in client.result(large)["message"]
    other.ask("_x/other")
    initialize = agent.one()
    client.take()
    agent.answer(initialize, {"protocolVersion": 1})
    held = agent.take()
    assert [one["method"] for one in held] == ["session/new", "_x/hello", "_x/ask", "_x/other"]
    assert "result" in client.one()
    agent.answer(held[0], {"sessionId": "s"})
    agent.answer(held[2], {})
    assert client.result(first) == {"sessionId": "s"}
    assert client.result(asked) == {}


def test_what_waits_behind_initialize_ends_with_it() -> None:
    world = World(limits=HubLimits(open_requests=3))
    client, gone = world.client("one"), world.client("two")
    for each in (client, gone):
        each.ask("initialize", protocolVersion=1)
        each.ask("_x/ask")
    for _ in range(4):
        client.notify("_x/many")
    world.left(gone)
    agent = next(iter(world.agents.values()))
    world.ended(agent, "the agent has crashed")
    assert [one["error"]["message"] for one in client.take()] == ["the agent has crashed"] * 2
    client.begin()
    (last,) = world.agents.values()
    assert last.take() == []


@pytest.mark.parametrize("result", [5, {"protocolVersion": "new"}, {"protocolVersion": None}])
def test_initialize_is_answered_oddly(result: Any) -> None:
    world = World()
    client = world.client("one")
    asked = client.ask("initialize", protocolVersion=1)
    (agent,) = world.agents.values()
    agent.answer(agent.one(), result)
    assert client.result(asked) is not None
    client.take()
    client.new(agent, "s")
    client.prompt("s")
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    assert world.hub.open_turns == 0


def test_a_prompt_that_takes_too_long() -> None:
    world = World(limits=HubLimits(prompt_seconds=60, cancel_seconds=10))
    client = world.client("one")
    agent = client.begin()
    client.new(agent, "s")
    prompt = client.prompt("s")
    asked = agent.one()
    world.later(59)
    assert not agent.seen
    world.later(1)
    assert agent.one()["method"] == "session/cancel"
    world.later(9)
    assert not client.seen
    world.later(1)
    assert "longer than 60 s" in client.result(prompt)["message"]
    assert world.hub.open_turns == 0
    client.take()
    agent.answer(asked, {"stopReason": "cancelled"})
    assert not client.seen


def test_limits() -> None:
    limits = HubLimits(connections=1, sessions=1, open_requests=2)
    world = World(limits=limits, owned=["old"])
    client = world.client("one")
    agent = client.begin()
    with pytest.raises(ConductorError, match="there is 1 connection,"):
        world.client("two")
    client.ask("session/new")
    client.ask("session/new")
    assert "1 live sessions" in client.one()["error"]["message"]
    agent.answer(agent.one(), {"sessionId": "s"})
    client.take()
    client.ask("session/load", sessionId="old")
    assert "1 live sessions" in client.one()["error"]["message"]
    client.prompt("s")
    client.prompt("s")
    client.prompt("s")
    assert "2 requests" in client.one()["error"]["message"]
    for _ in range(3):
        agent.ask("_ask")
    assert "2 requests" in agent.take()[-1]["error"]["message"]
    assert len(client.take()) == 2


TWICE = (
    b'{"id":1,"method":"session/load","params":{"sessionId":"theirs","sessionId":"mine"}}',
    rb'{"id":1,"method":"session/load","params":{"session\u0049d":"theirs","sessionId":"mine"}}',
    rb'{"id":1,"method":"session/load","params":{"sessionId":"theirs","session\u0049d":"mine"}}',
    rb'{"id":1,"method":"session/load","params":{"sessionId":"mine","session\u0049d":"theirs"}}',
    b'{"id":1,"method":"session/load","params":{"sessionId":"mine","sessionId":"theirs"}}',
)


@pytest.mark.parametrize("frame", TWICE)
def test_a_second_name_of_a_session_is_not_passed_on(frame: bytes) -> None:
    """Nobody knows what a chain would make of two names."""
    hub = Hub(shares=False, owns=lambda id_: id_ == "mine")
    hub.joined("one")
    hub.from_client("one", b'{"id":0,"method":"initialize"}', 0)
    hub.from_chain("chain-1", b'{"id":1,"result":{}}', 0)
    for effect in hub.from_client("one", frame, 0):
        if isinstance(effect, ToChain):
            assert json.loads(effect.frame)["params"] == {"sessionId": "mine"}
            assert b"theirs" not in effect.frame
        else:
            assert b"-32002" in getattr(effect, "frame", b"")
