"""The content of a `conductor.toml`, and the configuration that several of them make together.

`ConfigFile` and the tables in it are the one declaration of the file (`conductor.spec.toml_files`
reads it, explains its mistakes and derives its JSON Schema). The rest of the program uses `Config`:
the files merged, each part with the place where a user has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from conductor.spec.origins import COMMAND_LINE


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file: no key but those it declares."""


class When(_Table, frozen=True, kw_only=True):
    """The conditions that a project must meet, all of them."""

    file: str | None = None
    """A file in the project's folder: a name or a pattern, such as `*.tf`."""
    dependency: str | None = None
    """A package that `file`, or any manifest known to conductor, lists as a dependency."""


class Choice(_Table, frozen=True, kw_only=True):
    """A chain for projects of a kind; the first choice that fits holds."""

    use: str
    """The name of a chain."""
    when: When = When()
    """Without it the choice fits every project."""


class Chain(_Table, frozen=True, kw_only=True):
    """A chain with a name."""

    components: list[str | dict[str, Any]]
    """Its components from the client's side on: as on a command line, or as tables. A table may
    have `when`: the conditions on which a project gets it."""
    options: dict[str, Any] = {}
    """Options that hold for the whole run when the command line names the chain."""


class ConfigFile(_Table, frozen=True, kw_only=True):
    """A whole `conductor.toml`."""

    required_version: str | None = None
    """The versions of conductor it is written for, such as `>=0.3`."""
    indexes: list[str] = []
    """Catalogues that `conductor add NAME` searches: folders, JSON files and `https` URLs."""
    options: dict[str, Any] = {}
    """Options of `conductor agent`, `proxy` and `exec`, by their names without dashes in front."""
    components: dict[str, dict[str, Any]] = {}
    """Components by name: the command or module of each, and its options."""
    chains: dict[str, Chain] = {}
    """Chains by name."""
    choose: list[Choice] = []
    """The choices of a chain, for a command line that names none."""
    serve: dict[str, Any] = {}
    """Options of `conductor serve`, by their names without dashes in front."""


# -- merged ----------------------------------------------------------------------------------------


class Written(msgspec.Struct, frozen=True):
    """A component as a user has written it, and where."""

    what: str | dict[str, Any] | list[str]
    """As on a command line, as an object, or a command as its words."""
    here: str = ""
    """The folder that its relative paths start from; empty: the current folder."""
    origin: str = ""
    """`FILE, line N`; empty: the command line."""
    when: When | None = None
    """Of an entry of a chain: the projects that it is for; None: all."""
    origins: Mapping[str, str] = {}
    """Of a table: where each key stands (`allow`, `limits.memory`)."""

    def origin_of(self, option: str) -> str:
        """The place of an option of the component; `option` is as on a command line."""
        base, dot, inner = option.partition(".")
        key = f"limits.{inner}" if base == "limit" and dot else option
        keys = (key, option, base, key.partition(".")[0])
        places = (self.origins[each] for each in keys if each in self.origins)
        return next(places, self.origin) or COMMAND_LINE


class WrittenOption(msgspec.Struct, frozen=True):
    """An option that a file or the environment sets, and where."""

    value: Any
    origin: str
    """`FILE, line N`, or the name of a variable."""
    here: str = ""
    """The folder that a relative path in it starts from; empty: the current folder."""


class NamedChain(msgspec.Struct, frozen=True):
    """A chain that a file names."""

    components: list[Written]
    options: dict[str, WrittenOption]
    origin: str


class WrittenChoice(msgspec.Struct, frozen=True):
    """A choice, and where it is written."""

    choice: Choice
    origin: str


class Config(msgspec.Struct, frozen=True):
    """Everything that is configured, but for the managed policy: files merged. An entry that
    several files have is taken from the highest of them."""

    options: dict[str, WrittenOption] = {}
    components: dict[str, Written] = {}
    chains: dict[str, NamedChain] = {}
    choose: list[WrittenChoice] = []
    serve: dict[str, WrittenOption] = {}
    """Options of `conductor serve`."""
    indexes: dict[str, str] = {}
    """Catalogues, those of the highest file first: URLs and absolute paths, each with the place of
    its entry."""
    files: list[str] = []
    """The files it was read from, the highest first."""
    folder: str = ""
    """The folder by which choices and entries of chains are judged (`--project`, else the current
    folder); absolute, or empty if there is none."""
    fits: Callable[[Written], bool] | None = None
    """Whether an entry of a chain is for the project of this run; None: all entries count."""
    alone: bool = False
    """Whether nothing else may count: this is a bundle's configuration, or none (`--isolated`)."""
