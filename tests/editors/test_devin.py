"""`conductor setup devin` writes a registry of agents as ACP describes it."""

import importlib
import json
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

from conductor.editors.record import Settings
from conductor.editors.table import TARGETS
from conductor.editors.target import Edit, Launch

DEVIN: Final = TARGETS["devin"]
VALIDATOR: Any = importlib.import_module("jsonschema").Draft7Validator  # it has no types

_STRINGS: Final = {"type": "array", "items": {"type": "string"}}
_VERSION: Final = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+"}
_TEXT: Final = {"type": "string", "minLength": 1}
_SYSTEMS: Final = [
    f"{system}-{machine}"
    for system in ("darwin", "linux", "windows")
    for machine in ("aarch64", "x86_64")
]
_BINARY: Final = {
    "type": "object",
    "required": ["archive", "cmd"],
    "properties": {
        "archive": {"type": "string"},
        "cmd": {"type": "string"},
        "args": _STRINGS,
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
REGISTRY: Final = {
    "type": "object",
    "required": ["version", "agents", "extensions"],
    "additionalProperties": False,
    "properties": {
        "version": _VERSION,
        "extensions": {"type": "array"},
        "agents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "name", "version", "description", "distribution"],
                "properties": {
                    "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                    "name": _TEXT,
                    "version": _VERSION,
                    "description": _TEXT,
                    "distribution": {
                        "type": "object",
                        "minProperties": 1,
                        "properties": {
                            "binary": {
                                "type": "object",
                                "minProperties": 1,
                                "propertyNames": {"enum": _SYSTEMS},
                                "additionalProperties": _BINARY,
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The members that the ACP registry's schema of February 2026 requires, of those that conductor
writes."""

NAMES: Final = ["-", "9 lives", "Conductor", "With review!", "x" * 300, "Ä", "日本"]


def put(text: str | None, name: str, launch: Launch) -> Edit:
    edit = DEVIN.put(text, Settings("devin"), name, launch)
    assert edit.text is not None
    return edit


def held(edit: Edit) -> Any:
    assert edit.text is not None
    return json.loads(edit.text)


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("env", sorted([{}, {"PATH": "/a:/b"}], key=str))
@pytest.mark.parametrize("command", sorted(["/opt/bin/conductor", "/opt/my bin/cö?#%/conductor"]))
def test_a_new_file_is_a_registry(name: str, env: dict[str, str], command: str) -> None:
    registry = held(put(None, name, Launch(command, ["agent", "datetime", "demo"], env)))
    VALIDATOR(REGISTRY).validate(registry)
    (agent,) = registry["agents"]
    ((started),) = agent["distribution"]["binary"].values()
    assert started["cmd"] == command
    archive = urlsplit(started["archive"])
    assert (archive.scheme, archive.netloc, archive.query, archive.fragment) == ("file", "", "", "")
    assert PurePosixPath(unquote(archive.path)) == PurePosixPath(command)
    assert started["archive"].isascii()


def test_names_that_lose_letters_are_not_mixed_up() -> None:
    text = None
    for name in NAMES:
        text = put(text, name, Launch("/opt/conductor", ["agent", name])).text
    agents = json.loads(text or "")["agents"]
    assert sorted(agent["name"] for agent in agents) == sorted(NAMES)
    VALIDATOR(REGISTRY).validate(json.loads(text or ""))


def test_the_schema_refuses_what_is_no_registry() -> None:
    registry = held(put(None, "Conductor", Launch("/opt/conductor")))
    for spoil in ("id", "distribution"):
        spoilt = json.loads(json.dumps(registry))
        spoilt["agents"][0][spoil] = {}
        assert not VALIDATOR(REGISTRY).is_valid(spoilt), spoil
    assert not VALIDATOR(REGISTRY).is_valid({**registry, "more": 1})
