"""AGENTS.md: `agents-md`."""

from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import Json, agent, component, load, play, received
from tests.harness.process.rig import Rig

FILES = {
    "/project/AGENTS.md": "\ufeffBe brief.\n",
    "/project/api/AGENTS.md": "Test the api.",
    "/project/api/v1/AGENTS.md": "Touch nothing.",
    "/project/web/AGENTS.md": "No tabs.",
    "/project/empty/AGENTS.md": "\n",
    "/project/node_modules/x/AGENTS.md": "Never.",
    "/project/README.md": "Not this.",
}
WORDS = ("Be brief", "Test the api", "Touch nothing", "No tabs", "Never", "Not this")


def started(**more: Any) -> Playground:
    """A playground with those files."""
    return play("agents-md", **{"files": FILES, "grants": ["read:**"], **more})


def told(p: Playground, at: int = -1) -> list[str]:
    """Which of the instructions a prompt held."""
    return [one for one in WORDS if one in p.agent.prompts[at]]


async def test_the_right_ones_once() -> None:
    async with started() as p:
        await p.prompt("/command")
        assert p.agent.prompts == ["/command"]
        await p.prompt("hello")
        assert told(p) == ["Be brief"]
        said = p.agent.prompts[-1]
        assert '<instructions folder="/project" file="AGENTS.md">\nBe brief.\n</instr' in said
        assert "- /project/api/AGENTS.md\n- /project/empty/AGENTS.md" in said
        assert said.endswith("\nhello")
        await p.prompt("and api, web?")
        assert p.agent.prompts[-1] == "and api, web?"
        await p.prompt("look at ./api/v1/x.py")
        assert told(p) == ["Test the api", "Touch nothing"]
        await p.prompt("once more: api/v1")
        assert told(p) == []


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("web/x", ["No tabs"]),
        ("see /project/web.", ["No tabs"]),
        ("see @web/x", ["No tabs"]),
        ("cobweb/x my-web/x /web/x", []),
        ("api/v1 and", ["Test the api", "Touch nothing"]),
        ("api/v10", ["Test the api"]),
        ({"type": "resource_link", "uri": "file:///project/web/a%20b", "name": "x"}, ["No tabs"]),
        ({"type": "resource", "resource": {"uri": "file:///project/web/x", "text": "api/"}},
         ["No tabs"]),
        ({"type": "odd", "uri": 7, "text": 7, "resource": 7}, []),
        ("node_modules/x/y", []),
    ],
)  # fmt: skip
async def test_inner_ones_when_their_folder_is_mentioned(block: Any, words: list[str]) -> None:
    async with started(answer=None if isinstance(block, str) else _ended) as p:
        await p.prompt(block)
        blocks = p.agent.requests[-1].raw["params"]["prompt"]
        held = [one for one in WORDS if one in blocks[0]["text"]]
        assert held == ["Be brief", *words]
        assert len(blocks) == 2


def _ended(request: Any) -> Any:
    return {"stopReason": "end_turn"} if request.method == "session/prompt" else None


async def test_settings() -> None:
    async with started(config={"nested": "all", "skip": ["v1"]}) as p:
        await p.prompt("a")
        assert told(p) == ["Be brief", "Test the api", "No tabs", "Never"]
        assert "There are more" not in p.agent.prompts[-1]
    async with started(config={"nested": "never"}) as p:
        await p.prompt("api/v1/x")
        assert told(p) == ["Be brief"]
        assert "api/AGENTS.md" not in p.agent.prompts[-1]
    async with started(config={"names": ["README.md", "NONE"], "max_bytes": 3}) as p:
        await p.prompt("a")
        assert "Not\n(The rest of /project/README.md is left out" in p.agent.prompts[-1]
    for config in ({"names": ["../x"]}, {"max_bytes": 0}):
        async with started(config=config) as p:
            with pytest.raises(ProxyError, match=next(iter(config))):
                await p.initialize()


async def test_sessions_have_their_own_folders_and_forks_have_heard() -> None:
    async with started() as p:
        inner = await p.new_session("/project/api", additionalDirectories=["/project/web", 7])
        await p.prompt("a", session=inner)
        assert told(p) == ["Test the api", "No tabs"]
        outer = await p.new_session("/project/api/v1", additionalDirectories=["/project"])
        await p.prompt("b", session=outer)
        assert told(p) == ["Be brief", "Test the api", "Touch nothing"]
        setup = {"cwd": "/project", "mcpServers": []}
        forked = await p.request("session/fork", {"sessionId": outer, **setup})
        await p.prompt("c", session=forked["sessionId"])
        assert p.agent.prompts[-1] == "c"
        await p.request("session/load", {"sessionId": "old", **setup})
        await p.prompt("d web/x", session="old")
        assert told(p) == ["No tabs"]
        await p.request("session/close", {"sessionId": "old"})
        await p.prompt("e", session="old")
        assert p.agent.prompts[-1] == "e"


async def test_without_the_grant_prompts_go_on_and_the_log_says_so() -> None:
    async with started(grants=[]) as p:
        await p.prompt("a")
        await p.prompt("b")
        assert p.agent.prompts == ["a", "b"]
        assert len(p.services.log) == 1
        assert "not granted" in p.services.log[0]


async def test_an_edit_is_seen_by_the_next_session() -> None:
    async with started() as p:
        await p.prompt("a")
        p.services.files["/project/AGENTS.md"] = "Test the api"
        await p.prompt("b")
        assert told(p) == []
        await p.new_session()
        await p.prompt("c")
        assert told(p) == ["Test the api"]


def test_what_it_mentions_elsewhere_is_no_mention(rig: Rig, tmp_path: Path) -> None:
    """Agents read what `@/some/path` names; what a project calls `@/lib` is no such thing."""
    (tmp_path / "AGENTS.md").write_text("Import from '@/lib', see @docs/a.md.", encoding="utf-8")
    chain = agent(rig, component("agents-md"), rig.demo())
    chain.initialize()
    said = chain.prompt(chain.new_session(cwd=str(tmp_path)), "hello")
    assert "\nImport from '@ /lib', see @docs/a.md.\n" in said
    assert chain.finish() == 0
    assert "warning" not in chain.stderr


@pytest.mark.parametrize(
    ("info", "config", "expected"),
    [
        ({"agentInfo": {"name": "@x/codex-acp", "version": "1"}}, {}, []),
        ({"info": {"name": "n", "title": "OpenCode"}}, {}, []),
        ({"agentInfo": {"name": "opencode"}}, {"always": True}, ["Be brief"]),
        ({"agentInfo": {"name": "opencode"}}, {"names": ["AGENTS.md", "README.md"]}, ["Not this"]),
        ({"agentInfo": {"name": "ampere-codexes"}}, {}, ["Be brief"]),
        ({"agentInfo": ["codex"]}, {}, ["Be brief"]),
    ],
)
async def test_an_agent_that_reads_them_itself(info: Json, config: Json, expected: Any) -> None:
    async with started(config=config) as p:
        p.agent.answer = lambda one: (
            {"protocolVersion": 1, **info} if one.method == "initialize" else None
        )
        await p.initialize()
        p.agent.answer = None
        await p.prompt("hello")
        assert told(p) == expected
        p.restart(load("agents-md"))
        await p.new_session()
        await p.prompt("hello")
        assert told(p) == expected
        silent = ["amp reads", "codex reads", "opencode reads"]
        assert any(one in line for line in p.services.log for one in silent) == (
            "Be brief" not in expected
        )


def test_behind_a_real_agent(rig: Rig, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, said in (("", "Be brief."), ("api", "Test the api."), ("node_modules", "Never.")):
        (project / name).mkdir(exist_ok=True)
        (project / name / "AGENTS.md").write_text(said, encoding="utf-8")
    (project / "web" / "AGENTS.md").mkdir(parents=True)  # a folder of that name
    names = component("agents-md", {"names": ["AGENTS.md", "NOTES.md"]})
    chain = agent(rig, names, rig.demo())
    chain.initialize()

    def told() -> str:
        blocks: list[Json] = received(rig, "session/prompt")[-1]["prompt"]
        return str(blocks[0]["text"])

    session = chain.new_session(cwd=str(project))
    said = chain.prompt(session, "hello")
    assert f'folder="{project}" file="AGENTS.md">\nBe brief.\n' in said
    assert f"- {project}/api/AGENTS.md" in said
    assert "Test the api" not in said
    assert "node_modules" not in said
    assert "web" not in said
    assert chain.prompt(session, "again") == "again"
    chain.prompt(session, "read api/x.py")
    assert "Test the api." in told()
    (project / "AGENTS.md").write_text("Be kind.", encoding="utf-8")
    assert chain.prompt(session, "again") == "again"
    chain.prompt(chain.new_session(cwd=str(project)), "hello")
    assert "Be kind." in told()
    assert chain.finish() == 0
    told_of = "`names`: NOTES.md is not looked for, it needs `,allow=read:**/NOTES.md`"
    assert set(chain.stderr.splitlines()) == {f"warning: agents-md: {told_of}"}
