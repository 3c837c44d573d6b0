"""Clients and components that never stop: the bridge's memory for them is bounded."""

import pytest

from conductor.mcp import limits
from tests.harness.bridge.rig import MODERN_META, BridgeRig, Json


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes limits that a test reaches soon."""
    for name, value in {
        "UNANSWERED": 6,
        "NATIVE_CLIENTS": 3,
        "SUBSCRIPTIONS": 3,
        "INPUTS": 2,
    }.items():
        monkeypatch.setattr(limits, name, value)


pytestmark = pytest.mark.usefixtures("few")


def refused(frames: list[Json]) -> list[Json]:
    """The refusals among the frames to a client."""
    texts = [one["error"]["message"] for one in frames if "error" in one]
    return [one for one in texts if "hint: wait" in one]


@pytest.mark.proves("an MCP server that never answers")
def test_a_component_that_answers_no_call() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    client.initialize()
    frames = rig.hold()
    for _ in range(10):
        client.start("tools/call", {"name": "x"})
    assert len(frames) == 6
    assert len(refused(client.frames)) == 4
    rig.answer(frames[0], result={})  # there is room for one more
    client.start("tools/call", {"name": "x"})
    assert len(refused(client.frames)) == 4


def test_calls_that_are_cancelled_count_until_they_are_answered() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    client.initialize()
    frames = rig.hold()
    for _ in range(10):
        id_ = client.start("tools/call", {"name": "x"})
        client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    assert len([one for one in frames if one.get("method") == "mcp/message" and "id" in one]) == 6


@pytest.mark.proves("an MCP server that never answers")
def test_clients_that_come_and_go() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    rig.client().initialize()
    frames = rig.hold()
    for _ in range(10):
        client = rig.client()
        client.start("initialize", {})
        client.close()
    assert len([one for one in frames if one["method"] == "mcp/connect"]) == 6


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_component_that_asks_without_end(takes_back: bool) -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    client.initialize()
    client.serves = None
    for id_ in range(10):
        about = {"connectionId": "c1", "method": "roots/list"}
        rig.down({"id": id_, "method": "mcp/message", "params": about})
        if takes_back:
            rig.down({"method": "$/cancel_request", "params": {"requestId": id_}})
    answered = [one["error"]["code"] for one in rig.upstream if "error" in one]
    assert answered == ([-32800] * 10 if takes_back else [-32603] * 4)
    asked = [one for one in client.frames if one.get("method") == "roots/list"]
    assert len(asked) == (10 if takes_back else 6)


def test_a_session_that_never_begins() -> None:
    rig = BridgeRig("rfd")
    rig.set_up()
    frames = rig.hold()
    clients = [rig.client() for _ in range(5)]
    for client in clients:
        for _ in range(2):
            client.start("tools/list", {"_meta": MODERN_META})
    assert [one["method"] for one in frames] == ["mcp/connect"]
    assert len([one for client in clients for one in refused(client.frames)]) == 4


def test_a_component_that_is_never_connected() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {})
    for _ in range(20):
        client.send({"method": "notifications/x"})
        client.start("tools/list")
    assert len(refused(client.frames)) > 10
    sent = len(frames)
    while frames:
        rig.answer(frames.pop(0), error={"code": -32000, "message": "no"})
        sent += 1
        assert sent < 50
    assert len([one for one in client.frames if "error" in one]) == 21  # each was answered


def test_notifications_that_wait_for_the_connection() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    client.start("initialize", {})
    for _ in range(20):
        client.send({"method": "notifications/x"})
    rig.answer(frames.pop(0), result={"connectionId": "c"})
    assert len(frames) == 6, "`initialize`, and the first of them"


def test_subscriptions_without_end() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    client.initialize()
    answers = [client.call("resources/subscribe", {"uri": f"x:{n}"}) for n in range(5)]
    assert ["error" in one for one in answers] in ([False] * 3 + [True] * 2, [True] * 5)


def test_subscriptions_of_clients_without_sessions() -> None:
    rig = BridgeRig("sdk-2")
    rig.set_up()
    client = rig.client()
    many: list[object] = [f"x:{n}" for n in range(9)]
    for wanted in ([], many, {"resourceSubscriptions": many}, {"resourceSubscriptions": [{}, 1]}):
        client.start("subscriptions/listen", {"_meta": MODERN_META, "notifications": wanted})
    assert len(refused(client.frames)) == 1
    for _ in range(3):
        client.start("subscriptions/listen", {"_meta": MODERN_META, "notifications": {}})
    assert len(refused(client.frames)) >= 2


@pytest.mark.proves("an MCP server whose capabilities")
@pytest.mark.parametrize("able", [[1], 1, "x", {"resources": 1, "tools": []}, None])
@pytest.mark.parametrize("generation", ["sdk-2", "stateless"])
def test_a_component_whose_capabilities_are_none(generation: str, able: object) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    client = rig.client()
    frames = rig.hold()
    wanted = {"resourceSubscriptions": ["x:1"], "toolsListChanged": True}
    if generation == "stateless":
        client.start("initialize", {"capabilities": {}})
    else:
        client.start("subscriptions/listen", {"_meta": MODERN_META, "notifications": wanted})
    while frames:
        frame = frames.pop(0)
        if "id" in frame:
            result = {"connectionId": "c", "capabilities": able, "supportedVersions": []}
            rig.answer(frame, result=result)
    assert client.frames


def test_a_result_that_wants_too_much_at_once() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    client.initialize(sampling={})
    frames = rig.hold()
    client.start("tools/call", {"name": "x"})
    wants = {
        f"{n}": {"method": "sampling/createMessage", "params": {}} for n in range(limits.INPUTS + 1)
    }
    result = {"resultType": "input_required", "inputRequests": wants}
    rig.answer(frames[-1], result=result)
    assert "inputs at once" in client.frames[-1]["error"]["message"]
    assert not [one for one in client.frames if one.get("method") == "sampling/createMessage"]
