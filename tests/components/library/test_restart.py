"""Components that are started again know the open sessions."""

from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record
from tests.components.library.support import load, play


async def test_a_budget_is_not_refilled() -> None:
    def answer(request: Record) -> Any:
        spent = {"stopReason": "end_turn", "usage": {"totalTokens": 60}}
        return spent if request.method == "session/prompt" else None

    async with play("budget", config={"tokens": 100}, answer=answer) as p:
        for _ in range(2):
            await p.prompt("a")
            p.restart(load("budget"))
        with pytest.raises(ProxyError, match="used up, 120 of 100 tokens"):
            await p.prompt("a")


@pytest.mark.parametrize("per", ["session", "all"])
async def test_a_limit_holds(per: str) -> None:
    async with play("rate-limit", config={"prompts": 2, "per": per}) as p:
        for _ in range(2):
            await p.prompt("a")
            p.restart(load("rate-limit"))
        with pytest.raises(ProxyError, match="2 prompts in 60 s have passed"):
            await p.prompt("a")
        p.services.advance(60)
        p.restart(load("rate-limit"))
        await p.prompt("b")
        assert p.agent.prompts == ["a", "a", "b"]


@pytest.mark.parametrize("per", ["session", "all"])
async def test_a_prompt_that_waited_does_not_count(per: str) -> None:
    config = {"prompts": 1, "seconds": 60, "over": "wait", "per": per}
    async with play("rate-limit", config=config) as p:
        await p.prompt("a")
        await p.start_prompt("b")
        p.restart(load("rate-limit"))
        await p.start_prompt("c")
        said = [one.raw["params"]["update"]["content"]["text"] for one in p.heard]
        assert [one for one in said if one != "a"] == ["rate limit: this prompt waits 60 s\n"] * 2
        p.services.advance(60)
        assert p.agent.prompts == ["a", "c"]


async def test_the_folder_of_a_prefix() -> None:
    config = {"text": "In {cwd}:", "suffix": "", "when": "every"}
    async with play("prompt-prefix", config=config) as p:
        await p.new_session()
        p.restart(load("prompt-prefix"))
        await p.prompt("a")
    async with play("prompt-prefix", config={**config, "when": "first"}) as q:
        await q.prompt("a")
        q.restart(load("prompt-prefix"))
        await q.prompt("b")
    assert (p.agent.prompts, q.agent.prompts) == (["In /project:\na"], ["In /project:\na", "b"])


async def test_instructions_are_told_once_and_others_still() -> None:
    files = {"/project/AGENTS.md": "Top.", "/project/in/AGENTS.md": "Inner."}
    async with play("agents-md", files=files) as p:
        await p.new_session()
        await restarted_and_prompted(p, "a")
        assert "Top." in p.agent.prompts[0]
        assert "There are more" in p.agent.prompts[0]
        await restarted_and_prompted(p, "b")
        await restarted_and_prompted(p, "look at in/x.py")
        await restarted_and_prompted(p, "look at in/y.py")
        assert p.agent.prompts[1] == "b"
        assert "Inner." in p.agent.prompts[2]
        assert "Top." not in p.agent.prompts[2]
        assert p.agent.prompts[3] == "look at in/y.py"


async def restarted_and_prompted(p: Playground, said: str) -> None:
    """A new life of agents-md, and a prompt."""
    p.restart(load("agents-md"))
    await p.prompt(said)


async def test_commands_are_expanded_and_the_agents_own_stay_listed() -> None:
    files = {"/project/.conductor/commands/go.md": "Go $1!"}
    async with play("slash-commands", files=files) as p:
        session = await p.new_session()
        p.agent.update(session, "available_commands_update", availableCommands=[{"name": "help"}])
        p.restart(load("slash-commands"))
        heard = len(p.heard)
        await p.prompt("/go home")
        assert p.agent.prompts == ["Go home!"]
        listed = [one for one in p.heard[heard:] if "available" in str(one.raw)]
        assert listed == []  # the client knows them
        p.services.files["/project/.conductor/commands/new.md"] = "New."
        p.restart(load("slash-commands"))
        await p.prompt("/new")
        (told,) = [one for one in p.heard[heard:] if "available" in str(one.raw)]
        names = [one["name"] for one in told.raw["params"]["update"]["availableCommands"]]
        assert names == ["help", "go", "new"]
        assert p.agent.prompts[1:] == ["New."]


@pytest.mark.parametrize("name", ["context", "skills"])
async def test_what_was_told_is_not_told_again_and_what_was_not_still_is(name: str) -> None:
    files = {"/project/skills/release/SKILL.md": "Release.", "/project/README.md": "To release:"}
    async with play(name, files=files) as p:
        await p.new_session()
        p.restart(load(name))
        await p.prompt("a")
        p.restart(load(name))
        await p.prompt("b")
        first, second = p.agent.prompts
        assert "release" in first
        assert first.endswith("\na")
        assert second == "b"


async def test_roles_stay_on_offer() -> None:
    config = {"prompt": "S", "roles": {"reviewer": {"prompt": "Review only."}}}
    async with play("system-prompt", config=config) as p:
        role = {"sessionId": await p.new_session(), "configId": "role", "value": "reviewer"}
        p.restart(load("system-prompt"))
        (option,) = (await p.request("session/set_config_option", role))["configOptions"]
        assert option["currentValue"] == "reviewer"
        p.restart(load("system-prompt"))
        await p.prompt("a")
        p.restart(load("system-prompt"))
        await p.prompt("b")
        assert p.agent.prompts == ["S\nReview only.\na", "b"]
