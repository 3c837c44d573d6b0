"""The raw transcript of each generation, from declaration to disconnect: `tests/golden/mcp/*.txt`.

Each line begins with who sent it: the bridge (`B>`) or the component (`C>`). `UPDATE_GOLDEN=1`
writes them anew.
"""

import json
import os
from typing import Final

import pytest

from tests.harness.bridge.rig import DECLARED, BridgeRig
from tests.places import GOLDEN

FOLDER: Final = GOLDEN / "mcp"


def transcript(generation: str) -> str:
    """All that passes between the bridge and a component: one call, sampling, a cancellation."""
    rig = BridgeRig(generation)
    declared = json.dumps(DECLARED[generation])
    rig.set_up()
    client = rig.client()
    client.initialize(sampling={})
    client.result("tools/list")
    client.tool("echo", "hello")
    client.tool("progress", "p", _meta={"progressToken": "mine"})
    client.tool("sample", "")
    id_ = client.start("tools/call", {"name": "slow", "arguments": {"text": "x"}})
    client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
    client.close()
    return "\n".join([f"declared {declared}", *rig.wire]) + "\n"


@pytest.mark.parametrize("generation", DECLARED)
def test_transcript(generation: str) -> None:
    path = FOLDER / f"{generation}.txt"
    said = transcript(generation)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(said)
    assert said == path.read_text()
