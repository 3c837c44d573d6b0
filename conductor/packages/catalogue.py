"""Packages by name: the catalogues, and the source that `conductor add NAME` fetches.

A catalogue gives a name its source. The source is pinned, so that the catalogue decides about the
content, and no server or network between: the download must have the digest of the entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from conductor.errors import UsageError, did_you_mean
from conductor.packages import download, sources
from conductor.packages.signatures import ANYBODY, Demand
from conductor.packages.sources import Fetched, Source
from conductor.packages.sources.local import Local
from conductor.spec import catalogues
from conductor.spec.catalogues import Entry
from conductor.spec.origins import blamed, by
from conductor.spec.programs import is_name

_FILES: Final = (".wasm", ".py", ".zip", ".gz", ".tgz", ".whl", ".toml")
_PINNED: Final = re.compile(r"(.*)#sha256=([0-9a-f]{64})", re.DOTALL)


class Named(msgspec.Struct, frozen=True):
    """A name of a catalogue, as a source."""

    entry: Entry
    source: Source
    """The source of the entry today."""
    is_pinned: bool = False

    @property
    def written(self) -> str:
        """The name."""
        return self.entry.name

    @property
    def origin(self) -> str:
        """The name and the catalogue."""
        return f"{self.entry.name} of {self.entry.catalogue}"

    def stands_for(self, source: str) -> bool:
        """Whether the name still means this source, which always means the same bytes."""
        return self.source.is_pinned and self.source.written == source

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Fetches the package of the entry."""
        fetched = self.source.fetch(folder, wanted)
        version = fetched.version or self.entry.version
        return msgspec.structs.replace(fetched, version=version)


def is_catalogue_name(text: str) -> bool:
    """Whether a user's text is a name, and no path: `./NAME` is the path."""
    return is_name(text) and not text.endswith(_FILES) and text not in (".", "..")


def find(name: str, places: Mapping[str, str]) -> Named:
    """The entry of the first catalogue that has a name. Raises `ConductorError`.

    Args:
        name: The name.
        places: The catalogues, each with who names it.
    """
    known: list[str] = []
    for where, set_by in places.items():
        entries = read(where, set_by)
        if name in entries:
            return _named(entries[name])
        known += entries
    path = f"; the file or folder of that name is `./{name}`" if os.path.exists(name) else ""
    if not places:
        raise UsageError(
            f"there is no catalogue to find `{name}` in",
            f"name one with `--index` or `indexes` in conductor.toml{path}",
        )
    others = f"`conductor list --available` shows them{path}"
    raise UsageError(f"no catalogue offers `{name}`", did_you_mean(name, known, others))


def available(places: Mapping[str, str]) -> Iterator[Entry]:
    """The entries of all catalogues; of a name the first entry. Raises `ConductorError`."""
    seen: set[str] = set()
    for where, set_by in places.items():
        for name, entry in sorted(read(where, set_by).items()):
            if name not in seen:
                seen.add(name)
                yield entry


def read(where: str, set_by: str = "") -> dict[str, Entry]:
    """The entries of a catalogue, by name; `set_by`: who names it. Raises `ConductorError`."""
    try:
        if not catalogues.is_remote(where):
            return catalogues.read(where)
        return catalogues.parse(download.get(where, most=catalogues.MOST), where)
    except UsageError as error:
        raise blamed(error, set_by) from None
    except download.DownloadError as error:
        raise download.DownloadError(f"{error.text}{by(set_by)}", error.hint) from None


def _is_here(source: str) -> bool:
    """Whether a source is on this machine: no catalogue elsewhere may name such a source."""
    parts = urlsplit(source)
    return parts.scheme == "git+file" or download.is_loopback(parts.hostname or "")


def _named(entry: Entry) -> Named:
    """The entry as a source. Raises `UsageError` for an entry that is not pinned."""
    if entry.here:
        pinned = _PINNED.fullmatch(entry.source)
        path, digest = (pinned[1], pinned[2]) if pinned else (entry.source, "")
        return Named(entry, Local(path, sha256=digest))
    try:
        source = sources.parse(entry.source)
    except UsageError as error:
        raise catalogues.refused(entry.catalogue, f"`{entry.name}`: {error.text}") from None
    if _is_here(entry.source) and catalogues.is_remote(entry.catalogue):
        host = urlsplit(entry.catalogue).hostname or ""
        if not download.is_loopback(host):
            why = f"`{entry.name}` is on this machine, and the catalogue is not"
            raise catalogues.refused(entry.catalogue, why)
    if not source.is_pinned:
        why = f"`{entry.name}` names no digest, commit or version"
        raise catalogues.refused(entry.catalogue, why)
    return Named(entry, source)
