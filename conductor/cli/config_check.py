"""`conductor config check`: every mistake in the files of configuration, and what hides what.

Reading a file and resolving components runs nothing of them, so a project's file is checked before
anybody trusts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from conductor.cli import configured, report
from conductor.errors import ConductorError, UsageError
from conductor.spec import catalog
from conductor.spec.config import layers, names, reading
from conductor.spec.config.layers import State
from conductor.spec.config.model import Config, Written, WrittenOption


class _Findings:
    """What is wrong, and what is worth knowing; each once."""

    def __init__(self) -> None:
        self.mistakes: dict[str, str] = {}
        """Their hints."""
        self.notes: dict[str, None] = {}

    def wrong(self, error: ConductorError, origin: str = "") -> None:
        """A mistake, which stands at `origin` unless it names a place by itself."""
        if any(text in error.text for text in self.mistakes):
            return  # a chain repeats the mistakes of its components
        named = not origin or error.text.startswith(origin.partition(", line ")[0])
        self.mistakes[error.text if named else f"{origin}: {error.text}"] = error.hint

    def note(self, text: str) -> None:
        """What hides what."""
        self.notes.setdefault(text)


def check(file: str | None, values: Mapping[str, Any]) -> int:
    """Checks a file, or else all that count here; 1 if there is a mistake. Raises `UsageError`."""
    if "c" in values:
        raise UsageError("`-c` is in no file", "`conductor config show -c KEY=VALUE` reads it")
    found = _Findings()
    folder = configured.project(values)
    configs = [_file(file, found)] if file is not None else list(_files(folder, values, found))
    whole = layers.merged(configs, folder)
    if file is None:
        _variables(values, found)
    for config in configs:
        _check(config, whole, found)
    _hidden(configs, found)
    for text in found.notes:
        report.say(f"note: {text}")
    for text, hint in found.mistakes.items():
        report.error(text, hint)
    if found.mistakes:
        return 1
    report.say(f"ok: {', '.join(whole.files)}" if whole.files else "ok: there is no file")
    return 0


# -- files and variables ---------------------------------------------------------------------------


def _file(path: str, found: _Findings) -> Config:
    """The configuration in one file, which may be called anything."""
    path = os.path.abspath(path)
    try:
        return _parsed(reading.content(path, links=True), path, found)
    except UsageError as error:
        found.wrong(error)
        return Config()


def _files(folder: str, values: Mapping[str, Any], found: _Findings) -> Iterator[Config]:
    """The configurations of the user and of the project, trusted or not."""
    if configured.is_isolated(values):
        return
    for find in layers.FINDERS:
        try:
            layer = find(folder)
        except UsageError as error:
            found.wrong(error)
            continue
        if layer.state is not State.ABSENT:
            yield _parsed(layer.content, layer.path, found)
        for text in configured.ignored([layer]):
            found.note(text)


def _parsed(content: bytes, path: str, found: _Findings) -> Config:
    config, mistakes = reading.mistakes(content, path)
    for mistake in mistakes:
        found.wrong(mistake)
    return config


def _variables(values: Mapping[str, Any], found: _Findings) -> None:
    variables, complaints = configured.from_environment(values)
    _options(variables, found)
    for complaint in complaints:
        found.note(complaint)


# -- what a configuration holds --------------------------------------------------------------------


def _check(config: Config, whole: Config, found: _Findings) -> None:
    """Checks what one file holds, with the names of all files."""
    _options(config.options, found)
    for name, component in config.components.items():
        # As a chain names it: the file that is checked counts for its own names.
        own = msgspec.structs.replace(whole, components={**whole.components, name: component})
        _resolve([name], own, found, component.origin)
    for name, chain in config.chains.items():
        _options(chain.options, found)
        own = msgspec.structs.replace(whole, chains={**whole.chains, name: chain})
        _resolve([f"@{name}"], own, found, chain.origin)
        for component in chain.components:
            _resolve([component], whole, found, component.origin)
    for written in config.choose:
        if written.choice.use not in whole.chains:
            found.wrong(names.no_chain(written.choice.use, whole), written.origin)


def _options(options: Mapping[str, WrittenOption], found: _Findings) -> None:
    for key, written in options.items():
        try:
            configured.value(key, written)
        except UsageError as error:
            found.wrong(error)


def _resolve(
    components: list[str | Written], config: Config, found: _Findings, origin: str
) -> None:
    try:
        catalog.resolve_all(components, config=config, note=found.note)
    except ConductorError as error:
        found.wrong(error, origin)


def _hidden(configs: Iterable[Config], found: _Findings) -> None:
    """Notes what a higher file names as a lower one does."""
    seen: dict[tuple[str, str], str] = {}
    for config in configs:
        for kind, named in (("component", config.components), ("chain", config.chains)):
            for name, one in named.items():
                if lower := seen.get((kind, name)):
                    found.note(f"the {kind} `{name}` ({one.origin}) hides that of {lower}")
                seen[kind, name] = one.origin
