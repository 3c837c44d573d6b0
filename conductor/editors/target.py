"""The facts about an editor that `conductor setup` needs, and an edit of its settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from conductor.editors.record import Settings
from conductor.errors import did_you_mean, one_line

ENTRY: Final = "Conductor"
"""The name of our entry, unless the user gives another."""


def hint_of_ours(name: str, entries: Iterable[str]) -> str:
    """The hint for an entry to be taken out that is not among `entries`, which are ours."""
    known = list(entries)
    if not known:
        return "there is nothing of ours to take out"
    listed = ", ".join(f"`{each}`" for each in known)
    return did_you_mean(name, known, f"`--name` takes one of ours: {one_line(listed)}")


class Launch(msgspec.Struct, frozen=True):
    """How an editor starts an agent."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}
    """Variables that the editor adds to its own."""

    @property
    def words(self) -> list[str]:
        """The program and its arguments."""
        return [self.command, *self.args]


class Edit(msgspec.Struct, frozen=True):
    """Settings as they are to be: pure, nothing is written yet."""

    text: str | None
    """None: no file."""
    settings: Settings
    """The new settings for the record."""
    launch: Launch | None = None
    """The launch of the editor after the edit; None if it is none of ours."""
    remarks: tuple[str, ...] = ()
    """Sentences for the user."""


class Target(Protocol):
    """An editor that `conductor setup` knows; its edits are pure."""

    @property
    def name(self) -> str:
        """As typed."""

    @property
    def title(self) -> str:
        """As its makers write it."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that start it from a terminal; empty: there are none."""

    @property
    def bare(self) -> bool:
        """Whether it may start agents without the PATH of the user's shell."""

    @property
    def pick(self) -> str:
        """How the user picks the agent: a sentence, with `{name}` for the entry, and `{key}` for
        its key in the file."""

    @property
    def logs(self) -> str:
        """The place where it shows errors: a sentence."""

    @property
    def note(self) -> str:
        """A further sentence for its users; empty: there is none."""

    def todo(self) -> str:
        """The work that is left for a person, such as to add a line to settings that are a
        program; empty: there is none."""

    def file(self) -> str:
        """Its file of settings, or ours beside them; empty where a command line is all there is."""

    def key(self, name: str) -> str:
        """The key of an entry's name in the file and in the record."""

    def put(self, text: str | None, settings: Settings, name: str, launch: Launch) -> Edit:
        """An entry added, or brought up to date. Raises `UsageError`."""

    def wrap(self, text: str | None, settings: Settings, name: str, front: Launch) -> Edit:
        """A conductor in front of the command of an entry that is there. Raises `UsageError`."""

    def remove(self, text: str | None, settings: Settings, name: str) -> Edit:
        """An entry taken out, or given back as it was. Raises `UsageError`."""

    def shown(self, name: str, launch: Launch, *, wraps: bool) -> str:
        """The entry that a user would write into the settings by hand; safe for a terminal."""

    def entries(self, text: str | None) -> dict[str, Launch | None]:
        """The launches of its entries, by name; None for an entry without a command of its own.
        Raises `UsageError`."""
