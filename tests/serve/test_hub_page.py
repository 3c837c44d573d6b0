"""The lines in docs/remote.md pass as they stand there."""

import json
import re
from typing import Final

from tests.harness.hub.world import Peer, World
from tests.places import ROOT

LINE: Final = re.compile(r"^    (editor|phone|agent) ([→←]) (\{.*\})$", re.MULTILINE)


def test_the_lines_of_the_page() -> None:
    lines = LINE.findall((ROOT / "docs" / "remote.md").read_text("utf-8"))
    assert len(lines) == 13
    world = World()
    editor = world.client("editor")
    editor.ask("initialize", protocolVersion=1, clientInfo={"name": "Editor"})
    (agent,) = world.agents.values()
    agent.answer(agent.one(), {"protocolVersion": 1})
    editor.new(agent, "s1")
    phone = world.client("phone")
    phone.begin()
    prompt = [{"type": "text", "text": "Tidy up"}]
    editor.ask("session/prompt", sessionId="s1", prompt=prompt)
    agent.take()
    peers: dict[str, Peer] = {"editor": editor, "phone": phone, "agent": agent}
    for name, arrow, text in lines:
        if arrow == "→":
            assert not any(peer.seen for peer in peers.values())
            peers[name].raw(text.encode())
        else:
            assert peers[name].seen.pop(0) == json.loads(text)
    assert not any(peer.seen for peer in peers.values())
