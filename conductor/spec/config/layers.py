"""The files of configuration: the user's, and above it the project's once the user trusts it.

Variables and the command line are above both (`conductor.spec.layering`).
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from typing import Final

import msgspec

from conductor.errors import UsageError
from conductor.spec import paths
from conductor.spec.config import reading
from conductor.spec.config.model import Config


class Kind(enum.Enum):
    """Whose file it is; a later kind is above an earlier one."""

    USER = "user"
    PROJECT = "project"


class State(enum.Enum):
    """Whether a file is in force."""

    READ = "read"
    UNTRUSTED = "untrusted"
    ABSENT = "absent"


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    kind: Kind
    path: str
    """Its place; of an absent file the place where it would be; empty: nowhere."""
    state: State
    content: bytes = b""
    """Its bytes, the same bytes whose digest was compared."""


def start(project: str | None = None) -> str:
    """The folder from which the project's file is searched upward, its links followed.

    Empty if there is no current folder any more. Raises `UsageError` for an invalid `project`.
    """
    if project is None:
        try:
            return os.getcwd()
        except OSError:  # somebody has removed it
            return ""
    folder = os.path.realpath(project)
    if not os.path.isdir(folder):
        raise UsageError(
            f"no such folder: `{project}`", "`--project` and CONDUCTOR_PROJECT name a folder"
        )
    return folder


def find(folder: str) -> list[Layer]:
    """The files for a chain that is started in this folder, lowest first. Raises `UsageError`."""
    return [find(folder) for find in FINDERS]


def _user(_: str) -> Layer:
    path = paths.user_config()
    if not path or not paths.exists(path):
        return Layer(kind=Kind.USER, path=path, state=State.ABSENT)
    held = reading.content(path, links=True)
    return Layer(kind=Kind.USER, path=path, state=State.READ, content=held)


def _project(folder: str) -> Layer:
    path = paths.project_config(folder)
    if not path:
        would = os.path.join(folder, paths.CONFIG) if folder else ""
        return Layer(kind=Kind.PROJECT, path=would, state=State.ABSENT)
    from conductor.spec import trust

    held = reading.content(path, links=False)
    state = State.READ if trust.trusts_file(path, held) else State.UNTRUSTED
    return Layer(kind=Kind.PROJECT, path=path, state=state, content=held)


FINDERS: Final = (_user, _project)
"""Functions that find each file for a chain that is started in a folder, the lowest file first."""


def load(layers: Iterable[Layer], folder: str) -> Config:
    """The configuration of all files in force, the lowest first. Raises `UsageError`."""
    configs = [
        reading.parse(layer.content, layer.path) for layer in layers if layer.state is State.READ
    ]
    return merged(configs, folder)


def merged(configs: Iterable[Config], folder: str) -> Config:
    """The configuration of all files, the lowest first; choices are judged by `folder`."""
    whole = Config(folder=folder)
    for config in configs:
        whole = above(whole, config)
    return whole


def above(lower: Config, upper: Config) -> Config:
    """Merges two configurations; an entry of both is taken from the upper one."""
    return Config(
        options={**lower.options, **upper.options},
        components={**lower.components, **upper.components},
        chains={**lower.chains, **upper.chains},
        choose=[*upper.choose, *lower.choose],
        serve={**lower.serve, **upper.serve},
        # In the order of the files, the highest first.
        indexes=upper.indexes | lower.indexes | upper.indexes,
        files=[*upper.files, *lower.files],
        folder=lower.folder,
        alone=lower.alone,
    )
