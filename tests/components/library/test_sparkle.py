"""Sparkle in all its forms: `sparkle`."""

import json
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record, text
from guest_sdk.python.playground import Agent
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Chain, Rig

EMBODY = "Please use the embody_sparkle tool to load your collaborative patterns."
COMMAND = {"name": "sparkle", "command": "sparkle-mcp", "args": ["-v"], "env": []}


def holds(request: Record) -> Any:
    """An agent that does not answer the embodiment by itself."""
    return Agent.HOLD if EMBODY in str(request.raw.get("params")) else None


def ended(p: Playground, at: int = 0, reason: str = "end_turn") -> None:
    """Lets the agent end a turn."""
    prompts = [one for one in p.agent.requests if one.method == "session/prompt"]
    p.agent.reply(prompts[at], {"stopReason": reason})


def servers(p: Playground) -> list[Any]:
    """The servers that the newest setup declared."""
    setups = [one for one in p.agent.requests if "mcpServers" in one.raw.get("params", {})]
    declared: list[Any] = setups[-1].raw["params"]["mcpServers"]
    return declared


async def test_the_tool_is_there_and_the_embodiment_comes_first_and_once() -> None:
    async with play("sparkle", config={"patterns": ["We think.", "", "We try."]}) as p:
        one, two = await p.new_session(), await p.new_session()
        assert [tool["name"] for tool in await p.tools()] == ["embody_sparkle"]
        told = await p.call("embody_sparkle")
        assert told["content"] == [text("We think.\n\nWe try.\n\nEmbodiment complete")]
        for session, said in ((one, "a"), (one, "b"), (two, "c"), (two, "d")):
            assert (await p.prompt(said, session=session)).stop_reason == "end_turn"
        assert p.agent.prompts == [EMBODY, "a", "b", EMBODY, "c", "d"]
        await p.request("session/load", {"sessionId": "old", "cwd": "/"})
        await p.prompt("e", session="old")
        assert p.agent.prompts[-1] == "e"
        assert [one["name"] for one in servers(p)] == ["sparkle"]
        assert p.services.log == []


@pytest.mark.parametrize(
    ("config", "prompts", "seen"),
    [
        ({}, [EMBODY, "a"], [EMBODY, "\n\na"]),
        ({"show": "hidden"}, [EMBODY, "a"], ["a"]),
        ({"show": "merged"}, [EMBODY, "a"], [EMBODY + "\n\n", "a"]),
        ({"form": "block"}, [EMBODY + "\na"], [EMBODY + "\na"]),
        ({"prompt": "hi"}, ["hi", "a"], ["hi", "\n\na"]),
        ({"prompt": ""}, ["a"], ["a"]),
    ],
)
async def test_settings(config: Any, prompts: list[str], seen: list[str]) -> None:
    async with play("sparkle", config=config) as p:
        turn = await p.prompt("a")
        assert (p.agent.prompts, turn.stop_reason) == (prompts, "end_turn")
        assert [one.content.text for one in turn.updates] == seen
        assert (await p.prompt("b")).text == "b"
        assert (await p.call("embody_sparkle"))["content"] == [text("Embodiment complete")]


async def test_which_of_its_updates_are_seen_and_when() -> None:
    kinds = {
        "forwarded": ["tool_call", "agent_thought_chunk", "agent_message_chunk",
                      "usage_update"],
        "hidden": ["usage_update"],
        "merged": ["usage_update"],
    }  # fmt: skip
    for show, expected in kinds.items():
        async with play("sparkle", config={"show": show}, answer=holds) as p:
            turn = await p.start_prompt("a")
            p.agent.update(p.session, "tool_call", toolCallId="1", title="embody_sparkle")
            p.agent.update(p.session, "agent_thought_chunk", content=text("so that is me"))
            p.agent.say(p.session, "I am here.")
            p.agent.update(p.session, "usage_update", used=1, size=2)
            seen = [one.raw["params"]["update"]["sessionUpdate"] for one in p.heard]
            assert seen == expected
            assert p.answer_to("p", turn) is None  # its end is nobody's but ours
            ended(p)
            assert p.turn(turn).text == ("a" if show == "hidden" else "I am here.\n\na")


async def test_cancelled_meanwhile_and_prompts_that_wait() -> None:
    async with play("sparkle", answer=holds) as p:
        session = await p.new_session()
        first = await p.start_prompt("a")
        p.notify("session/cancel", {"sessionId": session})
        assert p.result("p", first) == {"stopReason": "cancelled"}
        assert [one.method for one in p.agent.notifications] == ["session/cancel"]
        second = await p.start_prompt("b")
        ended(p, 0, "cancelled")
        third = await p.start_prompt("c")
        assert p.agent.prompts == [EMBODY, EMBODY]
        assert p.answer_to("p", second) is None
        ended(p, 1)
        assert p.agent.prompts == [EMBODY, EMBODY, "b", "c"]
        assert [p.result("p", one) for one in (second, third)] == [{"stopReason": "end_turn"}] * 2


async def test_two_sessions_do_not_wait_for_each_other() -> None:
    async with play("sparkle", answer=holds) as p:
        one, two = await p.new_session(), await p.new_session()
        waits = await p.start_prompt("a", session=one)
        goes = await p.start_prompt("b", session=two)
        ended(p, 1)
        assert p.result("p", goes) == {"stopReason": "end_turn"}
        assert p.answer_to("p", waits) is None
        assert p.agent.prompts == [EMBODY, EMBODY, "b"]


async def test_an_agent_that_refuses_is_asked_once() -> None:
    def answer(request: Record) -> Any:
        if EMBODY in str(request.raw.get("params")):
            raise ProxyError("not in the mood")
        return None

    async with play("sparkle", answer=answer) as p:
        assert (await p.prompt("a")).text == "a"
        assert (await p.prompt("b")).text == "b"
        assert p.agent.prompts == [EMBODY, "a", "b"]
        assert p.services.log == ["warn: the agent did not take it up: not in the mood"]


async def test_another_server() -> None:
    config = {"server": ["sparkle-mcp", "-v"]}
    async with play("sparkle", config=config) as p:
        await p.new_session()
        assert servers(p) == [COMMAND]
        await p.new_session(mcpServers=[{"name": "sparkle", "command": "own"}])
        assert servers(p) == [{"name": "sparkle", "command": "own"}]
        await p.request("session/load", {"sessionId": "old", "cwd": "/", "mcpServers": []})
        assert servers(p) == [COMMAND]
        await p.prompt("a", session="session-1")
        assert p.agent.prompts == [EMBODY, "a"]
    async with play("sparkle", config={"server": "sparkle-mcp", "env": {"A": "b"}}) as p:
        await p.new_session()
        assert servers(p) == [{**COMMAND, "args": [], "env": [{"name": "A", "value": "b"}]}]


@pytest.mark.parametrize("config", [{"form": "block", "show": "hidden"}, {"server": [""]}])
async def test_settings_that_are_wrong(config: Any) -> None:
    async with play("sparkle", config=config) as p:
        with pytest.raises(ProxyError, match="configuration of `sparkle` is wrong"):
            await p.new_session()


# -- through the real program ----------------------------------------------------------------------

CALL = {"prompt": "/tool embody_sparkle"}
"""The prompt that has the bundled agent call the tool as a model would."""


def talked(chain: Chain) -> None:
    """Plays a conversation with everything but an embodiment."""
    one = chain.begin()
    two = chain.new_session(_meta={"example.com/n": 1})
    chain.prompt(one, "a")
    chain.prompt(one, "/echo b")
    chain.prompt(two, "c")
    chain.request("session/set_mode", {"sessionId": one, "modeId": "code"})
    chain.notify("_example/note", {"sessionId": two, "n": [1, None]})
    assert chain.request("_example/ask", {"n": 1})["error"]["code"] == -32601


def test_behind_a_real_agent(rig: Rig) -> None:
    chain = agent(
        rig, component("sparkle", CALL, allow="command:tool"), rig.demo("--acp", "--modes")
    )
    talked(chain)
    assert "sparkle/embody_sparkle: Loads your" in chain.prompt("demo-1", "/tools")
    one, two = chain.texts("demo-1"), chain.texts("demo-2")
    assert [said for said in one if said][:3] == ["Embodiment complete", "\n\na", "b"]
    assert [said for said in two if said] == ["Embodiment complete", "\n\nc"]
    assert chain.finish() == 0
    assert chain.stderr == ""
    prompts = [(p["sessionId"], p["prompt"][0]["text"]) for p in received(rig, "session/prompt")]
    assert prompts == [
        ("demo-1", "/tool embody_sparkle"), ("demo-1", "a"), ("demo-1", "/echo b"),
        ("demo-2", "/tool embody_sparkle"), ("demo-2", "c"), ("demo-1", "/tools"),
    ]  # fmt: skip

    alone = agent(rig, rig.demo("--modes", name="B"))
    talked(alone)
    assert alone.finish() == 0
    there = [kept(one.frame) for one in rig.log("A", "in")]
    assert [one for one in there if one is not None] == [
        kept(one.frame) for one in rig.log("B", "in")
    ]


def kept(frame: Any) -> Any:
    """A frame the agent got, without id and the server; None for those of our own."""
    if "method" not in frame or "/tool" in json.dumps(frame):
        return None
    params = dict(frame["params"])
    if "mcpServers" in params:
        params["mcpServers"] = [s for s in params["mcpServers"] if s["name"] != "sparkle"]
    return frame["method"], params


def test_cancelled_and_queued_behind_a_real_agent(rig: Rig) -> None:
    config = {"prompt": "/permission x", "show": "merged"}
    chain = agent(rig, component("sparkle", config, allow="command:permission"), rig.demo())
    chain.serves["session/request_permission"] = None
    session = chain.begin()
    stopped = [chain.start_prompt(session, said) for said in ("a", "b")]
    chain.expect("session/request_permission")
    chain.notify("session/cancel", {"sessionId": session})
    for turn in stopped:
        assert chain.answer(turn)["result"]["stopReason"] == "cancelled"
    queued = [chain.start_prompt(session, said) for said in ("c", "d")]
    asked = chain.expect("session/request_permission", 2)
    outcome = {"outcome": "selected", "optionId": "allow-once"}
    chain.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}})
    for turn in queued:
        assert chain.answer(turn)["result"]["stopReason"] == "end_turn"
    assert "".join(chain.texts(session)) == "permission: allow-once\n\ncd"
    prompts = [one["prompt"][0]["text"] for one in received(rig, "session/prompt")]
    assert prompts == ["/permission x", "/permission x", "c", "d"]
    assert received(rig, "session/cancel") == [{"sessionId": session}]
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_in_version_two_turns_end_as_they_are(rig: Rig) -> None:
    config = {"prompt": "/thought I am", "show": "forwarded"}
    chain = agent(rig, component("sparkle", config, allow="command:thought"), rig.demo())
    chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    session = chain.new_session()
    for number, said in ((2, "a"), (3, "b")):  # the first message is the embodiment's
        answer = chain.answer(chain.start_prompt(session, said))
        assert answer["result"] == {"messageId": f"user-{number}"}
        wait_idle(chain, number - 1)
    kinds = [frame["params"]["update"]["sessionUpdate"] for frame in chain.seen("session/update")]
    assert kinds.count("agent_thought_chunk") == 1
    assert len(idle(chain)) == 2
    assert chain.finish() == 0
    assert chain.stderr == ""


def wait_idle(chain: Chain, turns: int) -> None:
    """Waits for the end of so many turns."""
    chain.until(lambda: len(idle(chain)) >= turns, f"{turns} turns")


def idle(chain: Chain) -> list[Any]:
    """The ends of turns the client was told of, in version 2."""
    updates = [frame["params"]["update"] for frame in chain.seen("session/update")]
    return [one for one in updates if one.get("state") == "idle"]


def test_a_server_that_is_a_command_needs_trust(rig: Rig) -> None:
    config = {"server": ["/bin/sparkle-mcp"], "prompt": ""}
    refused = agent(rig, component("sparkle", config), rig.demo())
    assert refused.prompt(refused.begin(), "/servers") == "[]"
    assert refused.finish() == 0
    assert "mcp-servers" in refused.stderr
    chain = agent(rig, component("sparkle", config, only="trusted"), rig.demo(name="B"))
    assert json.loads(chain.prompt(chain.begin(), "/servers")) == [
        {"name": "sparkle", "command": "/bin/sparkle-mcp", "args": [], "env": []}
    ]
    assert chain.finish() == 0
    assert chain.stderr == ""
