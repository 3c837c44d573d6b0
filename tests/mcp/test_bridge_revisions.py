"""MCP with sessions and without, where client and component differ."""

import json
from typing import Final

import pytest

from tests.harness.bridge.rig import DECLARED, META, MODERN_META, BridgeRig, Json, McpClient

SUBSCRIPTION: Final = META + "subscriptionId"
UPDATED: Final = "notifications/resources/updated"
LOG: Final = "notifications/message"


def listening(rig: BridgeRig) -> list[Json]:
    """The `subscriptions/listen` a stateless component was asked for."""
    return [one for one in rig.component.heard if one["method"] == "subscriptions/listen"]


def heard(rig: BridgeRig, method: str) -> list[Json]:
    """The params of the component's messages by this method."""
    return [one.get("params", {}) for one in rig.component.heard if one["method"] == method]


# -- a client with sessions, a component without ---------------------------------------------------


def upgraded(**able: object) -> tuple[BridgeRig, McpClient]:
    """Such a pair, with the session begun."""
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    client.initialize("2025-11-25", **able)
    return rig, client


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_initialize_is_answered_from_discover(asked: str, got: str) -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    result = client.initialize(asked)
    assert result["protocolVersion"] == got
    assert result["serverInfo"] == {"name": "scripted", "version": "3"}
    assert client.result("ping") == {}
    assert client.result("logging/setLevel", {"level": "info"}) == {}
    assert client.tool("echo", "x", _meta={"own": 1}) == "x"
    meta = heard(rig, "tools/call")[-1]["_meta"]
    assert meta == {
        "own": 1,
        META + "protocolVersion": "2026-07-28",
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "agent", "version": "1"},
        META + "logLevel": "info",
    }


def test_subscriptions_to_resources() -> None:
    rig, client = upgraded()
    lists = {"toolsListChanged": True, "resourcesListChanged": True}
    assert listening(rig)[-1]["params"]["notifications"] == lists
    client.result("resources/subscribe", {"uri": "a:1"})
    client.result("resources/subscribe", {"uri": "a:2"})
    wanted = listening(rig)[-1]["params"]["notifications"]
    assert wanted == {**lists, "resourceSubscriptions": ["a:1", "a:2"]}
    assert len(rig.component.cancelled) == 2, "the subscriptions before"
    about = {"requestId": listening(rig)[-1]["requestId"]}
    meta = {"_meta": {SUBSCRIPTION: about["requestId"], "own": 1}}
    rig.component.tell(about, UPDATED, {"uri": "a:1", **meta})
    assert client.notifications(UPDATED) == [{"uri": "a:1", "_meta": {"own": 1}}]
    rig.component.tell(about, UPDATED, {"uri": "a:2", "_meta": {SUBSCRIPTION: 1}})
    assert client.notifications(UPDATED)[-1] == {"uri": "a:2"}
    client.result("resources/unsubscribe", {"uri": "a:1"})
    wanted = listening(rig)[-1]["params"]["notifications"]
    assert wanted["resourceSubscriptions"] == ["a:2"]
    last = list(rig.component.open.values())[-1]
    last["answer"]({"result": {"resultType": "complete"}})
    client.result("resources/unsubscribe", {"uri": "a:2"})
    client.close()


def test_what_a_component_does_not_offer_is_refused() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    client = rig.client()
    answer = client.call("resources/subscribe", {"uri": "a:1"})
    assert answer["error"]["code"] == -32601
    assert "MCP server `tools`" in answer["error"]["message"]


def asking(rig: BridgeRig, client: McpClient, **result: object) -> object:
    """A call that waits, and is then answered that input is required; its id."""
    id_ = client.start("tools/call", {"name": "slow", "arguments": {"text": "x"}})
    rig.component.open.pop("x")["answer"]({"result": {"resultType": "input_required", **result}})
    return id_


def test_input_is_not_asked_for_without_end() -> None:
    rig, client = upgraded()
    id_ = asking(rig, client, requestState="s")
    for _ in range(40):
        if "x" not in rig.component.open:
            break
        wanted = {"resultType": "input_required", "requestState": "s"}
        rig.component.open.pop("x")["answer"]({"result": wanted})
    assert "32 times" in client.answer(id_)["error"]["message"]


def test_several_questions_are_asked_at_once() -> None:
    rig, client = upgraded(sampling={}, roots={})
    client.serves = None
    ask = {"a": {"method": "roots/list"}, "b": {"method": "sampling/createMessage", "params": {}}}
    id_ = asking(rig, client, inputRequests=ask)
    questions = [frame for frame in client.frames if "method" in frame]
    assert [one["method"] for one in questions] == ["roots/list", "sampling/createMessage"]
    assert client.related[-1] == json.dumps(id_).encode()
    for one in reversed(questions):
        client.send({"id": one["id"], "result": {"of": one["method"]}})
    given = heard(rig, "tools/call")[-1]
    assert given["inputResponses"] == {
        "a": {"of": "roots/list"}, "b": {"of": "sampling/createMessage"}
    }  # fmt: skip
    assert "requestState" not in given


def test_a_question_answered_after_the_call_was_cancelled() -> None:
    rig, client = upgraded(sampling={})
    client.serves = None
    ask = {"a": {"method": "sampling/createMessage"}}
    id_ = asking(rig, client, inputRequests=ask)
    client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    question = next(frame for frame in client.frames if "method" in frame)
    client.send({"id": question["id"], "result": {}})
    assert len(heard(rig, "tools/call")) == 1
    assert [
        frame for frame in client.frames if frame.get("id") == id_ and "method" not in frame
    ] == []


def test_a_component_without_sessions_may_not_ask() -> None:
    rig, client = upgraded()
    client.start("tools/call", {"name": "slow", "arguments": {"text": "x"}})
    about = rig.component.open["x"]["about"]
    answers: list[Json] = []
    rig.component.answers[5] = answers.append
    held = {"serverId": "ID", **about, "method": "sampling/createMessage", "params": {}}
    rig.component.send({"id": 5, "method": "mcp/message", "params": held})
    assert "input_required" in answers[0]["result"]["error"]["message"]


def test_a_component_that_does_not_discover_serves_nevertheless() -> None:
    rig = BridgeRig("stateless")
    rig.set_up()
    serve = rig.component.serve

    def without(about: Json, message: Json, answer: object) -> None:
        method = "x" if message["method"] == "server/discover" else message["method"]
        serve(about, {**message, "method": method}, answer)  # type: ignore[arg-type]

    rig.component.serve = without  # type: ignore[method-assign]
    client = rig.client()
    assert client.initialize()["serverInfo"] == {"name": "tools", "version": "0"}
    assert client.tool("echo", "x") == "x"


# -- a client without sessions, a component with ---------------------------------------------------


def downgraded(generation: str = "sdk-2") -> tuple[BridgeRig, McpClient]:
    """Such a pair."""
    rig = BridgeRig(generation)
    rig.set_up()
    return rig, rig.client()


def call(name: str, text: str = "x", **meta: object) -> Json:
    """The params of a tool call."""
    return {"name": name, "arguments": {"text": text}, "_meta": {**MODERN_META, **meta}}


def test_discover_is_answered_from_initialize() -> None:
    rig, client = downgraded()
    result = client.result("server/discover", {"_meta": MODERN_META})
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["_meta"] == {META + "serverInfo": {"name": "scripted", "version": "3"}}
    assert result["resultType"] == "complete"
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    begun = heard(rig, "initialize")[0]
    assert begun["clientInfo"] == {"name": "modern", "version": "1"}
    assert [one["method"] for one in rig.component.heard][-2:] == [
        "initialize", "notifications/initialized"
    ]  # fmt: skip


def test_nothing_of_the_envelope_reaches_the_component() -> None:
    rig, client = downgraded()
    client.result("tools/call", call("echo", own=1))
    assert heard(rig, "tools/call")[0]["_meta"] == {"own": 1}
    client.result("tools/list", {"_meta": MODERN_META})
    assert "params" not in rig.component.heard[-1]


def test_the_level_is_set_when_it_changes() -> None:
    rig, client = downgraded()
    level = {META + "logLevel": "debug"}
    client.start("tools/call", call("slow", "1", **level))
    client.start("tools/call", call("slow", "2", **level))
    assert heard(rig, "logging/setLevel") == [{"level": "debug"}]
    about = rig.component.open["1"]["about"]
    rig.component.tell(about, LOG, {"level": "debug", "data": "x"})
    assert client.notifications(LOG) == [{"level": "debug", "data": "x"}]
    assert client.related[-1] == b"2"
    for text in ("1", "2"):
        rig.component.open[text]["done"]("")
    rig.component.tell(about, LOG, {"level": "debug", "data": "nobody"})
    rig.component.tell(about, "notifications/progress", {"progressToken": "nobody"})
    rig.component.tell(about, "notifications/else", {})
    assert len(client.notifications(LOG)) == 1


def test_who_left_gets_nothing_and_what_it_asked_is_cancelled() -> None:
    rig, client = downgraded()
    client.start("tools/call", call("slow"))
    client.start("subscriptions/listen", {"_meta": MODERN_META, "notifications": {}})
    client.close()
    assert len(rig.component.cancelled) == 1
    assert heard(rig, "notifications/cancelled")
    rig.component.open["x"]["done"]("late")


def test_subscriptions_are_counted() -> None:
    rig, client = downgraded()
    other = rig.client()
    wanted = {"resourceSubscriptions": ["a:1"], "promptsListChanged": True, "toolsListChanged": 1}
    params = {"_meta": MODERN_META, "notifications": wanted}
    one = client.start("subscriptions/listen", params, id_="one")
    other.start("subscriptions/listen", params, id_="two")
    agreed = client.notifications("notifications/subscriptions/acknowledged")[0]["notifications"]
    assert agreed == {"resourceSubscriptions": ["a:1"]}
    assert heard(rig, "resources/subscribe") == [{"uri": "a:1"}]
    connection = {"connection": rig.component.heard[-1]["connection"]}
    rig.component.tell(connection, UPDATED, {"uri": "a:1"})
    rig.component.tell(connection, UPDATED, {"uri": "a:2"})
    assert client.notifications(UPDATED) == [{"uri": "a:1", "_meta": {SUBSCRIPTION: "one"}}]
    assert other.notifications(UPDATED) == [{"uri": "a:1", "_meta": {SUBSCRIPTION: "two"}}]
    client.send({"method": "notifications/cancelled", "params": {"requestId": one}})
    assert client.finished == [b'"one"']
    assert heard(rig, "resources/unsubscribe") == []
    other.close()
    assert heard(rig, "resources/unsubscribe") == [{"uri": "a:1"}]


def test_a_component_that_leaves_ends_subscriptions() -> None:
    rig, client = downgraded()
    id_ = client.start("subscriptions/listen", {"_meta": MODERN_META, "notifications": {}})
    call_id = client.start("tools/call", call("slow"))
    connection = rig.component.heard[-1]["connection"]
    opened = len(rig.component.connects)
    held = {"connectionId": connection}
    rig.component.send({"method": "mcp/disconnect", "params": held})
    assert client.answer(id_)["result"]["_meta"] == {SUBSCRIPTION: id_}
    assert "closed the connection" in client.answer(call_id)["error"]["message"]
    assert client.tool("echo", "over another one", _meta=MODERN_META) == "over another one"
    assert len(rig.component.connects) == opened + 1
    client.close()
    rig.perform(rig.bridge.end())
    assert held not in rig.component.disconnected
    assert rig.component.disconnected[-1] == {"connectionId": f"c{opened + 1}"}


def test_who_leaves_while_the_session_is_begun_asks_nothing() -> None:
    rig = BridgeRig("sacp")
    id_ = rig.request("session/new", {"cwd": "/", "mcpServers": [DECLARED["sacp"]]})
    client, other = rig.client(), rig.client()
    client.start("tools/call", call("echo", "left"))
    other_id = other.start("tools/call", call("echo", "stays"))
    client.close()
    rig.up({"id": id_, "result": {"sessionId": "S1"}})
    assert other.answer(other_id)["result"]["content"][0]["text"] == "stays"
    assert [one["arguments"]["text"] for one in heard(rig, "tools/call")] == ["stays"]
    assert len(rig.component.connects) == 1


def test_what_a_client_lacks_is_named_when_its_request_fails_for_that() -> None:
    """The component is refused; only if it gives up for that, the client is told why."""
    rig, client = downgraded()
    without = {**MODERN_META, META + "clientCapabilities": {"elicitation": {}}}
    about: Json = {}

    def lacking(name: str) -> Json:
        answers: list[Json] = []
        id_ = client.start("tools/call", {**call("slow", name), "_meta": without})
        held = rig.component.open.pop(name)
        about.update(held["about"])
        rig.component.ask(about, "sampling/createMessage", {}, answers.append)
        assert answers[0]["error"]["code"] == -32601
        if name == "fails":
            held["answer"]({"error": answers[0]["error"]})
        else:
            held["done"]("did without")
        return client.answer(id_)

    error = lacking("fails")["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    assert "`sampling/createMessage`" in error["message"]
    assert lacking("goes on")["result"]["content"][0]["text"] == "did without"
    # Which of two requests it is for cannot be known, so neither is blamed.
    one = client.start("tools/call", {**call("slow", "1"), "_meta": without})
    client.start("tools/call", {**call("slow", "2"), "_meta": without})
    rig.component.ask(about, "sampling/createMessage", {}, lambda frame: None)
    rig.component.open["1"]["answer"]({"error": {"code": -32000, "message": "its own"}})
    assert client.answer(one)["error"]["code"] == -32000


def test_a_session_that_cannot_begin() -> None:
    rig, client = downgraded("rfd")
    rig.component.dead = True
    assert "exited" in client.call("server/discover", {"_meta": MODERN_META})["error"]["message"]
    rig.component.dead = False
    assert client.result("server/discover", {"_meta": MODERN_META})


def sampled(rig: BridgeRig, client: McpClient) -> Json:
    """A call that is answered that input is required; the result."""
    result = client.result("tools/call", call("sample"))
    assert result["resultType"] == "input_required"
    return result


def test_a_request_that_nobody_can_answer() -> None:
    rig, client = downgraded()
    client.result("tools/list", {"_meta": MODERN_META})
    answers: list[Json] = []
    about = {"connection": rig.component.heard[-1]["connection"]}
    rig.component.ask(about, "sampling/createMessage", {}, answers.append)
    assert "no open request" in answers[0]["error"]["message"]
    rig.component.ask(about, "ping", {}, answers.append)
    assert answers[1]["result"] == {}
    client.start("tools/call", call("slow"))
    rig.component.ask(about, "else/else", {}, answers.append)
    assert answers[2]["error"]["code"] == -32601
    without = {**MODERN_META, META + "clientCapabilities": {}}
    rig.component.open.pop("x")["done"]("")
    client.start("tools/call", {**call("slow"), "_meta": without})
    rig.component.ask(about, "sampling/createMessage", {}, answers.append)
    assert answers[3]["error"]["code"] == -32601


def test_input_for_a_request_that_is_not_there() -> None:
    _, client = downgraded()
    answer = client.call("tools/call", {**call("sample"), "requestState": "nobody"})
    assert answer["error"]["code"] == -32602
    answer = client.call("tools/call", {**call("sample"), "requestState": 7})
    assert answer["error"]["code"] == -32602


def test_a_client_that_comes_back_without_answers() -> None:
    rig, client = downgraded()
    state = sampled(rig, client)["requestState"]
    result = client.result("tools/call", {**call("sample"), "requestState": state})
    assert "came back without an answer" in result["content"][0]["text"]


def test_questions_while_input_was_asked_for_wait() -> None:
    rig, client = downgraded()
    client.start("tools/call", call("slow"))
    about = rig.component.open["x"]["about"]
    answers: list[Json] = []
    taken_back: list[Json] = []
    rig.component.ask(about, "sampling/createMessage", {"n": 1}, answers.append)
    rig.component.ask(about, "elicitation/create", {"n": 2}, answers.append)
    third = rig.component.ask(about, "elicitation/create", {"n": 3}, taken_back.append)
    first = client.answer(1)["result"]
    assert [one["params"] for one in first["inputRequests"].values()] == [{"n": 1}]
    rig.component.send({"method": "$/cancel_request", "params": {"requestId": third}})
    assert [each["error"]["code"] for each in taken_back] == [-32800]
    (name,) = first["inputRequests"]
    again = {**call("slow"), "requestState": first["requestState"]}
    client.start("tools/call", {**again, "inputResponses": {name: {"a": 1}}})
    assert answers[0]["result"] == {"a": 1}
    second = client.answer(2)["result"]
    assert [one["params"] for one in second["inputRequests"].values()] == [{"n": 2}]
    rig.component.open["x"]["done"]("over")
    last = client.result("tools/call", {**again, "requestState": second["requestState"]})
    assert last["content"][0]["text"] == "over"
    assert len(answers) == 2
    assert answers[1]["error"]


def test_requests_nobody_comes_back_for_are_cancelled() -> None:
    rig, client = downgraded()
    client.result("tools/list", {"_meta": MODERN_META})
    for _ in range(65):
        sampled(rig, client)
    assert len(rig.component.cancelled) == 1


def test_a_component_takes_its_question_back() -> None:
    rig = BridgeRig("sacp")
    rig.set_up()
    client = rig.client()
    client.initialize()
    client.serves = None
    client.start("tools/call", {"name": "slow", "arguments": {"text": "x"}})
    about = rig.component.open["x"]["about"]
    id_ = rig.component.ask(about, "sampling/createMessage", {}, lambda _: None)
    question = client.frames[-1]
    assert client.related[-1] == b"2"
    rig.component.send({"method": "$/cancel_request", "params": {"requestId": id_}})
    assert client.notifications("notifications/cancelled") == [{"requestId": question["id"]}]
    rig.component.send({"method": "$/cancel_request", "params": {"requestId": id_}})
    assert len(client.notifications("notifications/cancelled")) == 1
    client.close()
    assert rig.bridge.servers["1-0"].connections == []
