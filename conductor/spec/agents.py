"""The known agents: the command of each, how it is installed, how its user logs in, its quirks.

A word of a chain that is neither configured nor a component may be the id or an alias of an agent:
`opencode` means `opencode acp` (`conductor.spec.catalog`). Nothing here is ever installed or logged
in by conductor: it names the command, and the user runs it. The facts come from the agents' own
documents, from the ACP registry and from acpx in November 2026; `tests/e2e/peers/agents.py` tries
the agents that npm and pip install.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent: an object of `agents.json`."""

    id: str
    """The word for it in chains."""
    name: str
    command: tuple[str, ...]
    """The command that starts it as an ACP agent: its program and arguments."""
    install: str
    """The command that installs it on Linux and macOS."""
    login: str
    """How its user logs in: the words after 'to log in, '."""
    aliases: tuple[str, ...] = ()
    """Other names of it: in the ACP registry, in acpx."""
    programs: tuple[str, ...] = ()
    """Other programs that are the same agent."""
    version: tuple[str, ...] = ("--version",)
    """Arguments with which its program prints its version; none where it has no such arguments."""
    needs_login: bool = False
    """Whether it opens a session only for somebody who is logged in."""
    quirks: tuple[str, ...] = ()

    @property
    def all_programs(self) -> tuple[str, ...]:
        """The programs looked for, the preferred one first."""
        return (self.command[0], *self.programs)

    @property
    def package(self) -> str:
        """The package in its install command; empty if the command runs a script."""
        words = self.install.split()
        by_manager = words[:3] in (["npm", "install", "-g"], ["uv", "tool", "install"])
        return words[3] if by_manager else ""


@cache
def table() -> tuple[KnownAgent, ...]:
    """The agents of the file `agents.json` beside this module, by id."""
    with open(os.path.join(os.path.dirname(__file__), "agents.json"), "rb") as file:
        # Not typed: msgspec would take longer to look at the type than at the file.
        rows: list[dict[str, Any]] = msgspec.json.decode(file.read())
    for row in rows:
        row |= {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return tuple(KnownAgent(**row) for row in rows)


@cache
def _by_word() -> dict[str, KnownAgent]:
    return {word: agent for agent in table() for word in (agent.id, *agent.aliases)}


def words() -> Iterator[str]:
    """Every id and alias."""
    return iter(_by_word())


def named(word: str) -> KnownAgent | None:
    """The agent that a word means, an id or an alias."""
    return _by_word().get(word)


def of_program(program: str) -> KnownAgent | None:
    """The agent whose program this is, a name or a path."""
    name = _plain(program)
    return next((agent for agent in table() if name in agent.all_programs), None)


def of_command(command: Sequence[str]) -> KnownAgent | None:
    """The agent that a command starts: its program, or its package behind `npx` or `uvx`."""
    if not command:
        return None
    if _plain(command[0]) not in ("npx", "uvx", "bunx", "pnpm", "npm", "uv", "bun"):
        return of_program(command[0])
    asked = {_unpinned(word) for word in command[1:]}
    return next((agent for agent in table() if agent.package in asked and agent.package), None)


def _plain(program: str) -> str:
    """The name of a program without its folder, and without an ending of Windows."""
    name = os.path.basename(program)
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in (".exe", ".cmd", ".bat") else name


def _unpinned(word: str) -> str:
    """A package without its version: `@scope/name@1.2` is `@scope/name`."""
    name, at, _ = word.rpartition("@")
    return name.partition("==")[0] if at and name else word.partition("==")[0]


def login_hint(agent: KnownAgent) -> str:
    """A hint for an agent that refuses because nobody is logged in."""
    return f"to log in, {agent.login}; then try again"


def missing(agent: KnownAgent, word: str) -> tuple[str, str]:
    """The error for an agent whose program is not on PATH, and its hint."""
    called = f"`{word}`" if word == agent.id else f"`{word}` ({agent.id})"
    programs = " or ".join(f"`{program}`" for program in agent.all_programs)
    text = f"the agent {called} is not installed: there is no program {programs} on PATH"
    return text, f"install it with `{agent.install}`"
