"""The README and the tutorial, done from their first line to their last, in an empty folder."""

import os
from pathlib import Path
from typing import Final

import pytest

from conductor.editors import jsonc
from tests.docs import pages
from tests.docs.walk import Walk, differences
from tests.harness.process.rig import Chain
from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "tutorial.md"

pytestmark = pytest.mark.timeout(600)


@pytest.mark.usefixtures("python_guest")
def test_what_the_tutorial_shows_is_what_comes(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    shown = walk.page(pages.read(PAGE))
    wrong = differences(PAGE, shown)
    assert not wrong, f"{wrong}\npython -m tests.docs.walk {PAGE.relative_to(ROOT)}"
    assert len(shown) > 20
    # A command that needs an account cannot be run here. Nothing else is left out.
    assert ["claude-agent-acp" in block.text for block in walk.left_out] == [True]
    made = {path.name for path in walk.home.iterdir() if not path.name.startswith(".")}
    assert made == {"briefing", "briefing-0.1.0.tar.gz", "conductor.lock"}


ZED: Final = """// Zed, as its user has it
{
  "theme": "One Dark", // dark
  "agent_servers": {
    "Mine": {"type": "custom", "command": "mine", "args": []},
  },
}
"""
JETBRAINS: Final = '{"default_mcp_settings": {"use_idea_mcp": true}}'


@pytest.mark.usefixtures("python_guest")
def test_what_the_readme_shows_is_what_comes(tmp_path: Path) -> None:
    """In an empty home with two editors, whose entries then start as these editors start them."""
    page = ROOT / "README.md"
    walk = Walk(tmp_path)
    zed = walk.home / ".config" / "zed" / "settings.json"
    jetbrains = walk.home / ".jetbrains" / "acp.json"
    for path, text in ((zed, ZED), (jetbrains, JETBRAINS)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    shown = walk.page(pages.read(page))
    wrong = differences(page, shown)
    assert not wrong, wrong
    assert len(shown) == 5
    assert not walk.left_out
    before, entry = zed.read_text("utf-8").partition("agent_servers")[::2]
    assert before == ZED.partition("agent_servers")[0]
    assert '"Mine": {"type": "custom", "command": "mine", "args": []},' in entry
    assert "work" in zed.read_text("utf-8")
    assert "datetime" in jetbrains.read_text("utf-8")
    for path, said in ((zed, "Today is "), (jetbrains, "<current-date ")):
        assert said in answer_of(path, walk.home)


def answer_of(settings: Path, home: Path) -> str:
    """The answer of the agent in an editor's settings, started as from a desktop."""
    root = jsonc.parse(settings.read_text("utf-8"))
    entry = root.at("agent_servers", "Conductor") if root is not None else None
    assert entry is not None
    command = [entry.data["command"], *entry.data["args"]]
    env = {"HOME": str(home), "PATH": os.defpath, **entry.data["env"]}
    editor = Chain(command, env, home)
    try:
        editor.initialize()
        answer = editor.prompt(editor.new_session(cwd=str(home)), "hi")
        assert editor.finish() == 0, editor.stderr
    finally:
        editor.kill()
    return answer
