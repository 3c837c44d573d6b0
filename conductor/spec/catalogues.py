"""Catalogues: lists of packages by name; folders, and JSON files in the format of the ACP registry.

    folder     NAME/component.toml      a component in this folder itself
               NAME.json                an entry, as in the JSON file
    JSON       {"version": …, "agents": […], "extensions": [ENTRY, …]}

An entry is one of ours if its distribution runs `conductor-acp` with `proxy SOURCE`; others are for
other programs. A stranger may have written names, texts and sources: an entry of ours that is odd
makes conductor refuse the whole catalogue. Reading asks no server, so errors may suggest a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from conductor.errors import UsageError, one_line, visible_path
from conductor.spec import paths, untrusted_files
from conductor.spec.programs import is_name, is_reserved, is_version

MOST: Final = 8 * 1024 * 1024
"""Bytes of a JSON file."""

MOST_ENTRIES: Final = 10_000
_LONGEST: Final = 2048
"""Characters of a source."""

_PACKAGE: Final = re.compile(r"conductor-acp(?:\[[a-z,]*\])?(?:(?:@|==)[A-Za-z0-9.+!_-]+)?")
_REMOTE: Final = ("https://", "http://")
_HINT: Final = "ask its publisher; `indexes` in conductor.toml, or `--index`, names it"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A package that a catalogue offers."""

    name: str
    source: str
    """As `conductor add` takes it; a path is absolute."""
    here: bool = False
    """Whether the source is a path of the catalogue's own folder."""
    version: str = ""
    description: str = ""
    catalogue: str
    """The place of the catalogue."""


def is_remote(where: str) -> bool:
    """Whether a catalogue must be downloaded."""
    return where.startswith(_REMOTE)


def placed(where: str, here: str) -> str:
    """The place of a catalogue: a URL as it is, a path made absolute from the folder `here`."""
    if is_remote(where):
        return where
    return os.path.abspath(os.path.join(here, os.path.expanduser(where)))


def read(where: str) -> dict[str, Entry]:
    """The entries of a catalogue of this machine, by name. Raises `UsageError`."""
    try:
        if os.path.isdir(where):
            return _folder(where)
        content = untrusted_files.read(where, MOST)
    except OSError as error:
        shown = visible_path(where)
        text = f"the catalogue `{shown}` cannot be read: {error.strerror or error}"
        hint = (
            "put the catalogue there, or name another catalogue: `indexes` in conductor.toml, or "
            "`--index`"
        )
        raise UsageError(text, hint) from None
    return parse(content, where)


def offer(name: str, catalogues: Iterable[str]) -> Entry | None:
    """The entry of a name in the catalogues of this machine; None if no readable catalogue has it.
    For hints: asks no server."""
    for where in catalogues:
        if not is_remote(where):
            try:
                found = read(where).get(name)
            except UsageError:
                continue
            if found is not None:
                return found
    return None


def _folder(where: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    with os.scandir(where) as found:
        listed = sorted(each.name for each in _bounded(found, where))
    for file in listed:
        path = os.path.join(where, file)
        if file.endswith(".json") and not os.path.isdir(path):
            content = untrusted_files.read(path, MOST, links=False)
            entry = _read_entry(_decoded(content, path, _File), path)
            if entry is not None:  # `update` asks the folder again, not the file
                entry = msgspec.structs.replace(entry, catalogue=where)
            _add(entries, entry, path)
        elif os.path.isfile(os.path.join(path, paths.MANIFEST)):
            if os.path.islink(path):
                raise refused(where, f"`{visible_path(file)}` is a link")
            _add(entries, _described(file, path, where), where)
    return entries


def _bounded(found: Iterable[os.DirEntry[str]], where: str) -> Iterable[os.DirEntry[str]]:
    for number, each in enumerate(found):
        if number >= MOST_ENTRIES:
            raise refused(where, f"it has more than {MOST_ENTRIES:,} entries")
        yield each


def _described(name: str, path: str, where: str) -> Entry:
    from conductor.spec.manifest.reading import load

    manifest = load(os.path.join(path, paths.MANIFEST))
    return Entry(
        name=_checked(name, where),
        source=path,
        here=True,
        version=manifest.version,
        description=one_line(manifest.description),
        catalogue=where,
    )


class _File(msgspec.Struct):
    """An entry of the registry's format, as far as it matters here."""

    id: str = ""
    version: str = ""
    description: str = ""
    distribution: dict[str, Any] = {}


class _Index(msgspec.Struct):
    extensions: list[_File] = []


def parse(content: bytes, where: str) -> dict[str, Entry]:
    """The entries of a JSON file, by name. Raises `UsageError`."""
    files = _decoded(content, where, _Index).extensions
    if len(files) > MOST_ENTRIES:
        raise refused(where, f"it has more than {MOST_ENTRIES:,} entries")
    entries: dict[str, Entry] = {}
    for file in files:
        _add(entries, _read_entry(file, where), where)
    return entries


def _decoded(content: bytes, where: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(where, one_line(error)) from None


def _add(entries: dict[str, Entry], entry: Entry | None, where: str) -> None:
    if entry is None:
        return
    if entry.name in entries:
        raise refused(where, f"it has `{entry.name}` twice")
    entries[entry.name] = entry


def _read_entry(file: _File, where: str) -> Entry | None:
    """An entry of ours; None for one of other programs. Raises `UsageError`."""
    runs = file.distribution.get("uvx")
    if not isinstance(runs, dict) or not _PACKAGE.fullmatch(str(runs.get("package"))):
        return None
    words = runs.get("args")
    if not (isinstance(words, list) and len(words) == 2 and words[0] == "proxy"):
        raise refused(where, f"`{one_line(file.id, 80)}` runs something else than `proxy SOURCE`")
    name, source, here = _checked(file.id, where), words[1], False
    if not isinstance(source, str) or not 0 < len(source) <= _LONGEST or not source.isprintable():
        raise refused(where, f"`{name}` names no source")
    if source.startswith("-") or "env" in runs:
        raise refused(where, f"`{name}` has options or variables in its source")
    if "://" not in source and not source.startswith("pypi:"):
        source, here = _inside(source, name, where), True
    return Entry(
        name=name,
        source=source,
        here=here,
        version=file.version if is_version(file.version) else "",
        description=one_line(file.description),
        catalogue=where,
    )


def _inside(source: str, name: str, where: str) -> str:
    """The absolute path of a source in the catalogue's own folder."""
    if is_remote(where):
        raise refused(where, f"`{name}` is a path, and a catalogue on the web has none")
    folder = os.path.realpath(os.path.dirname(where))
    path, mark, digest = source.partition("#")
    real = os.path.realpath(os.path.join(folder, path))
    if os.path.isabs(path) or not paths.within(real, folder) or real == folder:
        raise refused(where, f"the path of `{name}` leads out of its folder")
    return f"{real}{mark}{digest}"


def _checked(name: str, where: str) -> str:
    """A name of a catalogue. Raises `UsageError`."""
    if not is_name(name) or name.startswith(("-", ".", "@")) or is_reserved(name):
        raise refused(where, f"`{one_line(name, 80)}` is no name for a component")
    return name


def refused(where: str, why: str) -> UsageError:
    """The error for a catalogue that is not used."""
    return UsageError(f"the catalogue `{visible_path(where)}` is refused: {why}", _HINT)
