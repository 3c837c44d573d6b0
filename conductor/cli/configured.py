"""A command line with the layers below it, for commands that report ignored files to a terminal or
an editor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from conductor.cli import report, shown_log
from conductor.spec.parsed import Only, Parsed, anything, layered

if TYPE_CHECKING:
    from typing import TypeAlias

    from conductor.spec.config.model import Config
    from conductor.spec.config.project import Say

    Log: TypeAlias = Callable[[str, str, str], None]


def applied(parsed: Parsed, *, served: bool = False) -> Parsed:
    """A command line with the options of files and variables. Raises `UsageError`.

    Reports ignored files on standard error. `served`: a server runs the chain.
    """
    return _heard(lambda say: layered(parsed, say, served=served))


def again(parsed: Parsed, files: Iterable[str]) -> Parsed:
    """The same for a chain that runs: see `conductor.spec.layering.again`."""
    from conductor.spec import layering

    return _heard(lambda say: layering.again(parsed, files, say))


def _heard(made: Callable[[Say], Parsed]) -> Parsed:
    heard = _Heard()
    whole = made(heard.say)
    if whole.options.log_format == "json":
        report.log_as_json()
    heard.goes_to(shown_log.logger(whole.log))
    return whole


class _Heard:
    """Keeps the sentences that come before there is a log."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, str]] = []
        self._log: Log | None = None

    def say(self, level: str, text: str) -> None:
        if self._log is None:
            self._kept.append((level, text))
        else:
            self._log(level, "conductor", text)

    def goes_to(self, log: Log) -> None:
        """Says it, and from now on all else."""
        self._log = log
        for level, text in self._kept:
            self.say(level, text)


def here(values: Mapping[str, Any] | None = None, only: Only | None = None) -> Config | None:
    """The configuration of files, for commands that run no chain; None: none. Raises `UsageError`.

    Reports ignored files on standard error. `values` are the options of the command line.
    `only`: the one file that counts, if no other does.
    """
    values = values or {}
    if only is None and not anything(values):
        return None
    from conductor.spec import layering

    layers, config, _ = layering.loaded(values, only)
    for text in layering.ignored(layers):
        report.write(text, word="warning")
    return config
