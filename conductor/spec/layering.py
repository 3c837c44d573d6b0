"""The settings of files and variables besides a command line (docs/configuration.md).

From the lowest to the highest: the user's file, the project's, the options of the chains that the
command line names, `CONDUCTOR_` variables, `-c KEY=VALUE` and flags of the command line. Loaded
where there is a layer below the command line (`conductor.spec.parsed.anything`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from conductor.errors import UsageError, visible_path
from conductor.spec import option_layers, paths
from conductor.spec import parsed as chains
from conductor.spec.option_table import ALL, PROJECT, is_isolated
from conductor.spec.origins import COMMAND_LINE
from conductor.spec.parsed import Only, Parsed

if TYPE_CHECKING:
    from conductor.spec.config.choose import Chosen
    from conductor.spec.config.layers import Layer
    from conductor.spec.config.model import Config, WrittenOption
    from conductor.spec.config.project import Project, Say


def applied(parsed: Parsed, say: Say, *, served: bool = False) -> Parsed:
    """See `conductor.spec.parsed.layered`."""
    layers, config, spoken = loaded(parsed.values, parsed.only)
    _refuse_twice(parsed.values, spoken)
    _refuse_foreign(parsed.command, spoken)
    _refuse_served({} if served else config.serve)
    variables, unknown = option_layers.from_environment(parsed.values)
    for text in [*unknown, *ignored(layers), *_astray(parsed, config)]:
        say("warning", text)
    return over(parsed, config, [variables, spoken], say)


def over(
    parsed: Parsed, config: Config, above: Sequence[Mapping[str, WrittenOption]], say: Say
) -> Parsed:
    """A command line over all layers below it. Raises `UsageError`.

    Args:
        config: The configuration of the files.
        above: Options that stand above the files, the lowest first.
        say: Hears the decision about the project.
    """
    project, config = _judged(parsed, config, say)
    chosen = _chosen(parsed, config, project)
    components = parsed.components if chosen is None else chosen.components
    written = [config.options, option_layers.of_chains(components, config), *above]
    settings = option_layers.laid(written, parsed.command, parsed.values)
    merged = {name: setting.value for name, setting in settings.items()}
    if parsed.only is not None and merged.get("locked") and "lock_file" not in merged:
        merged["lock_file"] = os.path.join(parsed.only.folder, paths.LOCK_FILE)
    set_by = {name: setting.written.origin for name, setting in settings.items()}
    whole = chains.assembled(parsed.command, components, merged, config, set_by)
    whole = msgspec.structs.replace(whole, typed=parsed, project=project, only=parsed.only)
    if chosen is None:
        return whole
    say("info", chosen.why)
    return msgspec.structs.replace(whole, chosen=(config.folder, chosen.why))


def _judged(parsed: Parsed, config: Config, say: Say) -> tuple[Project | None, Config]:
    """The project by which choices and entries of chains are judged, and the configuration with
    which they are. A chain that runs keeps its project, and all that was found."""
    entries = (entry for chain in config.chains.values() for entry in chain.components)
    if not config.choose and all(entry.when is None for entry in entries):
        return None, config
    from conductor.spec.config.project import Entries, Project

    project = parsed.project or Project(config.folder, partial(say, "warning"))
    return project, msgspec.structs.replace(config, fits=Entries(project, say))


def _chosen(parsed: Parsed, config: Config, project: Project | None) -> Chosen | None:
    """The chain that fits the project, for a command line that names none."""
    if not config.choose or parsed.mode == "proxy" or project is None:
        return None
    from conductor.spec.config import choose

    if not choose.is_asked(parsed.components):
        return None
    return choose.chosen(parsed.components, config, project)


def _astray(parsed: Parsed, config: Config) -> Iterator[str]:
    """Sentences about choices for this project whose chain is missing, where the command line
    names a chain: without a named chain a missing one is an error."""
    if not config.choose:
        return
    from conductor.spec.config import choose
    from conductor.spec.config.project import Project

    if parsed.mode == "proxy" or choose.is_asked(parsed.components):
        return
    # A second `Project`: the chain's own judges only conditions that the chain needs.
    project = Project(config.folder, lambda text: None)
    for written in config.choose:
        error = choose.astray(written, config)
        if error is not None and project.fits(written.choice.when):
            yield f"{error.text}; {error.hint}"


def option(key: str, values: Mapping[str, Any]) -> Any:
    """The value of an option in files, variables and the command line, for commands that run no
    chain; None: it is not set. Raises `UsageError`."""
    if not chains.anything(values):
        return None
    _, config, spoken = loaded(values)
    found = option_layers.laid([config.options, option_layers.from_environment(values)[0], spoken])
    setting = found.get(option_layers.ROWS[key].name)
    return None if setting is None else setting.value


def loaded(
    values: Mapping[str, Any], only: Only | None = None
) -> tuple[list[Layer], Config, dict[str, WrittenOption]]:
    """The files, lowest first; their configuration together with `-c`; and the options of `-c`,
    which stand above variables. Raises `UsageError`.

    `values` are those of a command line. `only`: the one file that counts, if no other does.
    """
    files, config = _files(values, only)
    if "c" not in values:
        return files, config, {}
    from conductor.spec.config import typed

    both = typed.over(config, values["c"])
    for key in both.config.serve:
        option_layers.of_server(key, both.config.serve[key])
    return files, both.config, both.options


def _refuse_twice(values: Mapping[str, Any], spoken: Mapping[str, WrittenOption]) -> None:
    """Raises `UsageError` for an option that both a flag and `-c` set."""
    for key in spoken:
        row = option_layers.ROWS.get(key)
        if row is not None and row.name in values:
            flag = row.flags.split()[0]
            raise UsageError(f"`{flag}` and `-c {key}` set the same", "give one of them")


def _refuse_foreign(command: str, spoken: Mapping[str, WrittenOption]) -> None:
    """Raises `UsageError` for an option of `-c` that this command does not take. In a file, which
    is for all commands, such an option is no mistake."""
    for key, written in spoken.items():
        row = option_layers.ROWS.get(key)
        if row is not None and not row.configures(command):
            takers = [f"`conductor {name}`" for name in ALL if row.configures(name)]
            raise UsageError(
                f"{written.origin}: `{key}` is an option of {' and '.join(takers)}",
                "leave it out here; `[options]` of conductor.toml may set it for those commands",
            )


def _refuse_served(serve: Mapping[str, WrittenOption]) -> None:
    """Raises `UsageError` for an option of a server in `-c`, for a chain that no server runs."""
    for key, written in serve.items():
        if written.origin.startswith(COMMAND_LINE):
            raise UsageError(
                f"{written.origin}: `serve.{key}` is an option of `conductor serve`",
                "leave it out here",
            )


def _files(values: Mapping[str, Any], only: Only | None) -> tuple[list[Layer], Config]:
    from conductor.spec.config import layers
    from conductor.spec.config.model import Config

    if only is not None:
        state = layers.State.READ
        layer = layers.Layer(
            kind=layers.Kind.PROJECT, path=only.path, state=state, content=only.content
        )
        config = layers.load([layer], only.folder)
        return [layer], msgspec.structs.replace(config, alone=True)
    if is_isolated(values):
        return [], Config(alone=True)
    folder = project(values)
    files = layers.find(folder)
    return files, layers.load(files, folder)


def project(values: Mapping[str, Any]) -> str:
    """The folder from which the project's file is searched upward. Raises `UsageError`."""
    from conductor.spec.config import layers

    return layers.start(values.get("project") or os.environ.get(PROJECT) or None)


def again(parsed: Parsed, files: Iterable[str], say: Say) -> Parsed:
    """Reads files and variables again, for a chain that runs. The choice by the project stays.

    `files` are the files that its configuration was read from. Raises `UsageError` also if one of
    them is not in force any more: an agent may write in the project, and must not rid the chain of
    the settings in a file.
    """
    typed = msgspec.structs.replace(
        parsed.typed or parsed, components=parsed.components, project=parsed.project
    )
    if typed.only is None:  # else another bundle is in force by now, in a folder of its own
        _refuse_lost(files, chains.read(typed.values))  # before errors about its lost settings
    fresh = chains.layered(typed, say)
    if typed.only is None:
        _refuse_lost(files, fresh.config)
    return fresh


def _refuse_lost(files: Iterable[str], config: Config | None) -> None:
    """Raises `UsageError` for a file that is not in force any more."""
    now = config.files if config is not None else ()
    for path in files:
        if path not in now:
            folder = shlex.quote(os.path.dirname(path))
            raise UsageError(
                f"{visible_path(path)} is gone, or you do not trust it as it is now: the chain "
                "stays as it was",
                f"put it back, or read it and `conductor trust {folder}`",
            )


def ignored(layers: Iterable[Layer]) -> list[str]:
    """Sentences about files that are not in force."""
    from conductor.spec import trust
    from conductor.spec.config.layers import State

    texts = []
    for layer in layers:
        if layer.state is State.UNTRUSTED:
            folder = shlex.quote(os.path.dirname(layer.path))
            why = trust.known()[1] or "you have not trusted it, or it has changed since"
            texts.append(
                f"{layer.path} is ignored: {why}; read it, then `conductor trust {folder}`"
            )
    return texts
