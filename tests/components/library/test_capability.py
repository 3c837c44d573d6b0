"""Initialization injection: `capability`."""

from typing import Any

import pytest

from guest_sdk.python import ProxyError
from tests.components.library.support import Json, agent, component, play, received
from tests.harness.process.rig import Rig

CLIENT = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
AGENT = {"loadSession": True, "auth": {}, "_meta": {"example.org/x": 1}}
CHANGES: list[tuple[Json, Json, Json]] = [
    ({}, CLIENT, AGENT),
    ({"client": {"remove": ["fs.writeTextFile", "nothing", "terminal.x"]}},
     {**CLIENT, "fs": {"readTextFile": True}}, AGENT),
    ({"client": {"remove": ["/fs"]}, "agent": {"remove": ["loadSession"]}},
     {"terminal": True}, {"auth": {}, "_meta": {"example.org/x": 1}}),
    ({"client": {"rename": {"terminal": "fs.terminal", "a.b": "c"}}},
     {"fs": {**CLIENT["fs"], "terminal": True}}, AGENT),  # type: ignore[dict-item]
    ({"client": {"add": {"my_feature": True, "a.b": 1, "terminal.x": 1}},
      "agent": {"add": {"/_meta/example.com~1y": {"z": None}}}},
     {**CLIENT, "my_feature": True, "a": {"b": 1}},
     {**AGENT, "_meta": {"example.org/x": 1, "example.com/y": {"z": None}}}),
    ({"client": {"rename": {"fs": "files"}, "add": {"files.deleteFile": True}}},
     {"terminal": True, "files": {**CLIENT["fs"], "deleteFile": True}}, AGENT),  # type: ignore[dict-item]
]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("config", "client", "agent_"), CHANGES)
async def test_changes(version: int, config: Json, client: Json, agent_: Json) -> None:
    names = ("clientCapabilities", "agentCapabilities") if version == 1 else ("capabilities",) * 2
    answer = {"protocolVersion": version, names[1]: AGENT, "authMethods": []}
    async with play("capability", config=config, answer=lambda _: answer) as p:
        asked = {"protocolVersion": version, names[0]: CLIENT, "other": [1]}
        result = await p.request("initialize", asked)
        assert p.agent.requests[0].raw["params"] == {**asked, names[0]: client}
        assert result == {**answer, names[1]: agent_}


@pytest.mark.parametrize(
    ("params", "got"),
    [
        ({"protocolVersion": 1}, {"protocolVersion": 1, "clientCapabilities": {"a": 1}}),
        ({"protocolVersion": 2}, {"protocolVersion": 2, "capabilities": {"a": 1}}),
        ({"protocolVersion": "2"}, {"protocolVersion": "2", "clientCapabilities": {"a": 1}}),
        ({"clientCapabilities": 7}, {"clientCapabilities": 7}),
    ],
)
async def test_odd_requests(params: Json, got: Json) -> None:
    config = {"client": {"add": {"a": 1}}, "agent": {"remove": ["x"]}}
    async with play("capability", config=config, answer=lambda _: []) as p:
        result: Any = await p.request("initialize", params)
        assert result == []
        assert p.agent.requests[0].raw["params"] == got


@pytest.mark.parametrize("config", [{"add": {"": 1}}, {"remove": ["a..b"]}, {"drop": []}])
async def test_mistakes_are_told(config: Json) -> None:
    async with play("capability", config={"client": config}) as p:
        with pytest.raises(ProxyError, match=r"config|client"):
            await p.initialize()


def test_behind_a_real_agent(rig: Rig) -> None:
    told = {"clientCapabilities": CLIENT}
    config = {
        "client": {"add": {"/_meta/example.com~1feature": True}, "remove": ["fs.writeTextFile"]},
        "agent": {"remove": ["loadSession"]},
    }
    chain = agent(rig, component("capability", config), rig.demo())
    assert "loadSession" not in chain.initialize(**told)["agentCapabilities"]
    got = received(rig, "initialize")[-1]["clientCapabilities"]
    assert got["_meta"]["example.com/feature"] is True
    assert "writeTextFile" not in got["fs"]
    assert chain.prompt(chain.new_session(), "hello") == "hello"
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_a_promise_needs_to_be_granted(rig: Rig) -> None:
    config = {"client": {"add": {"my_feature": True}}}
    for more, there in (({}, False), ({"allow": "claim:/my_feature"}, True)):
        chain = agent(rig, component("capability", config, **more), rig.demo())
        chain.initialize(clientCapabilities=CLIENT)
        got = received(rig, "initialize")[-1]["clientCapabilities"]
        assert ("my_feature" in got) is there
        assert chain.finish() == 0
        assert ("capability-claims" in chain.stderr) is not there
