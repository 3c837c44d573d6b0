"""Reminders, checkpoints and notices: `reminders`."""

import json
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import (
    FORMS,
    V2,
    agent,
    folders,
    in_form,
    load,
    play,
)
from tests.harness.process.rig import Chain, Rig

CHECKPOINTS = ".conductor/checkpoints"


def shown(p: Playground) -> list[str]:
    """The texts of reminders that the client was shown."""
    updates = [one.raw["params"]["update"] for one in p.heard]
    return [one["content"]["text"] for one in updates if "_meta" in one]


async def called(p: Playground, tool: str, /, **arguments: Any) -> str:
    """The text of a tool's result."""
    return str((await p.call(tool, **arguments))["content"][0]["text"])


async def test_reminders_come_at_their_time() -> None:
    async with play("reminders") as p:
        await p.new_session()
        assert await called(p, "list") == "none"
        said = await called(p, "set", text="call\n  Ada\x1b", minutes=30)
        assert said == "set: 1. 2025-10-08 13:04: call Ada"
        assert "2. 2025-10-08 12:40: tea" in await called(p, "set", text="tea", at="12:40")
        assert "3. 2025-10-09 09:00: sun" in await called(p, "set", text="sun", at="9:00")
        assert "4. 2025-10-20 08:00: far" in await called(
            p, "set", text="far", at="2025-10-20T10:00+02:00"
        )
        lines = (await called(p, "list")).splitlines()
        assert [line[0] for line in lines] == ["2", "1", "3", "4"]
        assert await called(p, "cancel", number=3) == "cancelled: 3. 2025-10-09 09:00: sun"
        assert (await p.call("cancel", number=3))["isError"]
        p.services.advance(300)
        assert shown(p) == []
        p.services.advance(60)
        assert shown(p) == ["[reminder: tea]\n"]
        p.services.advance(30 * 60)
        assert shown(p) == ["[reminder: tea]\n", "[reminder: call Ada]\n"]
        p.services.advance(11 * 24 * 3600)
        assert shown(p)[2:] == []
        p.services.advance(24 * 3600)
        assert shown(p)[2:] == ["[reminder: far]\n"]
        assert await called(p, "list") == "none"
        assert p.agent.prompts == []
        # The same words once more, under the same number.
        assert "1. " in await called(p, "set", text="call Ada", minutes=1)
        p.services.advance(60)
        assert shown(p)[3:] == ["[reminder: call Ada]\n"]


async def test_what_is_due_after_a_restart_is_told() -> None:
    async with play("reminders") as p:
        await p.new_session()
        await called(p, "set", text="tea", minutes=1)
        await called(p, "set", text="dinner", minutes=180)
        p.restart(load("reminders"))
        p.services.advance(60)
        assert shown(p) == ["[reminder: tea]\n"]
        store, now = p.services.store, p.services.now
    # The conductor was started anew; the session is another one in the same folder.
    async with play("reminders") as p:
        p.services.store = store
        p.services.now = now
        p.services.advance(7 * 3600)
        await p.new_session(cwd="/elsewhere")  # the agent gives it the same id
        assert shown(p) == []
        assert "dinner" in await called(p, "list")
        await p.new_session()
        assert shown(p) == ["[reminder, due 2025-10-08 15:34: dinner]\n"]
        assert not [key for key in p.services.store if key[1].startswith("reminder:")]


async def test_another_conductor_tells_it_only_where_the_first_does_not() -> None:
    async with play("reminders") as p:
        await p.new_session()
        await called(p, "set", text="tea", minutes=10)
        (key,) = [one for one in p.services.store if one[1].startswith("reminder:")]
        p.services.store[key]["session"] = "of another conductor"
        p.restart(load("reminders"))
        p.services.advance(630)
        assert shown(p) == []
        p.services.advance(30)
        assert shown(p) == ["[reminder, due 2025-10-08 12:44: tea]\n"]
        await called(p, "set", text="late", minutes=1)
        (key,) = [one for one in p.services.store if one[1].startswith("reminder:")]
        del p.services.store[key]  # the other one was there first
        p.services.advance(60)
        assert len(shown(p)) == 1


async def test_a_reminder_prompts_the_agent_where_the_user_allows_it() -> None:
    async with play("reminders") as p:
        await p.new_session()
        refused = await p.call("set", text="x", minutes=1, act=True)
        assert "config.act=true" in refused["content"][0]["text"]
    async with play("reminders", config={"act": True}) as p:
        await p.new_session()
        assert "(you act on it)" in await called(p, "set", text="look", minutes=1, act=True)
        p.services.advance(60)
        assert shown(p) == ["[reminder: look]\n"]
        assert p.agent.prompts == ["This reminder of yours is due, act on it: look"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"text": "x"}, "say when"),
        ({"text": "x", "at": "18:00", "minutes": 1}, "say when"),
        ({"text": "x", "minutes": -1}, "more than 0"),
        ({"text": "x", "minutes": 1e12}, "3660 days"),
        ({"text": "x", "at": "tomorrow"}, "no time"),
        ({"text": "x", "at": "2025-10-08T12:00"}, "it is 2025-10-08 12:34 now"),
        ({"text": "x", "at": "2099-01-01T00:00"}, "3660 days"),
        ({"text": " \n", "minutes": 1}, "1 to 1000 characters"),
        ({"text": "x" * 1001, "minutes": 1}, "1 to 1000 characters"),
    ],
)
async def test_reminders_that_cannot_be(arguments: Any, why: str) -> None:
    async with play("reminders", config={"most": 1}) as p:
        await p.new_session()
        refused = await p.call("set", **arguments)
        assert refused["isError"]
        assert why in refused["content"][0]["text"]
        assert not p.services.store
        await p.call("set", text="x", minutes=1)
        full = await p.call("set", text="y", minutes=1)
        assert "no more may be" in full["content"][0]["text"]


async def test_checkpoints() -> None:
    async with play("reminders", config={"every": 2}) as p:
        await p.new_session()
        await p.prompt("hello")
        said = await called(p, "checkpoint", title="First\x1b draft: v1/../x")
        path = f"/project/{CHECKPOINTS}/2025-10-08-123456-first-draft-v1-x.md"
        assert said == f"written: {path}"
        assert p.services.files[path] == (
            "# First draft: v1/../x\n\n2025-10-08 12:34, in `/project`\n"
            "\n## Turn 1\n\n**User**\n\nhello\n\n**Agent**\n\nhello\n"
        )
        assert len(p.services.files) == 1
        await p.prompt("again")
        (second,) = p.services.files.keys() - {path}
        assert second.endswith("-123456-checkpoint.md")
        assert "## Turn 2\n\n**User**\n\nagain\n" in p.services.files[second]
        await called(p, "set", text="tea", minutes=1)
        p.services.advance(60)
        await called(p, "checkpoint")
        assert p.services.files.popitem()[1].endswith("\n- [reminder: tea]\n")


async def test_a_checkpoint_of_a_long_conversation() -> None:
    async with play("reminders", config={"chars": 2_000_000}) as p:
        await p.new_session()
        for _ in range(2):
            await p.prompt("x" * 400_000)
        await called(p, "checkpoint")
        (text,) = p.services.files.values()
        assert len(text) < 1_000_000
        assert "(What came before turn 2 is left out.)\n\n## Turn 2" in text


async def test_what_may_be_missing() -> None:
    async with play("reminders", grants=[], config={"every": 1}) as p:
        await p.new_session()
        await p.prompt("hello")
        assert p.agent.prompts == ["hello"]
        assert any("reminders are not told: " in line for line in p.services.log)
        assert any("no checkpoint is written: " in line for line in p.services.log)
        for tool in ("list", "checkpoint"):
            assert (await p.call(tool))["isError"]
    async with play("reminders", grants=["clock", "write:elsewhere"]) as p:
        await p.new_session()
        refused = await p.call("checkpoint")
        assert "folder granted" in refused["content"][0]["text"]


@pytest.mark.parametrize("config", [{"most": 0}, {"every": -1}, {"folder": "../x"}, {"chars": 1}])
async def test_settings_that_cannot_be(config: Any) -> None:
    async with play("reminders", config=config) as p:
        with pytest.raises(ProxyError):
            await p.initialize()


def begun(
    rig: Rig, project: Path, time: str, version: int = 1, form: str = "sandboxed", **config: Any
) -> tuple[Chain, str]:
    """A chain of one project at a time, and its session."""
    project.mkdir(exist_ok=True)
    options = ("--project", str(project), "-c", f"clock=2025-10-08T{time}:00+00:00")
    env = {"XDG_DATA_HOME": str(project.parent / "data"), "PYTHONPATH": folders("reminders")}
    made = in_form(form, "reminders", config)
    chain = agent(rig, made, rig.demo("--acp"), options=options, **env)
    chain.initialize(**({} if version == 1 else V2))
    return chain, chain.new_session(cwd=str(project))


@pytest.mark.parametrize("version", [1, 2])
def test_a_reminder_outlives_the_conductor(rig: Rig, tmp_path: Path, version: int) -> None:
    def set_(chain: Chain, session: str, **arguments: Any) -> None:
        prompted = chain.start_prompt(session, f"/call reminders set {json.dumps(arguments)}")
        assert "result" in chain.answer(prompted)

    project = tmp_path / "project"
    chain, session = begun(rig, project, "12:00", version)
    set_(chain, session, text="now", minutes=0.001)
    chain.until(lambda: "[reminder: now]" in "".join(chain.texts(session)), "the reminder")
    set_(chain, session, text="tea", at="12:30")
    chain.until(lambda: "set: 1. 2025-10-08 12:30: tea" in "".join(chain.texts(session)), "it")
    assert chain.finish() == 0
    for time, told in (("12:31", True), ("12:45", False)):
        chain, session = begun(rig, project, time, version)
        if told:
            said = "[reminder, due 2025-10-08 12:30: tea]\n"
            chain.until(lambda: said in "".join(chain.texts(session)), "the reminder")  # noqa: B023
        else:
            chain.answer(chain.start_prompt(session, "hello"))
        assert chain.finish() == 0
        assert ("tea" in "".join(chain.texts(session))) is told
        assert chain.stderr == ""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_in_every_form(rig: Rig, tmp_path: Path, form: str, version: int) -> None:
    chain, session = begun(rig, tmp_path / "project", "12:00", version, form)

    def heard() -> str:
        return "".join(chain.texts(session))

    for prompt in (
        "hello",
        '/call reminders set {"text":"now","minutes":0.001}',
        '/call reminders checkpoint {"title":"one"}',
    ):
        assert "result" in chain.answer(chain.start_prompt(session, prompt))
    path = tmp_path / "project" / CHECKPOINTS / "2025-10-08-120000-one.md"
    chain.until(lambda: f"written: {path}" in heard(), "the checkpoint")
    chain.until(lambda: "[reminder: now]\n" in heard(), "the reminder")
    assert "**User**\n\nhello\n\n**Agent**\n\nhello\n" in path.read_text()
    assert chain.finish() == 0
    assert chain.stderr == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_reminder_that_prompts_waits_for_the_users_turn(
    rig: Rig, tmp_path: Path, version: int
) -> None:
    chain, session = begun(rig, tmp_path / "project", "12:00", version, act=True)
    arguments = '{"text":"look","minutes":0.001,"act":true}'
    prompted = chain.start_prompt(session, f"/call reminders set {arguments}")
    assert "result" in chain.answer(prompted)
    acts = "This reminder of yours is due, act on it: look"
    chain.until(lambda: acts in "".join(chain.texts(session)), "the agent's turn")
    heard = "".join(chain.texts(session))
    assert heard.index("set: 1.") < heard.index("[reminder: look]\n") < heard.index(acts)
    assert chain.finish() == 0
    assert chain.stderr == ""
