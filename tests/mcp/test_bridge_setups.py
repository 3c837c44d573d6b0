"""Session setups: declared servers, the agent's servers, the times at which servers come and go."""

import collections
import gc
import json
from typing import Final

import msgspec
import pytest

from conductor.mcp import KINDS
from conductor.mcp.bridge.capabilities import Support, shown, support
from conductor.mcp.bridge.effects import CloseClient, Listen, ToAgent, ToChain
from tests.harness.bridge.rig import DECLARED, MODERN_META, BridgeRig, Json

PLAIN: Final[Json] = {"name": "fs", "command": "/bin/fs", "args": [], "env": []}
ACP: Final[Json] = DECLARED["stateless"]
SHIM: Final[Json] = {
    "command": "conductor",
    "args": ["mcp", "1-0"],
    "env": [{"name": "SECRET", "value": "s-1-0"}],
}
URL: Final[Json] = {
    "url": "http://127.0.0.1:1/1-0",
    "headers": [{"name": "Authorization", "value": "x"}],
}


def test_stdio() -> None:
    rig = BridgeRig()
    got = rig.set_up(PLAIN, {**ACP, "_meta": {"a": 1}, "x": 2}, extra=[1.0])
    assert got["mcpServers"] == [PLAIN, {"name": "tools", **SHIM, "_meta": {"a": 1}, "x": 2}]
    assert got["cwd"] == "/"
    assert rig.listeners == {"1-0": "stdio"}
    assert rig.notes == ["MCP server `tools` is offered to the agent by stdio"]


def test_stdio_of_v2_has_its_type() -> None:
    got = BridgeRig("stateless", "auto", Support(2)).set_up()
    assert got["mcpServers"] == [{"type": "stdio", "name": "tools", **SHIM}]


def test_http() -> None:
    got = BridgeRig("stateless", "http").set_up()
    assert got["mcpServers"] == [{"type": "http", "name": "tools", **URL}]


@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize("transport", [True, False])
def test_objects_keyed_by_name(kind: str, transport: bool) -> None:
    rig = BridgeRig("pacp", kind)
    entry: Json = {"url": "acp:ID", "headers": {}}
    if transport:
        entry["transport"] = "http"
    held = {"other": {"command": "x"}, "tools": entry}
    id_ = rig.request("session/new", {"tools": {"mcpServers": held, "x": 1}})
    got = rig.agent[-1]["params"]
    new: Json = (
        {"command": "conductor", "args": ["mcp", "1-0"], "env": {"SECRET": "s-1-0"}}
        if kind == "stdio"
        else {"type": "http", "url": URL["url"], "headers": {"Authorization": "x"}}
    )
    if transport:
        new.pop("type", None)
        new["transport"] = kind
    assert got == {"tools": {"mcpServers": {"other": {"command": "x"}, "tools": new}, "x": 1}}
    rig.up({"id": id_, "result": {"sessionId": "S"}})
    assert rig.client().initialize()["serverInfo"]["name"] == "scripted"


@pytest.mark.parametrize("holder", ["mcpServers", "mcp_servers"])
def test_an_object_at_the_top(holder: str) -> None:
    rig = BridgeRig()
    rig.request("session/new", {holder: {"tools": {"type": "scp"}, "x": 5}})
    assert rig.agent[-1]["params"][holder] == {
        "tools": {**SHIM, "env": {"SECRET": "s-1-0"}}, "x": 5
    }  # fmt: skip


def test_what_declares_nothing_passes_byte_by_byte() -> None:
    rig = BridgeRig()
    for params in (
        b'{"mcpServers" : [ {"name":"x","url":"http://acp:1"} ]}',
        b'{"mcpServers":[{"type":"acp","name":"no id"},{"url":5},7,null]}',
        b'{"mcpServers":7,"tools":[1],"mcp_servers":{"a":"acp:1"}}',
        b'{"mcpServers":null}',
        b"[]",
    ):
        frame = b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":%b}\n' % params
        assert rig.bridge.to_agent(frame) == [ToAgent(frame)]
    for frame in (
        b'{"jsonrpc":"2.0","id":1,"method":"session/new"}\n',
        b'{"jsonrpc":"2.0","method":"session/new","params":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"a":1.0}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"S"}}\n',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}\n',
        b'{"jsonrpc":"2.0","id":"else","result":{}}\n',
        b'{"jsonrpc":"2.0","id":null,"result":{}}\n',
        b"[]\n",
        b"junk\n",
    ):
        assert rig.bridge.to_agent(frame) == [ToAgent(frame)]
        assert rig.bridge.from_agent(frame) == [ToChain(frame)]
    assert not rig.bridge.watches_agent


def test_a_name_that_is_taken_gets_a_number() -> None:
    rig = BridgeRig()
    got = rig.set_up(
        {**ACP, "name": "a"},
        {**PLAIN, "name": "b"},
        {**ACP, "name": "a", "serverId": "2"},
        {**ACP, "name": "b", "serverId": "3"},
        {**ACP, "name": "a", "serverId": "4"},
    )
    assert [one["name"] for one in got["mcpServers"]] == ["a", "b", "a-2", "b-2", "a-3"]
    assert "MCP server `b` is called `b-2`: name is taken" in rig.notes


def test_a_native_name_that_is_taken_gets_a_number() -> None:
    rig = BridgeRig("stateless", "acp")
    got = rig.set_up({**ACP, "_meta": {}}, {**ACP, "serverId": "2"})
    assert got["mcpServers"] == [{**ACP, "_meta": {}}, {**ACP, "serverId": "2", "name": "tools-2"}]


def test_two_servers_of_one_id_are_refused() -> None:
    rig = BridgeRig()
    id_ = rig.request("session/new", {"mcpServers": [ACP, {**ACP, "name": "other"}]})
    assert rig.upstream[-1]["id"] == id_
    assert rig.upstream[-1]["error"]["code"] == -32602
    assert "`ID`" in rig.upstream[-1]["error"]["message"]
    assert rig.agent == []
    assert rig.listeners == {}


def test_the_address_is_there_before_the_agent_is_told() -> None:
    rig = BridgeRig()
    asked: list[tuple[str, str]] = []
    rig.serves = lambda listener, kind: asked.append((listener, kind))
    first = rig.request("session/new", {"mcpServers": [ACP, {**ACP, "serverId": "2"}]})
    assert rig.bridge.holds
    second = rig.request("session/prompt", {})
    third = rig.request("session/new", {"mcpServers": [ACP]})
    fourth = rig.request("session/prompt", {})
    assert rig.agent == []
    rig.listen(*asked[0])
    rig.listen("nobody", "stdio")
    rig.listen(*asked[0])
    assert rig.agent == []
    rig.listen(*asked[1])
    assert [one["id"] for one in rig.agent] == [first, second]
    rig.listen(*asked[2])
    assert [one["id"] for one in rig.agent] == [first, second, third, fourth]
    assert not rig.bridge.holds


def test_an_address_that_cannot_be() -> None:
    rig = BridgeRig()
    asked: list[str] = []
    rig.serves = lambda listener, kind: asked.append(listener)
    first = rig.request("session/new", {"mcpServers": [ACP, {**ACP, "serverId": "2"}]})
    second = rig.request("session/prompt", {})
    rig.perform(rig.bridge.listen_failed(asked[0], "no room\nhint: make some"))
    rig.perform(rig.bridge.listen_failed(asked[1], "too late"))
    assert rig.upstream[-1]["id"] == first
    assert "no room\nhint: make some" in rig.upstream[-1]["error"]["message"]
    assert [one["id"] for one in rig.agent] == [second]
    assert rig.listeners == {}


def test_a_setup_that_fails_leaves_nothing() -> None:
    rig = BridgeRig()
    id_ = rig.request("session/new", {"mcpServers": [ACP]})
    client = rig.client()
    rig.up({"id": id_, "error": {"code": -1, "message": "no"}})
    assert rig.listeners == {}
    assert client.dropped
    assert rig.bridge.client_opened("late", "1-0") == [CloseClient("late")]
    assert rig.bridge.from_client("late", b"{}") == []
    assert rig.bridge.client_closed("late") == []


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_session_that_ends(method: str) -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    client.initialize()
    refused = rig.request(method, {"sessionId": "S1"})
    rig.up({"id": refused, "error": {"code": -1, "message": "no"}})
    assert rig.listeners
    ended = rig.request(method, {"sessionId": "S1"})
    rig.up({"id": ended, "result": {}})
    assert rig.listeners == {}
    assert client.dropped
    assert rig.component.disconnected == [{"connectionId": "c1"}]


def test_a_session_that_is_set_up_anew() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    old = rig.client()
    old.initialize()
    declared = [DECLARED["sacp"]]
    id_ = rig.request("session/load", {"sessionId": "S1", "mcpServers": declared})
    early = rig.client()
    early.initialize()
    assert rig.component.connects[-1]["session_id"] == "S1", "known before the answer"
    assert not old.dropped
    rig.up({"id": id_, "result": None})
    assert old.dropped
    assert list(rig.listeners) == ["2-0"]
    assert early.tool("echo", "x") == "x"
    rig.set_up({"name": "plain", "command": "x"}, method="session/resume", sessionId="S1")
    assert rig.listeners == {}


def test_a_fork_is_a_session_of_its_own() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    id_ = rig.request("session/fork", {"sessionId": "S1", "mcpServers": [DECLARED["sacp"]]})
    client = rig.client()
    pending = client.start("initialize", {"protocolVersion": "2025-11-25"})
    assert rig.component.connects == []
    rig.up({"id": id_, "result": {"sessionId": "F"}})
    assert rig.component.connects[-1]["session_id"] == "F"
    assert "result" in client.answer(pending)
    assert len(rig.listeners) == 2


def test_an_answer_without_a_session() -> None:
    rig = BridgeRig("sacp")
    id_ = rig.request("session/new", {"mcpServers": [DECLARED["sacp"]]})
    client = rig.client()
    client.start("initialize", {"protocolVersion": "2025-11-25"})
    rig.up({"id": id_, "result": 7})
    assert rig.component.connects == [{"acp_id": "ID", "acp_url": "acp:ID"}]


def objects() -> collections.Counter[str]:
    """The living objects of the bridge's classes."""
    gc.collect()
    classes = (type(each) for each in gc.get_objects())
    bridge = (each for each in classes if str(each.__module__).startswith("conductor.mcp.bridge"))
    return collections.Counter(each.__name__ for each in bridge)


def test_five_hundred_sessions_leave_nothing() -> None:
    rig = BridgeRig("sdk-2")
    before = objects()
    for number in range(500):
        rig.set_up()
        client = rig.client()
        client.initialize()
        assert client.tool("echo", str(number)) == str(number)
        id_ = rig.request("session/close", {"sessionId": f"S{rig.sent}"})
        rig.up({"id": id_, "result": {}})
    assert rig.listeners == {}
    assert len(rig.component.disconnected) == 500
    assert objects() == before
    assert not rig.bridge.watches_agent


def test_the_end_of_the_chain() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    rig.set_up()
    clients = [rig.client(listener="1-0"), rig.client(), rig.client()]
    for client in clients:
        client.initialize()
    clients[0].start("tools/call", {"name": "slow", "arguments": {"text": "x"}})
    rig.perform(rig.bridge.end())
    assert [client.dropped for client in clients] == [True] * 3
    assert rig.listeners == {}
    assert len(rig.component.disconnected) == 3
    assert len(rig.component.cancelled) == 1
    assert rig.bridge.end() == []


def test_listens_only_while_it_has_to() -> None:
    rig = BridgeRig()
    id_ = rig.request("session/new", {"mcpServers": [ACP]})
    assert rig.bridge.watches_agent
    rig.up({"method": "session/update", "params": {}})
    rig.up({"id": 99, "result": {}})
    rig.up({"id": id_, "result": {"sessionId": "S"}})
    assert not rig.bridge.watches_agent
    assert [one.get("id") for one in rig.upstream] == [None, 99, id_]


# -- capabilities ----------------------------------------------------------------------------------

V1: Final[Json] = {"protocolVersion": 1, "agentCapabilities": {}}


def mcp(**able: object) -> bytes:
    """The result of `initialize` of an agent of v1."""
    return json.dumps({**V1, "agentCapabilities": {"mcpCapabilities": able}}).encode()


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (b"{}", "stdio"),
        (b"7", "stdio"),
        (b'{"protocolVersion":1,"agentCapabilities":null}', "stdio"),
        (mcp(), "stdio"),
        (mcp(http=True), "http"),
        (mcp(http=False, acp=False), "stdio"),
        (mcp(acp=True, http=True), "acp"),
        (b'{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}', "acp"),
        (b'{"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":true}}}}', "acp"),
        (b'{"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":1}}}}', "stdio"),
        (b'{"agentCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":false}}}}', "acp"),
        (b'{"agentCapabilities":{"_meta":{"symposium":{"version":"1.0"}}}}', "stdio"),
        (b'{"_meta":{"symposium":{"version":"1.0","proxy":true}}}', "stdio"),
        (b'{"protocolVersion":2,"capabilities":{"_meta":{"symposium":{"proxy":false}}}}', "acp"),
        (b'{"protocolVersion":2,"capabilities":{"session":{"mcp":{"http":{}}}}}', "http"),
        (b'{"protocolVersion":2,"capabilities":{"session":{"mcp":{"acp":{},"http":{}}}}}', "acp"),
        (b'{"protocolVersion":2,"capabilities":{"session":{"mcp":{"acp":null}}}}', "stdio"),
        (b'{"protocolVersion":2,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}', "stdio"),
        (b'{"agentCapabilities":{"\xff":1}}', "stdio"),
    ],
)
def test_what_an_agent_takes(result: bytes, kind: str) -> None:
    found = support(result)
    assert found.kind == kind
    for asked in KINDS[1:]:
        assert msgspec.structs.replace(found, wanted=asked).kind == asked


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b'{"x": 1e400}', b'{"x":1e400,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}'),
        (mcp(acp=True), None),
        (b'{"agentCapabilities":7}', None),
        (b'{"agentCapabilities":{"mcpCapabilities":"x"}}', None),
        (b"[]", None),
        (
            b'{"agentCapabilities":{"mcpCapabilities":{"acp":false,"http" :true}}}',
            b'{"agentCapabilities":{"mcpCapabilities":{"acp":true,"http":true}}}',
        ),
        (
            b'{"protocolVersion":2,"capabilities":{"session":null}}',
            b'{"protocolVersion":2,"capabilities":{"session":{"mcp":{"acp":{}}}}}',
        ),
        (b'{"protocolVersion":2,"capabilities":{"session":{"mcp":{"acp":{}}}}}', None),
    ],
)
def test_what_proxies_are_shown(result: bytes, expected: bytes | None) -> None:
    assert shown(result) == expected


# -- clients that misbehave ------------------------------------------------------------------------


def test_junk_of_a_client_is_answered_and_harms_nobody() -> None:
    rig = BridgeRig()
    rig.set_up()
    client = rig.client()
    rig.perform(rig.bridge.from_client(client.name, b"junk"))
    rig.perform(rig.bridge.from_client(client.name, b'{"jsonrpc":"2.0","id":5,"method":7}'))
    assert [(one["id"], one["error"]["code"]) for one in client.frames] == [
        (None, -32700),
        (5, -32600),
    ]
    client.send({"id": 77, "result": {}})
    client.send({"id": 77, "error": {}})
    client.send({"method": "notifications/initialized", "params": None})
    client.send({"error": {"code": -32700, "message": "?"}})
    pings = [{"jsonrpc": "2.0", "id": id_, "method": "ping"} for id_ in (1, 2)]
    batch = json.dumps([pings[0], 7, pings[1]])
    rig.perform(rig.bridge.from_client(client.name, batch.encode()))
    assert client.answer(1)["result"] == client.answer(2)["result"] == {}


def test_a_component_that_tells_nobody_is_told_so() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    told: list[Json] = []
    rig.component.ask({"connection": "c9"}, "sampling/createMessage", {}, told.append)
    assert "no MCP client" in told[0]["error"]["message"]
    rig.component.tell({"connection": "c9"}, "notifications/message", {})
    rig.component.send({"method": "mcp/disconnect", "params": {"connectionId": "c9"}})
    rig.component.send({"id": 5, "method": "mcp/disconnect", "params": {"connectionId": "c9"}})
    assert rig.upstream[-1]["error"]["code"] == -32601


def test_listen_effects_name_the_kind() -> None:
    rig = BridgeRig("stateless", "auto", Support(1, http=True))
    effects = rig.bridge.to_agent(
        b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":'
        b'[{"type":"acp","name":"n","serverId":"i"}]}}\n'
    )
    assert effects[0] == Listen("1-0", "http")


def test_a_first_request_of_no_revision_is_served() -> None:
    rig = BridgeRig()
    rig.set_up()
    client = rig.client()
    assert client.result("tools/list")["tools"][0]["name"] == "echo"
    assert client.result("ping") == {}


def test_a_client_that_goes_back_to_sessions() -> None:
    for generation in ("stateless", "sdk-2"):
        rig = BridgeRig(generation)
        rig.set_up()
        client = rig.client()
        client.result("server/discover", {"_meta": MODERN_META})
        assert client.initialize("2024-11-05")["protocolVersion"] == "2024-11-05"
        assert client.tool("echo", "x") == "x"
