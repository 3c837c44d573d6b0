"""Real coding agents call a tool that has a page (MCP Apps): the editor shows the page, and the
page asks its server; an editor without panels gets words. The model is a mock."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import MockMessages, tool_results
from tests.e2e.peers.test_mcp_agents import OPENCODE, calling, everything, prepare
from tests.e2e.peers.test_revived import allow
from tests.e2e.peers.test_sessions import said
from tests.e2e.test_apps import DICE, WORDS, page_rolls
from tests.e2e.test_editor import SHOW, done
from tests.harness.process.client import Client

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CALL: Final = "toolu_roll"
"""Id of the model's call of the tool."""
ROLL: Final = ("dice__roll", "dice_roll")
"""How agents call it, behind prefixes of their own."""
TRIED: Final = [
    ("claude-agent-acp", True),
    ("claude-code-acp", False),
    *(
        pytest.param(agent, panels, marks=everything)
        for agent, panels in (
            ("claude-agent-acp", False),
            ("claude-code-acp", True),
            (OPENCODE, True),
            (OPENCODE, False),
        )
    ),
]


def compact(held: object) -> str:
    """JSON without spaces, which agents write in ways of their own."""
    return json.dumps(held).replace(" ", "")


@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize(("agent", "panels"), TRIED)
def test_the_page_of_a_tool_that_an_agent_calls(
    agent: str, panels: bool, launch: Launch, tmp_path: Path
) -> None:
    with MockMessages(calling(ROLL, {"count": 3}, CALL)).serving() as model:
        chain = prepare(agent, launch, model, tmp_path, "auto", (DICE,))
        cache = launch.env.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        env = {**chain.env, "XDG_CACHE_HOME": cache}
        with Client(chain.command, env=env, cwd=chain.project) as client:
            client.serves |= {"session/request_permission": allow, SHOW: done}
            section = {"symposium": {"version": "1.0", "html_panel": panels}}
            able = {"clientCapabilities": {"_meta": section}}
            client.request("initialize", {"protocolVersion": 1, **able})
            setup: dict[str, Any] = {"cwd": str(chain.project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "roll three dice"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            assert said(client).endswith("Done."), client.story()
            (told,) = (
                one["content"]
                for one in tool_results(model.conversations[-1])
                if one["tool_use_id"] == CALL
            )
            if panels:
                panel = client.expect(SHOW)["params"]
                assert (panel["sessionId"], panel["label"]) == (session, "Roll dice")
                began, rolled = page_rolls(client, panel, 5)
                dice = began["structuredContent"]["dice"]
                assert (len(dice), len(rolled)) == (3, 5)
                assert compact(dice) in compact(told)
            else:
                assert client.seen(SHOW) == []
            assert said(client).count(WORDS) == (0 if panels else 1)
            assert WORDS not in json.dumps(model.conversations[-1]["messages"])
            assert client.finish() == 0
