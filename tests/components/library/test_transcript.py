"""A conversation as data: `transcript`."""

import json
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Conversation, Playground, ProxyError, Record
from tests.components.library.support import FORMS, V2, agent, folders, in_form, play
from tests.harness.process.rig import Chain, Rig

ASK = "_conversation/summarize"
OWN = "conductor.component/transcript"
ADDER = """
from guest_sdk.python import Proxy

proxy = Proxy("adder", rights={})


@proxy.summarize
def about(conversation, session):
    conversation.turns[0].meta[proxy.meta_key] = "first"
    return {"prompts": [one.text for turn in conversation.turns for one in turn.prompts]}


if __name__ == "__main__":
    proxy.run()
"""
GUIDE = """
from guest_sdk.python import Proxy

proxy = Proxy("guide", rights={"context": "to guide"})


@proxy.request("session/prompt")
def prompt(request):
    if "Delete" in request.text:
        request.session.event("walkthrough", "See main.py.", {"file": "main.py"})


if __name__ == "__main__":
    proxy.run()
"""
SAY = "add:replies"


async def summary(p: Playground, session: str = "") -> Conversation:
    """The conversation as the client gets it."""
    result = await p.request(ASK, {"sessionId": session or p.session})
    return Conversation.read(result["conversation"])


async def test_a_session_is_one_conversation_and_forgotten_when_it_is_closed() -> None:
    async with play("transcript", config={"sessions": 2}) as p:
        one, two = await p.new_session("/one"), await p.new_session("/two")
        await p.prompt("a", session=one)
        await p.prompt("b", session=two)
        found = await summary(p, one)
        assert (found.session_id, found.cwd) == (one, "/one")
        turn = found.turns[0]
        assert [[one.text for one in each] for each in (turn.prompts, turn.responses)] == [
            ["a"], ["a"],
        ]  # fmt: skip
        forked = await p.request("session/fork", {"sessionId": one, "cwd": "/one"})
        assert len((await summary(p, forked["sessionId"])).turns) == 1
        with pytest.raises(ProxyError, match="Method not found"):  # of three the oldest is gone
            await summary(p, two)
        await p.request("session/close", {"sessionId": one})
        with pytest.raises(ProxyError, match="Method not found"):
            await summary(p, one)


async def test_what_is_told_again_is_kept_once() -> None:
    def answer(request: Record) -> Any:
        if request.method == "session/load":
            for kind in ("user_message_chunk", "agent_message_chunk"):
                p.agent.update("old", kind, content={"type": "text", "text": kind})
            return {}
        return None

    async with play("transcript", answer=answer) as p:
        for _ in range(2):
            await p.request("session/load", {"sessionId": "old", "cwd": "/"})
        found = await summary(p, "old")
        assert [one.text for one in found.turns[0].prompts] == ["user_message_chunk"]
        assert len(found.turns) == 1
        assert found.turns[0].responses[0].text == "agent_message_chunk"


async def test_whoever_knows_answers_and_errors_stay() -> None:
    async with play("transcript") as p:
        await p.prompt("a")

        def answer(request: Record) -> Any:
            if request.method == ASK:
                raise ProxyError("not now", -32000)
            return None

        p.agent.answer = answer
        with pytest.raises(ProxyError, match="not now"):
            await summary(p)
        p.agent.answer = lambda _: {"conversation": {"turns": [], "mine": 1}}
        found = await summary(p)
        assert (found.turns, found.more) == ([], {"mine": 1})
        assert found.meta[OWN] == {"turns": 1, "events": []}
        asked = p.agent.request(
            "_conversation/augment", {"sessionId": p.session, "conversation": {"turns": 1}}
        )
        with pytest.raises(ProxyError, match="`/conversation/turns` is no list"):
            p.result("s", asked)


def test_one_at_each_end_keeps_what_the_agent_got_and_what_the_user_saw(
    rig: Rig, tmp_path: Path
) -> None:
    (tmp_path / "guide.py").write_text(GUIDE)
    guide = in_form("sandboxed", str(tmp_path / "guide.py"), allow=SAY)
    chain = agent(rig, "transcript", guide, "datetime", "transcript", rig.demo())
    chain.initialize()
    session = chain.new_session()
    for text in ("/echo Look", "Delete it"):
        assert "result" in chain.answer(chain.start_prompt(session, text))
    answer = chain.request(ASK, {"sessionId": session})["result"]["conversation"]
    for number, text in enumerate(("/echo Look", "Delete it")):
        turn = Conversation.read(answer).turns[number]
        assert "<current-date" in turn.prompts[0].text
        seen = {"turns": [{"items": turn.meta[OWN]["items"]}]}
        (shown,) = Conversation.read(seen).turns
        assert [one.text for one in shown.prompts] == [text]
        assert [one.text for one in shown.events] == ["See main.py."] * number
        assert not turn.events
    assert [*answer["_meta"]] == ["conductor.component/transcript-2", OWN]


def idle(chain: Chain) -> int:
    """How many turns are over, in version 2."""
    said = [one["params"]["update"] for one in chain.seen("session/update")]
    return sum(one.get("state") == "idle" for one in said)


def take_turn(chain: Chain, session: str, text: str, version: int, turns: int) -> None:
    """A turn; a question of the agent's is answered by its first option."""

    def allow(asked: dict[str, Any]) -> dict[str, Any]:
        first = asked["options"][0]["optionId"]
        return {"outcome": {"outcome": "selected", "optionId": first}}

    chain.serves["session/request_permission"] = allow
    assert "result" in chain.answer(chain.start_prompt(session, text)), chain.story()
    if version == 2:
        chain.until(lambda: idle(chain) == turns, "the end of the turn")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_in_every_form(rig: Rig, form: str, version: int, tmp_path: Path) -> None:
    is_guest = form == "sandboxed"
    (tmp_path / "adder.py").write_text(ADDER)
    adder = in_form(
        form, str(tmp_path / "adder.py"), **({"allow": f"extension:{ASK}"} if is_guest else {})
    )
    (tmp_path / "guide.py").write_text(GUIDE)
    guide = in_form(form, str(tmp_path / "guide.py"), **({"allow": SAY} if is_guest else {}))
    components = adder, in_form(form, "transcript"), guide
    path = folders("transcript", str(tmp_path / "adder.py"))
    chain = agent(rig, *components, rig.demo(), PYTHONPATH=path)
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session()
    presented = {"turns": [], "_meta": {"agent": 1}}
    params = json.dumps({"sessionId": session, "conversation": presented})
    said = ("/toolcall Look", "/permission Delete it", f"/ext _conversation/augment {params}")
    for number, text in enumerate(said):
        take_turn(chain, session, text, version, number + 1)
    answer = chain.request(ASK, {"sessionId": session})
    found = Conversation.read(answer["result"]["conversation"])
    assert found.json() == answer["result"]["conversation"]
    assert [turn.prompts[0].text for turn in found.turns] == list(said)
    (used,) = found.turns[0].tool_uses
    assert (used.title, used.status) == ("Look", "completed")
    assert [turn.stop_reason for turn in found.turns] == ["end_turn"] * 3
    assert [(one.kind, one.text) for one in found.turns[1].events] == [
        ("walkthrough", "See main.py."), ("approval", "Delete it: Allow once"),
    ]  # fmt: skip
    assert found.turns[1].events[0].data == {"file": "main.py"}
    assert "See main.py." in chain.texts(session)
    assert found.turns[0].meta == {"conductor.component/adder": "first"}
    assert found.meta["conductor.component/adder"] == {"prompts": list(said)}
    assert found.meta[OWN]["events"][0]["turn"] == 1
    augmented = json.loads(found.turns[2].responses[0].text)["conversation"]
    assert augmented["_meta"]["agent"] == 1
    assert augmented["_meta"][OWN]["turns"] == 3
    assert chain.finish() == 0, chain.story()
    assert "refused" not in chain.stderr
