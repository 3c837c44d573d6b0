"""System prompt and modes: `system-prompt`."""

from collections.abc import Callable
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record
from tests.components.library.support import Json, agent, component, play, received
from tests.harness.process.rig import Rig

ROLES = [
    {"value": "none", "name": "None"},
    {"value": "reviewer", "name": "Reviewer", "description": "Reads"},
]


def role(chosen: str = "none", named: str = "id") -> Json:
    """The option that the client sees."""
    return {
        named: "role", "name": "Role", "type": "select", "currentValue": chosen, "options": ROLES,
    }  # fmt: skip


def choose(session: str, chosen: str) -> Json:
    """The params by which the user sets the role."""
    return {"sessionId": session, "configId": "role", "value": chosen}


MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Write Code"}],
}
OPTION = {
    "type": "select", "configId": "m", "name": "Mode", "category": "mode", "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"},
                {"group": "g", "name": "G", "options": [{"value": "code", "name": "Write Code"}]}],
}  # fmt: skip
OWN = {"roles": {"reviewer": {"prompt": "Review only.", "description": "Reads"}}}


def offering(**members: Any) -> Callable[[Record], Any]:
    """An agent whose sessions come with these members."""

    def answer(request: Record) -> Any:
        if request.method == "session/new":
            return {"sessionId": "s", **members}
        return {} if request.method.startswith("session/set_") else None

    return answer


def switched(p: Playground) -> list[Json]:
    """The requests that told the agent of modes."""
    held = [one for one in p.agent.requests if one.method.startswith("session/set_")]
    return [{"method": one.method, **one.raw["params"]} for one in held]


async def opened(p: Playground) -> Any:
    """A new session's answer."""
    return await p.request("session/new", {"cwd": "/", "mcpServers": []})


async def test_the_first_prompt_of_each_session() -> None:
    async with play("system-prompt", config={"prompt": "S"}) as p:
        one, two = await p.new_session(), await p.new_session()
        for session, said in ((one, "/command"), (one, "a"), (one, "b"), (two, "c")):
            await p.prompt(said, session=session)
        await p.request("session/load", {"sessionId": "old", "cwd": "/"})
        await p.prompt("d", session="old")
        assert p.agent.prompts == ["/command", "S\na", "b", "S\nc", "d"]


@pytest.mark.parametrize("mode", ["code", "write code"])
async def test_a_mode_of_the_agent(mode: str) -> None:
    async with play(
        "system-prompt", config={"mode": mode, **OWN}, answer=offering(modes=MODES)
    ) as p:
        result = await opened(p)
        told = {**MODES, "currentModeId": "code"}
        assert result == {"sessionId": "s", "modes": told, "configOptions": [role()]}
        assert switched(p) == [{"method": "session/set_mode", "sessionId": "s", "modeId": "code"}]
        params = {"sessionId": "s", "modeId": "ask"}
        assert await p.request("session/set_mode", params) == {}
        assert switched(p)[1:] == [{"method": "session/set_mode", **params}]
        await p.prompt("a", session="s")
        assert p.agent.prompts == ["a"]


async def test_a_mode_that_is_an_option() -> None:
    members = {"configOptions": ["odd", {"category": "mode"}, OPTION]}
    async with play("system-prompt", config={"mode": "code"}, answer=offering(**members)) as p:
        result = await opened(p)
        assert result["configOptions"][2] == {**OPTION, "currentValue": "code"}
        params = {"sessionId": "s", "configId": "m", "type": "id", "value": "code"}
        assert switched(p) == [{"method": "session/set_config_option", **params}]


@pytest.mark.parametrize(
    ("mode", "members", "log"),
    [
        ("ask", {"modes": MODES}, []),
        ("plan", {"modes": MODES}, ["the agent has no mode `plan`; it has: ask, code"]),
        ("plan", {}, ["the agent has no mode `plan`; it has: none"]),
        ("plan", {"modes": 7, "configOptions": {}}, ["the agent has no mode `plan`"]),
    ],
)
async def test_nothing_to_switch(mode: str, members: Json, log: list[str]) -> None:
    async with play("system-prompt", config={"mode": mode}, answer=offering(**members)) as p:
        assert await opened(p) == {"sessionId": "s", **members}
        assert switched(p) == []
        assert len(p.services.log) == len(log)
        assert all(one in p.services.log[0] for one in log)


async def test_an_agent_that_refuses() -> None:
    def answer(request: Record) -> Any:
        if request.method == "session/set_mode":
            raise ProxyError("not now", -32000)
        return offering(modes=MODES)(request)

    async with play("system-prompt", config={"mode": "code"}, answer=answer) as p:
        assert (await opened(p))["modes"] == MODES
        assert "not switched to `code`: not now" in p.services.log[0]


@pytest.mark.parametrize(("version", "named"), [(1, "id"), (2, "configId")])
async def test_roles_are_an_option(version: int, named: str) -> None:
    async with play("system-prompt", config={"prompt": "S", **OWN}) as p:
        await p.initialize(protocolVersion=version)
        result = await opened(p)
        session = result["sessionId"]
        assert result["configOptions"] == [role(named=named)]
        assert "modes" not in result
        await p.prompt("a", session=session)
        for chosen in ("reviewer", "reviewer"):
            answer = await p.request("session/set_config_option", choose(session, chosen))
            assert answer == {"configOptions": [role(chosen, named)]}
        await p.prompt("b", session=session)
        await p.prompt("c", session=session)
        await p.request("session/set_config_option", choose(session, "none"))
        await p.prompt("d", session=session)
        assert p.agent.prompts[:3] == ["S\na", "Review only.\nb", "c"]
        assert p.agent.prompts[3].startswith("From now on the instructions of the last role")
        assert switched(p) == []
        for odd in ("odd", 7, None):
            with pytest.raises(ProxyError, match="no role `"):
                await p.request("session/set_config_option", {**choose(session, ""), "value": odd})


async def test_roles_stand_behind_the_agent_s_options_and_its_modes_stay() -> None:
    effort = {"id": "effort", "name": "Effort", "currentValue": "low"}

    def answer(request: Record) -> Any:
        if request.method == "session/set_config_option":
            return {"configOptions": [{**effort, "currentValue": "high"}]}
        return offering(modes=MODES, configOptions=[effort])(request)

    async with play("system-prompt", config=OWN, answer=answer) as p:
        assert await opened(p) == {
            "sessionId": "s", "modes": MODES, "configOptions": [effort, role()],
        }  # fmt: skip
        params = {"sessionId": "s", "configId": "effort", "value": "high"}
        high = {**effort, "currentValue": "high"}
        said = await p.request("session/set_config_option", params)
        assert said == {"configOptions": [high, role()]}
        said = await p.request("session/set_config_option", choose("s", "reviewer"))
        assert said == {"configOptions": [high, role("reviewer")]}
        params = {"sessionId": "s", "modeId": "code"}
        assert await p.request("session/set_mode", params) == {}
        await p.prompt("x", session="s")
        assert p.agent.prompts == ["Review only.\nx"]


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"modes": MODES}, "the role `reviewer` is not offered: a mode of the agent's"),
        ({"configOptions": [{"id": "role", "name": "R"}]}, "the agent has an option `role` itself"),
        ({"configOptions": 7}, ""),
    ],
)
async def test_a_role_that_looks_like_the_agent_s_is_not_offered(members: Json, why: str) -> None:
    config = {"roles": {"reviewer": {"prompt": "theirs", "name": "write code"}}}
    async with play("system-prompt", config=config, answer=offering(**members)) as p:
        assert await opened(p) == {"sessionId": "s", **members}
        assert why in "".join(p.services.log)


async def test_a_role_from_the_start() -> None:
    async with play("system-prompt", config={"mode": "reviewer", **OWN}) as p:
        result = await opened(p)
        assert result["configOptions"] == [role("reviewer")]
        await p.prompt("a", session=result["sessionId"])
        assert p.agent.prompts == ["Review only.\na"]
        assert p.services.log == []


def test_behind_a_real_agent(rig: Rig) -> None:
    trusted = component("system-prompt", {"mode": "code"}, only="trusted")
    chain = agent(rig, trusted, rig.demo("--modes"))
    chain.initialize()
    answer = chain.request("session/new", {"cwd": "/", "mcpServers": []})
    assert answer["result"]["modes"]["currentModeId"] == "code"
    session = answer["result"]["sessionId"]
    assert received(rig, "session/set_mode") == [{"sessionId": session, "modeId": "code"}]
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_modes_of_the_agent_are_the_users_unless_it_is_trusted(rig: Rig) -> None:
    chain = agent(rig, component("system-prompt", {"mode": "code", **OWN}), rig.demo("--modes"))
    chain.initialize()
    answer = chain.request("session/new", {"cwd": "/", "mcpServers": []})["result"]
    assert answer["modes"]["currentModeId"] == "ask"
    assert [one["id"] for one in answer["modes"]["availableModes"]] == ["ask", "code"]
    assert answer["configOptions"] == [role()]
    session = answer["sessionId"]
    said = chain.request("session/set_config_option", choose(session, "reviewer"))["result"]
    assert said == {"configOptions": [role("reviewer")]}
    params = {"sessionId": session, "modeId": "code"}
    assert chain.request("session/set_mode", params)["result"] == {}
    assert [one["modeId"] for one in received(rig, "session/set_mode")] == ["code"]
    assert received(rig, "session/set_config_option") == []
    assert chain.finish() == 0
    assert "not switched to `code`" in chain.stderr
    assert "`,only=trusted` lets it" in chain.stderr


def test_else_a_block_is_put_in_front(rig: Rig) -> None:
    chain = agent(rig, component("system-prompt", {"prompt": "Be brief.", **OWN}), rig.demo())
    chain.initialize()
    answer = chain.request("session/new", {"cwd": "/", "mcpServers": []})["result"]
    session = answer["sessionId"]
    assert answer["configOptions"] == [role()]
    assert chain.prompt(session, "one") == "Be brief.\none"
    chain.request("session/set_config_option", choose(session, "reviewer"))
    assert chain.prompt(session, "two") == "Review only.\ntwo"
    assert chain.prompt(session, "three") == "three"
    assert received(rig, "session/set_config_option") == []
    assert chain.finish() == 0
    assert chain.stderr == ""
