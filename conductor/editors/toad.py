"""Toad: the command line that starts it with conductor.

Toad reads agents from its own package only, so there is no file to write: its command line names
the agent. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from conductor.editors.record import Settings
from conductor.editors.target import Edit, Launch
from conductor.errors import UsageError, one_line, visible


class Toad(msgspec.Struct, frozen=True):
    """Toad; a `Target` without a file."""

    name: str = "toad"
    title: str = "Toad"
    programs: tuple[str, ...] = ("toad",)
    bare: bool = False
    pick: str = "type that line in a shell, in the folder of your project"
    logs: str = "the folder `toad/logs` in your folder of state (`~/.local/state`)"
    note: str = ""

    def todo(self) -> str:
        """Nothing."""
        return ""

    def file(self) -> str:
        """None."""
        return ""

    def key(self, name: str) -> str:
        """The name itself: Toad shows it, and nobody types it."""
        return name

    def put(self, text: str | None, settings: Settings, name: str, launch: Launch) -> Edit:
        """Nothing is written."""
        return Edit(text, settings, launch)

    def wrap(self, text: str | None, settings: Settings, name: str, front: Launch) -> Edit:
        """Raises `UsageError`: Toad's entries are in its package."""
        raise UsageError(
            "Toad keeps its agents in its own package, where nothing can be put in front of them",
            "name the agent instead, as in `conductor setup toad datetime claude`",
        )

    def remove(self, text: str | None, settings: Settings, name: str) -> Edit:
        """Raises `UsageError`: nothing was written."""
        raise UsageError(
            "`setup` writes nothing for Toad, so there is nothing to remove",
            "the line that it prints is all there is",
        )

    def shown(self, name: str, launch: Launch, *, wraps: bool) -> str:
        """The command line for a shell. Raises `UsageError`."""
        return command_line(name, launch.words)

    def entries(self, text: str | None) -> dict[str, Launch | None]:
        """None."""
        return {}


def command_line(title: str, command: Sequence[str]) -> str:
    """The command line for a shell.

    Toad passes the agent's command to a shell of its own. Raises `UsageError` for a command that a
    terminal cannot show as it is, since nobody could copy it.
    """
    line = shlex.join(["toad", "acp", shlex.join(command), "--title", title])
    if visible(line) != line or "\n" in line or "\t" in line:
        raise UsageError(
            f"a command line cannot carry this: {one_line(line)}",
            "give the chain a name in `conductor.toml`, and use that: "
            "`conductor setup toad --chain NAME`",
        )
    return line
