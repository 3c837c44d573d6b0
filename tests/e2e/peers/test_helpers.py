"""The helpers that a project's dependencies choose, before a real agent: it calls their tools."""

import json
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, ToolUse, tool_results
from tests.e2e.peers.test_mcp_agents import MOST_SEARCHES, prepare

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CHAIN: Final = """
[chains.symposium]
components = [
  { component = "rust-errors", when.file = "Cargo.toml" },
  { component = "ts-errors", when.dependency = "typescript" },
  { component = "a11y", when.dependency = "react" },
]
"""
MANIFEST: Final = {"dependencies": {"react": "19"}, "devDependencies": {"typescript": "7"}}
PROJECTS: Final = {
    "web": {
        "package.json": json.dumps(MANIFEST),
        "App.tsx": "<p>\n  <img src='a.png' />\n</p>\n",
    },
    "rust": {
        "Cargo.toml": '[package]\nname = "a"\n',
        "main.rs": 'fn main() {\n    let s: String = "a";\n}\n',
    },
}
OUTPUTS: Final = {
    "web": {
        "ts-errors": "App.tsx(2,3): error TS2741: Property 'alt' is missing in type 'A' but "
        "required in type 'B'.",
        "a11y": json.dumps(
            [{"code": "image-alt", "message": "No alt.", "context": "<img src='a.png'>"}]
        ),
    },
    "rust": {
        "rust-errors": "main.rs:2:21: error[E0308]: mismatched types: expected `String`, "
        "found `&str`",
    },
}
"""The input that each helper gets to explain, by project."""
SAID: Final = {
    "ts-errors": ("An object without a property that is required", "> 2 |   <img src='a.png' />"),
    "a11y": ("WCAG 1.1.1 Non-text Content (A)", "> 2 |   <img src='a.png' />"),
    "rust-errors": ("Another type than expected", "> 2 |     let s: String ="),
}
"""Parts of each helper's answer."""


def say(outputs: dict[str, str], body: Json) -> Answer:
    """The model: has each helper explain its output, and is done once it has all answers."""
    names: list[str] = [tool["name"] for tool in body.get("tools", ())]
    told = [result["tool_use_id"] for result in tool_results(body)]
    if not names:
        return Text(("Done.",))
    for helper, output in outputs.items():
        if helper in told:
            continue
        for name in names:
            if name.endswith(f"{helper}__explain"):
                return ToolUse(name, {"output": output}, helper)
        if "ToolSearch" in names and len(told) < MOST_SEARCHES:
            query = {"query": f"select:mcp__{helper}__explain", "max_results": 5}
            return ToolUse("ToolSearch", query, f"toolu_search_{len(told)}")
        return Text(("There is no such tool.",))
    return Text(("Done.",))


@pytest.mark.parametrize("project", PROJECTS)
def test_a_real_agent_uses_those_for_its_project(
    project: str, launch: Launch, tmp_path: Path
) -> None:
    outputs = OUTPUTS[project]
    with MockMessages(partial(say, outputs)).serving() as model:
        chain = prepare("claude-agent-acp", launch, model, tmp_path, "auto", ("symposium",))
        config = tmp_path / "config/conductor/conductor.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CHAIN, encoding="utf-8")
        chain.env["XDG_CONFIG_HOME"] = str(config.parent.parent)
        for name, text in PROJECTS[project].items():
            (chain.project / name).write_text(text, encoding="utf-8")
        seen = chain.run("what is wrong?")
        bodies = [request.body for request in model.requests]
    assert [turn.stop_reason for turn in seen.turns] == ["end_turn"]
    results = {
        result["tool_use_id"]: "".join(one["text"] for one in result["content"])
        for body in bodies
        for result in tool_results(body)
        if result["tool_use_id"] in outputs
    }
    assert results.keys() == outputs.keys()
    for helper, result in results.items():
        for words in SAID[helper]:
            assert words in result
    tools = json.dumps([body.get("tools") for body in bodies])
    assert not any(helper in tools for helper in SAID if helper not in outputs)
