"""Components of the conversation and of the editor before a real agent.

The model is a mock.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import (
    Answer,
    Json,
    MockMessages,
    Text,
    ToolUse,
    tool_results,
    user_text,
)
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_agents import MOST_SEARCHES, everything
from tests.e2e.peers.test_sessions import environment, opened, said
from tests.harness.process.client import Client
from tests.record.trace import pairs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300), everything]

WORDS: Final = ("be kind", "be Sparkle", "ochre", "mauve", "azure")
BEFORE: Final = "<conversation-so-far>"
OWN_TURNS: Final = [
    ("ochre", "knows ['be kind', 'be Sparkle', 'ochre']"),
    ("mauve", "knows ['be kind', 'be Sparkle', 'ochre', 'mauve']"),
]
TWICE: Final = [("ochre", "knows ['ochre']"), ("ochre", "knows ['ochre']")]
PARTS: Final = [
    ("remember: ochre", "knows ['ochre']"),
    ("mauve", "knows ['ochre', 'mauve'] anew"),
    ("azure", "knows ['ochre', 'azure'] anew"),
]
"""With so small a limit the fact is kept, and there is no room for turns."""
TAUGHT: Final = [
    ("/remember ochre", "[identity: remembered: 1. ochre]\n"),
    ("hello", "knows ['ochre']"),
]
CHAINS: Final[dict[str, tuple[dict[str, Json], list[tuple[str, str]], int]]] = {
    "own turns": (
        {"personality": {"prompts": ["be kind"]},
         "sparkle": {"prompt": "be Sparkle", "show": "hidden"}}, OWN_TURNS, 4),
    "cache": ({"cache": {}}, TWICE, 1),
    "identity": ({"identity": {}}, TAUGHT, 1),
    "history": ({"history": {"tokens": 1, "summary": False, "note": "none"}}, PARTS, 3),
}  # fmt: skip
"""Components with settings; prompts, and what the user reads to each; the turns of the agent."""


def tell(body: Json) -> Answer:
    """The model: says which words it knows, and whether it was told of a conversation before."""
    told = user_text(body)
    anew = " anew" if BEFORE in told else ""
    return Text((f"knows {[one for one in WORDS if one in told]}{anew}",))


@pytest.mark.parametrize("name", CHAINS)
def test_components_of_the_conversation(
    name: str, launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    components, turns, count = CHAINS[name]
    project = tmp_path / "project"
    project.mkdir()
    trace = tmp_path / "trace.jsons"
    words = [json.dumps({"component": each, "config": held}) for each, held in components.items()]
    command = launch.agent("--trace", str(trace), *words, "claude-agent-acp")
    with MockMessages(tell).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as client:
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            for text, wanted in turns:
                before = len(said(client))
                blocks = [{"type": "text", "text": text}]
                answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
                assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
                assert said(client)[before:] == wanted
            updates = client.seen("session/update")
            assert {one["params"]["sessionId"] for one in updates} == {session}
            assert client.finish() == 0
    events = pairs.read(trace)
    asked = [one for one in events if (one.get("method"), one["to"]) == ("session/prompt", "agent")]
    assert len(asked) == count


def calls(body: Json, name: str, arguments: Json, id_: str) -> Answer:
    """The model calls a tool, once it has looked it up; `NONE` if it cannot be found."""
    names: list[str] = [tool["name"] for tool in body.get("tools", ())]
    if name in names:
        return ToolUse(name, arguments, id_)
    searches = sum("search" in one["tool_use_id"] for one in tool_results(body))
    if "ToolSearch" in names and searches < MOST_SEARCHES:
        query = {"query": f"select:{name}", "max_results": 5}
        return ToolUse("ToolSearch", query, f"{id_}_search_{searches}")
    return Text(("There is no such tool.",))


def allows(params: Json) -> Json:
    """The user allows what the agent asks for."""
    option = next(one for one in params["options"] if one["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


QUESTION: Final = "Is Rust fast?"
BEGIN: Final = ("mcp__research__begin_research", {"question": QUESTION}, "toolu_begin")


def research(body: Json) -> Answer:
    """The model: begins research, does it, and says what the report says."""
    told = user_text(body)
    if "You are a researcher" in told:
        return Text(("Rust is fast, says a stopwatch.",))
    if "<research-complete/>" in told and "says a stopwatch" in told:
        return Text(("Research says Rust is fast.",))
    if "Look into it" in told and all(one["tool_use_id"] != BEGIN[2] for one in tool_results(body)):
        return calls(body, *BEGIN)
    return Text(("I'm looking into it!",))


def test_research_comes_back_by_itself(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    command = launch.agent("research", "claude-agent-acp")
    with MockMessages(research).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as client:
            client.serves["session/request_permission"] = allows
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "Look into it"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            client.until(lambda: "Research says Rust is fast." in said(client), "the report")
            assert said(client).startswith("I'm looking into it!"), client.story()
            assert "stopwatch" not in said(client)
            updates = client.seen("session/update")
            assert {one["params"]["sessionId"] for one in updates} == {session}
            assert client.finish() == 0


WALK: Final = "# Add\nThe sum:\n```comment add.py symbol=add\nIt adds.\n```"
SHOW: Final = ("mcp__walkthrough__show", {"markdown": WALK}, "toolu_show")


def walk(body: Json) -> Answer:
    """The model: shows a walkthrough, and says the tool's result."""
    told = [one["content"] for one in tool_results(body) if one["tool_use_id"] == SHOW[2]]
    if told:
        return Text((f"told {json.dumps(told)}",))
    return calls(body, *SHOW) if "Explain it" in user_text(body) else Text(("hm",))


def test_a_walkthrough_is_shown(launch: Launch, node_peers: NodePeers, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "add.py").write_text("import x\ndef add(a, b):\n    return a + b\n", "utf-8")
    command = launch.agent("walkthrough", "claude-agent-acp")
    section = {"version": "1.0", "html_panel": True, "file_comment": True}
    able = {"clientCapabilities": {"_meta": {"symposium": section}}}
    with MockMessages(walk).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with Client(command, env=env, cwd=project) as client:
            client.serves["session/request_permission"] = allows
            for family in ("html_panel", "file_comment"):
                client.serves[f"_scp/{family}/show"] = lambda _: {}
            client.request("initialize", {"protocolVersion": 1, **able})
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "Explain it"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            assert "the user sees `Add`" in said(client), client.story()
            (panel,) = client.seen("_scp/html_panel/show")
            assert "<code>add.py:2</code>" in panel["params"]["contents"]
            (comment,) = client.seen("_scp/file_comment/show")
            assert comment["params"]["start"] == {"line": 2, "column": 5}
            assert client.finish() == 0


FIND: Final = ("mcp__editor__ide_operation", {"request": "where is f?"}, "toolu_find")
PLAN: Final = '```plan\n[{"operation": "find-definitions", "arguments": {"symbol": "f"}}]\n```'


def find(body: Json) -> Answer:
    """The model: asks the editor in English; in the other session it plans, and answers."""
    asked = user_text(body)
    if "The results of your plan" in asked:
        return Text((f"It is {'add.py:2' if 'add.py' in asked else 'nowhere'}.",))
    if "Find out in the user's editor" in asked:
        return Text((PLAN,))
    told = [one["content"] for one in tool_results(body) if one["tool_use_id"] == FIND[2]]
    if told:
        return Text((f"told {json.dumps(told)}",))
    return calls(body, *FIND) if "Find it" in asked else Text(("hm",))


def test_a_way_is_found_in_the_editor(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    trace = tmp_path / "trace.jsons"
    command = launch.agent("--trace", str(trace), "ide", "claude-agent-acp")
    section = {"version": "1.0", "ide_operation": True}
    able = {"clientCapabilities": {"_meta": {"symposium": section}}}
    listed = {"operations": [{"name": "find-definitions", "inputSchema": {"type": "object"}}]}
    with MockMessages(find).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with Client(command, env=env, cwd=project) as client:
            client.serves |= {
                "session/request_permission": allows,
                "_scp/ide_operation/list": lambda _: listed,
                "_scp/ide_operation/run": lambda _: {"at": "add.py:2"},
            }
            client.request("initialize", {"protocolVersion": 1, **able})
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "Find it"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            assert "It is add.py:2." in said(client), client.story()
            (ran,) = client.seen("_scp/ide_operation/run")
            assert ran["params"]["arguments"] == {"symbol": "f"}
            updates = client.seen("session/update")
            assert {one["params"]["sessionId"] for one in updates} == {session}
            assert client.finish() == 0
    events = pairs.read(trace)
    asked = [one for one in events if (one.get("method"), one["to"]) == ("session/prompt", "agent")]
    assert len({one["params"]["sessionId"] for one in asked}) == 2
