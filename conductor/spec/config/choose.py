"""Chooses the chain of a command line that names none: `[[choose]]`, by the project's folder."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from conductor.errors import UsageError
from conductor.spec.config import names
from conductor.spec.config.model import Config, Written, WrittenChoice
from conductor.spec.config.project import Project


class Chosen(msgspec.Struct, frozen=True):
    """The chain that fits a project."""

    components: list[str | Written]
    """The whole chain: the name of the chosen chain, and the command behind `--`."""
    why: str
    """A sentence for the log: the chain, the choice that chose it, and the reason."""


def is_asked(components: Sequence[str | Written]) -> bool:
    """Whether a command line names no component: it has none, or the command behind `--` alone."""
    return all(not isinstance(one, str) and isinstance(one.what, list) for one in components)


def chosen(components: Sequence[str | Written], config: Config, project: Project) -> Chosen | None:
    """The chain of the first choice that fits the project; None if none does.

    Args:
        components: The components of the command line; `is_asked` holds for them.
        config: Has the choices.
        project: The project; a project that cannot be judged fits no choice.

    Raises:
        UsageError: A choice names no chain.
    """
    for written in config.choose:
        use, at = written.choice.use, f" ({written.origin})" if written.origin else ""
        if error := astray(written, config):
            raise error
        why = project.fits(written.choice.when)
        if why:
            first = Written(f"@{use}", origin=written.origin)
            return Chosen([first, *components], f"chose the chain `{use}`{at}: {why}")
    return None


def astray(written: WrittenChoice, config: Config) -> UsageError | None:
    """The error for a choice of a chain that is not there; None: the chain is there."""
    if written.choice.use in config.chains:
        return None
    error = names.no_chain(written.choice.use, config)
    return UsageError(f"{written.origin}: {error.text}", error.hint)
