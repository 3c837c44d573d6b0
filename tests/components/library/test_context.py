"""Context: `context`."""

from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Playground
from tests.components.library.support import agent, component, play
from tests.harness.process.rig import Rig

FILES = {
    "/project/Cargo.toml": "[package]",
    "/project/README.md": "# Fox\n\nIt is quick.\nAnd brown.\n",
    "/project/src/main.rs": "one\ntwo\nthree\n",
    "/project/src/deep/down.rs": "x",
    "/project/target/debug/fox": "x",
    "/elsewhere/secret": "x",
}


def started(**more: Any) -> Playground:
    """A playground with those files."""
    return play("context", **{"files": FILES, "grants": ["read:**"], **more})


async def test_a_summary_with_the_first_prompt() -> None:
    async with started() as p:
        await p.prompt("/command")
        await p.prompt("hello")
        await p.prompt("again")
        assert p.agent.prompts == [
            "/command",
            (
                '<project folder="/project" kind="Rust">\nCargo.toml\nREADME.md\nsrc/main.rs\n'
                "… and more; the tool `list` of `context` has all of it\n\nREADME.md begins:\n"
                "# Fox\n\nIt is quick.\nAnd brown.\n</project>\nhello"
            ),
            "again",
        ]
        await p.request("session/load", {"sessionId": "old", "cwd": "/project", "mcpServers": []})
        await p.prompt("d", session="old")
        assert p.agent.prompts[-1] == "d"


@pytest.mark.parametrize(
    ("config", "there", "missing"),
    [
        ({"depth": 3, "skip": []}, ["src/deep/down.rs", "target/debug/fox"], ["and more"]),
        ({"entries": 1}, ["Cargo.toml", "and more"], ["src/main.rs"]),
        ({"heads": ["NONE", "src/main.rs"]}, ["src/main.rs begins:\none"], ["README.md begins"]),
        ({"head_bytes": 10}, ["begins:\n# Fox\n\n…"], ["It is"]),
        ({"summary": "never"}, [], ["project"]),
    ],
)
async def test_settings(config: Any, there: list[str], missing: list[str]) -> None:
    async with started(config=config) as p:
        await p.prompt("a")
        said = p.agent.prompts[0]
        assert all(one in said for one in there), said
        assert not any(one in said for one in missing), said


async def test_without_files_or_the_grant_prompts_go_on() -> None:
    for more, logged in (({"files": {}}, 0), ({"grants": []}, 1)):
        async with started(**more) as p:
            await p.prompt("a")
            await p.prompt("b")
            assert p.agent.prompts == ["a", "b"]
            assert len(p.services.log) == logged


async def test_tools() -> None:
    async with started() as p:

        async def call(tool: str, **arguments: Any) -> str:
            """The text of a call's result."""
            result = await p.call(tool, **arguments)
            said = str(result["content"][0]["text"])
            assert said.startswith("cannot ") == result.get("isError", False)
            return said

        assert [one["name"] for one in await p.tools()] == ["list", "read"]
        assert await call("list", path="src", glob="m*.rs") == "main.rs"
        assert await call("list", path="src", glob="*.c") == "nothing in src fits *.c"
        assert await call("read", path="/project/src/main.rs") == "one\ntwo\nthree"
        said = await call("read", path="src/../src/main.rs", first_line=2, lines=1)
        assert said == "two\n… 1 more lines"
        assert await call("read", path="src/main.rs", first_line=9) == ""
        for tool, path in (("read", "../elsewhere/secret"), ("list", "/elsewhere"), ("read", "/")):
            said = await call(tool, path=path)
            assert said.startswith(f"cannot {tool} {path}: `{path}` is outside of the session's")
        assert "no such file" in await call("read", path="nothing")


def test_behind_a_real_agent(rig: Rig, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "main.py").write_text("print()\n", encoding="utf-8")
    (project / "pyproject.toml").write_text("", encoding="utf-8")
    (project / ".env").write_text("secret", encoding="utf-8")
    (project / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text("secret", encoding="utf-8")
    chain = agent(rig, component("context", name="fs"), rig.demo())
    chain.initialize()
    session = chain.new_session(cwd=str(project))
    said = chain.prompt(session, "hello")
    assert said.startswith(f'<project folder="{project}" kind="Python">\n')
    assert "pyproject.toml\nsrc/\nsrc/main.py" in said
    assert ".env" not in said
    assert chain.prompt(session, '/call fs list {"path":"src"}') == "main.py"
    assert chain.prompt(session, '/call fs read {"path":"src/main.py"}') == "print()"
    for path in ("../other", "link", ".env"):
        said = chain.prompt(session, f'/call fs read {{"path":"{path}"}}')
        assert "secret" not in said
        assert said.startswith(f"tool error: cannot read {path}: ")
    assert chain.finish() == 0
    assert chain.stderr == ""
