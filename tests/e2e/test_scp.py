"""A conductor that takes part in SCP, through the real command
line, in both versions.

The host is a client that speaks SCP as its proposal has it: `initialize` with a section of the
editor, then `_scp/proxy`. A is the bundled `demo`, X the recording proxy.
"""

import json
import sys
from contextlib import closing
from typing import Final

import pytest

from tests.e2e.test_editor import SHOW, ask, degraded, done, run, shower
from tests.e2e.test_mcp_bridge import heard, proxy, servers
from tests.harness.process.client import Json
from tests.harness.process.command import COMMAND
from tests.harness.process.mcp_clients import HELLO, Door
from tests.harness.process.rig import DEMO, Chain, Rig

SCP: Final = ("--dialect", "scp")
BOTH: Final = pytest.mark.parametrize("version", [1, 2])


def scp(rig: Rig, *components: str, options: tuple[str, ...] = (), **env: str) -> Chain:
    """`conductor proxy --dialect scp COMPONENT…`."""
    return rig.proxy(*components, options=(*SCP, *options), **env)


def hello(version: int = 1, **shows: bool) -> Json:
    """The params of a host's `initialize`."""
    section = {"version": "1.0", "html_panel": False, "file_comment": False, **shows}
    meta = {"_meta": {"symposium": section}}
    if version == 2:
        return {"protocolVersion": 2, "capabilities": meta, "info": {"name": "E", "version": "1"}}
    return {"protocolVersion": 1, "clientCapabilities": meta}


def server(component: str) -> Json:
    """A component of the rig as a host names it."""
    written = json.loads(component)
    return {key: written[key] for key in ("name", "command", "args")} | {"env": []}


def launch(chain: Chain, *servers: Json) -> Json:
    """`_scp/proxy`; the frame that answers it."""
    return chain.request("_scp/proxy", {"servers": servers})


def begun(chain: Chain, *servers: Json, version: int = 1, **shows: bool) -> str:
    """The whole handshake, and a session; its id."""
    assert "result" in chain.request("initialize", hello(version, **shows))
    answer = launch(chain, *servers)
    assert "result" in answer, f"{answer}{chain.story()}"
    return chain.new_session()


def says(chain: Chain, session: str, text: str) -> str:
    """A turn in which the agent echoes the prompt; the texts that come."""
    before = len(chain.texts(session))
    chain.answer(chain.start_prompt(session, text))
    chain.until(lambda: text in "".join(chain.texts(session)[before:]), "the echo")
    return "".join(chain.texts(session)[before:])


# -- 14: the handshake ---------------------------------------------------------------------------


@BOTH
def test_nothing_before_the_chain_and_the_chain_once(rig: Rig, version: int) -> None:
    chain = scp(rig, rig.x("X", "--mark", "x"), "passthrough")
    early = chain.request("session/new", {"cwd": "/", "mcpServers": []})
    assert early["error"]["code"] == -32600
    answer = chain.request("initialize", hello(version))["result"]
    member = "agentCapabilities" if version == 1 else "capabilities"
    assert answer[member]["_meta"]["symposium"] == {"version": "1.0", "proxy": True}
    assert answer["protocolVersion"] == version
    for method in ("session/new", "session/prompt", "authenticate", "_vendor/ask", "initialize"):
        error = chain.request(method, hello(version))["error"]
        assert (error["code"], "before `_scp/proxy`" in error["message"]) == (-32600, True)
    chain.notify("session/cancel", {"sessionId": "s"})
    assert rig.log("A") == []
    agent = server(rig.demo())
    answer = launch(chain, agent)["result"]
    assert (answer["protocolVersion"], member in answer) == (version, True)
    session = chain.new_session()
    assert says(chain, session, "hello") == "x\nhello"
    again = launch(chain, agent)["error"]
    assert (again["code"], "comes once" in again["message"]) == (-32600, True)
    assert says(chain, session, "still here") == "x\nstill here"
    assert chain.finish() == 0
    assert rig.methods("A")[:2] == ["initialize", "session/new"]
    assert rig.methods("A").count("initialize") == 1
    assert "_scp/proxy" not in [*rig.methods("A"), *rig.methods("X")]
    assert rig.leftovers(chain) == []


@BOTH
def test_the_rest_of_the_chain_in_its_order(rig: Rig, version: int) -> None:
    """The host names proxies of several dialects before the agent; nobody says which they are."""
    chain = scp(rig, rig.x("X1", "--mark", "1"))
    named = [rig.x(f"X{n}", "--mark", f"{n}", dialect=d) for n, d in ((2, "scp"), (3, "sacp"))]
    named += ['{"name":"datetime","command":"passthrough","args":[]}', rig.demo()]
    session = begun(chain, *map(server, named), version=version)
    assert says(chain, session, "end") == "3\n2\n1\nend"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_a_proxy_of_scp_without_components_passes_everything_on(rig: Rig) -> None:
    chain = scp(rig)
    chain.serves["_x/up"] = lambda params: {"got": params}
    session = begun(chain, server(rig.demo()))
    assert chain.prompt(session, '/ext _x/up {"a":1}').endswith('{"got":{"a":1}}')
    hang = chain.start_prompt(session, "/hang")
    rig.until_heard("A", b'"/hang"')
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(hang)["result"]["stopReason"] == "cancelled"
    assert chain.finish() == 0


# -- 15: who takes part --------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("told", [True, False])
def test_through_a_conductor_it_works(rig: Rig, told: bool, version: int) -> None:
    inner = [*SCP, "-c", f"cache={rig.cache}", rig.x("X", "--mark", "x"), "passthrough"]
    more = {"dialect": "scp"} if told else {}
    component = rig.program(*COMMAND, "proxy", *inner, name="inner", **more)
    chain = rig.agent(component, rig.x("Y", "--mark", "y"), rig.demo())
    if version == 2:
        info = {"name": "c", "version": "1"}
        answer = chain.initialize(protocolVersion=2, info=info, capabilities={})
        assert (answer["info"]["name"], "agentCapabilities" in answer) == ("demo", False)
    else:
        answer = chain.initialize()
        assert "capabilities" not in answer
    assert "symposium" not in json.dumps(answer)
    session = chain.new_session()
    assert says(chain, session, "end") == "y\nx\nend"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_an_agent_of_version_1_behind_a_proxy_of_version_2(rig: Rig) -> None:
    component = rig.program(*COMMAND, "proxy", *SCP, name="inner", dialect="scp")
    chain = rig.agent(component, rig.actor("plain_agent", name="A"))
    answer = chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"})
    assert answer["protocolVersion"] == 1
    assert not {"capabilities", "info"} & {*answer}


# -- 36 and 56: MCP --------------------------------------------------------------------------------


def called(rig: Rig, name: str) -> Json:
    """The call of a tool that a proxy has heard."""
    (one,) = [one for one in heard(rig, name) if "tools/call" in json.dumps(one)]
    return one


@BOTH
def test_a_plain_agent_calls_two_proxies_by_name(rig: Rig, version: int) -> None:
    """`ToAgent`: the agent gets the servers of type `scp` as programs; the host's own, too."""
    chain = scp(rig, proxy(rig, "scp", "one"), options=("-c", "mcp-bridge=stdio"))
    two = json.loads(proxy(rig, "scp", "two"))
    assert "result" in chain.request("initialize", hello(version))
    launched = launch(chain, server(json.dumps(two)), server(rig.demo()))
    assert "result" in launched, f"{launched}{chain.story()}"
    session = chain.new_session()
    entries = servers(rig)
    assert [entry["name"] for entry in entries] == ["one", "two"]
    for entry in entries:
        assert entry.get("type", "stdio") == "stdio"
        with closing(Door(entry)) as door:
            door.begin()
            assert door.tool(1, "echo", f"to {entry['name']}") == f"to {entry['name']}"
    for name in ("one", "two"):
        call = called(rig, name)
        assert (call["method"], call["params"]["name"]) == ("_scp/mcp", name)
        assert f'"to {name}"' in json.dumps(call)
    says(chain, session, "on")
    assert chain.finish() == 0


@BOTH
def test_an_editor_of_scp_finds_an_agent_of_scp(rig: Rig, version: int) -> None:
    """`ToAgent` by the editor's section: any agent behind a conductor takes servers of `scp`."""
    chain = rig.agent(rig.demo(), options=("-c", "mcp-bridge=stdio"))
    answer = chain.request("initialize", hello(version))["result"]
    capabilities = answer["agentCapabilities" if version == 1 else "capabilities"]
    assert capabilities["_meta"]["symposium"] == {"version": "1.0", "proxy": False}
    asked: list[str] = []

    def serve(params: Json) -> Json:
        asked.append(params["name"])
        error = {"code": -32000, "message": "not today"}
        return {"message": {"jsonrpc": "2.0", "id": params["message"].get("id"), "error": error}}

    chain.serves["_scp/mcp"] = serve
    session = chain.new_session(mcpServers=[{"type": "scp", "name": "ed"}])
    (entry,) = servers(rig)
    with closing(Door(entry)) as door:
        door.send(id=1, method="initialize", params=HELLO)
        chain.until(lambda: asked, "the call of the editor's server")
        chain.settled()
        assert "not today" in json.dumps(door.answer(1))
    assert set(asked) == {"ed"}
    says(chain, session, "on")
    assert chain.finish() == 0


@pytest.mark.parametrize("generation", ["scp", "stateless"])
def test_an_agent_of_scp_calls_two_proxies_by_name(rig: Rig, generation: str) -> None:
    """The agent gets servers of type `scp`, and its `_scp/mcp` goes to the proxy that it names."""
    chain = scp(rig, proxy(rig, generation, "one"), proxy(rig, generation, "two"))
    session = begun(chain, server(rig.actor("scp_agent", name="A")))
    entries = json.loads(chain.prompt(session, "servers"))
    assert [(one["type"], one["name"]) for one in entries] == [("scp", "one"), ("scp", "two")]
    for name in ("one", "two"):
        assert chain.prompt(session, f"/call {name} to {name}") == f"to {name}"
        assert f'"to {name}"' in json.dumps(called(rig, name))
    assert "-32601" in chain.prompt(session, "/call nobody x")
    assert chain.finish() == 0


def test_a_server_of_the_host_is_called_by_its_name(rig: Rig) -> None:
    chain = scp(rig, "passthrough", options=("-c", "mcp-bridge=stdio"))
    asked: list[Json] = []

    def serve(params: Json) -> Json:
        """A server of MCP with one tool, which answers all calls."""
        asked.append(params)
        message = params["message"]
        text = {"type": "text", "text": "from the editor"}
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ed", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [text]},
        }
        found = results.get(message["method"])
        held = {"error": {"code": -32601, "message": "?"}} if found is None else {"result": found}
        return {"message": {"jsonrpc": "2.0", "id": message.get("id"), **held}}

    chain.serves["_scp/mcp"] = serve
    assert "result" in chain.request("initialize", hello())
    assert "result" in launch(chain, server(rig.demo()))
    session = chain.new_session(mcpServers=[{"type": "scp", "name": "ed"}])
    assert chain.prompt(session, '/call ed any {"a":1}') == "from the editor"
    assert {one["name"] for one in asked} == {"ed"}
    assert chain.finish() == 0


# -- 55: an editor without SCP ---------------------------------------------------------------------

CONFIG: Final = """
[chains.scp]
components = ["scp-one", "passthrough", "agent"]

[components.scp-one]
command = {python}
args = {args}
dialect = "scp"

[components.agent]
command = {python}
args = ["{demo}"]
"""


FORMS: Final = pytest.mark.parametrize("form", ["conductor", "program"])


def configured(rig: Rig, form: str) -> str:
    """A file with the chain `scp`: what shows panels as a proxy of SCP, and the agent. The proxy is
    the program itself, or a conductor over it."""
    args = [*COMMAND[1:], "proxy", *SCP, "-c", f"cache={rig.cache}", shower("program")]
    args = json.loads(shower("program"))["args"] if form == "program" else args
    folder = rig.folder / "config" / "conductor"
    folder.mkdir(parents=True)
    python, demo = json.dumps(sys.executable), DEMO
    text = CONFIG.format(python=python, args=json.dumps(args), demo=demo)
    (folder / "conductor.toml").write_text(text)
    return str(rig.folder / "config")


@FORMS
@BOTH
def test_a_chain_of_scp_from_a_file_before_a_plain_editor(
    rig: Rig, version: int, form: str
) -> None:
    """Panels come as text; nothing of SCP reaches the editor."""
    chain = run(
        rig,
        "@scp",
        version=version,
        XDG_CONFIG_HOME=configured(rig, form),
    )
    session = chain.new_session()
    shown = ask(chain, session, "html_panel/show", id="w", label="Walk", contents="<h1>Plan</h1>")
    assert shown == {"result": {"shown": "text"}}
    (update,) = degraded(chain)
    assert (update["sessionUpdate"], "Plan" in update["content"]["text"]) == (
        "agent_message_chunk",
        True,
    )
    assert "Walk" in update["content"]["text"]
    comment = {"id": "c", "url": "file:///a.rs", "start": {"line": 3}, "text": "why?"}
    assert ask(chain, session, "file_comment/show", **comment) == {"result": {"shown": "text"}}
    assert says(chain, session, "on").endswith("on")
    assert not [f for f in chain.frames if str(f.get("method", "")).startswith("_scp")]
    assert chain.finish() == 0


@FORMS
@BOTH
def test_an_editor_of_scp_gets_the_panel_and_its_owner_the_event(
    rig: Rig, version: int, form: str
) -> None:
    home = configured(rig, form)
    chain = run(rig, "@scp", shows={"html_panel": True}, version=version, XDG_CONFIG_HOME=home)
    chain.serves[SHOW] = done
    session = chain.new_session()
    shown = ask(chain, session, "html_panel/show", id="w", label="Walk", contents="<b>1</b>")
    assert shown == {"result": {"shown": "panel"}}
    (panel,) = chain.seen(SHOW)
    assert (panel["params"]["id"], panel["params"]["contents"]) == ("w", "<b>1</b>")
    happened = {"sessionId": session, "id": "w", "name": "click", "data": 1}
    assert chain.request("_scp/html_panel/event", happened)["result"] == {"n": 1}
    assert not degraded(chain)
    assert chain.finish() == 0
