"""Records a session of a real agent behind `datetime` and `redact`, for `tests/record/replay`.

    python -m tests.e2e.peers.record tests/record/replay/real_agent.jsons

The agent is `claude-agent-acp` with a mock as its model: it reads a file, changes it after asking,
runs a command, is cancelled, and goes on. No path of this machine is in the file, and no record of
what each proxy got: a replay of the chain needs none.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import (
    Answer,
    Json,
    MockMessages,
    Stall,
    Text,
    ToolUse,
    tool_results,
    user_text,
)
from tests.e2e.peers.npm import NodePeers, install, node_tools
from tests.e2e.peers.test_claude_agents import Bench
from tests.harness.process.command import COMMAND, environment

PLACE: Final = "/home/alice"
PROMPTS: Final = (
    "Bluebird is secret. What does notes.txt say?", "change milk to oat milk", "run the tests",
    "think for ever", "run them again",
)  # fmt: skip


def say(body: Json, notes: Path) -> Answer:
    """The model: a tool for each of the first three prompts, then words."""
    if not body.get("tools"):
        return Text(("A title",))
    latest = max(PROMPTS, key=user_text(body).rfind)
    number = PROMPTS.index(latest)
    file = {"file_path": str(notes)}
    tools = (
        ToolUse("Read", file, "toolu_0"),
        ToolUse("Edit", {**file, "old_string": "milk", "new_string": "oat milk"}, "toolu_1"),
        ToolUse("Bash", {"command": "echo 3 passed", "description": "Tests"}, "toolu_2"),
    )
    done = {result["tool_use_id"] for result in tool_results(body)}
    if number < len(tools) and tools[number].id not in done:
        return tools[number]
    return (
        Text(("It is a list ", "for project Blue", "bird: milk ", "and bread.")),
        Text(("Done: ", "oat milk.")),
        Text(("Three tests pass.",)),
        Stall(("Thinking ", "hard")),
        Text(("Still three for Blue", "bird.")),
    )[number]


def main(file: Path) -> None:
    """Writes the trace."""
    tools = node_tools()
    assert tools is not None, "needs node and npm on PATH"
    peers = NodePeers(tools[0], install(tools[1]) / ".bin", Path())
    chain = ("--trace", str(file), "-c", "trace-content=all", "datetime")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        notes = base / "project" / "notes.txt"
        with MockMessages(lambda body: say(body, notes)).serving() as model:
            launch, secret = Launch(COMMAND, environment()), 'redact,config.words=["Bluebird"]'
            bench = Bench("claude-agent-acp", launch, peers, model, base, *chain, secret)
            notes.write_text("Bluebird\n\n- milk\n- bread\n")
            seen = bench.run(*PROMPTS, permission="allow_once", cancel_on="Thinking")
    assert [turn.stop_reason for turn in seen.turns].count("end_turn") == len(PROMPTS) - 1
    lines = file.read_text("utf-8").replace(folder, PLACE).splitlines(keepends=True)
    events = [line for line in lines if '"_conductor","records"' not in line]
    file.write_text("".join(events), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
