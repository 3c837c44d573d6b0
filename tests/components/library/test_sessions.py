"""Sessions that are kept, and begun with a history: `sessions`."""

import json
from typing import Any

import pytest

from guest_sdk.python import Playground, Proxy, ProxyError, Record
from tests.components.library.support import (
    FORMS,
    V2,
    agent,
    folders,
    in_form,
    load,
    received,
)
from tests.harness.process.rig import Chain, Rig

GRANTS = ("storage", "clock")
TURN = {
    "items": [
        {"type": "prompt", "content": [{"type": "text", "text": "What is up?"}]},
        {"type": "response", "content": [{"type": "text", "text": "The sky."}]},
    ]
}
HISTORY = {"turns": [TURN, TURN, TURN]}
OPENED = {"cwd": "/project", "mcpServers": [{"name": "m"}]}


def forgetful(request: Record) -> Any:
    """An agent that loads no sessions."""
    if request.method in ("session/load", "session/resume"):
        raise ProxyError("no such session", -32002)
    return None


def restarted(p: Playground, proxy: Proxy[Any]) -> Playground:
    """The next run of a conductor: another agent, the same store."""
    after = Playground(proxy, grants=GRANTS, answer=forgetful)
    after.services.store = p.services.store
    return after


def texts(p: Playground) -> list[tuple[str, str]]:
    """The texts that the client was shown, by kind."""
    said = [one.raw["params"]["update"] for one in p.heard if one.method == "session/update"]
    return [(one["sessionUpdate"], one["content"]["text"]) for one in said if "content" in one]


async def test_a_session_goes_on_after_everything_was_restarted() -> None:
    async with Playground(load("sessions"), grants=GRANTS) as p:
        one, two = await p.new_session(), await p.new_session()
        await p.prompt("a", session=two)
        await p.prompt("b", session=two)
        assert one == "session-1"
    async with restarted(p, load("sessions")) as after:
        result = await after.initialize()
        assert result["agentCapabilities"]["loadSession"] is True
        listed = await after.request("session/list", {"cwd": "/project"})
        assert [(one["sessionId"], one["title"]) for one in listed["sessions"]] == [(two, "a")]
        assert await after.request("session/load", {"sessionId": two, **OPENED}) == {}
        assert texts(after) == [
            ("user_message_chunk", "a"), ("agent_message_chunk", "a"),
            ("user_message_chunk", "b"), ("agent_message_chunk", "b"),
        ]  # fmt: skip
        new = next(one for one in after.agent.requests if one.method == "session/new")
        assert new.raw["params"] == OPENED
        turn = await after.prompt("c", session=two)
        assert turn.text == "c"
        told, last = after.agent.prompts
        assert "User: a\nYou: a\n\nUser: b\nYou: b" in told
        assert last == "c"
        # The agent counts from 1 again, and would give another session's id.
        assert await after.new_session() == "session-2~2"
        assert (await after.prompt("d")).text == "d"
        after.agent.say("session-1", "late")
        assert after.heard[-1].params.session_id == two
        # The client cannot load a session that it does not know.
        with pytest.raises(ProxyError, match="no session `session-1`"):
            await after.request("session/load", {"sessionId": "session-1", **OPENED})
        await after.request("session/load", {"sessionId": two, **OPENED})
        assert [said for _, said in texts(after)][-6:] == ["a", "a", "b", "b", "c", "c"]
        await after.request("session/delete", {"sessionId": two})
        left = await after.request("session/list", {})
        assert [one["sessionId"] for one in left["sessions"]] == ["session-2~2"]
    async with restarted(after, load("sessions")) as third:
        await third.request("session/load", {"sessionId": "session-2~2", **OPENED})
        await third.request("session/close", {"sessionId": "session-2~2"})
        assert [await third.new_session() for _ in range(2)] == ["session-2", "session-3"]
        assert (await third.prompt("e", session="session-2")).text == "e"
    async with restarted(third, load("sessions")) as fourth:
        assert [await fourth.new_session() for _ in range(2)] == ["session-1", "session-2"]
        assert (await fourth.prompt("f")).text == "f"
        all_of = await fourth.request("session/list", {})
        titles = {one["sessionId"]: one["title"] for one in all_of["sessions"]}
        assert titles == {"session-2": "f", "session-2~2": "d", "session-2~3": "e"}


async def test_no_other_folder_and_nothing_that_is_not_kept_is_loaded() -> None:
    async with Playground(load("sessions"), grants=GRANTS, answer=forgetful) as p:
        await p.prompt("a")
        with pytest.raises(ProxyError, match="belongs to another folder"):
            await p.request("session/load", {"sessionId": p.session, "cwd": "/elsewhere"})
        with pytest.raises(ProxyError, match="no session"):
            await p.request("session/load", {"sessionId": "x" * 5000, "cwd": "/project"})
        assert (await p.prompt("b")).text == "b"


@pytest.mark.parametrize("native", [False, True])
async def test_a_session_begins_with_a_history(native: bool) -> None:
    def answer(request: Record) -> Any:
        if request.method == "initialize" and native:
            meta = {"conductor.conversation/history": True}
            return {"protocolVersion": 1, "agentCapabilities": {"_meta": meta}}
        return None

    async with Playground(load("sessions"), grants=GRANTS, answer=answer) as p:
        await p.initialize()
        meta = {"other": 1, "conversation": HISTORY}
        session = await p.new_session(_meta=meta)
        given = p.agent.requests[-1].raw["params"]["_meta"]
        assert given == (meta if native else {"other": 1})
        assert (await p.prompt("and now?")).text == "and now?"
        assert texts(p) == [("agent_message_chunk", "and now?")]
        assert len(p.agent.prompts) == (1 if native else 2)
        assert p.agent.prompts[0].count("You: The sky.") == (0 if native else 3)
        p.agent.answer = forgetful
        await p.request("session/load", {"sessionId": session, "cwd": "/project"})
        assert len(texts(p)) == 1 + 8


async def test_bad_histories_are_refused_by_name_and_large_ones_cut() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"_meta": deep}
    async with Playground(load("sessions"), grants=GRANTS) as p:
        for held, sentence in (
            ("x", "`/_meta/conversation` is no object"),
            ({"turns": [1]}, "`/_meta/conversation/turns/0` is no object"),
            ({"turns": [], "_meta": deep}, "200 levels"),
        ):
            with pytest.raises(ProxyError, match=sentence):
                await p.new_session(_meta={"conversation": held})
        large = {"type": "response", "content": [{"type": "text", "text": "x" * 400_000}]}
        turns = [{"items": [large]}, *([TURN] * 4000)]
        await p.new_session(_meta={"conversation": {"turns": turns}})
        await p.prompt("go on")
        assert len(p.agent.prompts[0]) < 110_000
        assert "turns are left out" in p.agent.prompts[0]


async def test_a_full_store_forgets_what_is_oldest() -> None:
    async with Playground(load("sessions"), grants=GRANTS) as p:
        stored: list[int] = []

        def size() -> int:
            return sum(len(json.dumps(one)) for one in p.services.store.values())

        for number in range(12):
            await p.new_session()
            p.services.advance(60)
            for _ in range(4):
                await p.prompt(f"{number}" * 90_000)
            stored.append(size())
        assert max(stored) <= 4 * 1024 * 1024
        listed = await p.request("session/list", {})
        ids = [one["sessionId"] for one in listed["sessions"]]
        assert ids[0] == "session-12"
        assert 2 < len(ids) < 12
        assert any("the store is full" in one for one in p.services.log)


async def test_without_the_store_the_conversation_goes_on() -> None:
    async with Playground(load("sessions"), grants=()) as p:
        assert (await p.prompt("a")).text == "a"
        assert (await p.prompt("b")).text == "b"
        assert sum("is not kept" in one for one in p.services.log) == 2


def idle(chain: Chain) -> int:
    """How many turns are over, in version 2."""
    said = [one["params"]["update"] for one in chain.seen("session/update")]
    return sum(one.get("state") == "idle" for one in said)


def take_turn(chain: Chain, session: str, text: str, version: int) -> str:
    """Plays a turn; the result is the agent's text."""
    before, over = len(chain.texts(session)), idle(chain)
    assert "result" in chain.answer(chain.start_prompt(session, text)), chain.story()
    if version == 2:
        chain.until(lambda: idle(chain) == over + 1, "the end of the turn")
    return "".join(chain.texts(session)[before:])


def shown(chain: Chain) -> list[str]:
    """The words that the client was shown, in order."""
    found = []
    for one in chain.seen("session/update"):
        held = one["params"]["update"].get("content")
        blocks = held if isinstance(held, list) else [held]
        found += [block.get("text", "") for block in blocks if isinstance(block, dict)]
    return found


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_in_every_form(rig: Rig, form: str, version: int) -> None:
    sessions, path = in_form(form, "sessions"), folders("sessions")
    setup = {"cwd": "/", "mcpServers": []}
    first = agent(rig, sessions, rig.demo(), PYTHONPATH=path)
    first.initialize(**(V2 if version == 2 else {}))
    session = first.new_session(_meta={"conversation": HISTORY})
    assert session == "demo-1"
    said = take_turn(first, session, "/history", version)
    turns = [one["prompt"][0]["text"] for one in json.loads(said)["turns"]]
    assert len(turns) == 2
    assert turns[0].count("You: The sky.") == 3
    assert "What is up?" not in "".join(shown(first)).replace(said, "")
    take_turn(first, session, "/toolcall Look", version)
    assert first.finish() == 0, first.story()

    again = agent(rig, sessions, rig.demo(name="B"), PYTHONPATH=path)
    again.initialize(**(V2 if version == 2 else {}))
    more = {"replayFrom": {"type": "start"}} if version == 2 else {}
    method = "session/load" if version == 1 else "session/resume"
    answer = again.request(method, {"sessionId": session, **setup, **more})
    assert "result" in answer, again.story()
    words = [text for text in shown(again) if text in ("What is up?", "The sky.", "/history", said)]
    assert words == ["What is up?", "The sky."] * 3 + ["/history", said]
    tools = [one["params"]["update"] for one in again.seen("session/update")]
    assert [one["title"] for one in tools if "toolCallId" in one] == ["Look"]
    seen = len(again.frames)
    history = take_turn(again, session, "/history", version)
    told = json.loads(history)["turns"][0]["prompt"][0]["text"]
    assert told.count("You: The sky.") >= 3
    assert "(You used: Look)" in told
    assert "conversation-so-far" not in json.dumps(again.frames[seen:]).replace(
        json.dumps(history)[1:-1], ""
    )
    assert again.new_session() == "demo-2"
    assert again.finish() == 0, again.story()
    assert [one["params"]["sessionId"] for one in again.seen("session/update")]
    assert len(received(rig, "session/prompt")) == 3
