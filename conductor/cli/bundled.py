"""The chains of a bundle: its files in place of this machine's configuration and policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.cli import configured, readiness
from conductor.errors import ConductorError, UsageError
from conductor.fleet.bundle import POLICY
from conductor.spec import managed, option_layers, paths
from conductor.spec.config import reading
from conductor.spec.config.model import Config
from conductor.spec.managed.file import Managed
from conductor.spec.model import Spec
from conductor.spec.parsed import Only, Parsed, assembled

if TYPE_CHECKING:
    from conductor.serve.settings import Settings

_MOST_POLICY: Final = 1024 * 1024


class Bundled(msgspec.Struct, frozen=True):
    """The configuration of a bundle."""

    only: Only
    policy: Managed | None
    config: Config

    @classmethod
    def of(cls, folder: str) -> Bundled:
        """The configuration in the folder of a bundle's files. Raises `ConductorError`."""
        path = os.path.join(folder, paths.CONFIG)
        content = reading.content(path, links=False)
        return cls(Only(path, content), _policy(folder), reading.parse(content, path))

    @property
    def names(self) -> list[str]:
        """The names of its chains that are served: `chain` of its `[serve]`, or else all."""
        written = self.config.serve.get("chain")
        if written is None:
            return [*self.config.chains]
        _, named = option_layers.of_server("chain", written)
        for name in named:
            if name not in self.config.chains:
                raise UsageError(f"{written.origin}: there is no chain `{name}`", "name another")
        return [*named]

    def take(self) -> dict[str, Parsed]:
        """Puts it in place of this machine's configuration, and returns its chains by name; the
        only one is also that without a name.

        Raises:
            ConductorError: Then all stays as it was.
        """
        before = managed.brought()
        managed.bring(self.policy)
        try:
            chains = {name: configured.applied(self._named(name)) for name in self.names}
            if not chains:
                raise UsageError(
                    "the bundle has no chain", f"`[chains.NAME]` in its {paths.CONFIG} is one"
                )
        except BaseException:
            managed.bring(before)
            raise
        return {"": next(iter(chains.values())), **chains} if len(chains) == 1 else chains

    def _named(self, name: str) -> Parsed:
        """A chain of the bundle, as a command line names it."""
        return msgspec.structs.replace(assembled("agent", [name], {}), only=self.only)


def _policy(folder: str) -> Managed | None:
    from conductor.spec import untrusted_files
    from conductor.spec.managed import file

    path = os.path.join(folder, POLICY)
    try:
        return file.parse(untrusted_files.read(path, _MOST_POLICY, links=False), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error}", "make the bundle anew") from None


def checked(
    chains: dict[str, Parsed], settings: Settings, warn: Callable[[str, str], None]
) -> Iterator[tuple[str, list[Spec], str]]:
    """Prepares each chain as its start would, without starting anything; compiles its modules.

    Args:
        chains: By name.
        settings: Of the worker that would run them.
        warn: Takes the name of a chain and a sentence.

    Yields:
        The name of a chain, its components, and its lock file.

    Raises:
        ConductorError: A chain that could not start; its text names the chain.
    """
    from conductor.cli.serving import as_served

    for name, parsed in chains.items():

        def heard(component: str, text: str, name: str = name) -> None:
            warn(name, f"{component}: {text}")

        try:
            specs = readiness.check(as_served(parsed, settings, 1), heard)
        except ConductorError as error:
            raise type(error)(f"chain `{name}`: {error.text}", error.hint) from None
        yield name, specs, parsed.options.lock or ""
