"""Pages of tools (MCP Apps): what the bridge shows, and what a page may ask."""

import base64
import json
from typing import Any, Final

import pytest

from conductor.mcp import limits
from conductor.mcp.bridge.capabilities import Support
from tests.harness.bridge.rig import DECLARED, MODERN_META, BridgeRig, Json, McpClient
from tests.mcp.test_bridge_native import NativeAgent

GENERATIONS: Final = tuple(DECLARED)
PAGE: Final = "ui://tools/face"
HTML: Final = "<!doctype html><h1>face</h1>"
MIME: Final = "text/html;profile=mcp-app"
OLD: Final = "ui/resourceUri"
CLAIM: Final = {"io.modelcontextprotocol/ui": {"mimeTypes": [MIME]}}


def tool(name: str, meta: object = None, **more: object) -> Json:
    """A tool as a server lists it."""
    about = {} if meta is None else {"_meta": meta}
    return {"name": name, "inputSchema": {"type": "object"}, **about, **more}


class Stage:
    """A rig whose server has tools with pages, and a client that has begun."""

    def __init__(
        self, generation: str = "stateless", kind: str = "with sessions", *, panels: bool = True
    ) -> None:
        self.rig = BridgeRig(generation, panels=panels)
        ui = {"ui": {"resourceUri": PAGE}}
        self.rig.component.tools = [
            tool("echo", ui, title="Echo\nof text"),
            tool("raw", {OLD: PAGE}),
            tool("slow", {"ui": {"visibility": ["app"]}}),
            tool("whoami", {"ui": {"resourceUri": PAGE, "visibility": ["model"]}}),
            tool("sample", {"ui": {"resourceUri": "https://example.com/x", "visibility": 1}}),
            tool("plain"),
        ]
        self.rig.component.resources[PAGE] = {"mimeType": MIME, "text": HTML}
        self.rig.set_up()
        self.client: McpClient = self.rig.client()
        self.meta: Json = {"_meta": MODERN_META} if kind == "without" else {}
        self.asked = 0
        if kind == "without":
            self.client.result("server/discover", self.meta)
        else:
            self.client.initialize()

    def listed(self, **params: object) -> list[str]:
        """The names of the tools that the agent sees."""
        result = self.client.result("tools/list", {**params, **self.meta})
        return [each["name"] for each in result["tools"]]

    def call(self, name: str, text: str = "hi") -> Json:
        """Calls a tool; the answer."""
        params = {"name": name, "arguments": {"text": text}, **self.meta}
        return self.client.call("tools/call", params)

    @property
    def shown(self) -> list[Json]:
        """The panels that were shown."""
        return [one for one in self.rig.upstream if one.get("method") == "_scp/html_panel/show"]

    def panel(self, name: str = "echo", text: str = "hi") -> Json:
        """Lists the tools and calls one; the panel of its page, once the editor shows it."""
        self.listed()
        self.call(name, text)
        shown = self.shown[-1]
        self.rig.down({"id": shown["id"], "result": {"shown": "panel"}})
        panel: Json = shown["params"]
        return panel

    def event(self, panel: Json, name: str, data: object = None, **changed: object) -> Json:
        """An event of a panel; the answer of the bridge."""
        self.asked += 1
        number = 1000 + self.asked
        about = {"sessionId": panel["sessionId"], "id": panel["id"], "name": name, **changed}
        params = about if data is None else {**about, "data": data}
        self.rig.down({"id": number, "method": "_scp/html_panel/event", "params": params})
        return self.answered(number)

    def answered(self, number: int) -> Json:
        """The answer to an event; nothing if there is none."""
        found = [one for one in self.rig.upstream if one.get("id") == number]
        return found[0] if found else {}

    def says(self, panel: Json, method: str, params: object = None, id_: object = 7) -> list[Any]:
        """Sends a message of the page; returns the messages for the page."""
        more = {} if params is None else {"params": params}
        head = {} if id_ is None else {"id": id_}
        said = {"jsonrpc": "2.0", **head, "method": method, **more}
        messages: list[Any] = self.event(panel, "mcp", said)["result"]["messages"]
        return messages

    def refusal(self, panel: Json, method: str, params: object = None) -> tuple[int, str]:
        """The error of a request of the page."""
        [answer] = self.says(panel, method, params)
        return answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize("kind", ["with sessions", "without"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_page_of_a_called_tool_is_shown_and_served(generation: str, kind: str) -> None:
    stage = Stage(generation, kind)
    panel = stage.panel()
    assert panel == {
        "sessionId": "S1",
        "id": f"tools {PAGE}",
        "label": "Echo of text",
        "contents": HTML,
        "scripts": True,
        "_meta": {"conductor.component": "tools"},
    }
    [welcome] = stage.says(panel, "ui/initialize", {"protocolVersion": "2026-01-26"})
    assert welcome["id"] == 7
    assert welcome["result"]["protocolVersion"] == "2026-01-26"
    assert welcome["result"]["hostInfo"]["name"] == "conductor"
    assert set(welcome["result"]["hostCapabilities"]) == {
        "serverTools",
        "serverResources",
        "sandbox",
    }
    given, result = stage.says(panel, "ui/notifications/initialized", {}, None)
    assert given["method"] == "ui/notifications/tool-input"
    assert given["params"] == {"arguments": {"text": "hi"}}
    assert result["method"] == "ui/notifications/tool-result"
    assert result["params"]["content"] == [{"type": "text", "text": "hi"}]

    stage.client.close()  # the agent has gone; the page may still ask its server
    called = {"name": "echo", "arguments": {"text": "again"}, "_meta": {"x/y": 1}}
    [answer] = stage.says(panel, "tools/call", called, "seven")
    assert answer["id"] == "seven"
    assert answer["result"]["content"] == [{"type": "text", "text": "again"}]
    [answer] = stage.says(panel, "resources/read", {"uri": "note://x"})
    assert answer["result"]["contents"][0]["text"] == "what is at note://x"
    assert len(stage.shown) == 1, "what a page calls shows no page"
    asked = [one for one in stage.rig.component.heard if one["method"] == "tools/call"][-1]
    assert "x/y" not in asked["params"].get("_meta", {})


@pytest.mark.parametrize("kind", ["with sessions", "without"])
@pytest.mark.parametrize("generation", ["stateless", "sdk-2", "scp"])
def test_servers_learn_whether_pages_are_shown(generation: str, kind: str) -> None:
    for panels in (True, False):
        stage = Stage(generation, kind, panels=panels)
        stage.listed()
        heard = {one["method"]: one for one in stage.rig.component.heard}
        if generation == "stateless":
            able = heard["tools/list"]["params"]["_meta"][
                "io.modelcontextprotocol/clientCapabilities"
            ]
        else:
            able = heard["initialize"]["params"]["capabilities"]
        assert able.get("extensions") == (CLAIM if panels else None)


def test_tools_for_pages_alone_are_not_for_the_model() -> None:
    stage = Stage()
    assert stage.listed() == ["echo", "raw", "whoami", "plain"]
    assert Stage(panels=False).listed()[2] == "slow"


@pytest.mark.parametrize("name", ["raw", "whoami"])
def test_both_words_for_a_page_are_known(name: str) -> None:
    stage = Stage("sdk-0.12")
    stage.listed()
    stage.call(name, '{"content": []}')
    assert stage.shown[0]["params"]["contents"] == HTML


def test_no_page_is_shown_of_what_did_not_work() -> None:
    stage = Stage()
    stage.call("echo")  # nobody has listed it
    stage.listed()
    stage.call("plain")
    stage.call("sample")  # its page has another scheme
    stage.call("raw", '{"content": [], "isError": true}')
    stage.call("none")
    assert stage.shown == []
    assert stage.rig.notes[-1] != "warning"


def test_editors_without_panels_get_words_once_for_each_call() -> None:
    stage = Stage(panels=False)
    stage.listed()
    stage.call("echo", "<script>alert(1)</script>")
    [shown] = stage.shown
    assert shown["params"]["scripts"] is False
    assert shown["params"]["contents"].startswith("<p>This tool has a page, and this editor shows")
    assert "alert" not in json.dumps(shown)
    stage.rig.down({"id": shown["id"], "result": {"shown": "text"}})
    assert all(one["method"] != "resources/read" for one in stage.rig.component.heard)
    event = {"sessionId": "S1", "id": shown["params"]["id"], "name": "mcp"}
    stage.rig.down({"id": 9, "method": "_scp/html_panel/event", "params": event})
    assert stage.rig.agent[-1]["params"] == event, "it is no panel of the bridge's"


PAGES: Final[dict[str, Json]] = {
    "another type": {"mimeType": "text/html", "text": HTML},
    "no type": {"text": HTML},
    "another address": {"uri": "ui://other/x", "mimeType": MIME, "text": HTML},
    "no text": {"mimeType": MIME},
    "a blob that is none": {"mimeType": MIME, "blob": "%"},
    "a blob of no text": {"mimeType": MIME, "blob": "/w=="},
}


@pytest.mark.parametrize("what", PAGES)
def test_what_is_no_page_is_not_shown(what: str) -> None:
    stage = Stage()
    stage.rig.component.resources[PAGE] = PAGES[what]
    stage.listed()
    assert "result" in stage.call("echo"), "the agent has its answer all the same"
    assert stage.shown == []
    assert "the page of `Echo of text` is not shown: its server has no page" in stage.rig.notes[-1]


def test_a_page_may_be_base64() -> None:
    stage = Stage()
    blob = base64.b64encode(HTML.encode()).decode()
    mime = "Text/HTML; profile=mcp-app"
    stage.rig.component.resources[PAGE] = {"mimeType": mime, "blob": blob}
    assert stage.panel()["contents"] == HTML


def test_a_page_is_of_the_server_whose_tool_was_called() -> None:
    other = {"type": "acp", "name": "other", "serverId": "OTHER"}
    rig = BridgeRig(panels=True)
    rig.component.tools = [tool("echo", {"ui": {"resourceUri": "ui://other/x"}})]
    rig.set_up(DECLARED["stateless"], other)
    client = rig.client()
    client.initialize()
    client.result("tools/list")
    client.tool("echo", "hi")
    read = [one for one in rig.component.heard if one["method"] == "resources/read"]
    assert [one["params"]["uri"] for one in read] == ["ui://other/x"]
    assert json.loads(rig.wire[-2][3:])["params"]["serverId"] == "ID"


def test_what_is_too_large_is_not_shown() -> None:
    stage = Stage()
    stage.listed()
    stage.call("echo", "x" * limits.APP_BYTES)
    assert "its content is too large" in stage.rig.notes[-1]
    stage.rig.component.resources[PAGE]["text"] = "x" * (10 << 20)
    stage.call("echo")
    assert f"it has more than {limits.APP_BYTES} characters" in stage.rig.notes[-1]
    stage.rig.component.tools = [tool("echo", {"ui": {"resourceUri": "ui://" + "x" * 256}})]
    stage.listed()
    stage.call("echo")
    assert "its content is too large" in stage.rig.notes[-1]
    stage.rig.component.tools = [
        tool(f"t{n}", {"ui": {"resourceUri": PAGE}}) for n in range(limits.APP_TOOLS + 50)
    ]
    assert len(stage.listed()) == limits.APP_TOOLS + 50
    [server] = stage.rig.bridge.servers.values()
    assert len(server.app_tools) == limits.APP_TOOLS
    stage.rig.component.tools = [tool("plain")]
    stage.listed(cursor="next")
    assert len(server.app_tools) == limits.APP_TOOLS, "the next part of a list takes none away"
    stage.listed()
    assert server.app_tools == {}


def test_what_the_editor_refuses_is_forgotten() -> None:
    stage = Stage()
    stage.listed()
    stage.call("echo")
    panel = stage.shown[0]["params"]
    error = {"code": -1, "message": "a panel has\nat most 5 bytes"}
    stage.rig.down({"id": stage.shown[0]["id"], "error": error})
    assert stage.rig.notes[-1].endswith("is not shown: a panel has at most 5 bytes")
    assert stage.event(panel, "mcp", {"id": 1, "method": "ping"}) == {}
    stage.call("echo")
    stage.call("echo")  # shown anew before the first answer
    stage.rig.down({"id": stage.shown[1]["id"], "error": {}})
    assert stage.rig.notes[-1].endswith("is not shown: the editor does not show it")
    assert stage.says(panel, "ping") == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


def test_a_page_gets_the_latest_call() -> None:
    stage = Stage()
    panel = stage.panel(text="one")
    assert stage.panel(text="two") == panel
    _, result = stage.says(panel, "ui/notifications/initialized", None, None)
    assert result["params"]["content"][0]["text"] == "two"


@pytest.mark.proves("a page of a tool reaches its own")
def test_what_a_page_may_not_ask() -> None:
    stage = Stage()
    panel = stage.panel()
    asked = ("ui/open-link", "ui/message", "ui/update-model-context", "sampling/createMessage")
    for method in (*asked, "tools/list", "session/prompt", "x" * 500):
        code, message = stage.refusal(panel, method, {"url": "https://example.com"})
        assert (code, message.endswith("is nothing that a page may ask here")) == (-32601, True)
        assert len(message) < 200
    for name in ("whoami", "plain", "none", 5, None):
        code, message = stage.refusal(panel, "tools/call", {"name": name})
        assert (code, "no tool of the page's own server" in message) == (-32602, True)
    assert stage.refusal(panel, "tools/call")[0] == -32602
    mode = stage.says(panel, "ui/request-display-mode", {"mode": "fullscreen"})
    assert mode[0]["result"] == {"mode": "inline"}
    odd: tuple[Any, ...] = (None, True, [1], {})
    for id_ in odd:
        assert stage.says(panel, "tools/call", {"name": "slow"}, id_) == []
    nothing: tuple[Any, ...] = (None, 5, "x", [], {"method": "tools/call"})
    for data in nothing:
        assert stage.event(panel, "mcp", data)["result"] == {"messages": []}
    [answer] = stage.event(panel, "mcp", {"id": 1, "method": 5})["result"]["messages"]
    assert answer["error"]["code"] == -32601
    calls = [one for one in stage.rig.component.heard if one["method"] == "tools/call"]
    assert len(calls) == 1, "the agent's own"


def test_a_page_has_so_many_open_requests() -> None:
    stage = Stage()
    panel = stage.panel()
    call = {"name": "slow", "arguments": {"text": "s"}}
    for number in range(limits.APP_OPEN):
        said = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        assert stage.event(panel, "mcp", said) == {}, "it waits"
    code, message = stage.refusal(panel, "tools/call", call)
    assert (code, "requests of this page are not answered" in message) == (-32603, True)
    assert stage.says(panel, "ping")[0]["result"] == {}
    stage.rig.component.open["s"]["done"]("late")
    [answer] = stage.answered(1000 + limits.APP_OPEN)["result"]["messages"]
    assert answer["result"]["content"][0]["text"] == "late"
    assert stage.event(panel, "mcp", {"id": 1, "method": "tools/call", "params": call}) == {}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_tool_that_asks_something_fails_for_a_page(generation: str) -> None:
    stage = Stage(generation)
    stage.rig.component.tools.append(tool("report", {"ui": {}}))
    stage.rig.component.tools[4] = tool("sample", {"ui": {"resourceUri": PAGE}})
    panel = stage.panel()
    [answer] = stage.says(panel, "tools/call", {"name": "sample", "arguments": {}})
    if generation == "stateless":
        assert answer["error"]["message"] == "the server asks for input"
    else:
        assert answer["result"]["content"][0]["text"].startswith("refused: ")


def test_a_closed_panel_and_a_closed_session_end_a_page() -> None:
    stage = Stage()
    panel = stage.panel()
    assert stage.event(panel, "clicked", {"n": 1})["result"] == {}
    assert stage.event(panel, "close")["result"] == {}
    assert stage.event(panel, "mcp", {"id": 1, "method": "ping"}) == {}
    assert stage.rig.agent[-1]["params"]["name"] == "mcp", "the agent may know it"
    panel = stage.panel()
    call = {"name": "slow", "arguments": {"text": "s"}}
    assert stage.event(panel, "mcp", {"id": 1, "method": "tools/call", "params": call}) == {}
    waits = 1000 + stage.asked
    id_ = stage.rig.request("session/close", {"sessionId": "S1"})
    stage.rig.up({"id": id_, "result": {}})
    [answer] = stage.answered(waits)["result"]["messages"]
    assert answer["error"]["message"] == "the server is not offered any more"
    assert stage.event(panel, "mcp", {"id": 1, "method": "ping"}) == {}


def test_so_many_pages_are_served() -> None:
    stage = Stage()
    pages = [f"ui://tools/{n}" for n in range(limits.APPS + 1)]
    stage.rig.component.resources = {uri: {"mimeType": MIME, "text": HTML} for uri in pages}
    stage.rig.component.tools = [
        tool(f"t{n}", {"ui": {"resourceUri": uri}}) for n, uri in enumerate(pages)
    ]
    stage.rig.component.tools += [tool("echo", {"ui": {"resourceUri": pages[0]}})]
    first = stage.panel()
    for uri in pages[1:]:
        stage.rig.component.tools[-1]["_meta"]["ui"]["resourceUri"] = uri
        last = stage.panel()
    assert stage.says(last, "ping")[0]["result"] == {}
    assert stage.event(first, "mcp", {"id": 1, "method": "ping"}) == {}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_agents_that_take_servers_of_acp_transport(generation: str) -> None:
    support = Support(1, acp=generation in ("stateless", "sdk-2", "rfd"),
                      old=generation in ("sdk-0.12", "sacp", "pacp"),
                      scp=generation == "scp")  # fmt: skip
    rig = BridgeRig(generation, "acp", support, panels=True)
    rig.component.tools = [tool("echo", {"ui": {"resourceUri": PAGE}})]
    rig.component.resources[PAGE] = {"mimeType": MIME, "text": HTML}
    rig.set_up()
    agent = NativeAgent(rig, generation)
    agent.connect()
    meta: Json = {"_meta": MODERN_META} if generation == "stateless" else {}
    if not meta:
        begins = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        agent.request("initialize", begins)
    agent.request("tools/list", meta)
    agent.request("tools/call", {"name": "echo", "arguments": {"text": "x"}, **meta})
    [shown] = [one for one in rig.upstream if one.get("method") == "_scp/html_panel/show"]
    assert shown["params"]["contents"] == HTML
