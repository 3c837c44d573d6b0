"""The layers of options: options of variables, how each value is read, and how layers lie above
each other. `conductor.spec.layering` says which layers a chain has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError, did_you_mean
from conductor.spec.option_table import (
    ALL,
    CHAIN,
    FILE,
    FOLDER,
    ISOLATED,
    NATS,
    OPTIONAL_FILE,
    PREFIX,
    PROJECT,
    SERVE,
    Option,
    is_isolated,
    is_ours,
    switch,
)
from conductor.spec.origins import COMMAND_LINE, blamed

if TYPE_CHECKING:
    from conductor.spec.config.model import Config, Written, WrittenOption

ROWS: Final = {row.key: row for row in CHAIN if row.configures(*ALL)}
"""The options that files and variables may set."""


def from_environment(values: Mapping[str, Any]) -> tuple[dict[str, WrittenOption], list[str]]:
    """The options of variables, and complaints about variables that set nothing."""
    from conductor.spec.config.model import WrittenOption

    found: dict[str, WrittenOption] = {}
    complaints: list[str] = []
    if is_isolated(values):
        return found, complaints
    known = {row.variable: row for row in ROWS.values()}
    for name, text in sorted(os.environ.items()):
        if name in known and text:  # an empty variable counts as unset
            found[known[name].key] = WrittenOption(text, name)
        elif is_ours(name) and name not in (*known, ISOLATED, PROJECT, *NATS):
            hint = did_you_mean(name, [*known, ISOLATED, PROJECT], "docs/configuration.md has all")
            complaints.append(f"the variable {name} means nothing; {hint}")
    return found, complaints


def of_chains(components: Sequence[str | Written], config: Config) -> dict[str, WrittenOption]:
    """The options of the chains that the command line names. The options of a chain are above
    those of the chains within it. Raises `UsageError` for two chains that contradict each other."""
    from conductor.spec.config import names

    found: dict[str, WrittenOption] = {}
    for component in components:
        of_one: dict[str, WrittenOption] = {}
        for chain in names.named([component], config):
            of_one = {**chain.options, **of_one}
        for key, written in of_one.items():
            other = found.setdefault(key, written)
            if other.value != written.value:
                raise UsageError(
                    f"{written.origin}: `{key}` contradicts {other.origin}",
                    "an option holds for the whole run: give it to one of the chains",
                )
    return found


class Setting(NamedTuple):
    """An option with its value."""

    value: Any
    """As the command line reads it."""
    written: WrittenOption


def laid(
    written: Iterable[Mapping[str, WrittenOption]],
    command: str = "",
    typed: Mapping[str, Any] | None = None,
) -> dict[str, Setting]:
    """Layers above each other, the lowest first, by the names of options. A layer that switches
    `locked` off does so whatever is below it, and a lock file implies `locked`.

    Args:
        written: The layers as users have written them.
        command: Options that this command has not are left out; empty: none are.
        typed: The options of the command line, above all layers.

    Raises:
        UsageError: A value is not valid; the error says where the value is written.
    """
    found: dict[str, Setting] = {}
    for layer in (*(_read(each, command) for each in written), _typed_layer(typed or {})):
        found |= layer
        is_off = "locked" in layer and layer["locked"].value is False
        if is_off and "lock_file" not in layer:
            found.pop("lock_file", None)
    return found


def _read(layer: Mapping[str, WrittenOption], command: str) -> dict[str, Setting]:
    read = {key: Setting(value(key, written), written) for key, written in layer.items()}
    return {
        ROWS[key].name: setting
        for key, setting in read.items()
        if not command or ROWS[key].configures(command)
    }


def _typed_layer(typed: Mapping[str, Any]) -> dict[str, Setting]:
    """A command line's values, with `-v` as the level that it stands for."""
    if not typed:
        return {}
    from conductor.spec.config.model import WrittenOption

    if typed.get("verbose") and "log" not in typed:
        typed = {**typed, "log": "debug"}
    return {name: Setting(it, WrittenOption(it, COMMAND_LINE)) for name, it in typed.items()}


def of_server(key: str, written: WrittenOption) -> tuple[str, Any]:
    """The name and the value of an option of `[serve]`. Raises `UsageError`."""
    rows = {row.key: row for row in SERVE if row.key != "days"}
    if key not in rows:
        hint = did_you_mean(key, rows, f"options are: {', '.join(rows)}")
        raise UsageError(f"{written.origin}: there is no option `{key}` of `serve`", hint)
    try:
        return rows[key].name, _served(rows[key], written)
    except ValueError as error:
        raise _impossible(key, written, error) from None


def _served(row: Option, written: WrittenOption) -> Any:
    """The value of an option of `[serve]`. Raises `ValueError`."""
    if not row.kind.many:
        return _typed(row, written)
    texts = written.value
    if isinstance(texts, str) and written.origin.startswith("command line"):
        texts = [texts]  # a single value is written like any other value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise ValueError("it is a list of texts")
    return tuple(texts)


def refuse_alone(
    rows: Iterable[Option], values: Mapping[str, Any], set_by: Mapping[str, str] | None = None
) -> None:
    """Raises `UsageError` for an option that is set without any of the options which it needs.

    Args:
        rows: The options.
        values: The options that are set, by name.
        set_by: Who set each of them, if not the command line.
    """
    by_key = {row.key: row for row in rows}
    for row in by_key.values():
        needed = [by_key[key] for key in row.needs]
        if needed and row.name in values and not any(each.name in values for each in needed):
            others = " or ".join(f"`{_shown(each)}`" for each in needed)
            error = UsageError(
                f"`{_shown(row)}` means nothing without {others}",
                f"add {others}, or leave out `{_shown(row)}`",
            )
            raise blamed(error, (set_by or {}).get(row.name))


def _shown(row: Option) -> str:
    """An option as users write it."""
    if row.is_flag:
        return row.flags.split()[0]
    return f"serve.{row.key}" if row in SERVE else row.key


def value(key: str, written: WrittenOption) -> Any:
    """The value of an option, as the command line reads it. Raises `UsageError` that says where the
    value is written."""
    row = ROWS.get(key)
    if row is None:
        hint = _meant(key, written.value)
        typed_only = {row.key for row in CHAIN}
        if key in typed_only:
            raise UsageError(f"{written.origin}: `{key}` is for the command line only", hint)
        raise UsageError(f"{written.origin}: there is no option `{key}`", hint)
    try:
        return _typed(row, written)
    except ValueError as error:
        raise _impossible(key, written, error) from None


def _impossible(key: str, written: WrittenOption, error: ValueError) -> UsageError:
    """The error for a value that an option cannot have."""
    given = written.value
    shown = given if isinstance(given, str) else json_text.encode(given).decode()
    return UsageError(f"{written.origin}: `{key}` cannot be `{shown}`", str(error))


def _meant(key: str, given: Any) -> str:
    """A hint for a key that is no option."""
    from conductor.spec.config.typed import TABLES

    if isinstance(given, dict):
        import difflib

        if close := difflib.get_close_matches(key, TABLES, 1):
            return f"did you mean `{'.'.join([close[0], *_first(given)])}`?"
        return (
            "settings and limits of a component stand behind it: `datetime,config.KEY=VALUE`, "
            "`datetime,limit.KEY=VALUE`, or in `components.NAME`"
        )
    if any(row.key == key for row in SERVE):
        return f"did you mean `serve.{key}`?"
    known = f"options are: {', '.join(ROWS)}; tables are: {', '.join(TABLES)}"
    return did_you_mean(key, ROWS, known)


def _first(given: Any) -> Iterator[str]:
    """The keys of tables within each other, the first of each."""
    while isinstance(given, dict) and given:
        key, given = next(iter(given.items()))
        yield key


def _typed(row: Option, written: WrittenOption) -> Any:
    """The value of an option. Raises `ValueError`."""
    given, from_file = written.value, not written.origin.startswith(PREFIX)
    if row.kind.read is None:
        if from_file and not isinstance(given, bool):
            raise ValueError("a switch is true or false")
        return given if from_file else switch(given)
    if row.kind in (FILE, FOLDER) or (row.kind is OPTIONAL_FILE and given != "none"):
        return _path(given, written.here)
    if row.kind.many:
        if from_file and not isinstance(given, dict):
            raise ValueError("it is a table of names and commands")
        listed = [f"{name}={_word(it)}" for name, it in given.items()] if from_file else [given]
        return tuple(map(row.kind.read, listed))
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(f"it is {row.kind.metavar}, as on the command line")
    return row.kind.read(str(given))


def _word(given: Any) -> str:
    """A command, or a list of components as a command line has it. Raises `ValueError`."""
    if isinstance(given, list):
        return msgspec.json.encode(given).decode()
    if not isinstance(given, str):
        raise ValueError("it is a table of names and commands, or lists of components")
    return given


def _path(given: Any, here: str) -> str:
    """A path; one of a file is relative to the file's folder, and may begin with `~/`."""
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("a path is a text that is not empty")
    return os.path.join(here, os.path.expanduser(given) if given.startswith("~/") else given)
