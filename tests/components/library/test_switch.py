"""Another agent in the same conversation: `switch`."""

import json
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record
from tests.components.library.support import agent, component, play, says
from tests.components.library.test_peer_agents import initialize
from tests.harness.process.rig import Chain, Rig

ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
MAY = "agent:B+command:agent"


def chain_of(rig: Rig, *more: str, other: str = "", **options: Any) -> Chain:
    """`switch` before the agents A, of the chain, and B."""
    switch = component("switch", {}, allow=MAY)
    beside = ("-c", f"peer.B={other or rig.demo(name='B')}")
    return agent(rig, switch, *more, rig.demo(), options=beside, **options)


def words(chain: Chain, session: str, text: str) -> str:
    """The text that the client is shown of a prompt's answer."""
    before = len(chain.texts(session))
    answer = chain.answer(chain.start_prompt(session, text))
    assert "error" not in answer, answer
    chain.until(lambda: len(chain.texts(session)) > before, "what an agent says")
    return "".join(chain.texts(session)[before:])


def prompts(rig: Rig, name: str) -> list[str]:
    """The prompts that an agent got."""
    asked = [
        one.frame for one in rig.log(name, "in") if one.frame.get("method") == "session/prompt"
    ]
    return ["\n".join(b["text"] for b in one["params"]["prompt"]) for one in asked]


@pytest.mark.parametrize("version", [1, 2])
def test_the_session_goes_on_with_another_agent_and_comes_back(rig: Rig, version: int) -> None:
    chain = chain_of(rig, "tools-demo")
    chain.initialize(**initialize(version))
    session = chain.new_session()
    assert words(chain, session, "p1") == "p1"
    chain.answer(chain.start_prompt(session, "/agent B"))
    told = "p2"
    assert told in words(chain, session, told)
    assert "User: p1\nYou: p1" in prompts(rig, "B")[0]
    assert "p3" in words(chain, session, "/agent A p3")
    assert words(chain, session, "p4") == "p4"
    first, second, third = prompts(rig, "A")
    assert (first, third) == ("p1", "p4")
    assert second.endswith("p3")
    assert "User: p2" in second
    assert "User: p1" not in second.partition("You: ")[0]
    opened = [one.frame["params"] for one in rig.log("B", "in")
              if one.frame.get("method") == "session/new"]  # fmt: skip
    mine = [one.frame["params"] for one in rig.log("A", "in")
            if one.frame.get("method") == "session/new"]  # fmt: skip
    assert opened[0]["cwd"] == mine[0]["cwd"]
    assert [one["name"] for one in opened[0]["mcpServers"]] == ["tools-demo"]
    named = chain.seen("session/update")
    assert {one["params"]["sessionId"] for one in named} == {session}
    metas = [one["params"]["update"].get("_meta", {}) for one in named]
    moved = [one["conductor.session"]["agent"] for one in metas if "conductor.session" in one]
    assert moved == ["B", "A"]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_user_answers_the_other_agent_s_questions_and_cancels_it(rig: Rig) -> None:
    chain = chain_of(rig)
    chain.serves["session/request_permission"] = lambda _: ALLOWED
    session = chain.begin()
    chain.answer(chain.start_prompt(session, "/agent B"))
    assert chain.prompt(session, "/permission").endswith("permission: allow-once")
    (asked,) = chain.seen("session/request_permission")
    assert asked["params"]["sessionId"] == session
    hangs = chain.start_prompt(session, "/hang")
    rig.until_heard("B", b"/hang")
    # No other agent while a turn runs; nor while it asks.
    refused = chain.answer(chain.start_prompt(session, "/agent A"))
    assert "is open in the session" in refused["error"]["message"]
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(hangs)["result"]["stopReason"] == "cancelled"
    chain.serves["session/request_permission"] = None
    waits = chain.start_prompt(session, "/permission")
    chain.expect("session/request_permission", 2)
    refused = chain.answer(chain.start_prompt(session, "/agent A"))
    assert "is open in the session" in refused["error"]["message"]
    chain.notify("session/cancel", {"sessionId": session})
    chain.answer(waits)
    chain.answer(chain.start_prompt(session, "/agent A"))
    assert "back" in chain.prompt(session, "back")
    assert chain.finish() == 0


def test_modes_hold_where_the_other_agent_has_them(rig: Rig) -> None:
    chain = agent(
        *(rig, component("switch", {}, allow=MAY), rig.demo("--modes")),
        options=("-c", f"peer.B={rig.demo('--modes', name='B')}"),
    )
    session = chain.begin()
    chain.request("session/set_mode", {"sessionId": session, "modeId": "code"})
    chain.answer(chain.start_prompt(session, "/agent B"))
    asked = [one.frame["params"] for one in rig.log("B", "in")
             if one.frame.get("method") == "session/set_mode"]  # fmt: skip
    assert [one["modeId"] for one in asked] == ["code"]
    assert chain.finish() == 0


def test_agents_that_do_not_go_on(rig: Rig) -> None:
    """The agent dies at its start, ends in a turn, or is unknown: the session stays, and goes
    on."""
    dies = rig.program("sh", "-c", "exit 3", name="B")
    chain = chain_of(rig, other=dies)
    session = chain.begin()
    for name, why in (("B", "exited with code 3"), ("nobody", "there is no agent `nobody`")):
        refused = chain.answer(chain.start_prompt(session, f"/agent {name}"))
        assert why in refused["error"]["message"]
    assert words(chain, session, "p1") == "p1"
    assert chain.finish() == 0


def test_an_agent_that_ends_in_its_turn_leaves_the_session_to_the_others(rig: Rig) -> None:
    chain = chain_of(rig)
    session = chain.begin()
    chain.answer(chain.start_prompt(session, "/agent B"))
    for _ in range(2):
        failed = chain.answer(chain.start_prompt(session, "/exit 3"))
        assert "agent `B`" in failed["error"]["message"]
    assert "p1" in words(chain, session, "/agent A p1")
    assert chain.finish() == 0


def test_a_session_that_is_loaded_is_the_chain_s_agent_s(rig: Rig) -> None:
    chain = chain_of(rig)
    session = chain.begin()
    chain.answer(chain.start_prompt(session, "/agent B p1"))
    setup = {"sessionId": session, "cwd": str(rig.folder), "mcpServers": []}
    chain.request("session/load", setup)
    assert words(chain, session, "p2") == "p2"
    assert prompts(rig, "A") == ["p2"]
    assert chain.finish() == 0


def test_fifty_moves_open_one_session(rig: Rig) -> None:
    chain = chain_of(rig)
    session = chain.begin()
    for at in range(50):
        chain.answer(chain.start_prompt(session, f"/agent {'AB'[at % 2 == 0]}"))
    assert rig.methods("B").count("session/new") == 1
    assert rig.methods("A").count("session/new") == 1
    assert chain.finish() == 0


# -- the component by itself -----------------------------------------------------------------------


def two(**options: Any) -> Playground:
    """A playground with two agents."""
    playing = play("switch", **options)
    playing.services.agents = ["claude", "codex"]
    return playing


async def test_it_lists_its_command_and_says_which_agents_there_are() -> None:
    async with two() as p:
        p.agent.answer = says(p, "hello")
        session = await p.new_session()
        p.agent.update(session, "available_commands_update", availableCommands=[{"name": "plan"}])
        listed = [one.raw["params"]["update"]["availableCommands"] for one in p.heard]
        assert [[one["name"] for one in each] for each in listed] == [["agent"], ["plan", "agent"]]
        asked = await p.prompt("/agent")
        assert asked.text == "[agent: `claude` answers; there are `claude`, `codex`]\n\n"
        assert p.agent.prompts == []
        with pytest.raises(ProxyError, match="/agent nobody: there is no agent `nobody`"):
            await p.prompt("/agent nobody")
        assert (await p.prompt("/agent codex")).text == ""
        again = await p.prompt("/agent codex")
        assert again.text.startswith("[agent: `codex` answers")


async def test_each_agent_is_told_what_it_does_not_know_once() -> None:
    async with two() as p:
        p.agent.answer = says(p, "hello")
        await p.prompt("p1")
        await p.prompt("/agent codex p2")
        await p.prompt("p3")
        await p.prompt("/agent claude")
        await p.prompt("p4")
        first, second, third, fourth = p.agent.prompts
        assert (first, third) == ("p1", "p3")
        assert "User: p1\nYou: hello\n</conversation-so-far>\np2" in second
        assert "User: p2\nYou: hello\n\nUser: p3\nYou: hello\n</conversation-so-far>" in fourth
        assert "p1" not in fourth


async def test_what_it_does_not_keep_it_says_is_left_out() -> None:
    async with two(config={"chars": 300}) as p:
        p.agent.answer = says(p, "x" * 400)
        for _ in range(3):
            await p.prompt("p")
        await p.prompt("/agent codex p")
        assert "turns are left out" in p.agent.prompts[-1]
    async with two(config={"chars": 0}) as p:
        await p.prompt("p1")
        await p.prompt("/agent codex p2")
        assert p.agent.prompts == ["p1", "p2"]


async def test_what_is_loaded_counts_as_said() -> None:
    async with two() as p:

        def answer(one: Record) -> Any:
            if one.method == "session/load":
                for kind, text in (("user_message_chunk", "old"), ("agent_message_chunk", "yes")):
                    content = {"type": "text", "text": text}
                    p.agent.update(one.params.session_id, kind, content=content)
                return {}
            return None

        p.agent.answer = answer
        await p.request("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []})
        p.session = "s"
        await p.prompt("p1")
        await p.prompt("/agent codex p2")
        assert p.agent.prompts[0] == "p1"
        assert "User: old\nYou: yes" in p.agent.prompts[1]


async def test_other_blocks_go_with_the_words() -> None:
    async with two() as p:
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        session = await p.new_session()
        for blocks in ([{"type": "text", "text": "/agent codex"}, link], [link], []):
            await p.request("session/prompt", {"sessionId": session, "prompt": blocks})
        sent = [one.raw["params"]["prompt"] for one in p.agent.requests
                if one.method == "session/prompt"]  # fmt: skip
        assert sent[0] == [link]
        assert json.dumps(link) in json.dumps(sent[1])
