"""The rights of a proxy, and the ways in which a program says that it is a proxy."""

import pytest

from tests.harness.process.rig import Rig

DIALECTS = ("acp", "sdk", "sacp", "pacp", "scp")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_proxy_answers_without_forwarding(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("X", "--answer", "_ping", dialect=dialect), rig.demo())
    session = chain.begin()
    assert chain.request("_ping")["result"] == {"answeredBy": "X"}
    assert chain.request("_pong")["error"]["code"] == -32601
    # The same question from below is answered as well, and C never sees it.
    assert chain.prompt(session, "/ext _ping {}") == '{"answeredBy":"X"}'
    assert chain.seen("_ping") == []
    assert "_pong" in rig.methods("A")
    assert "_ping" not in rig.methods("A")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_proxy_introduces_messages(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("X1"), rig.x("X2", "--notify", "_hello", dialect=dialect), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "hi") == "hi"
    chain.settled()
    assert [f["params"] for f in chain.seen("_hello")] == [{"from": "X2"}]
    assert "_hello" not in rig.methods("A")


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("echo", ["symposium", "bare", "capabilities"])
@pytest.mark.parametrize("dialect", ["sacp", "pacp"])
def test_every_placement_of_the_echo(rig: Rig, dialect: str, echo: str, told: bool) -> None:
    chain = rig.agent(rig.x("X", "--echo", echo, dialect=dialect, told=told), rig.demo())
    result = chain.initialize()
    assert "proxy" not in str(result)
    assert "symposium" not in str(result)
    assert chain.prompt(chain.new_session(), "hi") == "hi"
    assert chain.finish() == 0


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("dialect", ["sacp", "pacp"])
def test_without_the_echo_it_is_no_proxy(rig: Rig, dialect: str, told: bool) -> None:
    chain = rig.agent(
        rig.x("before"), rig.x("X", "--echo", "none", dialect=dialect, told=told), rig.demo()
    )
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert "`X`" in error["message"]
    assert "is not a proxy" in error["message"]
    assert "recording_proxy" in error["message"]
    assert "hint: " in error["message"]
    assert chain.exit_code() == 1
    assert "is not a proxy" in chain.stderr
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("offered", ["agent that answers", "agent that refuses"])
def test_an_agent_in_a_proxys_place(rig: Rig, offered: str) -> None:
    agent = rig.demo(name="B") if "answers" in offered else rig.actor("odd_agent", name="B")
    chain = rig.agent(agent, rig.demo())
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert "`B`" in error["message"]
    assert "is not a proxy" in error["message"]
    assert chain.exit_code() == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_capabilities_are_added_and_hidden(rig: Rig, dialect: str) -> None:
    chain = rig.agent(
        rig.x("X1", "--add-capability", "fromX1", dialect=dialect),
        rig.x("X2", "--hide-capability", "loadSession", "--add-capability", "fromX2",
              dialect=dialect),
        rig.x("X3", dialect=dialect),
        "passthrough",
        rig.demo(),
    )  # fmt: skip
    capabilities = chain.initialize()["agentCapabilities"]
    (answer,) = [e.frame["result"] for e in rig.log("A", "out") if "result" in e.frame]
    agents = answer["agentCapabilities"]
    assert agents["loadSession"] is True
    expected = {k: v for k, v in agents.items() if k != "loadSession"}
    expected["mcpCapabilities"] = {**agents["mcpCapabilities"], "acp": True}  # the bridge's
    assert capabilities == {**expected, "fromX2": True, "fromX1": True}


@pytest.mark.parametrize("dialect", ["acp", "scp"])
def test_version_2_flows_back_as_well(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("X", dialect=dialect), "passthrough", rig.demo())
    params = {"protocolVersion": 2, "capabilities": {}, "info": {"name": "C", "version": "1"}}
    result = chain.request("initialize", params)["result"]
    assert result["protocolVersion"] == 2
    assert result["info"]["name"] == "demo"
    assert "session" in result["capabilities"]
    assert "agentCapabilities" not in result
    session = chain.new_session()
    turn = chain.answer(chain.start_prompt(session, "hi"))
    assert turn["result"]["messageId"]
    chain.until(lambda: "hi" in chain.texts(session), "the echo")


@pytest.mark.parametrize("dialect", ["acp", "sdk", "sacp", "scp"])
def test_initialize_may_be_repeated(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("X", dialect=dialect), rig.demo())
    first = chain.initialize()
    assert chain.initialize() == first
    assert rig.methods("A") == ["initialize", "initialize"]
    assert chain.prompt(chain.new_session(), "hi") == "hi"
