"""Agents that take servers of ACP transport, of each generation, over components of each."""

import json
from typing import Final

import pytest

from conductor.mcp.bridge.capabilities import Support
from tests.harness.bridge.rig import DECLARED, MODERN_META, BridgeRig, Json

GENERATIONS: Final = tuple(DECLARED)
NEW: Final = Support(1, acp=True)
OLD: Final = Support(1, old=True)
SCP: Final = Support(1, scp=True)


class NativeAgent:
    """An agent that uses a server natively, by the methods of its generation."""

    def __init__(self, rig: BridgeRig, generation: str) -> None:
        self.rig = rig
        self.generation = generation
        self.id = "ID" if rig.generation != "scp" else "tools"
        self.connection = ""
        self.last = 100

    def ask(self, method: str, params: Json) -> Json:
        """A request of ACP; its answer."""
        self.last += 1
        self.rig.up({"id": self.last, "method": method, "params": params})
        return self.answer(self.last)

    def answer(self, id_: int) -> Json:
        """The answer to a request of the agent's, which has to be there, once."""
        found = [one for one in self.rig.agent if "method" not in one and one["id"] == id_]
        assert len(found) == 1, self.rig.agent
        return found[0]

    def connect(self) -> None:
        """Opens a connection, where it has such."""
        match self.generation:
            case "sdk-2":
                result = self.ask("mcp/connect", {"serverId": self.id})["result"]
            case "rfd":
                result = self.ask("mcp/connect", {"acpId": self.id})["result"]
            case "sdk-0.12" | "sacp":
                result = self.ask("_mcp/connect", {"acp_url": f"acp:{self.id}"})["result"]
            case _:
                return
        (self.connection,) = result.values()

    def carried(self, method: str, params: Json, id_: object = None) -> tuple[str, Json]:
        """The message of ACP that holds one of MCP."""
        inner: Json = {"method": method, "params": params}
        kind = "notification" if id_ is None else "request"
        head = {} if id_ is None else {"id": id_}
        match self.generation:
            case "stateless":
                return "mcp/message", {"serverId": self.id, "requestId": f"r{id_}", **inner}
            case "sdk-2" | "rfd":
                return "mcp/message", {"connectionId": self.connection, **inner}
            case "sdk-0.12":
                return "_mcp/message", {"connectionId": self.connection, **inner}
            case "sacp":
                return f"_mcp/{kind}", {"connection_id": self.connection, **inner}
            case "scp":
                whole = {"jsonrpc": "2.0", **head, **inner}
                return "_scp/mcp", {"name": "tools", "message": whole}
            case _:
                whole = {"jsonrpc": "2.0", **head, **inner}
                return f"_mcp/client_to_server/{kind}", {"url": f"acp:{self.id}", "message": whole}

    def request(self, method: str, params: Json) -> Json:
        """A request of MCP; its outcome."""
        answer = self.ask(*self.carried(method, params, self.last + 1))
        return self.outcome(answer)

    def outcome(self, answer: Json) -> Json:
        """The outcome of MCP in an answer of ACP."""
        if "error" in answer or self.generation in ("sdk-2", "rfd", "sdk-0.12", "sacp"):
            return answer
        held: Json = answer["result"]
        if self.generation == "stateless":
            return held
        inner: Json = held["message"]
        assert inner["jsonrpc"] == "2.0"
        return inner

    def begin(self) -> None:
        """Connects, and says the first words."""
        self.connect()
        if self.generation == "stateless":
            assert "result" in self.request("server/discover", {"_meta": MODERN_META})
            return
        info = {"name": "agent", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}},
                  "clientInfo": info}  # fmt: skip
        assert self.request("initialize", params)["result"]["serverInfo"]["name"] == "scripted"
        method, held = self.carried("notifications/initialized", {})
        self.rig.up({"method": method, "params": held})

    def tool(self, name: str, text: str, **meta: object) -> Json:
        """Calls a tool; the outcome."""
        return self.request("tools/call", self.params(name, text, **meta))

    def params(self, name: str, text: str, **meta: object) -> Json:
        """The params of a tool call."""
        modern = MODERN_META if self.generation == "stateless" else {}
        return {"name": name, "arguments": {"text": text}, "_meta": {**modern, **meta}}


def pair(speaks: str, generation: str) -> tuple[BridgeRig, NativeAgent]:
    """An agent and a component, and a session."""
    old = OLD if speaks in ("sdk-0.12", "sacp", "pacp") else NEW
    rig = BridgeRig(generation, "auto", SCP if speaks == "scp" else old)
    rig.set_up()
    return rig, NativeAgent(rig, speaks)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("speaks", GENERATIONS)
def test_every_agent_uses_every_component(speaks: str, generation: str) -> None:
    rig, agent = pair(speaks, generation)
    assert rig.listeners == {}
    agent.begin()
    assert agent.tool("echo", "hi")["result"]["content"] == [{"type": "text", "text": "hi"}]
    assert agent.tool("none", "")["error"] == {"code": -32602, "message": "no such tool"}
    assert "result" in agent.tool("progress", "x", progressToken=5)
    told = [one for one in rig.agent if "progress" in json.dumps(one) and "method" in one]
    assert len(told) == 2
    for one in told:
        params = one["params"].get("message", one["params"])
        assert params["params"]["progressToken"] == 5
        if speaks == "stateless":
            assert one["params"]["requestId"] == f"r{agent.last}"
    assert rig.upstream[1:] == []


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("speaks", GENERATIONS)
def test_a_request_is_cancelled_and_answered(speaks: str, generation: str) -> None:
    rig, agent = pair(speaks, generation)
    agent.begin()
    agent.last += 1
    method, params = agent.carried("tools/call", agent.params("slow", "x"), agent.last)
    rig.up({"id": agent.last, "method": method, "params": params})
    cancel = {"method": "$/cancel_request", "params": {"requestId": agent.last}}
    rig.up(cancel)
    assert len(rig.component.cancelled) == 1
    rig.component.open["x"]["answer"]({"error": {"code": -32800, "message": "cancelled"}})
    assert agent.outcome(agent.answer(agent.last))["error"]["code"] == -32800
    rig.up(cancel)
    assert rig.upstream[-1]["method"] == "$/cancel_request", "not ours any more: for the router"


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("speaks", ["sdk-2", "rfd", "sdk-0.12", "sacp", "pacp", "scp"])
def test_a_component_asks_the_agent(speaks: str, generation: str) -> None:
    rig, agent = pair(speaks, generation)
    agent.begin()
    agent.last += 1
    method, params = agent.carried("tools/call", agent.params("sample", ""), agent.last)
    rig.up({"id": agent.last, "method": method, "params": params})
    asked = rig.agent[-1]
    inner = asked["params"].get("message", asked["params"])
    assert inner["method"] == "sampling/createMessage"
    result: Json = {"content": {"type": "text", "text": "sampled"}}
    if "message" in asked["params"]:
        result = {"message": {"jsonrpc": "2.0", "id": inner["id"], "result": result}}
    rig.up({"id": asked["id"], "result": result})
    found = agent.outcome(agent.answer(agent.last))
    assert found["result"]["content"][0]["text"] == "sampled"


@pytest.mark.parametrize("speaks", ["sdk-2", "rfd", "sdk-0.12", "sacp"])
def test_the_agent_disconnects(speaks: str) -> None:
    rig, agent = pair(speaks, "sacp")
    agent.begin()
    held = {"connectionId": agent.connection}
    if speaks in ("sdk-2", "rfd"):
        assert agent.ask("mcp/disconnect", held)["result"] == {}
    else:
        rig.up({"method": "_mcp/disconnect", "params": {"connection_id": agent.connection}})
    assert rig.component.disconnected == [{"connection_id": "c1"}]
    method, params = agent.carried("tools/list", {}, 7)
    rig.up({"id": 7, "method": method, "params": params})
    assert rig.upstream[-1]["id"] == 7, "nothing of ours any more: for the router"


@pytest.mark.parametrize("speaks", ["sdk-2", "sdk-0.12"])
def test_the_component_disconnects(speaks: str) -> None:
    rig, agent = pair(speaks, "sdk-2")
    agent.begin()
    rig.component.send({"id": 9, "method": "mcp/disconnect", "params": {"connectionId": "c1"}})
    assert rig.upstream[-1] == {"jsonrpc": "2.0", "id": 9, "result": {}}
    assert rig.agent[-1]["method"].endswith("mcp/disconnect")


@pytest.mark.parametrize("used", [False, True])
def test_a_request_after_the_component_disconnected_is_refused(used: bool) -> None:
    rig, agent = pair("sdk-2", "sdk-2")
    agent.connect()
    if used:
        agent.request("tools/list", {})
    rig.component.send({"id": 9, "method": "mcp/disconnect", "params": {"connectionId": "c1"}})
    answer = agent.ask(*agent.carried("tools/list", {}, 1))
    assert "closed the connection" in str(answer["error"]["message"])


def test_declarations_in_the_form_the_agent_reads() -> None:
    for generation, declared in DECLARED.items():
        new = BridgeRig(generation, "auto", NEW).set_up()["mcpServers"][0]
        assert new["type"] == "acp"
        assert new["serverId"] == ("tools" if generation == "scp" else "ID")
        assert new["name"] == "tools"
        old = BridgeRig(generation, "auto", OLD).set_up()["mcpServers"][0]
        assert old["url"] == ("acp:tools" if generation == "scp" else "acp:ID")
        if declared.get("url"):
            assert old == declared, "as it was declared"
        if "serverId" in declared:
            assert new == declared, "as it was declared"
        scp = BridgeRig(generation, "auto", SCP).set_up()["mcpServers"][0]
        assert (scp["type"], scp["name"]) == ("scp", "tools")
        if generation == "scp":
            assert scp == declared, "as it was declared"


@pytest.mark.parametrize("speaks", ["stateless", "scp"])
def test_an_older_session_has_its_server_back_once_the_latest_ends(speaks: str) -> None:
    """The messages name a server, and no session: two sessions have a server of this name."""
    rig, agent = pair(speaks, "scp")
    agent.begin()
    rig.set_up()
    assert "result" in agent.tool("echo", "of the latest")
    id_ = rig.request("session/close", {"sessionId": "S2"})
    rig.up({"id": id_, "result": {}})
    assert "result" in agent.tool("echo", "of the first again")
    id_ = rig.request("session/close", {"sessionId": "S1"})
    rig.up({"id": id_, "result": {}})
    method, params = agent.carried("tools/call", agent.params("echo", "x"), 900)
    rig.up({"id": 900, "method": method, "params": params})
    assert rig.upstream[-1]["id"] == 900, "nothing of ours any more: for the router"


# -- of one generation -----------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
def test_of_one_generation_the_component_hears_the_agent_only(generation: str) -> None:
    rig, agent = pair(generation, generation)
    said: list[str] = []
    before = agent.ask

    def ask(method: str, params: Json) -> Json:
        said.append(method)
        return before(method, params)

    agent.ask = ask  # type: ignore[method-assign]
    agent.connect()
    eager = generation in ("sdk-2", "rfd")
    assert [json.loads(one[3:])["method"] for one in rig.wire if "method" in one] == said * eager
    modern = generation == "stateless"
    method = "tools/call" if modern else "initialize"
    params = agent.params("echo", "hi") if modern else {"protocolVersion": "2025-11-25"}
    agent.request(method, params)
    heard = [json.loads(one[3:]) for one in rig.wire if one.startswith("B>")]
    assert [one["method"] for one in heard] == said
    assert [one["method"] for one in rig.component.heard] == [method]
    assert rig.component.heard[0]["params"] == params


def test_what_the_component_says_to_being_connected_to_passes() -> None:
    rig, agent = pair("sdk-2", "sdk-2")
    error = {"code": -32000, "message": "not today"}
    sent: list[Json] = []
    rig.component.receive = sent.append  # type: ignore[method-assign,assignment]
    rig.up({"id": 5, "method": "mcp/connect", "params": {"serverId": "ID"}})
    assert rig.agent[1:] == []
    rig.component.send({"id": sent[0]["id"], "error": error})
    assert agent.answer(5)["error"] == error
    assert [one["method"] for one in sent] == ["mcp/connect"]
    (server,) = rig.bridge.servers.values()
    assert server.connections == []


def test_the_session_ends_while_the_agent_connects() -> None:
    rig, agent = pair("rfd", "rfd")
    sent: list[Json] = []
    rig.component.receive = sent.append  # type: ignore[method-assign,assignment]
    rig.up({"id": 5, "method": "mcp/connect", "params": {"acpId": "ID"}})
    id_ = rig.request("session/close", {"sessionId": "S1"})
    rig.up({"id": id_, "result": {}})
    assert "not offered any more" in agent.answer(5)["error"]["message"]
    rig.component.send({"id": sent[0]["id"], "result": {"connectionId": "late"}})
    assert sent[1]["method"] == "mcp/disconnect"
    assert [one["method"] for one in rig.agent if "method" in one][-1] == "session/close"


def test_requests_that_were_passed_on_in_the_wrong_generation_are_translated() -> None:
    rig, agent = pair("stateless", "sdk-2")
    sent: list[Json] = []
    receive = rig.component.receive
    rig.component.receive = sent.append  # type: ignore[method-assign,assignment]
    for id_, text in ((5, "a"), (6, "b")):
        agent.last = id_
        method, params = agent.carried("tools/call", agent.params("echo", text), id_)
        rig.up({"id": id_, "method": method, "params": params})
    rig.component.receive = receive  # type: ignore[method-assign]
    for frame in sent:
        assert "serverId" in frame["params"]
        receive(frame)
    for id_, text in ((5, "a"), (6, "b")):
        found = agent.outcome(agent.answer(id_))
        assert found["result"]["content"][0]["text"] == text
    calls = [one["params"]["arguments"] for one in rig.component.heard if "tool" in one["method"]]
    assert calls == [{"text": "a"}, {"text": "b"}], "each once"


def test_an_agent_of_the_schema_needs_no_revision() -> None:
    rig, agent = pair("stateless", "stateless")
    sent: list[Json] = []
    rig.component.receive = sent.append  # type: ignore[method-assign,assignment]
    rig.up({"id": 5, "method": "mcp/message",
            "params": {"serverId": "ID", "requestId": "r", "method": "tools/list"}})  # fmt: skip
    assert [one["params"].get("method") for one in sent] == ["tools/list"]
    unknown = {"code": -32601, "message": "what?"}
    rig.component.send({"id": sent[0]["id"], "error": unknown})
    rig.component.send({"id": sent[1]["id"], "error": unknown})
    assert agent.answer(5)["result"]["error"] == unknown
    assert [one["method"] for one in sent] == ["mcp/message", "mcp/connect"]


# -- the rest --------------------------------------------------------------------------------------


def test_what_is_not_of_the_bridge_goes_to_the_router() -> None:
    rig, agent = pair("stateless", "stateless")
    for method in ("mcp/message", "mcp/connect", "mcp/disconnect"):
        rig.up({"id": 1, "method": method, "params": {"serverId": "else"}})
        assert rig.upstream[-1]["method"] == method
        rig.up({"method": method, "params": {"serverId": "else"}})
        assert "id" not in rig.upstream[-1]
    rig.up({"id": 2, "method": "fs/read_text_file", "params": {}})
    rig.up({"method": "session/update"})
    assert rig.upstream[-1]["method"] == "session/update"
    empty = agent.ask("mcp/message", {"serverId": "ID", "requestId": "r"})
    assert empty["error"]["code"] == -32602
    count = len(rig.upstream)
    rig.up({"method": "mcp/message", "params": {"serverId": "ID"}})
    assert len(rig.upstream) == count


def test_a_nested_request_is_cancelled_by_its_own_id() -> None:
    rig, agent = pair("pacp", "sacp")
    agent.begin()
    method, params = agent.carried("tools/call", agent.params("slow", "x"), "in")
    rig.up({"id": 500, "method": method, "params": params})
    for wrong in ("out", "in"):
        method, params = agent.carried("notifications/cancelled", {"requestId": wrong})
        rig.up({"method": method, "params": params})
    assert len(rig.component.cancelled) == 1


@pytest.mark.parametrize(
    ("generation", "end"),
    [
        *((generation, end) for generation in GENERATIONS for end in ("close", "load")),
        *((generation, "disconnect") for generation in ("sdk-2", "rfd", "sdk-0.12", "sacp")),
    ],
)
def test_who_disconnects_gets_an_answer_to_each_request(generation: str, end: str) -> None:
    rig = BridgeRig("sdk-2", "acp", SCP if generation == "scp" else NEW)
    rig.set_up()
    agent = NativeAgent(rig, generation)
    agent.connect()
    rig.hold()
    method, params = agent.carried("tools/call", {"name": "x"}, 1)
    rig.up({"id": "open", "method": method, "params": params})
    if end != "disconnect":
        more = {"cwd": "/", "mcpServers": []} if end == "load" else {}
        id_ = rig.request(f"session/{end}", {"sessionId": "S1", **more})
        rig.up({"id": id_, "result": {}})
    else:
        old = generation in ("sdk-0.12", "sacp")
        named = "connection_id" if old else "connectionId"
        params = {named: agent.connection}
        rig.up({"id": "end", "method": f"{'_' * old}mcp/disconnect", "params": params})
    (answer,) = (one for one in rig.agent if one.get("id") == "open")
    assert (
        agent.outcome(answer)["error"]["message"]
        == "the connection to MCP server `tools` is closed"
    )


def test_a_connection_may_be_called_like_anything() -> None:
    rig = BridgeRig("sdk-2", "acp", NEW)
    rig.set_up(*({"type": "acp", "name": name, "serverId": name} for name in "AB"))
    frames = rig.hold()
    rig.up({"id": 1, "method": "mcp/connect", "params": {"serverId": "A"}})
    rig.answer(frames[0], result={"connectionId": "stateless 1-1"})
    message = {"serverId": "B", "requestId": "r", "method": "tools/call", "params": {}}
    rig.up({"id": 2, "method": "mcp/message", "params": message})
    assert frames[1]["params"] == message
