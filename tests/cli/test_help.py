"""What `conductor` and its commands say of themselves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import typer.main

from conductor.cli import app
from conductor.core.policy.rules import PROFILE_NAMES
from conductor.spec import catalog
from conductor.spec.component_options import NAMES
from tests.harness.process.command import conductor

COMMAND: Any = typer.main.get_command(app.app)
COMMANDS: dict[str, Any] = COMMAND.commands
SHOWN = [name for name, command in COMMANDS.items() if not command.hidden]


def test_the_commands_there_are() -> None:
    assert SHOWN == [
        "agent",
        "proxy",
        "exec",
        "inspect",
        "lock",
        "components",
        "doctor",
        "new",
        "build",
        "test",
        "check",
        "replay",
        "cache",
        "audit",
        "config",
    ]
    assert COMMANDS["join"].hidden


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command_and_shows_examples(arguments: list[str]) -> None:
    ran = conductor(*arguments)
    assert (ran.code, ran.err) == (0, "")
    for name in SHOWN:
        assert f" {name} " in ran.out
    assert " join " not in ran.out
    assert 'conductor exec datetime demo -p "what day is it?"' in ran.out


@pytest.mark.parametrize("name", SHOWN)
def test_help_names_every_option(name: str) -> None:
    ran = conductor(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    for parameter in COMMANDS[name].params:
        if getattr(parameter, "hidden", False):
            continue
        for option in parameter.opts:
            assert (option if option.startswith("-") else parameter.metavar) in ran.out


@pytest.mark.parametrize("name", ["agent", "proxy", "exec"])
def test_help_says_how_to_write_a_component(name: str) -> None:
    out = " ".join(conductor(name, "--help").out.split())
    for piece in (
        "./proxy.wasm",
        "./proxy.py",
        "./my-proxy",
        '"python my_proxy.py --fast"',
        '"args":["p.js"]',
        "grant=clock",
    ):
        assert piece in out
    keys = out.partition("Keys: ")[2].partition("docs/cli.md")[0]
    for key in NAMES:
        assert re.search(rf"\b{key}\b", keys) or key == "grants"
    for profile in PROFILE_NAMES:
        assert profile in keys
    assert "unguard" not in keys


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option: str) -> None:
    ran = conductor(option)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("conductor 0.")


def test_components() -> None:
    ran = conductor("components")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalog.bundled())
    assert "current date" in next(line for line in lines if line.startswith("datetime"))


def test_components_as_json() -> None:
    found = {one["name"]: one for one in json.loads(conductor("components", "--json").out)}
    assert sorted(found) == list(catalog.bundled())
    assert found["datetime"]["sandboxed"] is True
    assert found["demo"] | {"version": "", "description": ""} == {
        "name": "demo",
        "kind": "agent",
        "version": "",
        "description": "",
        "sandboxed": False,
    }
