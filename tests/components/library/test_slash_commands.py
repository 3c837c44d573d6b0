"""Slash commands: `slash-commands`."""

from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import Json, agent, component, play, received
from tests.harness.process.rig import Rig

FOLDER = "/project/.conductor/commands"
REVIEW = '---\ndescription: "Reviews"\nargument-hint: FILE\n# x\n---\nReview $ARGUMENTS well.\n'
FILES = {
    f"{FOLDER}/review.md": REVIEW,
    f"{FOLDER}/git/amend.md": "# Amend the commit\nby $2, not $1\\$1; $3.",
    f"{FOLDER}/plain.md": "Be plain.",
    f"{FOLDER}/bad name.md": "x",
    f"{FOLDER}/note.txt": "x",
}


def started(**more: Any) -> Playground:
    """A playground with those files."""
    return play("slash-commands", **{"files": FILES, "grants": ["read:**"], **more})


def lists(p: Playground) -> list[list[Json]]:
    """The lists of commands the client was sent."""
    updates = [o.raw["params"]["update"] for o in p.heard if o.method == "session/update"]
    return [u["availableCommands"] for u in updates if "availableCommands" in u]


async def test_they_are_listed_once_behind_the_answer() -> None:
    async with started() as p:
        await p.new_session()
        assert lists(p) == [
            [
                {"type": "command", "name": "git:amend", "description": "Amend the commit"},
                {"type": "command", "name": "plain", "description": "Be plain."},
                {"type": "command", "name": "review", "description": "Reviews",
                 "input": {"type": "text", "hint": "FILE"}},
            ]
        ]  # fmt: skip
        said = [line for line in p.lines if line.startswith("< p")]
        assert '"result"' in said[0]
        assert "available_commands_update" in said[1]
        await p.prompt("/plain")
        assert len(lists(p)) == 1


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ("/review x", "Review x well."),
        ("  /review\n a  b \n", "Review a  b well."),
        ("/review", "Review  well."),
        ("/plain", "Be plain."),
        ("/plain and more", "Be plain.\n\nand more"),
        ("/git:amend 'a b' c", "# Amend the commit\nby c, not a b$1; ."),
        ("/git:amend it's c", "# Amend the commit\nby c, not it's$1; ."),
        ("/review $1 \\$ $ARGUMENTS", "Review $1 \\$ $ARGUMENTS well."),
        ("/unknown x", "/unknown x"),
        ("say /review x", "say /review x"),
        ("/review/x", "/review/x"),
        ("hello", "hello"),
    ],
)
async def test_what_the_agent_gets(said: str, got: str) -> None:
    async with started() as p:
        await p.prompt(said)
        assert p.agent.prompts == [got]


async def test_the_rest_of_a_prompt_stays() -> None:
    async with started(answer=lambda r: {} if r.method == "session/prompt" else None) as p:
        odd: list[Any] = ["odd", {"type": "text"}, {"type": "text", "text": 7}, None]
        command = {"type": "text", "text": "/plain", "annotations": {"priority": 1}}
        other = {"type": "text", "text": "/review x"}
        session = await p.new_session()
        for prompt, got in (
            ([*odd, command, other], [*odd, {**command, "text": "Be plain."}, other]),
            ("/plain", "/plain"),
        ):
            await p.request("session/prompt", {"sessionId": session, "prompt": prompt, "x": 1})
            params = p.agent.requests[-1].raw["params"]
            assert params == {"sessionId": session, "prompt": got, "x": 1}


async def test_a_command_that_the_agent_has_too_stays_the_agents() -> None:
    async with started(config={"commands": {"tldr": "Sum up: $ARGUMENTS"}, "folders": []}) as p:
        session = await p.new_session()
        ours = {"type": "command", "name": "tldr", "description": "Sum up: $ARGUMENTS",
                "input": {"type": "text", "hint": "arguments"}}  # fmt: skip
        assert lists(p) == [[ours]]
        theirs = [{"name": "help", "description": "Helps"}, {"name": "tldr", "x": 1}, "odd"]
        kind = "available_commands_update"
        p.agent.update(session, kind, availableCommands=theirs, _meta={"a": 1})
        other = {**ours, "name": "project:tldr"}
        assert lists(p)[-1] == [*theirs, other]
        assert p.heard[-1].raw["params"]["update"]["_meta"] == {"a": 1}
        p.agent.update(session, kind, availableCommands="odd")
        assert p.heard[-1].raw["params"]["update"]["availableCommands"] == "odd"
        await p.prompt("/project:tldr this")
        await p.prompt("/tldr this")
        await p.prompt("/help")
        assert p.agent.prompts == ["Sum up: this", "/tldr this", "/help"]
        await p.request("session/resume", {"sessionId": session, "cwd": "/project"})
        assert lists(p)[-1] == [*theirs, other]


@pytest.mark.parametrize("name", ["review", "/review", "Review"])
async def test_the_name_is_compared_as_people_type_it(name: str) -> None:
    async with started() as p:
        session = await p.new_session()
        theirs = [{"name": name, "description": "The agent's"}, {"name": "project:plain"}]
        p.agent.update(session, "available_commands_update", availableCommands=theirs)
        names = [one["name"] for one in lists(p)[-1]]
        assert names == [name, "project:plain", "git:amend", "plain", "project:review"]
        for said in (f"/{name.strip('/')} x", "/project:review x", "/plain", "/project:plain"):
            await p.prompt(said)
        assert p.agent.prompts == [
            f"/{name.strip('/')} x", "Review x well.", "Be plain.", "/project:plain",
        ]  # fmt: skip


async def test_what_is_written_meanwhile_is_there() -> None:
    async with started() as p:
        await p.new_session()
        p.services.files[f"{FOLDER}/new.md"] = "New!"
        p.services.files[f"{FOLDER}/plain.md"] = "Be very plain."
        await p.prompt("/new")
        await p.prompt("/plain")
        assert p.agent.prompts == ["New!", "Be very plain."]
        assert [len(one) for one in lists(p)] == [3, 4]
        p.services.files.clear()
        await p.prompt("/plain")
        assert p.agent.prompts[-1] == "/plain"
        assert lists(p)[-1] == []


async def test_without_the_grant_and_after_the_end() -> None:
    async with started(grants=[]) as p:
        session = await p.new_session()
        await p.prompt("/review x")
        await p.request("session/close", {"sessionId": session})
        await p.prompt("/plain", session=session)
        assert p.agent.prompts == ["/review x", "/plain"]
        assert ["not looked into" in one for one in p.services.log] == [True, False]
        assert lists(p) == []
    for config in ({"folders": ["../x"]}, {"commands": {"a b": "x"}}):
        async with started(config=config) as p:
            with pytest.raises(ProxyError, match="config"):
                await p.initialize()


async def test_started_again_it_does_not_know_the_folder_and_says_so() -> None:
    async with started(config={"commands": {"tldr": "Sum up $ARGUMENTS"}}) as p:
        for said in ("hello", "/tldr it", "/review it", "/review"):
            await p.prompt(said, session="from-before")
        assert p.agent.prompts == ["hello", "Sum up it", "/review it", "/review"]
        assert lists(p) == []
        assert ["folder of from-before is not known" in one for one in p.services.log] == [True]
        setup = {"sessionId": "from-before", "cwd": "/project", "mcpServers": []}
        await p.request("session/load", setup)
        await p.prompt("/review it", session="from-before")
        assert p.agent.prompts[-1] == "Review it well."


def test_behind_a_real_agent(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".conductor" / "commands"
    folder.mkdir(parents=True)
    for name in ("review", "echo"):
        (folder / f"{name}.md").write_text(REVIEW, encoding="utf-8")
    spec = component("slash-commands", {"commands": {"tldr": "Sum up."}})
    chain = agent(rig, spec, rig.demo("--commands"))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path / "project"))

    def names() -> list[str]:
        """The names in the newest list."""
        held = [one["params"]["update"] for one in chain.seen("session/update")]
        told = [one["availableCommands"] for one in held if "availableCommands" in one]
        return [one["name"] for one in told[-1]] if told else []

    ours = ["tldr", "project:echo", "review"]
    chain.until(lambda: names()[-3:] == ours, "our commands")
    assert "echo" in names()
    assert chain.prompt(session, "/review x") == "Review x well."
    assert received(rig, "session/prompt")[-1]["prompt"][0]["text"] == "Review x well."
    assert chain.prompt(session, "/echo x") == "x"
    assert chain.prompt(session, "/project:echo x") == "Review x well."
    assert chain.finish() == 0
    assert chain.stderr == ""
