"""MCP servers of the client that conductor reaches: one link for each connection."""

from typing import Final

import pytest

from conductor.mcp.bridge.declarations import HttpDeclaration, StdioDeclaration
from conductor.mcp.bridge.offers import Server
from conductor.mcp.bridge.pins import Pins
from tests.e2e.actors.mcp_component import tool
from tests.harness.bridge.rig import MODERN_META, BridgeRig, Json, McpClient

STDIO: Final[Json] = {
    "name": "fs",
    "command": "/bin/fs",
    "args": ["-x"],
    "env": [{"name": "A", "value": "b"}],
}
HTTP: Final[Json] = {
    "type": "http",
    "name": "web",
    "url": "http://x/mcp",
    "headers": [{"name": "T", "value": "s"}],
}
ABOUT: Final[Json] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}


def rig(*servers: Json) -> BridgeRig:
    """A bridge that reaches these servers."""
    made = BridgeRig("sdk-2", pins=Pins(lambda address, name: None), reaches=True)
    made.set_up(*servers)
    return made


def begun(stage: BridgeRig, name: str = "fs") -> tuple[McpClient, str]:
    """A client that has begun, and its link."""
    client = stage.client(name)
    id_ = client.start("initialize", {**ABOUT, "clientInfo": {"name": "c", "version": "1"}})
    link = [*stage.links][-1]
    (asked,) = stage.links[link]
    assert asked["method"] == "initialize"
    stage.said(link, {"id": asked["id"], "result": {**ABOUT, "serverInfo": {}}})
    assert client.answer(id_)["result"]["serverInfo"] == {}
    client.send({"method": "notifications/initialized"})
    assert stage.links[link].pop()["method"] == "notifications/initialized"
    stage.links[link].clear()
    return client, link


@pytest.mark.parametrize("keyed", [False, True])
def test_who_is_reached_and_how(keyed: bool) -> None:
    others: list[Json] = [{"type": "sse", "name": "old", "url": "http://x"}, {"name": "odd"}]
    made = BridgeRig("sdk-2", pins=Pins(lambda address, name: None), reaches=True)
    declared: object = [STDIO, HTTP, *others]
    if keyed:
        named = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in
                 (STDIO, HTTP, *others)}  # fmt: skip
        named["fs"]["env"], named["web"]["headers"] = {"A": "b"}, {"T": "s"}
        named["web"]["type"] = "streamable-http"
        declared = named
    made.request("session/new", {"cwd": "/w", "mcpServers": declared})
    shown = made.agent[-1]["params"]["mcpServers"]
    listed = list(shown.values()) if keyed else shown
    assert [each.get("command") for each in listed] == ["conductor", "conductor", None, None]
    assert "/bin/fs" not in str(shown)
    assert "http://x/mcp" not in str(shown)
    made.up({"id": 1, "result": {"sessionId": "S"}})
    for name in ("fs", "web"):
        made.client(name).start("initialize", ABOUT)
    assert [each.reach for each in made.reached] == [
        StdioDeclaration("/bin/fs", ("-x",), (("A", "b"),), "/w"),
        HttpDeclaration("http://x/mcp", (("T", "s"),)),
    ]


def test_a_call_and_its_answer() -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    id_ = client.start("tools/call", {"name": "x", "_meta": {"progressToken": "mine"}})
    (asked,) = stage.links[link]
    stage.said(link, {"method": "notifications/progress", "params": {"progressToken": "mine"}})
    stage.said(link, {"id": 12345, "result": {}})
    stage.said(link, {"id": asked["id"], "result": {"content": []}})
    assert client.answer(id_)["result"] == {"content": []}
    assert client.notifications("notifications/progress") == [{"progressToken": "mine"}]


def test_a_server_asks_and_takes_back() -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    client.serves = None
    for id_ in (1, "1"):
        stage.said(link, {"id": id_, "method": "roots/list"})
    asked = [frame for frame in client.frames if frame.get("method") == "roots/list"]
    client.send({"id": asked[1]["id"], "result": {"roots": []}})
    assert stage.links[link] == [{"jsonrpc": "2.0", "id": "1", "result": {"roots": []}}]
    stage.said(link, {"method": "notifications/cancelled", "params": {"requestId": 1}})
    assert client.notifications("notifications/cancelled") == [{"requestId": asked[0]["id"]}]


def test_a_cancelled_call() -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    id_ = client.start("tools/call", {"name": "x"})
    client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    asked, told = stage.links[link]
    assert told["method"] == "notifications/cancelled"
    assert told["params"] == {"requestId": asked["id"]}
    stage.said(link, {"id": asked["id"], "result": {}})
    assert client.finished == [b"2"]


def test_two_clients_have_two_links() -> None:
    stage = rig(STDIO)
    (one, first), (two, second) = begun(stage), begun(stage)
    assert first != second
    ids = one.start("ping"), two.start("ping")
    asked = stage.links[first][0]
    stage.said(second, {"id": asked["id"], "result": {"of": "another"}})
    assert not [frame for frame in one.frames if frame.get("id") == ids[0]]
    stage.perform(stage.bridge.link_ended(second, "exited with code 3"))
    assert "MCP server `fs` exited with code 3" in two.answer(ids[1])["error"]["message"]
    assert two.dropped
    stage.said(first, {"id": asked["id"], "result": {}})
    assert one.answer(ids[0])["result"] == {}
    one.close()
    assert list(stage.links) == [second]


def test_clients_without_sessions_share_a_link() -> None:
    stage = rig(STDIO)
    clients = [stage.client("fs") for _ in range(2)]
    ids = [client.start("tools/list", {"_meta": MODERN_META}) for client in clients]
    (link,) = stage.links
    stage.said(link, {"id": stage.links[link][0]["id"], "result": ABOUT})
    for asked in stage.links[link][2:]:
        stage.said(link, {"id": asked["id"], "result": {"tools": [tool("a")]}})
    for client, id_ in zip(clients, ids, strict=True):
        assert client.answer(id_)["result"]["tools"] == [tool("a")]
    pins = stage.bridge._pins
    assert pins is not None
    assert list(pins.kept) == [Server("fs", place="/bin/fs -x").key]


@pytest.mark.parametrize("line", [b"", b"no JSON", b"[]", b"[1]", b"1", b'{"id":1}', b"\xff"])
def test_nonsense_of_a_server_is_ignored(line: bytes) -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    before = len(client.frames)
    stage.perform(stage.bridge.link_received(link, line))
    stage.perform(stage.bridge.link_received("9-9/9", line))
    stage.perform(stage.bridge.link_ended("9-9/9", "is gone"))
    assert len(client.frames) == before


@pytest.mark.parametrize("levels", [600, 100_000])
def test_who_answers_too_deep_is_left(levels: int) -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    id_ = client.start("tools/call", {"name": "x"})
    deep = b'{"jsonrpc":"2.0","id":%b,"result":%b%b}'
    line = deep % (b"2", b"[" * levels, b"]" * levels)
    stage.perform(stage.bridge.link_received(link, line))
    assert "nests deeper than 512 levels" in client.answer(id_)["error"]["message"]
    assert link not in stage.links


def test_the_session_ends_its_links() -> None:
    stage = rig(STDIO)
    client, link = begun(stage)
    stage.perform(stage.bridge.end())
    assert stage.links == {}
    stage.said(link, {"id": 1, "result": {}})
    assert client.dropped
