"""The settings of the command line by `-c KEY=VALUE`: the same tables as in a `conductor.toml`.

A key that is no table of the file is an option: `audit` means `options.audit`. A value is TOML, or
else plain text. Paths start at the current folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from conductor.errors import UsageError
from conductor.spec import syntax, toml_files
from conductor.spec.config import anchors, reading
from conductor.spec.config.layers import above
from conductor.spec.config.model import Config, NamedChain, Written, WrittenOption
from conductor.spec.toml_files import Key, Mistake

TABLES: Final = ("options", "components", "chains", "serve", "indexes")
_FILE_ONLY: Final = {
    "choose": "name the chain on the command line instead",
    "required-version": "it says for which versions a file is written",
    "trust": "`conductor trust PATH` trusts a folder or a component",
}
_PLAIN: Final = ("options", "serve")
"""Tables whose values are read as the command line has them: a number may be the name of a file."""

_HINT: Final = "`conductor help options` lists the keys; docs/configuration.md explains the tables"


class Typed(msgspec.Struct, frozen=True):
    """The settings of the command line."""

    config: Config
    """The files, with these settings over them."""
    options: dict[str, WrittenOption]
    """The options of the run: they stand above variables."""


def over(lower: Config, words: Sequence[str]) -> Typed:
    """Lays the words of a command line over the configuration of files. Raises `UsageError`.

    Args:
        lower: The configuration of the files.
        words: The values of `-c`, in order; of two values for one key the later one counts.
    """
    tables: dict[str, Any] = {}
    origins: dict[tuple[Key, ...], str] = {}
    for word in words:
        _add(tables, origins, word)
    chains = _partly_set(tables, lower)
    places = reading.Places("", origins)
    try:
        said = places.config(reading.checked(tables))
        for name, options in chains.items():
            said.chains[name] = _with_options(lower.chains[name], places, name, options)
    except Mistake as mistake:
        origin = places.origin(*mistake.at) or "command line"
        raise UsageError(f"{origin}: {mistake}", mistake.hint or _HINT) from None
    options = {key: _joined(lower.options.get(key), it) for key, it in said.options.items()}
    components = {
        name: _component(lower.components.get(name), it) for name, it in said.components.items()
    }
    said = msgspec.structs.replace(said, options={}, components=components)
    return Typed(above(lower, said), options)


def _add(tables: dict[str, Any], origins: dict[tuple[Key, ...], str], word: str) -> None:
    """Puts one word into the tables, and where it stands. Raises `UsageError`."""
    key, equals, text = word.partition("=")
    path = _path(key.strip())
    if not equals or not path:
        raise UsageError(
            f"`-c {key}` is not KEY=VALUE",
            "write for example `-c audit=audit.jsonl`, without blanks",
        )
    if path[0] in _FILE_ONLY:
        raise UsageError(f"`-c` cannot set `{path[0]}`", _FILE_ONLY[path[0]])
    if path[0] not in TABLES:
        path = ("options", *path)
    table: Any = tables
    for depth, name in enumerate(path[:-1], 1):
        table = table.setdefault(name, {})
        origins.setdefault(path[:depth], f"command line, -c {key}")
        if not isinstance(table, dict):
            raise UsageError(
                f"`-c {key}` is below `{name}`, which another `-c` sets",
                "set the whole table, or each part",
            )
    table[path[-1]] = _value(path, text)
    origins[path] = f"command line, -c {key}"


def _path(key: str) -> tuple[str, ...]:
    """The parts of a key with dots; empty for a text that is no key."""
    try:
        node: Any = toml_files.loads(f"{key} = {{}}") if "\n" not in key else {}
    except ValueError:
        return ()
    path: list[str] = []
    while isinstance(node, dict) and len(node) == 1:
        name, node = next(iter(node.items()))
        path.append(name)
    return tuple(path)


def _value(path: Sequence[str], text: str) -> Any:
    try:
        tables = toml_files.loads(f"value = {text}")
    except ValueError:
        return text
    value = tables["value"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if len(tables) > 1 or (is_number and path[0] in _PLAIN) else value


# -- over the configuration of a file --------------------------------------------------------------


def _partly_set(tables: dict[str, Any], lower: Config) -> dict[str, Any]:
    """Takes chains of files with new options only out of the tables; returns these options."""
    chains: Any = tables.get("chains")
    partly: dict[str, Any] = {}
    if not isinstance(chains, dict):
        return partly
    for name in [*chains]:
        chain = chains[name]
        if name in lower.chains and isinstance(chain, dict) and chain.keys() == {"options"}:
            partly[name] = chains.pop(name)["options"]
    return partly


def _with_options(chain: NamedChain, places: reading.Places, name: str, options: Any) -> NamedChain:
    if not isinstance(options, dict):
        raise Mistake("`options` should be a table", "chains", name, "options")
    added = places.options(options, "chains", name, "options")
    return msgspec.structs.replace(chain, options={**chain.options, **added})


def _joined(lower: WrittenOption | None, upper: WrittenOption) -> WrittenOption:
    """The upper option; if both are tables, the upper table over the lower one."""
    if lower is None or not isinstance(lower.value, dict) or not isinstance(upper.value, dict):
        return upper
    return msgspec.structs.replace(upper, value={**lower.value, **upper.value})


def _component(lower: Written | None, upper: Written) -> Written:
    """A component of a file, some of whose options the command line sets; or a new component."""
    if lower is None or not isinstance(lower.what, dict) or not isinstance(upper.what, dict):
        return upper
    if upper.what.keys() & {*syntax.KINDS}:
        return upper
    set_here = dict(anchors.options([*upper.what.items()], os.getcwd()))
    what = _merged(lower.what, set_here)
    return msgspec.structs.replace(
        lower,
        what=what,
        origin=f"{lower.origin}; {upper.origin}",
        origins={**lower.origins, **upper.origins},
    )


def _merged(lower: Any, upper: Any) -> Any:
    """Two values of a key: tables are joined."""
    if not isinstance(lower, dict) or not isinstance(upper, dict):
        return upper
    return {**lower, **{key: _merged(lower.get(key), value) for key, value in upper.items()}}
