"""The entries of chains that are for a project: `when` of an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from conductor.spec.config.model import When, Written
from conductor.spec.config.project import Project

Say: TypeAlias = Callable[[str, str], None]
"""Called with a level and a sentence."""


class Entries:
    """Judges entries by a project, and says at level `info` what became of each."""

    def __init__(self, project: Project, say: Say) -> None:
        self._project = project
        self._say = say
        self._said: set[str] = set()

    def __call__(self, entry: Written) -> bool:
        """Whether an entry is for the project."""
        if entry.when is None:
            return True
        why = self._project.fits(entry.when)
        name = f"`{_label(entry.what)}` ({entry.origin})"
        verdict = f"is in the chain: {why}" if why else f"is left out: {_lacks(entry.when)}"
        text = f"{name} {verdict}"
        if text not in self._said:
            self._said.add(text)
            self._say("info", text)
        return bool(why)


def _label(what: str | dict[str, Any] | list[str]) -> str:
    """What an entry is called in the log."""
    if isinstance(what, dict):
        keys = ("name", "component", "wasm", "command")
        what = next((str(what[key]) for key in keys if key in what), "a component")
    return what if isinstance(what, str) else what[0]


def _lacks(when: When) -> str:
    """What a project lacks that is not of the kind."""
    where = f" `{when.file}`" if when.file is not None else ""
    if when.dependency is None:
        return f"there is no{where}"
    manifest = f"no{where}" if where else "no manifest"
    return f"{manifest} lists `{when.dependency}`"
