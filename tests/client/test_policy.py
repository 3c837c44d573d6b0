"""The managed policy holds for a chain within a program, and no configuration is read for one."""

import asyncio
import os
from pathlib import Path

import pytest

import conductor
from conductor.spec import managed


async def answer(*components: str) -> str:
    """The agent's answer to `hi`."""
    async with conductor.open(*components) as chain:
        return str(await chain.prompt("hi"))


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy that a test may write."""
    path = tmp_path / "etc" / "policy.toml"
    path.parent.mkdir()
    path.write_text('contact = "policy@example.com"\n')
    path.chmod(0o644)
    for each in (tmp_path, path.parent):
        each.chmod(0o755)
    monkeypatch.setattr(managed, "PLACE", str(path))
    monkeypatch.setattr(managed, "OWNERS", frozenset({0, os.getuid()}))
    return path


def test_the_policy_refuses(policy: Path) -> None:
    with policy.open("a") as file:
        file.write("require-sandbox = true\n")
    with pytest.raises(conductor.UsageError, match="under the managed policy"):
        asyncio.run(answer("py:tests.cli.agents:silent", "demo"))
    assert asyncio.run(answer("passthrough", "demo")) == "hi"


def test_what_the_policy_requires_is_in_the_chain(policy: Path) -> None:
    with policy.open("a") as file:
        file.write('[[required]]\nsource = "bundled:datetime"\nplace = "first"\n')
    assert "<current-date" in asyncio.run(answer("demo"))


def test_a_policy_that_is_wrong_lets_nothing_run(policy: Path) -> None:
    policy.write_text("contact = \n")
    with pytest.raises(conductor.UsageError, match="policy"):
        asyncio.run(answer("demo"))


def test_no_configuration_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "conductor" / "conductor.toml"
    config.parent.mkdir()
    config.write_text("this is no TOML")
    (tmp_path / "conductor.toml").write_text("nor is this")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(answer("demo")) == "hi"
