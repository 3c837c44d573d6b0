"""Reads one `conductor.toml`: its bytes, then its tables, each entry with the place it stands at.

The start path loads this module if there is such a file: it imports nothing heavy.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.core.policy import words
from conductor.errors import UsageError
from conductor.spec import catalog, catalogues, toml_files, untrusted_files
from conductor.spec.component_options import NAMES, OF_RIGHTS, is_option, of_now, option_like
from conductor.spec.config.model import (
    Chain,
    Config,
    ConfigFile,
    NamedChain,
    When,
    Written,
    WrittenChoice,
    WrittenOption,
)
from conductor.spec.programs import NAME_RULE, is_name
from conductor.spec.syntax import ComponentObject
from conductor.spec.toml_files import Key, Mistake, lines

MOST: Final = 256 * 1024
"""Bytes of a file."""

_DEPTHS: Final[Mapping[Key, int]] = {"components": 2, "chains": 4}
"""How many keys lead to a component: `components.NAME`, `chains.NAME.components[N]`."""

_HINT: Final = (
    "docs/configuration.md explains the file; with `--isolated` conductor reads no such file"
)


def content(path: str, *, links: bool) -> bytes:
    """The bytes of a file. Raises `UsageError`.

    A file that is a link is refused unless `links`: a stranger's may lead to any file.
    """
    try:
        return untrusted_files.read(path, MOST, links=links)
    except untrusted_files.TooLargeError:
        raise UsageError(
            f"{path}: a configuration is at most {MOST:,} bytes",
            'settings of a component can be in a file of their own: `config = "FILE"`',
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "repair it, or leave it out with `--isolated`"
        ) from None


def parse(text: bytes, path: str) -> Config:
    """The configuration in a file's bytes; errors name it `path`. Raises `UsageError`."""
    source, tables = toml_files.read(text, path, _HINT)
    try:
        return _config(tables, source, path)
    except Mistake as mistake:
        raise mistake.placed(source, path, _HINT) from None


def mistakes(text: bytes, path: str) -> tuple[Config, list[UsageError]]:
    """All mistakes in a file, and the configuration of the file without them."""
    try:
        source, tables = toml_files.read(text, path, _HINT)
    except UsageError as error:
        return Config(), [error]
    found: list[UsageError] = []
    removed: set[tuple[Key, ...]] = set()
    while True:
        try:
            return _config(tables, source, path), found
        except Mistake as mistake:
            if not mistake.lacks or (*mistake.at, mistake.lacks) not in removed:
                found.append(mistake.placed(source, path, _HINT))
            key = _remove(tables, mistake.at)
            if not key:
                return Config(), found
            removed.add(key)


def _config(tables: dict[str, Any], source: str, path: str) -> Config:
    """The configuration in a file's tables. Raises `Mistake`."""
    file = checked(tables)
    origins = {at: f"{path}, line {line}" for at, line in lines(source).items()}
    return Places(os.path.dirname(path), origins, path).config(file)


def checked(tables: dict[str, Any]) -> ConfigFile:
    """The tables, once nothing is wrong with them. Raises `Mistake`."""
    # Before all else: a file for another version may hold entries that this version does not know.
    _check_version(tables.get("required-version"))
    file = toml_files.convert(tables, ConfigFile, "a configuration")
    _check_names(file)
    _check_components(file)
    for number, choice in enumerate(file.choose):
        _check_when(choice.when, "choose", number, "when")
    return file


def _remove(tables: dict[str, Any], at: tuple[Key, ...]) -> tuple[Key, ...]:
    """Takes a key out of nested tables, or the nearest one around it that is in no list; the keys
    that led to it, none if there is no such key."""
    keys = tuple(itertools.takewhile(lambda key: isinstance(key, str), at))
    table: Any = tables
    for key in keys[:-1]:
        table = table[key]
    return keys if keys and table.pop(keys[-1], None) is not None else ()


def _check_version(wanted: Any) -> None:
    """Raises `Mistake` if this is not a version that the file is written for."""
    if not isinstance(wanted, str):
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    from conductor.version import version

    try:
        specifiers = SpecifierSet(wanted)
    except InvalidSpecifier:
        raise Mistake(
            f"`required-version` cannot be `{wanted}`", "required-version", hint='as in ">=0.3,<1"'
        ) from None
    running = version()
    try:
        if specifiers.contains(running, prereleases=True):
            return
    except InvalidVersion:
        pass  # an installation that does not know its version does not fit
    raise Mistake(
        f"it is written for conductor {wanted}, and this is conductor {running}",
        "required-version",
        hint="install such a version, or leave the file out with `--isolated`",
    )


def _check_names(file: ConfigFile) -> None:
    """Raises `Mistake` for a component or chain whose name nobody could write."""
    for table in ("components", "chains"):
        for name in getattr(file, table):
            if not is_name(name):
                raise Mistake(f"`{name}` cannot be a name: it is {NAME_RULE}", table, name)


def _check_components(file: ConfigFile) -> None:
    """Raises `Mistake` for a key that no component has."""
    tables: list[tuple[Any, tuple[Key, ...]]] = [
        (table, ("components", name)) for name, table in file.components.items()
    ]
    for name, chain in file.chains.items():
        at = ("chains", name, "components")
        tables += [(_without_when(table), (*at, n)) for n, table in enumerate(chain.components)]
    kinds = ComponentObject.__struct_fields__
    for table, place in tables:
        for key in table if isinstance(table, dict) else ():
            if key == "when":
                hint = "in a chain it says for which projects its entry is: `[chains.NAME]`"
                raise Mistake("a component has no key `when`", *place, key, hint=hint)
            if key in words.FORMER_OPTIONS:
                option, now = of_now(key, table[key])
                hint = f'write `{option} = "{now}"`; {words.HINT}'
                raise Mistake(
                    f"a component has no key `{key}`: {OF_RIGHTS}", *place, key, hint=hint
                )
            if key not in (*kinds, "limits") and not is_option(key):
                known = (*kinds, "limits", *NAMES)
                own = catalog.settings(str(table.get("component") or table.get("name")))
                hint = option_like(key, own, known) or f"keys are: {', '.join(known)}"
                raise Mistake(f"a component has no key `{key}`", *place, key, hint=hint)


def _without_when(entry: Any) -> Any:
    """An entry of a chain without the projects that it is for."""
    if not isinstance(entry, dict) or "when" not in entry:
        return entry
    return {key: value for key, value in entry.items() if key != "when"}


def _check_when(when: When, *at: Key) -> None:
    """Raises `Mistake` for conditions that no project can meet."""
    from conductor.core.policy import scopes

    if when.dependency == "":
        raise Mistake("`dependency` of `when` is the name of a package", *at, "dependency")
    try:
        if when.file is not None:
            scopes.compile_glob(when.file)
    except ValueError as error:
        hint = "it is a name in the project's folder, or a pattern such as `*.tf`"
        raise Mistake(f"`file` of `when`: {error}", *at, "file", hint=hint) from None


def _when(entry: Any, *at: Key) -> When | None:
    """The projects that an entry of a chain is for. Raises `Mistake`."""
    if not isinstance(entry, dict) or "when" not in entry:
        return None
    try:
        when = toml_files.convert(entry["when"], When, "`when`")
    except Mistake as mistake:
        raise Mistake(str(mistake), *at, "when", *mistake.at, hint=mistake.hint) from None
    _check_when(when, *at, "when")
    return when


class Places:
    """Turns a file's entries into entries of a `Config`: each with its place and its folder."""

    def __init__(self, here: str, origins: Mapping[tuple[Key, ...], str], path: str = "") -> None:
        """`here`: relative paths start there. `origins`: the place of each entry, for people;
        `path`: the file, for entries without a place."""
        self._here, self._origins, self._path = here, origins, path
        self._keys: dict[tuple[Key, ...], dict[str, str]] = {}
        for place, origin in origins.items():
            depth = _DEPTHS.get(place[0], len(place))
            if len(place) > depth:
                keys = self._keys.setdefault(place[:depth], {})
                keys[".".join(map(str, place[depth:]))] = origin

    def config(self, file: ConfigFile) -> Config:
        """The configuration of a whole file."""
        return Config(
            options=self.options(file.options, "options"),
            components={
                name: self._written(what, "components", name)
                for name, what in file.components.items()
            },
            chains={name: self._chain(name, chain) for name, chain in file.chains.items()},
            choose=[
                WrittenChoice(choice, self.origin("choose", number))
                for number, choice in enumerate(file.choose)
            ],
            serve=self.options(file.serve, "serve"),
            indexes={
                catalogues.placed(where, self._here): self.origin("indexes", number)
                for number, where in enumerate(file.indexes)
            },
            files=[self._path] if self._path else [],
        )

    def _chain(self, name: str, chain: Chain) -> NamedChain:
        at = ("chains", name, "components")
        components = [
            self._entry(what, *at, number) for number, what in enumerate(chain.components)
        ]
        options = self.options(chain.options, "chains", name, "options")
        return NamedChain(components, options, self.origin("chains", name))

    def _entry(self, entry: str | dict[str, Any], *at: Key) -> Written:
        """An entry of a chain: a component, or the name of a chain."""
        when, what = _when(entry, *at), _without_when(entry)
        if isinstance(what, dict) and when is not None and what.keys() == {"component"}:
            name = what["component"]
            what = name if isinstance(name, str) and is_name(name) else what  # maybe a chain's
        return msgspec.structs.replace(self._written(what, *at), when=when)

    def _written(self, what: str | dict[str, Any], *at: Key) -> Written:
        """A component, with where it and each key of its table stand."""
        keys = self._keys.get(at, {}) if isinstance(what, dict) else {}
        return Written(what, self._here, self.origin(*at), origins=keys)

    def options(self, options: dict[str, Any], *at: Key) -> dict[str, WrittenOption]:
        """The options of a table."""
        return {
            key: WrittenOption(value, self.origin(*at, key), self._here)
            for key, value in options.items()
        }

    def origin(self, *at: Key) -> str:
        """The place of an entry, or else the place of the table around it."""
        while at and at not in self._origins:
            at = at[:-1]
        return self._origins[at] if at else self._path
