"""`conductor config check`: every mistake in the files of configuration, hidden names, and chains
that would not start here.

Reading a file and making plans runs nothing, so a project's file is checked before anybody
trusts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from conductor.cli import consent, report
from conductor.errors import ConductorError, UsageError, one_line
from conductor.spec import gates, layering, option_layers
from conductor.spec.config import choose, layers, names, reading
from conductor.spec.config.layers import State
from conductor.spec.config.model import Config, Written, WrittenOption
from conductor.spec.option_table import SERVE, is_isolated
from conductor.spec.parsed import assembled, planned
from conductor.spec.plan import Plan


class _Findings:
    """Mistakes and notes; each once."""

    def __init__(self) -> None:
        self.mistakes: dict[str, str] = {}
        """Their hints."""
        self.notes: dict[str, None] = {}
        self.variables: dict[str, WrittenOption] = {}
        """The options that variables set: they hold for each plan."""

    def wrong(self, error: ConductorError, origin: str = "") -> None:
        """Adds a mistake, which stands at `origin` unless it names a place by itself."""
        if any(text in error.text for text in self.mistakes):
            return  # a chain repeats the mistakes of its components
        named = not origin or error.text.startswith(origin.partition(", line ")[0])
        self.mistakes[error.text if named else f"{origin}: {error.text}"] = error.hint

    def note(self, text: str) -> None:
        """Adds a note."""
        self.notes.setdefault(text)

    def heard(self, level: str, text: str) -> None:
        """Hears sentences while a plan is made."""
        if level == "warning":
            self.note(text)


def check(file: str | None, values: Mapping[str, Any]) -> int:
    """Checks a file, or else all that count here; 1 if there is a mistake. Raises `UsageError`."""
    if "c" in values:
        raise UsageError("`-c` is in no file", "`conductor config show -c KEY=VALUE` reads it")
    found = _Findings()
    folder = layering.project(values)
    configs = [_file(file, found)] if file is not None else list(_files(folder, values, found))
    if file is None:
        found.variables, complaints = option_layers.from_environment(values)
        for text in complaints:
            found.note(text)
    _drop_wrong(found.variables, found)
    for config in configs:
        _drop_wrong(config.options, found)
        for chain in config.chains.values():
            _drop_wrong(chain.options, found)
    whole = layers.merged(configs, folder)
    for config in configs:
        _check(config, whole, found)
        _check_serve(config, whole, found)
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
    if is_isolated(values):
        return
    for find in layers.FINDERS:
        try:
            layer = find(folder)
        except UsageError as error:
            found.wrong(error)
            continue
        if layer.state is not State.ABSENT:
            yield _parsed(layer.content, layer.path, found)
        for text in layering.ignored([layer]):
            found.note(text)


def _parsed(content: bytes, path: str, found: _Findings) -> Config:
    config, mistakes = reading.mistakes(content, path)
    for mistake in mistakes:
        found.wrong(mistake)
    return config


# -- the entries of a configuration ----------------------------------------------------------------


def _check(config: Config, whole: Config, found: _Findings) -> None:
    """Checks the entries of one file, with the names of all files."""
    for name, component in config.components.items():
        # As a chain names it: the checked file counts for its own names.
        own = msgspec.structs.replace(whole, components={**whole.components, name: component})
        _planned(name, own, found, component.origin)
    for name, chain in config.chains.items():
        own = msgspec.structs.replace(whole, chains={**whole.chains, name: chain})
        plan = _planned(f"@{name}", own, found, chain.origin)
        if plan is not None:
            _pass(plan, name, found)
        for component in chain.components:
            entry = msgspec.structs.replace(component, when=None)
            _planned(entry, whole, found, component.origin)
    for written in config.choose:
        if error := choose.astray(written, whole):
            found.wrong(error)


def _check_serve(config: Config, whole: Config, found: _Findings) -> None:
    """Checks the options of a server in one file, with the chains of all files."""
    for key, written in config.serve.items():
        try:
            name, value = option_layers.of_server(key, written)
            for chain in value if name == "chain" else ():
                if chain not in whole.chains:
                    found.wrong(names.no_chain(chain, whole), written.origin)
        except UsageError as error:
            found.wrong(error)
    read = {key.replace("-", "_"): written.origin for key, written in whole.serve.items()}
    try:
        option_layers.refuse_alone(SERVE, read, read)
    except UsageError as error:  # a command line may set the missing one
        found.note(error.text)


def _drop_wrong(options: dict[str, WrittenOption], found: _Findings) -> None:
    """Takes out the options that cannot be read: no plan is made with them."""
    for key, written in [*options.items()]:
        try:
            option_layers.value(key, written)
        except UsageError as error:
            found.wrong(error)
            del options[key]


def _planned(
    component: str | Written, config: Config, found: _Findings, origin: str
) -> Plan | None:
    """The plan that a start would make of a component or a chain; None if there is none."""
    try:
        parsed = assembled("agent", [component], {})
        parsed = layering.over(parsed, config, [found.variables], found.heard)
        # A chain may be for other projects altogether.
        if names.flat(parsed.components, parsed.config or config):
            return planned(parsed, found.note)
    except ConductorError as error:
        found.wrong(error, origin)
    return None


def _pass(plan: Plan, name: str, found: _Findings) -> None:
    """Notes which gate would refuse a chain here: that depends on the machine, too."""
    if plan.components[-1].sandboxed:  # it is for `proxy`, or within another chain
        plan = msgspec.structs.replace(plan, mode="proxy")
    try:
        gates.passed(consent.kept(plan)[0], lambda _, text: found.note(f"`@{name}`: {text}"))
    except ConductorError as error:
        found.note(one_line(f"`@{name}` would not start here: {error.text}", 1000))


def _hidden(configs: Iterable[Config], found: _Findings) -> None:
    """Notes the names of a higher file that a lower file has too."""
    seen: dict[tuple[str, str], str] = {}
    for config in configs:
        for kind, named in (("component", config.components), ("chain", config.chains)):
            for name, one in named.items():
                if lower := seen.get((kind, name)):
                    found.note(f"the {kind} `{name}` ({one.origin}) hides that of {lower}")
                seen[kind, name] = one.origin
