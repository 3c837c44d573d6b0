"""Content that an end does not take, through the real command.

An agent that takes text alone and does not stream; an exchange within a turn; a long text that
components get as a reference.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.command import conductor
from tests.harness.process.rig import Rig, python_path

V2: Json = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}
NOTICES: Json = {"session": {"notices": {}}}


def test_a_silent_agent_that_takes_text_alone(rig: Rig, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    agent = rig.actor("plain_agent", name="A")
    chain = rig.agent("datetime", rig.x("X"), agent, options=("--audit", str(audit)))
    chain.initialize(clientCapabilities=NOTICES)
    session = chain.new_session()
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
    code = {"type": "resource", "resource": {"uri": "file:///a.rs", "text": "fn main"}}
    params = {"sessionId": session, "prompt": [image, code, {"type": "text", "text": "hi"}]}
    for _ in range(2):
        assert chain.request("session/prompt", params)["result"]["stopReason"] == "end_turn"
    said = [text for text in chain.texts(session) if text]
    assert len(said) == 2
    shown = [block["text"] for block in json.loads(said[0])]
    left_out = "[image: image/png, 3 bytes; left out, since this agent takes none in prompts]"
    for words in (left_out, "[resource file:///a.rs]\nfn main", "hi"):
        assert words in shown
    assert any(b"agent_message_chunk" in one.raw for one in rig.log("X", "in"))
    notices = [frame["params"]["update"] for frame in chain.seen("session/update")]
    titles = [update["title"] for update in notices if update["sessionUpdate"] == "notice"]
    assert sorted(title.split("`")[3] for title in titles) == ["image", "resource"]
    assert chain.finish() == 0
    assert chain.stderr.count("takes no blocks of the type `image`") == 1
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [one["component"] for one in records if one["event"] == "adapt"] == ["A"] * 4


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_that_shows_no_images(rig: Rig, tmp_path: Path, version: int) -> None:
    audit = tmp_path / "audit.jsonl"
    chain = rig.agent(rig.x("X"), rig.demo(), options=("--audit", str(audit)))
    shows = {"_meta": {"symposium": {"version": "1.0", "content": ["audio"]}}}
    chain.initialize(
        **({**V2, "capabilities": shows} if version == 2 else {"clientCapabilities": shows})
    )
    session = chain.new_session()
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
    audio = {"type": "audio", "mimeType": "audio/wav", "data": "QUJD"}
    tool = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    said: list[Json] = [
        {"sessionUpdate": "agent_message_chunk", "content": image},
        {"sessionUpdate": "agent_message_chunk", "content": audio},
        {**tool, "content": [{"type": "content", "content": image}, {"type": "diff"}]},
    ]
    for update in said:
        params = json.dumps({"sessionId": session, "update": update})
        chain.answer(chain.start_prompt(session, f"/notify session/update {params}"))
    words = "[image: image/png, 3 bytes; left out, since this editor shows none]"
    text = {"type": "text", "text": words}
    shown = [
        {**said[0], "content": text},
        said[1],
        {**tool, "content": [{"type": "content", "content": text}, {"type": "diff"}]},
    ]

    def got() -> list[Json]:
        updates = [one["params"]["update"] for one in chain.seen("session/update")]
        return [one for one in updates if one in shown]

    chain.until(lambda: len(got()) == 3, "the updates")
    assert got() == shown
    updates = [one.raw for one in rig.log("X", "in") if b'"session/update"' in one.raw]
    assert any(b"image/png" in one and b"QUJD" in one for one in updates)  # components see it
    assert chain.finish() == 0
    assert chain.stderr.count("shows no content of the type `image`") == 1
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [one["component"] for one in records if one["event"] == "adapt"] == ["client"] * 2


REVIEW = """
from guest_sdk.python import Proxy

proxy = Proxy("reviewer")

@proxy.request("session/prompt")
async def prompt(request, following):
    review = request.session.nested("Review")
    await review.prompt("/echo looks good")
    review.say(str(len(await proxy.payload.read(request.text))))
    return await following(request)

if __name__ == "__main__":
    proxy.run()
"""
TAG = "conductor.conversation/subconversation"


FORMS: Final = ("program", "program with a policy", "sandboxed", "in process")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_an_exchange_within_a_turn_is_tagged(rig: Rig, form: str, version: int) -> None:
    (rig.folder / "reviewer.py").write_text(REVIEW)
    trace = rig.folder / "trace.jsons"
    source: Json = {"command": sys.executable, "args": ["reviewer.py"]}
    if form == "sandboxed":
        source = {"component": "./reviewer.py"}
    if form == "in process":
        source = {"component": "py:reviewer:proxy"}
    if form in ("sandboxed", "program with a policy"):
        source |= {"only": "full+command:echo", "ids": "kept"}
    reviewer = json.dumps({**source, "name": "reviewer", "limit.text_bytes": "64KiB"})
    components = rig.x("X"), reviewer, rig.demo()
    path = f"{rig.folder}{os.pathsep}{python_path()}"
    chain = rig.run("agent", "--trace", str(trace), *components, PYTHONPATH=path)
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session()
    answer = chain.answer(chain.start_prompt(session, "/echo " + "é" * 50_000))
    assert "result" in answer, chain.story()
    if version == 2:
        chain.until(lambda: "é" * 50_000 in "".join(chain.texts(session)), "the agent's answer")
    updates = [frame["params"]["update"] for frame in chain.seen("session/update")]
    said = [
        (one["content"]["text"].strip(), (one.get("_meta") or {}).get(TAG, {}).get("title"))
        for one in updates
        if one["sessionUpdate"] == "agent_message_chunk"
    ]
    short = [(text[:12], title) for text, title in said]
    assert short == [("looks good", "Review"), ("50006", "Review"), ("é" * 12, None)], chain.stderr
    assert said[-1][0] == "é" * 50_000
    assert chain.finish() == 0
    shown = conductor("log", "show", str(trace), "--all").out
    assert "┆ says   Review: looks good" in shown
