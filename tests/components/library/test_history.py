"""Session history and context management: `history`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record, text
from guest_sdk.python.playground import Agent
from tests.components.library.support import component, play, received
from tests.harness.process.rig import Rig

SMALL = {"tokens": 10, "summary": False}
"""A limit of forty characters, as far as the agent does not count."""
LONG = "x" * 60


def sent(p: Playground, method: str = "session/prompt") -> list[tuple[str, Any]]:
    """The session and the blocks (or all parameters) of the agent's requests."""
    asked = [one.raw["params"] for one in p.agent.requests if one.method == method]
    if method != "session/prompt":
        return [(one.get("sessionId", ""), one) for one in asked]
    return [(one["sessionId"], [b.get("text") for b in one["prompt"]]) for one in asked]


def told(p: Playground, at: int = -1) -> str:
    """The block of a prompt that told the agent of the conversation so far."""
    block: str = sent(p)[at][1][0]
    assert block.startswith("<conversation-so-far>")
    return block


def seen(p: Playground) -> list[tuple[str, str]]:
    """The session and the text of each update the client got."""
    updates = [one.raw["params"] for one in p.heard if one.raw["method"] == "session/update"]
    return [(u["sessionId"], (u["update"].get("content") or {}).get("text", "")) for u in updates]


async def test_a_long_session_goes_on_in_a_fresh_one_with_its_facts() -> None:
    async with play("history", config={**SMALL, "keep": 1, "facts": ["^TODO"]}) as p:
        one = await p.new_session("/a", mcpServers=[{"name": "m", "command": "c"}], _meta={"k": 1})
        await p.prompt("Remember: tabs, not spaces\nhello")
        assert p.agent.prompts == ["Remember: tabs, not spaces\nhello"]
        await p.prompt(f"/remember ask Ada first\n{LONG}")
        turn = await p.prompt("go on\nTODO: tests")
        assert turn.stop_reason == "end_turn"
        assert {session for session, _ in seen(p)} == {one}
        assert sent(p, "session/new")[-1][1] == {
            "cwd": "/a", "mcpServers": [{"name": "m", "command": "c"}], "_meta": {"k": 1},
        }  # fmt: skip
        assert [session for session, _ in sent(p)] == ["session-1", "session-2", "session-3"]
        assert "- tabs, not spaces" in told(p, 1)
        assert "hello" not in told(p, 1)  # it takes more than half of the room
        assert sent(p)[1][1][1] == f"Remember: ask Ada first\n{LONG}"
        assert "- ask Ada first" in told(p)
        assert LONG not in told(p)
        await p.prompt(LONG)
        await p.prompt("end")
        assert "- TODO: tests" in told(p)


async def test_how_much_is_kept() -> None:
    async with play("history", config={"tokens": 1000, "summary": False, "keep": 2}) as p:
        await p.new_session()
        for said in ("one", "two", "y" * 1000, "z" * 2500):
            await p.prompt(said)
        await p.prompt("three")
        assert "turns" not in told(p)  # the last one alone takes more than half of the room
    config = {"tokens": 1000, "summary": False, "keep": 2, "turn_chars": 30}
    async with play("history", config=config) as p:
        for said in ("one", "two", "y" * 1000, "z" * 2500):
            await p.prompt(said)
        p.agent.update(p.session, "tool_call", toolCallId="1", title="Read x.py")
        await p.prompt("three")
        middle = f"{'y' * 20} […] {'y' * 10}"
        assert f"User: {middle}\nYou: {middle}" in told(p)
        assert "(You used: Read x.py)" in told(p)
        assert "User: two" not in told(p)


async def test_what_the_agent_counts_itself_counts() -> None:
    for config, used, moves in (
        ({"tokens": 500}, 499, False),
        ({"tokens": 500}, 500, True),
        ({"tokens": 0, "part": 0.5}, 499, False),
        ({"tokens": 0, "part": 0.5}, 500, True),
        ({"tokens": 0, "part": 0}, 5000, False),
        ({"tokens": 500, "part": 0.9}, 600, True),
    ):
        async with play("history", config={**config, "summary": False}) as p:
            await p.prompt("a")
            p.agent.update(p.session, "usage_update", used=used, size=1000)
            await p.prompt("b")
            assert (sent(p)[-1][0] == "session-2") is moves, (config, used)
            await p.prompt("c")
            assert len(sent(p, "session/new")) == 1 + moves  # the new one has not been counted


def sums_up(p: Playground, summary: str = "It is about foxes.") -> Callable[[Record], Any]:
    """An agent that can sum up."""

    def answer(request: Record) -> Any:
        if request.method != "session/prompt" or "<sum-up>" not in str(request.raw["params"]):
            return None
        session = request.params.session_id
        p.agent.update(session, "tool_call", toolCallId="1", title="hidden")
        p.agent.update(session, "usage_update", used=50, size=100)
        p.agent.say(session, summary)
        return {"stopReason": "end_turn"}

    return answer


async def test_a_summary_is_asked_for_behind_the_users_back() -> None:
    async with play("history", config={"tokens": 10, "keep": 0, "note": "message"}) as p:
        p.agent.answer = sums_up(p)
        await p.prompt(LONG)
        turn = await p.prompt("b")
        assert [one[0] for one in sent(p)] == ["session-1", "session-1", "session-2"]
        assert sent(p)[1][1][0].startswith("<sum-up>\nThis conversation is about")
        assert "Summary of all before:\nIt is about foxes.\n</conv" in told(p)
        note = (
            "[history: the conversation was long; the agent goes on with a summary]\n\n"
            f"{told(p)}\nb"
        )
        assert turn.text == note
        assert [u.raw["sessionUpdate"] for u in turn.updates][:2] == [
            "usage_update", "agent_message_chunk",
        ]  # fmt: skip
        p.agent.answer = sums_up(p, "")
        await p.prompt(LONG)
        await p.prompt("c")
        assert "It is about foxes." in told(p)  # better an old one than none


@pytest.mark.parametrize("note", ["thought", "message", "none"])
async def test_how_the_user_is_told(note: str) -> None:
    async with play("history", config={**SMALL, "note": note}) as p:
        await p.prompt(LONG)
        turn = await p.prompt("b")
        kinds = [u.raw["sessionUpdate"] for u in turn.updates if "[history:" in str(u.raw)]
        expected = {"thought": ["agent_thought_chunk"], "message": ["agent_message_chunk"]}
        assert kinds == expected.get(note, [])


async def test_all_that_concerns_the_session_finds_it() -> None:
    config = {**SMALL, "keep": 0}
    async with play("history", config=config, client=lambda _: {"outcome": "x"}) as p:
        p.agent.answer = lambda one: {} if "set_" in one.method else None
        one, two = await p.new_session(), await p.new_session()
        mode = {"sessionId": one, "modeId": "ask"}
        await p.request("session/set_mode", mode)
        await p.prompt(LONG, session=one)
        p.agent.update(one, "current_mode_update", currentModeId="code")
        await p.prompt("b", session=one)
        assert [session for session, _ in sent(p)] == [one, "session-3"]
        assert sent(p, "session/set_mode")[-1][1] == {"sessionId": "session-3", "modeId": "code"}
        await p.prompt("c", session=two)
        assert sent(p)[-1] == (two, ["c"])

        await p.request("session/set_mode", mode)
        assert sent(p, "session/set_mode")[-1][0] == "session-3"
        asked = p.agent.request("session/request_permission", {"sessionId": "session-3", "n": 1})
        assert p.heard[-1].raw["params"] == {"sessionId": one, "n": 1}
        assert p.result("s", asked) == {"outcome": "x"}
        p.agent.answer = lambda _: Agent.HOLD
        turn = await p.start_prompt("d", session=one)
        p.notify("session/cancel", {"sessionId": one})
        assert p.agent.notifications[-1].raw["params"] == {"sessionId": "session-3"}
        p.agent.reply(p.agent.requests[-1], {"stopReason": "cancelled"})
        assert p.result("p", turn) == {"stopReason": "cancelled"}
        p.agent.answer = None
        await p.request("session/close", {"sessionId": one})
        assert [session for session, _ in sent(p, "session/close")] == ["session-3", one]
        p.agent.update(two, "plan", entries=[])
        assert p.heard[-1].raw["params"]["sessionId"] == two


async def test_it_moves_when_nothing_goes_on_and_no_command_has_to_come_first() -> None:
    async with play("history", config=SMALL) as p:
        await p.prompt(LONG)
        p.agent.answer = lambda one: Agent.HOLD if one.method == "session/prompt" else None
        first = await p.start_prompt("/compact")
        second = await p.start_prompt("b")
        assert [session for session, _ in sent(p)] == ["session-1"] * 3
        p.agent.answer = None
        for request in p.agent.requests[-2:]:
            p.agent.reply(request, {"stopReason": "end_turn"})
        assert p.result("p", first) == p.result("p", second)
        await p.prompt("c")
        assert sent(p)[-1][0] == "session-2"


async def test_no_other_session_to_be_had() -> None:
    async with play("history", config=SMALL) as p:
        await p.prompt(LONG)

        def answer(request: Record) -> Any:
            if request.method == "session/new":
                raise ProxyError("one is enough")
            return None

        p.agent.answer = answer
        assert (await p.prompt("b")).text == "b"
        assert (await p.prompt("c")).text == "c"
        (logged,) = p.services.log
        assert logged.startswith("warn: the session grows on")
        assert logged.endswith("one is enough")
        p.agent.answer = None
        for _ in range(10):
            assert sent(p)[-1][0] == "session-1"
            await p.prompt("d")
        assert sent(p)[-1][0] == "session-2"


async def test_cancelled_while_it_sums_up() -> None:
    async with play("history", config={"tokens": 10}) as p:
        await p.prompt(LONG)
        p.agent.answer = lambda one: Agent.HOLD if "<sum-up>" in str(one.raw["params"]) else None
        turn = await p.start_prompt("b")
        p.notify("session/cancel", {"sessionId": p.session})
        assert p.result("p", turn) == {"stopReason": "cancelled"}
        asked = p.agent.requests[-1]
        p.agent.say(p.session, "still hidden")
        p.agent.reply(asked, {"stopReason": "cancelled"})
        p.agent.answer = sums_up(p)
        assert (await p.prompt("c")).stop_reason == "end_turn"
        assert sent(p)[-1][0] == "session-2"
        assert "still hidden" not in str(p.heard)


async def test_version_two() -> None:
    async with play("history", config=SMALL) as p:
        p.agent.answer = lambda one: {"messageId": "m"} if one.method == "session/prompt" else None
        session = await p.new_session()
        await p.start_prompt(LONG)
        p.agent.update(session, "agent_message", messageId="1", content=[text("well")])
        await p.start_prompt("b")
        assert [one for one, _ in sent(p)] == [session] * 2  # its turn is not over
        p.agent.update(session, "state_update", state="idle", stopReason="end_turn")
        await p.start_prompt("c")
        assert sent(p)[-1][0] == "session-2"
        blocks = [text(told(p)), text("c")]
        p.agent.update("session-2", "user_message", messageId="2", content=blocks)
        assert p.heard[-1].raw["params"] == {
            "sessionId": session,
            "update": {"sessionUpdate": "user_message", "messageId": "2", "content": [text("c")]},
        }


def remembers(
    p: Playground, past: dict[str, list[tuple[str, str]]], new: str = "session"
) -> Callable[[Record], Any]:
    """An agent that keeps its sessions in `past`, and tells them again when they are loaded; new
    ones are called `new` and a number."""

    def answer(request: Record) -> Any:
        params = request.raw["params"]
        session = params.get("sessionId", "")
        if request.method == "session/prompt":
            said = "Foxes." if "<sum-up>" in str(params) else "ok"
            turn = [("user_message_chunk", b["text"]) for b in params["prompt"]]
            past[session] += [*turn, ("agent_message_chunk", said)]
            p.agent.say(session, said)
            return {"stopReason": "end_turn"}
        if request.method in ("session/load", "session/resume") and session not in past:
            raise ProxyError(f"there is no {session}", -32002)
        if request.method == "session/load":
            for kind, said in past[session]:
                p.agent.update(session, kind, content=text(said))
            return {"sessionId": session}  # some agents repeat it
        if request.method == "session/new":
            past[f"{new}-{len(past) + 1}"] = []
            return {"sessionId": list(past)[-1]}
        if request.method == "session/delete":
            del past[session]
            return {}
        if request.method == "session/list":
            return {"sessions": [{"sessionId": one} for one in past]}
        return None

    return answer


async def test_loaded_again_it_is_whole_and_shows_nothing_that_was_hidden() -> None:
    async with play("history", config={"tokens": 10, "keep": 1, "note": "none"}) as p:
        past: dict[str, list[tuple[str, str]]] = {}
        p.agent.answer = remembers(p, past)
        one = await p.new_session()
        for said in (f"Remember: tabs\n{LONG}", f"b {LONG}", "c"):
            await p.prompt(said)
        assert [session for session, _ in sent(p)] == [
            one, one, "session-2", "session-2", "session-3",
        ]  # fmt: skip
        p.heard.clear()
        load = {"sessionId": one, "cwd": "/project", "mcpServers": []}
        whole = [
            (one, said) for said in (f"Remember: tabs\n{LONG}", "ok", f"b {LONG}", "ok", "c", "ok")
        ]
        await p.request("session/load", load)
        assert seen(p) == whole
        assert await p.request("session/list", {}) == {"sessions": [{"sessionId": one}]}

        # Another day, another instance: it knows from what was kept.
        other = play("history", config={"tokens": 10, "keep": 1, "note": "none"})
        other.services.store.update(p.services.store)
    async with other as p:
        p.agent.answer = remembers(p, past)
        assert await p.request("session/list", {}) == {"sessions": [{"sessionId": one}]}
        assert await p.request("session/load", load) == {"sessionId": one}
        assert seen(p) == whole
        await p.prompt("e", session=one)  # what was told again is too much already
        assert "- tabs" in told(p)
        assert "Foxes." in told(p)
        store = dict(p.services.store)
        await p.request("session/delete", {"sessionId": one})
        assert (p.services.store, past) == ({}, {})
    # Started again in the midst of it, it knows too.
    again = play("history", config=SMALL)
    again.services.store.update(store)
    async with again as p:
        await p.prompt("f", session=one)
        assert sent(p) == [(store["project", f"session/{one}"]["agent"], ["f"])]
        assert seen(p)[-1] == (one, "f")


async def test_what_the_agent_has_no_more_is_not_the_end_of_a_session() -> None:
    async with play("history", config={**SMALL, "note": "none"}) as p:
        past: dict[str, list[tuple[str, str]]] = {}
        p.agent.answer = remembers(p, past)
        one = await p.new_session()
        for said in (f"Remember: tabs\n{LONG}", f"b {LONG}", "c"):
            await p.prompt(said)
    lost = past["session-3"]
    load = {"sessionId": one, "cwd": "/project", "mcpServers": []}
    for method in ("session/load", "session/resume"):
        del past["session-3"]
        async with restarted(p, note="none") as again:
            again.agent.answer = remembers(again, past, "later")
            answer = await again.request(method, load)
            assert answer.get("sessionId", one) == one
            told_again = [said for _, said in seen(again)]
            whole = [f"Remember: tabs\n{LONG}", "ok", f"b {LONG}", "ok"]
            assert told_again == (whole if method == "session/load" else [])
            assert "session-3 is lost" in str(again.services.log)
            await again.prompt("d", session=one)  # it was full, and is left again
            assert "- tabs" in told(again)
            assert sent(again)[-1][0] == "later-3"
        past["session-3"] = past.pop("later-3")
    # An agent that has none of it now may have all of it later.
    async with restarted(p) as again:
        again.agent.answer = remembers(again, {})
        with pytest.raises(ProxyError, match="session-3"):
            await again.request("session/resume", load)
        past["session-3"] = lost
        again.agent.answer = remembers(again, past)
        await again.request("session/load", load)
        assert seen(again)[-2:] == [(one, "c"), (one, "ok")]


def restarted(p: Playground, **config: Any) -> Playground:
    """The same proxy started again: all it knows is what it kept."""
    again = play("history", config={**SMALL, **config})
    again.services.store.update(p.services.store)
    return again


async def test_started_again_it_goes_on_as_before() -> None:
    async with play("history", config=SMALL) as p:
        p.agent.answer = lambda one: {} if "set_" in one.method else None
        servers = [{"name": "m", "command": "c", "args": [], "env": []}]
        one = await p.new_session("/a", mcpServers=servers, _meta={"k": 1})
        await p.prompt("Remember: tabs", session=one)
        await p.request("session/set_mode", {"sessionId": one, "modeId": "code"})
    async with restarted(p) as p:
        answers = {"session/set_mode": {}, "session/new": {"sessionId": "fresh"}}
        p.agent.answer = lambda one: answers.get(one.method)
        await p.prompt(LONG, session=one)
        await p.prompt("b", session=one)
        setup = {"cwd": "/a", "mcpServers": servers, "_meta": {"k": 1}}
        assert sent(p, "session/new") == [("", setup)]
        assert [session for session, _ in sent(p)] == [one, "fresh"]
        assert "- tabs" in told(p)
        assert sent(p, "session/set_mode")[-1][1] == {"sessionId": "fresh", "modeId": "code"}
        assert p.services.log == []
    former = p.services
    async with restarted(p) as p:
        # A turn of before is still going on; nobody has prompted yet. The conductor is the same.
        p.services.bound, p.services.above = former.bound, former.above
        p.agent.update("fresh", "agent_message_chunk", content=text("late"))
        assert seen(p) == [(one, "late")]
        p.agent.answer = lambda one: {} if "set_" in one.method else None
        await p.request("session/set_mode", {"sessionId": one, "modeId": "ask"})
        assert sent(p, "session/set_mode")[-1][0] == "fresh"


async def test_ids_that_an_agent_gives_a_second_time() -> None:
    async with play("history", config=SMALL) as p:
        one = await p.new_session()
        await p.prompt(LONG, session=one)
        await p.prompt("b", session=one)
        assert sent(p)[-1][0] == "session-2"
    async with restarted(p) as p:
        sessions = [await p.new_session(), await p.new_session()]
        assert sessions == [one, "session-2"]
        for session in sessions:
            await p.prompt(f"to {session}", session=session)
        assert seen(p) == [(session, f"to {session}") for session in sessions]
        listed = {"sessions": [{"sessionId": session} for session in sessions]}
        p.agent.answer = lambda _: listed
        assert len((await p.request("session/list", {}))["sessions"]) == 2


async def test_ids_that_each_of_the_agents_sessions_counts_anew() -> None:
    async with play("history", config=SMALL) as p:
        one, gives = await p.new_session(), Agent.HOLD
        p.agent.answer = lambda asked: gives if asked.method == "session/prompt" else None

        async def turn(said: str, session: str, shown: str) -> None:
            answer = await p.start_prompt(said, session=one)
            p.agent.update(session, "tool_call", toolCallId="1", title="Look")
            p.agent.update(session, "tool_call_update", toolCallId="1", status="completed")
            p.agent.update(session, "agent_message", messageId="m", content=[text("seen")])
            asked = {"sessionId": session, "toolCall": {"toolCallId": "1"}, "options": []}
            p.agent.request("session/request_permission", asked)
            p.agent.reply(p.agent.requests[-1], {"stopReason": "end_turn", "messageId": "m"})
            heard = [record.raw["params"] for record in p.heard[-4:]]
            assert [held["sessionId"] for held in heard] == [one] * 4
            assert [held["update"].get("toolCallId") for held in heard[:2]] == [f"1{shown}"] * 2
            assert heard[2]["update"]["messageId"] == f"m{shown}"
            assert heard[3]["toolCall"] == {"toolCallId": f"1{shown}"}
            assert p.result("p", answer) == {"stopReason": "end_turn", "messageId": f"m{shown}"}

        await turn(LONG, one, "")
        await turn(LONG, "session-2", "@session-2")
        await turn("b", "session-3", "@session-3")


@pytest.mark.parametrize(
    "secret",
    [
        {"name": "m", "command": "c", "env": [{"name": "KEY", "value": "hush"}]},
        {"name": "m", "url": "https://x", "headers": [{"name": "Authorization", "value": "hush"}]},
    ],
)
async def test_secrets_of_a_setup_are_not_written_down(secret: Any) -> None:
    async with play("history", config=SMALL) as p:
        one = await p.new_session("/a", mcpServers=[secret])
        await p.prompt("Remember: tabs", session=one)
        assert "hush" not in str(p.services.store)
    async with restarted(p) as p:
        await p.prompt(LONG, session=one)
        assert (await p.prompt("b", session=one)).text == "b"
        assert sent(p, "session/new") == []
        (logged,) = p.services.log
        assert "how it was opened is forgotten; load it again" in logged
        await p.request("session/load", {"sessionId": one, "cwd": "/a", "mcpServers": [secret]})
        for _ in range(10):
            await p.prompt(LONG, session=one)
        assert sent(p, "session/new")[-1][1]["mcpServers"] == [secret]


async def test_the_sessions_that_are_kept_are_few() -> None:
    async with play("history", config=SMALL) as p:
        sessions = [await p.new_session() for _ in range(20)]
        assert list(p.services.store["project", "recent"]) == sessions[-16:]


async def test_what_a_session_begins_with_is_told_and_not_kept_as_its_setup() -> None:
    items: list[Any] = [
        {"type": "prompt", "content": [text("Where is it?")]},
        {"type": "response", "content": [text("hm")], "thought": True},
        {"type": "toolUse", "toolCallId": "t", "title": "Find it"},
        {"type": "response", "content": [text("There.")]},
    ]
    for conversation in ({"turns": [{"items": items}]}, {"turns": "none"}):
        async with play("history", config={**SMALL, "tokens": 100}) as p:
            await p.new_session("/a", _meta={"k": 1, "conversation": conversation})
            await p.prompt("a")
            p.agent.update(p.session, "usage_update", used=500, size=1000)
            await p.prompt("b")
            first, second = (params for _, params in sent(p, "session/new"))
            assert first["_meta"]["conversation"] == conversation
            assert second["_meta"] == {"k": 1}
            assert "conversation" not in str(p.services.store["project", "recent"])
            assert ("You: There." in told(p)) is ("items" in str(conversation))


# -- through the real program ----------------------------------------------------------------------


def sessions_of(rig: Rig, method: str) -> list[str]:
    """The sessions of what the agent got by this method."""
    return [one["sessionId"] for one in received(rig, method)]


def test_behind_a_real_agent(rig: Rig) -> None:
    config = {"tokens": 75, "keep": 1, "ask": "Sum up.", "facts": ["^TODO"]}
    folder = str(rig.folder / "state")
    parts = ("tools-demo", component("history", config), rig.demo("--modes", "--acp"))
    chain = rig.run("agent", *parts, XDG_STATE_HOME=folder, XDG_DATA_HOME=folder)
    one = chain.begin()
    other = chain.new_session()
    chain.request("session/set_mode", {"sessionId": one, "modeId": "code"})
    for said in (f"Remember: the fox is red\n{LONG}", f"TODO: feed it\n{LONG}", "and now?"):
        chain.prompt(one, said)
    fresh = received(rig, "session/prompt")[-1]["sessionId"]
    assert sessions_of(rig, "session/prompt") == [one, one, one, fresh]
    assert received(rig, "session/new")[2]["cwd"] == "/"

    # The agent was told the facts, its own summary and the last turn; not the first turn.
    (turn,) = json.loads(chain.prompt(one, "/history"))["turns"][:-1]
    told = turn["prompt"][0]["text"]
    assert "- the fox is red\n- TODO: feed it\n" in told
    assert "Summary of all before:\n<sum-up>\nSum up.\n</sum-up>\n" in told
    assert told.count(LONG) == 2  # the last prompt, and its echo
    assert turn["prompt"][1]["text"] == "and now?"
    shown = "".join(chain.texts(one))
    assert "[history: the conversation was long; the agent goes on with 2 facts, a summary" in shown
    assert shown.count("Sum up.") == 2  # as the agent echoes and lists its prompts

    # All else finds the session it belongs to.
    assert json.loads(chain.prompt(one, "/context"))["mode"] == "code"
    assert "tools-demo/add" in chain.prompt(one, "/tools")
    outcome = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
    chain.serves["session/request_permission"] = lambda _: outcome
    assert chain.prompt(one, "/permission x") == "permission: allow-once"
    assert chain.prompt(other, "hello") == "hello"
    hanging = chain.start_prompt(one, "/hang")
    chain.notify("session/cancel", {"sessionId": one})
    assert chain.answer(hanging)["result"]["stopReason"] == "cancelled"
    assert sessions_of(rig, "session/cancel") == [fresh]
    updates = chain.seen("session/update")
    frames = [*updates, *chain.seen("session/request_permission")]
    assert {frame["params"]["sessionId"] for frame in frames} == {one, other}

    # Told again, it is one session, without what was hidden.
    chain.request("session/load", {"sessionId": one, "cwd": "/", "mcpServers": []})
    again = [frame["params"]["update"] for frame in chain.seen("session/update")[len(updates) :]]
    prompts = [u["content"]["text"] for u in again if u["sessionUpdate"] == "user_message_chunk"]
    assert sessions_of(rig, "session/load") == [one, fresh]
    assert [said.partition("\n")[0] for said in prompts] == [
        "Remember: the fox is red", "TODO: feed it", "and now?",
        "/history", "/context", "/tools", "/permission x", "/hang",
    ]  # fmt: skip
    answers = [u["content"]["text"] for u in again if u["sessionUpdate"] == "agent_message_chunk"]
    assert answers[0] == f"Remember: the fox is red\n{LONG}"
    assert not any(said.startswith("<sum-up>") for said in answers)
    assert chain.finish() == 0
    assert chain.stderr == ""
