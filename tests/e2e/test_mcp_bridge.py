"""MCP servers of proxies, used by agents that know nothing of it.

A is the bundled `demo`; it calls servers through the official `mcp` library. The proxy is
`tests.e2e.actors.mcp_proxy`, of every generation, and the bundled `tools-demo`.
"""

import json
import shlex
import sys
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.rig import Rig

GENERATIONS: Final = ("stateless", "sdk-2", "rfd", "sdk-0.12", "sacp", "pacp", "scp")


def proxy(rig: Rig, generation: str, name: str = "tools") -> str:
    """The proxy; what it hears of MCP is in `rig.folder / name`."""
    log = str(rig.folder / name)
    command = (sys.executable, "-m", "tests.e2e.actors.mcp_proxy", "--generation", generation)
    return rig.program(*command, "--name", name, "--log", log, name=name, dialect="acp")


def heard(rig: Rig, name: str = "tools") -> list[Json]:
    """The messages of MCP that the proxy of this name has heard."""
    path = rig.folder / name
    lines = path.read_text().split("\n")[:-1] if path.exists() else []  # whole ones
    return [json.loads(line) for line in lines]


def servers(rig: Rig) -> list[Json]:
    """The `mcpServers` A got, of its last session."""
    frames = [one.frame for one in rig.log("A", "in")]
    found: list[Json] = [
        f["params"]["mcpServers"] for f in frames if f.get("method") == "session/new"
    ][-1]
    return found


def declared_as(rig: Rig) -> str:
    """The kind of server A got last."""
    entry = servers(rig)[-1]
    return str(entry.get("type", "stdio" if "command" in entry else "?"))


@pytest.mark.parametrize(
    ("generation", "kind"),
    [
        *((generation, "stdio") for generation in GENERATIONS),
        ("stateless", "http"),
        ("sacp", "http"),
        ("scp", "acp"),
        ("rfd", "acp"),
    ],
)
def test_every_generation_by_every_way(rig: Rig, generation: str, kind: str) -> None:
    chain = rig.agent(proxy(rig, generation), rig.demo(), options=("-c", f"mcp-bridge={kind}"))
    shown = chain.initialize()["agentCapabilities"]["mcpCapabilities"]
    assert shown["acp"] is True
    session = chain.new_session()
    assert chain.prompt(session, '/tool echo {"text":"h\\u00e9 \\u2028"}') == "hé \u2028"
    assert declared_as(rig) == kind
    assert chain.finish() == 0
    assert not rig.leftovers(chain)
    methods = [one["method"] for one in heard(rig)]
    opened = [one for one in methods if one.endswith("mcp/connect")]
    closed = [one for one in methods if one.endswith("mcp/disconnect")]
    assert bool(opened) == (generation not in ("stateless", "scp"))
    if kind == "stdio" and generation in ("rfd", "sdk-0.12", "sacp"):
        assert len(closed) == len(opened)


def test_the_agent_never_sees_acp(rig: Rig) -> None:
    chain = rig.agent(proxy(rig, "sacp"), rig.demo("--no-http"))
    session = chain.begin()
    (entry,) = servers(rig)
    assert set(entry) == {"name", "command", "args", "env"}
    assert "acp:" not in json.dumps(entry)
    assert chain.prompt(session, '/call tools echo {"text":"shim"}') == "shim"
    connects = [one for one in heard(rig) if one["method"] == "_mcp/connect"]
    assert {one["params"]["session_id"] for one in connects} == {session}
    assert chain.finish() == 0


def test_a_proxy_does_not_stand_before_the_bridge(rig: Rig) -> None:
    agent = rig.demo("--mcp-mode", "auto")
    chain = rig.agent(
        proxy(rig, "stateless"), agent, options=("-c", "mcp-bridge=http"),
        HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="", no_proxy="",
    )  # fmt: skip
    assert chain.prompt(chain.begin(), '/tool echo {"text":"x"}') == "x"
    assert chain.finish() == 0


LOOPBACK: Final = "127.0.0.1,localhost,::1"


@pytest.mark.parametrize(
    ("given", "own", "wanted"),
    [
        ({"all_proxy": "socks5h://h:9"}, {}, (LOOPBACK, LOOPBACK)),
        (
            {"NO_PROXY": "a.example, localhost"},
            {"https_proxy": "http://h:9"},
            ("a.example, localhost,127.0.0.1,::1",) * 2,
        ),
        (
            {"HTTPS_PROXY": "http://h:9", "NO_PROXY": "a.example"},
            {"no_proxy": "b.example"},
            (f"a.example,{LOOPBACK}", f"b.example,{LOOPBACK}"),
        ),
        ({"HTTP_PROXY": "http://h:9", "no_proxy": "*"}, {}, ("*", "*")),
        ({"HTTP_PROXY": "", "no_proxy": "a.example"}, {}, (None, "a.example")),
        ({}, {}, (None, None)),
        ({}, {"env": "HTTP_PROXY=http://h:9"}, (LOOPBACK, LOOPBACK)),
    ],
)
def test_an_agent_with_a_proxy_is_told_what_goes_past_it(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    own: dict[str, str],
    wanted: tuple[str | None, str | None],
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    agent = shlex.join([sys.executable, "-m", "tests.e2e.actors.terminal_agent"])
    runs = ("sh", "-c", f"env > A; exec {agent}")
    if "env" in own:  # the program of this name, before the agent
        program = rig.program("env", own["env"], *runs, name="A")
    else:
        program = rig.program(*runs, name="A", env=own)
    chain = rig.agent(program, options=(), **given)
    chain.initialize()
    assert chain.finish() == 0
    lines = (rig.folder / "A").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert (variables.get("NO_PROXY"), variables.get("no_proxy")) == wanted


@pytest.mark.parametrize(("kind", "mode"), [("stdio", "legacy"), ("http", "auto"), ("acp", "auto")])
def test_a_sandboxed_module_gives_tools(rig: Rig, kind: str, mode: str) -> None:
    agent = rig.demo("--mcp-mode", mode)
    chain = rig.agent("tools-demo", agent, options=("-c", f"mcp-bridge={kind}"))
    session = chain.begin()
    assert chain.prompt(session, '/tool add {"a":2,"b":3}') == "5"
    assert chain.prompt(session, '/tool echo {"text":"x"}').startswith("x")
    assert chain.finish() == 0
    assert not rig.leftovers(chain)


@pytest.mark.proves("from MCP clients to the conductor")
def test_secrets_are_in_no_trace(rig: Rig) -> None:
    trace = rig.folder / "trace.jsons"
    options = ("--trace", str(trace), "-c", "trace-content=all", "--log", "debug")
    chain = rig.agent(proxy(rig, "rfd"), rig.demo("--no-http"), options=options)
    session = chain.begin()
    assert chain.prompt(session, '/call tools echo {"text":"traced"}') == "traced"
    assert chain.finish() == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    calls = [one for one in events if one.get("method") == "tools/call"]
    assert [(one["protocol"], one["from"], one["to"]) for one in calls] == [
        ("mcp", "agent", "tools")
    ]
    secrets = [pair["value"] for pair in servers(rig)[0]["env"]]
    assert secrets
    for secret in secrets:
        assert secret not in trace.read_text()
        assert secret not in chain.stderr


def test_a_client_may_offer_servers_itself(rig: Rig) -> None:
    chain = rig.agent(rig.demo("--no-http"))
    chain.initialize()
    chain.serves["mcp/message"] = _serve
    session = chain.new_session(mcpServers=[{"type": "acp", "name": "mine", "serverId": "1"}])
    assert chain.prompt(session, "/tools") == "mine/given"
    assert chain.finish() == 0


def _serve(params: Json) -> Json:
    results: dict[str, Json] = {
        "server/discover": {"capabilities": {"tools": {}}, "supportedVersions": ["2026-07-28"]},
        "tools/list": {"tools": [{"name": "given", "inputSchema": {"type": "object"}}]},
    }
    result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {"result": {**result, **results[params["method"]]}}


@pytest.mark.parametrize("kind", ["stdio", "http", "acp"])
def test_a_call_is_cancelled_down_to_the_component(rig: Rig, kind: str) -> None:
    chain = rig.agent(proxy(rig, "stateless"), rig.demo(), options=("-c", f"mcp-bridge={kind}"))
    session = chain.begin()
    turn = chain.start_prompt(session, '/call tools slow {"text":"x"}')
    chain.until_stderr("heard mcp/message")
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(turn)["result"]["stopReason"] == "cancelled"
    if kind != "acp":  # natively, demo gives up waiting without a word
        chain.until_stderr("heard $/cancel_request")
    assert chain.finish() == 0
