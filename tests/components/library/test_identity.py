"""Collaborator identity: `identity`."""

from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import ProxyError
from tests.components.library.support import agent, component, load, play
from tests.harness.process.rig import Rig

ADA = "<preferences>\nHow the user likes to work together:\n- call me Ada\n</preferences>\n"


async def test_what_the_user_teaches() -> None:
    async with play("identity") as p:
        assert (await p.prompt("/remember")).text == "[identity: your preferences:\nnothing yet]\n"
        said = await p.prompt("/remember  call me\n Ada\x1b ")
        assert said.text == "[identity: remembered: 1. call me Ada]\n"
        assert p.agent.prompts == []
        await p.prompt("/remember Call me Ada")
        await p.prompt("/review")
        await p.prompt("hello")
        await p.prompt("again")
        assert p.agent.prompts == ["/review", f"{ADA}hello", "again"]
        await p.prompt("/remember tabs, see @~/.secret")
        await p.prompt("and now")
        assert p.agent.prompts[-1].splitlines()[2] == "- tabs, see @ ~/.secret"
        p.restart(load("identity"))
        await p.prompt("as before")
        assert p.agent.prompts[-1] == "as before"
        assert (await p.prompt("/forget 1")).text == "[identity: forgotten: 1. call me Ada]\n"
        assert "no preference 1; they are:\n2. tabs" in (await p.prompt("/forget 1")).text
        assert "which?" in (await p.prompt("/forget")).text
        await p.prompt("/forget all")
        await p.new_session()
        await p.prompt("hello")
        assert p.agent.prompts[-1] == "hello"


async def test_what_the_agent_learns_is_shown() -> None:
    async with play("identity", config={"most": 2, "longest": 20}) as p:
        session = await p.new_session()
        learned = await p.call("remember", preference="no emojis")
        assert learned["content"][0]["text"] == "remembered: 1. no emojis (noted by an agent)"
        shown = [one.raw["params"]["update"] for one in p.heard]
        assert [one["content"]["text"] for one in shown if "content" in one] == [
            "\n[identity: the agent remembers: 1. no emojis]\n"
        ]
        await p.prompt("hello", session=session)
        assert p.agent.prompts == ["hello"]  # it knows already
        for preference, why in (("x" * 21, "20 characters"), (" \n", "has words")):
            refused = await p.call("remember", preference=preference)
            assert refused["isError"]
            assert why in refused["content"][0]["text"]
        await p.call("remember", preference="be brief")
        full = await p.call("remember", preference="be kind")
        assert "2 preferences are kept, and no more" in full["content"][0]["text"]
        listed = await p.call("list")
        assert listed["content"][0]["text"].splitlines()[1].startswith("2. be brief")
        assert (await p.call("forget", number=3))["isError"]
        await p.call("forget", number=1)
        await p.new_session()
        await p.prompt("hello")
        assert p.agent.prompts[-1].splitlines()[2] == "- be brief"


async def test_what_may_be_missing() -> None:
    async with play("identity", config={"agent": False}) as p:
        await p.new_session()
        assert [one["name"] for one in await p.tools()] == ["list"]
        assert p.heard[0].raw["params"]["update"]["availableCommands"][0]["name"] == "remember"
        p.agent.update(p.session, "available_commands_update", availableCommands=[{"name": "x"}])
        commands = p.heard[-1].raw["params"]["update"]["availableCommands"]
        assert [one["name"] for one in commands] == ["x", "remember", "forget"]
    async with play("identity", grants=[]) as p:
        await p.prompt("hello")
        assert p.agent.prompts == ["hello"]
        assert "the agent is not told the preferences: service `kv`" in p.services.log[0]
        assert "`kv`" in (await p.prompt("/remember x")).text
        assert (await p.call("list"))["isError"]


@pytest.mark.parametrize("config", [{"user": "a:b"}, {"most": 0}, {"longest": 5000}])
async def test_settings_that_cannot_be(config: Any) -> None:
    async with play("identity", config=config) as p:
        with pytest.raises(ProxyError):
            await p.initialize()


def test_another_users_sessions_do_not_see_it(rig: Rig, tmp_path: Path) -> None:
    """Taught in one session; another conductor's knows it, in another project, too."""

    def said(words: str, folder: str, data: str, user: str = "") -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        made = component("identity", {"user": user})
        project, home = str(tmp_path / folder), str(tmp_path / data)
        chain = agent(rig, "--project", project, made, rig.demo("--acp"), XDG_DATA_HOME=home)
        text = chain.prompt(chain.begin(), words)
        assert chain.finish() == 0
        assert chain.stderr == ""
        return text

    assert said("/remember call me Ada", "one", "ada") == "[identity: remembered: 1. call me Ada]\n"
    assert said("hello", "two", "ada") == f"{ADA}hello"
    assert said("hello", "one", "bob") == "hello"
    assert said("hello", "one", "ada", "bob") == "hello"
