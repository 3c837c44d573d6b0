"""Skills: `skills`."""

import json
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import ProxyError
from tests.components.library.support import agent, component, play
from tests.harness.process.command import conductor
from tests.harness.process.rig import Rig

RELEASE = "---\nname: release\ndescription: >-\n  How to make\n  a release\n---\n1. Test.\n"
FILES = {
    "/project/skills/release/SKILL.md": RELEASE,
    "/project/skills/release/notes/list.txt": "a list",
    "/project/skills/release/inner/SKILL.md": "not one of its own",
    "/project/skills/SKILL.md": "not one either",
    "/project/.claude/skills/release/SKILL.md": "---\ndescription: hidden by the other\n---\n",
    "/project/.claude/skills/review/SKILL.md": '---\ndescription: "Reviews: all"\n---\nLook.',
    "/project/.claude/skills/plain/SKILL.md": "No head.",
    "/project/skills/bad/SKILL.md": "---\nname: ../up\n---\nNo.",
    "/project/secret.txt": "secret",
}


async def test_names_and_descriptions_once_up_front() -> None:
    async with play("skills", files=FILES) as p:
        for said in ("/command", "1/2", "again"):
            await p.prompt(said)
        command, slash, again = p.agent.prompts
        assert (command, again) == ("/command", "again")
        lines = slash.splitlines()
        assert lines[1:] == [
            "- release: How to make a release",
            "- plain",
            "- review: Reviews: all",
            "1/2",
        ]
        assert "Test." not in slash
        await p.new_session(cwd="/elsewhere")
        await p.prompt("hello")
        await p.request("session/load", {"sessionId": "old", "cwd": "/project", "mcpServers": []})
        await p.prompt("hello", session="old")
        assert p.agent.prompts[3:] == ["hello", "hello"]


async def test_bodies_on_demand() -> None:
    async with play("skills", files=FILES) as p:
        await p.new_session()
        assert "resources" in (await p.mcp("server/discover", {}))["capabilities"]
        listed = (await p.mcp("resources/list", {}))["resources"]
        assert [one["uri"] for one in listed] == [
            "skill://release",
            "skill://plain",
            "skill://review",
        ]
        templates = (await p.mcp("resources/templates/list", {}))["resourceTemplates"]
        assert [one["uriTemplate"] for one in templates] == [
            "skill://{name}",
            "skill://{name}/{+file}",
        ]
        assert listed[0]["description"] == "How to make a release"
        assert listed[0]["mimeType"] == "text/markdown"
        for uri, expected in (
            ("skill://release", "1. Test.\n"),
            ("skill://release/notes/list.txt", "a list"),
            ("skill://plain", "No head."),
        ):
            read = await p.mcp("resources/read", {"uri": uri})
            assert read["contents"][0]["text"] == expected
        for uri in (
            "skill://none",
            "skill://release/../../../secret.txt",
            "skill://release//project/secret.txt",
            "skill://release/no.txt",
            "file:///project/secret.txt",
            "skill://../secret.txt",
        ):
            with pytest.raises(ProxyError):
                await p.mcp("resources/read", {"uri": uri})
        p.services.files["/project/skills/release/SKILL.md"] = "Edited."
        called = await p.call("read_skill", name="release")
        assert called["content"][0]["text"] == "Edited."
        called = await p.call("read_skill", name="none")
        assert called["isError"]
        assert "skills are: release, plain, review" in called["content"][0]["text"]
        await p.new_session()
        await p.prompt("looked for once more, and not told once more")
        (told,) = p.services.log
        assert "skills/bad/SKILL.md is left out: `../up` cannot be the name of a skill" in told
        assert "\nhint: a name is up to 64 letters" in told


async def test_what_is_chosen_and_what_is_refused() -> None:
    async with play(
        "skills", files=FILES, config={"only": ["review"], "folders": [".claude/skills"]}
    ) as p:
        await p.new_session()
        listed: Any = await p.mcp("resources/list", {})
        assert [one["name"] for one in listed["resources"]] == ["review"]
    async with play("skills", files=FILES, grants=[]) as p:
        await p.prompt("hello")
        assert p.agent.prompts == ["hello"]
        (told,) = p.services.log
        assert "looked for in skills, .claude/skills, .agents/skills: service `files`" in told


def test_it_reads_the_folders_that_are_set_and_no_others() -> None:
    set_ = conductor("inspect", "--json", 'skills,config.folders=["docs/skills"]')
    rights = json.loads(set_.out)["policy"]["rights"]
    assert rights == ["context", "read:docs/skills/**"]
    for more in ("", ",only=none"):
        outside = conductor("inspect", f'skills,config.folders=["../x"]{more}')
        outside.assert_error(2, "a setting of `skills` gives no right: `../x/**` is no glob")


def test_behind_a_real_agent(rig: Rig, tmp_path: Path) -> None:
    for folder in ("skills/release", ".claude/skills/review"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "skills/release/SKILL.md").write_text(RELEASE, encoding="utf-8")
    (tmp_path / ".claude/skills/review/SKILL.md").write_text("Look.", encoding="utf-8")
    (tmp_path / "SKILL.md").write_text("none", encoding="utf-8")
    chain = agent(rig, component("skills"), rig.demo("--acp"))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))
    told = chain.prompt(session, "hello").splitlines()
    assert told[1:] == ["- release: How to make a release", "- review", "hello"]
    assert chain.prompt(session, "/resource skills skill://release") == "1. Test.\n"
    assert chain.prompt(session, "/resource skills skill://review") == "Look."
    assert "there is no skill" in chain.prompt(session, "/resource skills skill://none")
    assert chain.prompt(session, '/call skills read_skill {"name":"review"}') == "Look."
    assert chain.finish() == 0
    assert chain.stderr == ""
