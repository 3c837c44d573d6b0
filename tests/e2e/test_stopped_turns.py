"""A prompt is cancelled while a sandboxed Python proxy holds it, with the rights `context`."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.rig import Rig

HOLDS: Final = """
from guest_sdk.python import Proxy

proxy = Proxy("holds")


@proxy.request("session/prompt")
async def prompt(request, following):
    if request.text == "wait":
        proxy.log.warn("it waits")
        try:
            await proxy.timer.sleep(3600)
        finally:
            proxy.log.warn("it has given up")
    return await following(request)
"""
PASSES: Final = 'from guest_sdk.python import Proxy\n\nproxy = Proxy("passes")\n'


@pytest.mark.proves("a prompt that is cancelled while")
@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize("neighbours", [False, True])
def test_the_user_does_not_wait_for_it_and_the_agent_does_not_begin(
    rig: Rig, tmp_path: Path, neighbours: bool
) -> None:
    """Policed by the conductor where it is alone in its process, and there where it is not."""
    components = []
    for name, source in (("holds", HOLDS), ("passes", PASSES))[: 1 + neighbours]:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        policy = {"only": "context+timer"}
        components.append(json.dumps({"component": str(tmp_path / f"{name}.py"), **policy}))
    chain = rig.run("agent", *components, rig.demo())
    session = chain.begin()
    waiting = chain.start_prompt(session, "wait")
    chain.until(lambda: "it waits" in chain.stderr, "the proxy holds the prompt")
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(waiting)["result"] == {"stopReason": "cancelled"}
    chain.until(lambda: "it has given up" in chain.stderr, "the proxy has heard of it")
    assert chain.prompt(session, "go") == "go"
    assert chain.finish() == 0
    told = [e.frame for e in rig.log("A", "in") if e.frame.get("method", "").startswith("session/")]
    assert [frame["method"] for frame in told] == [
        "session/new",
        "session/cancel",
        "session/prompt",
    ]
    assert "may not" not in chain.stderr
