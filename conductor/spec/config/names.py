"""The chains that a command line names."""

from __future__ import annotations

from collections.abc import Iterable

from conductor.spec.config.model import Config, NamedChain


def named(words: Iterable[str], config: Config) -> list[NamedChain]:
    """The chains that words of a command line name, in order."""
    names = (word.removeprefix("@") for word in words)
    return [config.chains[name] for name in names if name in config.chains]
