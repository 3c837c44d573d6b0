"""Edges of the bridge: peers that leave early, talk nonsense, or ask when nobody listens."""

import json

import pytest

from conductor.mcp.bridge import generations
from tests.harness.bridge.rig import DECLARED, MODERN_META, BridgeRig, Json

UNKNOWN: Json = {"code": -32601, "message": "Method not found"}


def test_a_client_that_leaves_while_it_is_connected() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {})
    client.close()
    rig.answer(frames[0], result={"connection_id": "late"})
    assert frames[1]["method"] == "_mcp/disconnect"
    assert frames[1]["params"] == {"connection_id": "late"}
    other = rig.client()
    other.start("initialize", {})
    other.close()
    rig.answer(frames[2], error=UNKNOWN)
    assert len(frames) == 3
    assert client.frames == other.frames == []


def test_a_client_that_leaves_before_the_session_is_known() -> None:
    rig = BridgeRig("sacp")
    id_ = rig.request("session/new", {"mcpServers": [DECLARED["sacp"]]})
    first, second = rig.client(), rig.client()
    frames = rig.hold()
    first.start("initialize", {})
    second.start("initialize", {})
    assert len(rig.waits) == 1
    first.close()
    rig.up({"id": id_, "result": {"sessionId": "S"}})
    assert len(frames) == 1


def test_a_connection_without_an_id_is_none() -> None:
    rig = BridgeRig("rfd")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {})
    rig.answer(frames[0], result={})
    assert "without an id" in client.answer(1)["error"]["message"]
    client.start("initialize", {})
    rig.answer(frames[1], error={"code": -1, "message": "no"})
    assert client.answer(2)["error"] == {"code": -1, "message": "no"}


def test_what_no_generation_knows_is_what_the_first_one_said() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("x/y", {})
    rig.answer(frames[0], result={"connection_id": "c"})
    rig.answer(frames[1], error={"code": -32601, "message": "first"})
    rig.answer(frames[2], error={"code": -32601, "message": "second"})
    assert [one["method"] for one in frames[1:]] == ["_mcp/message", "_mcp/request"]
    assert client.answer(1)["error"]["message"] == "first"
    client.start("x/z", {})
    assert frames[3]["method"] == "_mcp/message"
    rig.answer(frames[3], error={"code": -32000, "message": "something else"})
    assert client.answer(2)["error"]["message"] == "something else"


def test_a_stateless_server_that_knows_neither() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {})
    rig.answer(frames[0], error={"code": -32601, "message": "first"})
    assert frames[1]["method"] == "mcp/connect"
    rig.answer(frames[1], error={"code": -32601, "message": "second"})
    assert client.answer(1)["error"]["message"] == "first"


def test_a_call_cancelled_before_it_was_sent_is_not_sent() -> None:
    rig = BridgeRig("rfd")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {}, id_="i")
    client.send({"method": "notifications/initialized"})
    client.send({"method": "notifications/cancelled", "params": {"requestId": "i"}})
    rig.answer(frames[0], result={"connectionId": "c"})
    assert [one["method"] for one in frames[1:]] == ["mcp/message"]
    assert client.finished == [b'"i"']


def test_words_before_the_way_is_clear_wait() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.send({"method": "notifications/else"})
    client.start("initialize", {})
    client.send({"method": "notifications/initialized"})
    client.start("ping")
    assert len(frames) == 1
    assert client.frames == []
    result = {"capabilities": {"prompts": {"listChanged": True}}}
    rig.answer(frames[0], result={"result": result})
    assert client.answer(2)["result"] == {}
    assert frames[1]["params"]["method"] == "subscriptions/listen"
    assert frames[1]["params"]["params"]["notifications"] == {"promptsListChanged": True}


def test_a_component_that_speaks_before_the_client_does() -> None:
    rig = BridgeRig("pacp")
    rig.set_up()
    client = rig.client()
    answers: list[Json] = []
    rig.component.ask({}, "sampling/createMessage", {}, answers.append)
    assert "not sent anything" in answers[0]["error"]["message"]
    rig.component.tell({}, "notifications/message", {})
    assert client.frames == []


def test_a_native_request_cancelled_before_the_way_is_clear() -> None:
    rig = BridgeRig("stateless", "acp")
    rig.set_up()
    frames = rig.hold()
    for id_, method in ((4, "initialize"), (5, "tools/list")):
        inner = {"method": method, "params": {"_meta": MODERN_META}}
        params = {"serverId": "ID", "requestId": f"r{id_}", **inner}
        rig.up({"id": id_, "method": "mcp/message", "params": params})
    rig.up({"method": "$/cancel_request", "params": {"requestId": 5}})
    rig.answer(frames[0], result={"result": {}})
    assert [one["method"] for one in frames] == ["mcp/message", "mcp/message", "$/cancel_request"]
    assert [one["params"].get("method") for one in frames[:2]] == ["server/discover", "tools/list"]


def test_a_stateless_agent_is_told_what_it_cannot_be_asked() -> None:
    rig = BridgeRig("stateless", "acp")
    rig.set_up()
    inner = {"method": "tools/list", "params": {"_meta": MODERN_META}}
    params = {"serverId": "ID", "requestId": "r", **inner}
    rig.up({"id": 5, "method": "mcp/message", "params": params})
    sent = len(rig.agent)
    frames = rig.hold()
    carried = {"serverId": "ID", "method": "sampling/createMessage", "params": {}}
    rig.component.send({"id": 7, "method": "mcp/message", "params": carried})
    assert "takes no requests" in json.dumps(rig.upstream[-1])
    notification = {"serverId": "ID", "method": "notifications/message", "params": {}}
    rig.component.send({"method": "mcp/message", "params": notification})
    rig.component.send({"method": "mcp/disconnect", "params": {"serverId": "ID"}})
    assert frames == []
    assert len(rig.agent) == sent, "there is no request to report to, and no connection to close"


def test_one_of_two_native_sessions_ends() -> None:
    rig = BridgeRig("stateless", "acp")
    rig.set_up()
    other = {**DECLARED["stateless"], "serverId": "ID2"}
    rig.set_up(other)
    for id_, server in ((5, "ID"), (6, "ID2")):
        inner = {"method": "tools/list", "params": {"_meta": MODERN_META}}
        rig.component.id = server
        params = {"serverId": server, "requestId": "r", **inner}
        rig.up({"id": id_, "method": "mcp/message", "params": params})
    id_ = rig.request("session/close", {"sessionId": "S1"})
    rig.up({"id": id_, "result": {}})
    assert [server.declared.id for server in rig.bridge.servers.values()] == ["ID2"]
    rig.up({"id": 7, "method": "mcp/disconnect", "params": {"serverId": "ID2"}})
    assert rig.agent[-1] == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.parametrize("generation", generations.GENERATIONS)
def test_an_outcome_is_what_was_enclosed(generation: generations.Generation) -> None:
    for member, body in ((b"result", b"{}"), (b"error", b'{"code":1}')):
        wrapped = generations.wrap_response(generation, b"7", member, body)
        assert generations.unwrap_response(generation, *wrapped) == (member, body)
    unwrapped = (b"result", b'{"x":1}')
    assert generations.unwrap_response(generation, *unwrapped) == unwrapped


def test_a_response_to_nothing_is_dropped() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    client.send({"id": 7, "result": {}})
    assert client.frames == []
