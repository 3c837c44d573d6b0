"""Each generation of components, with each kind of client, from declaration to disconnect."""

from __future__ import annotations

from typing import Final

import pytest

from tests.harness.bridge.rig import DECLARED, META, MODERN_META, BridgeRig, Json, McpClient

GENERATIONS: Final = tuple(DECLARED)
CONNECTED: Final = ("sdk-2", "rfd", "sdk-0.12", "sacp")
CLIENTS: Final = ("with sessions", "without")


def begin(rig: BridgeRig, kind: str) -> Speaker:
    """A client that has said its first words."""
    speaker = Speaker(rig.client(), modern=kind == "without")
    said = speaker.begin()
    assert said["capabilities"]["tools"] == {"listChanged": True}
    assert said["instructions"] == "use them"
    return speaker


class Speaker:
    """A client, with the members that its revision wants in each request."""

    def __init__(self, client: McpClient, *, modern: bool) -> None:
        self.client = client
        self.modern = modern

    def begin(self) -> Json:
        """Sends the first request of the client."""
        if not self.modern:
            return self.client.initialize(sampling={}, elicitation={})
        return self.client.result("server/discover", {"_meta": MODERN_META})

    def params(self, name: str, text: str, token: object = None) -> Json:
        """The params of a tool call."""
        meta = dict(MODERN_META) if self.modern else {}
        if token is not None:
            meta["progressToken"] = token
        held: Json = {"name": name, "arguments": {"text": text}}
        return {**held, "_meta": meta} if meta else held


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_tools_are_listed_and_called(generation: str, kind: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speaker = begin(rig, kind)
    params = {"_meta": MODERN_META} if speaker.modern else None
    listed = speaker.client.result("tools/list", params)
    assert [tool["name"] for tool in listed["tools"]] == ["echo"]
    assert ("resultType" in listed) == speaker.modern
    answer = speaker.client.call("tools/call", speaker.params("echo", "hällo \u2028"))
    assert answer["result"]["content"][0]["text"] == "hällo \u2028"
    refused = speaker.client.call("tools/call", speaker.params("none", ""))
    assert refused["error"] == {"code": -32602, "message": "no such tool"}
    unknown = speaker.client.call("x/y", {"_meta": MODERN_META} if speaker.modern else {})
    assert unknown["error"] == {"code": -32601, "message": "no x/y", "data": {"x": 1}}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_progress_comes_with_the_clients_token(generation: str, kind: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speakers = [begin(rig, kind), begin(rig, kind)]
    for speaker in speakers:
        speaker.client.call("tools/call", speaker.params("progress", "x", token=7))
        speaker.client.call("tools/call", speaker.params("progress", "x", token=str(7)))
    for speaker in speakers:
        told = speaker.client.notifications("notifications/progress")
        assert [(one["progressToken"], one["progress"]) for one in told] == [
            (7, 1), (7, 2), ("7", 1), ("7", 2)
        ]  # fmt: skip


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_call_is_cancelled(generation: str, kind: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speaker = begin(rig, kind)
    client = speaker.client
    id_ = client.start("tools/call", speaker.params("slow", "one"), id_="me")
    other = client.start("tools/call", speaker.params("slow", "two"))
    client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    assert len(rig.component.cancelled) == 1
    assert client.finished == [b'"me"']
    rig.component.open["one"]["done"]("late")
    rig.component.open["two"]["done"]("in time")
    assert client.answer(other)["result"]["content"][0]["text"] == "in time"
    assert [frame for frame in client.frames if frame.get("id") == "me"] == []
    client.send({"method": "notifications/cancelled", "params": {"requestId": "nobody"}})
    client.send({"method": "notifications/cancelled"})
    assert len(rig.component.cancelled) == 1


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_component_asks_a_client_with_sessions(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speaker = begin(rig, "with sessions")
    assert speaker.client.tool("sample", "") == "sampled {'maxTokens': 9}"
    speaker.client.serves = lambda _: {"error": {"code": -1, "message": "not now"}}
    answer = speaker.client.call("tools/call", speaker.params("sample", ""))
    if generation == "stateless":
        assert answer["error"] == {"code": -1, "message": "not now"}
    else:
        assert answer["result"]["content"][0]["text"] == "refused: not now"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_component_asks_a_client_without_sessions(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speaker = begin(rig, "without")
    client = speaker.client
    first = client.result("tools/call", speaker.params("sample", ""))
    assert first["resultType"] == "input_required"
    ((name, wanted),) = first["inputRequests"].items()
    assert wanted == {"method": "sampling/createMessage", "params": {"maxTokens": 9}}
    again = speaker.params("sample", "")
    again["requestState"] = first["requestState"]
    again["inputResponses"] = {name: {"role": "assistant", "content": {"text": "given"}}}
    second = client.result("tools/call", again)
    assert second["content"][0]["text"] == "given"
    assert second["resultType"] == "complete"


@pytest.mark.parametrize("generation", CONNECTED)
def test_every_client_has_a_connection_of_its_own(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    first, second = begin(rig, "with sessions"), begin(rig, "with sessions")
    for speaker in (first, second):
        assert speaker.client.tool("echo", "x") == "x"
    used = {one["connection"] for one in rig.component.heard if one["method"] == "tools/call"}
    assert len(used) == 2
    first.client.close()
    assert len(rig.component.disconnected) == 1
    assert second.client.tool("echo", "still") == "still"
    second.client.close()
    assert len(rig.component.disconnected) == 2
    values = [next(iter(one.values())) for one in rig.component.disconnected]
    assert sorted(values) == sorted(used)


@pytest.mark.parametrize("generation", ["sdk-0.12", "sacp"])
def test_a_connection_waits_for_the_session(generation: str) -> None:
    rig = BridgeRig(generation)
    id_ = rig.request("session/new", {"mcpServers": [DECLARED[generation]]})
    client = rig.client()
    pending = client.start("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert rig.component.connects == []
    assert [wait.seconds > 1 for wait in rig.waits] == [True]
    rig.up({"id": id_, "result": {"sessionId": "S"}})
    assert rig.upstream == [{"jsonrpc": "2.0", "id": id_, "result": {"sessionId": "S"}}]
    assert client.answer(pending)["result"]["protocolVersion"] == "2025-06-18"
    assert rig.component.connects == [{"acp_id": "ID", "acp_url": "acp:ID", "session_id": "S"}]
    rig.perform(rig.bridge.expired(rig.waits[0].token))
    assert len(rig.component.connects) == 1


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_component_that_dies_is_named(generation: str, kind: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    speaker = begin(rig, kind)
    rig.component.dead = True
    answer = speaker.client.call("tools/call", speaker.params("echo", "x"))
    assert "exited with code 7" in answer["error"]["message"]


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_component_that_was_dead_may_be_back(generation: str, kind: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    rig.component.dead = True
    client = rig.client()
    method = "server/discover" if kind == "without" else "initialize"
    answer = client.call(method, {"_meta": MODERN_META, "protocolVersion": "2025-11-25"})
    assert "exited with code 7" in answer["error"]["message"]
    rig.component.dead = False
    speaker = Speaker(client, modern=kind == "without")
    speaker.begin()
    assert client.call("tools/call", speaker.params("echo", "x"))["result"]["content"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_lists_that_change_reach_all_who_want_to_know(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    old, new = begin(rig, "with sessions").client, begin(rig, "without").client
    id_ = new.start(
        "subscriptions/listen",
        {"_meta": MODERN_META, "notifications": {"toolsListChanged": True}},
        id_="listen",
    )
    acknowledged = new.notifications("notifications/subscriptions/acknowledged")
    assert acknowledged[0]["_meta"] == {META + "subscriptionId": id_}
    changed = "notifications/tools/list_changed"
    component = rig.component
    if generation == "stateless":
        for held in list(component.open.values()):
            key = held["about"]["requestId"]
            component.tell(held["about"], changed, {"_meta": {META + "subscriptionId": key}})
    elif generation in ("pacp", "scp"):
        component.tell({}, changed, {})
    else:
        for one in {one["connection"] for one in component.heard}:
            component.tell({"connection": one}, changed, {})
    assert new.notifications(changed) == [{"_meta": {META + "subscriptionId": "listen"}}]
    if generation not in ("pacp", "scp"):
        assert old.notifications(changed) == [{}]
    if generation == "stateless":
        quotes = {"note": META + "subscriptionId"}
        component.tell(held["about"], changed, quotes)
        assert new.notifications(changed)[-1] == quotes
