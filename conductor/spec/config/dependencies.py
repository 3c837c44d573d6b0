"""The dependencies of a project: packages in its manifests, by the names of each ecosystem.

Manifests belong to the project, so they are read as files of strangers: bounded, and nothing is
run. A `Gemfile` is a program; only its `gem "NAME"` lines are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from conductor.spec import toml_files, untrusted_files

_MOST: Final = 1024 * 1024
"""Bytes of a manifest."""

_PYTHON: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_GEM: Final = re.compile(r"""^\s*gem[\s(]\s*["']([^"']+)["']""", re.MULTILINE)
_GO: Final = re.compile(r"(?:require\s+)?([^\s()/]+(?:/\S+)?)\s+v\S+\s*(//.*)?")
_MAJOR: Final = re.compile(r"/v\d+\Z")


def _as_it_is(text: str) -> str:
    return text


def _none(_: Any) -> Iterable[str]:
    return ()


class Kind(NamedTuple):
    """A kind of manifest."""

    parsed: Callable[[str], Any]
    """Reads the text of a manifest. Raises `ValueError`."""
    listed: Callable[[Any], Iterable[str]]
    """The packages in a manifest that is read."""
    normal: Callable[[str], str]
    """A package's name such that two spellings of it are the same."""
    members: Callable[[Any], Iterable[str]] = _none
    """Patterns of the folders with the manifests of a workspace's members; `!` leaves some out."""


class Manifest(NamedTuple):
    """The content of a manifest."""

    packages: frozenset[str]
    """Their names, spelt in one way."""
    members: list[str]
    """Patterns of its members, as in `Kind`."""
    cost: int
    """The work of reading it, in steps; about three million steps take a second."""
    normal: Callable[[str], str]

    def lists(self, package: str) -> bool:
        """Whether it lists a package."""
        return self.normal(package) in self.packages


class BrokenError(Exception):
    """A manifest cannot be read: the text says why."""


def kind_of(path: str) -> Kind | None:
    """The kind of a manifest, by its name; None if it is no manifest."""
    name = os.path.basename(path)
    if name.startswith("requirements") and name.endswith(".txt"):
        name = "requirements.txt"
    return KINDS.get(name)


def read(path: str) -> Manifest:
    """Reads a manifest. Raises `BrokenError`."""
    kind = kind_of(path)
    assert kind is not None
    try:
        text = untrusted_files.read(path, _MOST).decode("utf-8-sig")
        held = kind.parsed(text)
        packages = frozenset(kind.normal(one) for one in kind.listed(held))
        cost = len(text) + (toml_files.work(text) if kind.parsed is toml_files.loads else 0)
        return Manifest(packages, [*kind.members(held)], cost, kind.normal)
    except OSError as error:
        raise BrokenError(error.strerror or "it cannot be read") from None
    except (ValueError, RecursionError) as error:  # of TOML, of JSON or of UTF-8
        raise BrokenError(str(error)) from None


def _table(value: Any, *keys: str) -> dict[str, Any]:
    """The table behind these keys; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


# -- the ecosystems --------------------------------------------------------------------------------


def _cargo(whole: dict[str, Any]) -> Iterator[str]:
    places = [whole, _table(whole, "workspace"), *_table(whole, "target").values()]
    for place in places:
        for table in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, value in _table(place, table).items():
                renamed = value.get("package") if isinstance(value, dict) else None
                yield renamed if isinstance(renamed, str) else name


def _cargo_members(whole: dict[str, Any]) -> list[str]:
    return _workspace(_table(whole, "workspace"))


def _uv_members(whole: dict[str, Any]) -> list[str]:
    return _workspace(_table(whole, "tool", "uv", "workspace"))


def _workspace(table: dict[str, Any]) -> list[str]:
    left_out = (f"!{each}" for each in _texts(table.get("exclude")))
    return [*_texts(table.get("members")), *left_out]


def _npm_members(whole: Any) -> list[str]:
    held = whole.get("workspaces") if isinstance(whole, dict) else None
    return _texts(held.get("packages") if isinstance(held, dict) else held)


def _pyproject(whole: dict[str, Any]) -> Iterator[str]:
    project = _table(whole, "project")
    groups = [*_table(project, "optional-dependencies").values()]
    groups += [project.get("dependencies"), *_table(whole, "dependency-groups").values()]
    for group in groups:
        yield from _python_names(_texts(group))
    poetry = _table(whole, "tool", "poetry")
    for place in (poetry, *_table(poetry, "group").values()):
        yield from _table(place, "dependencies")
        yield from _table(place, "dev-dependencies")


def _requirements(text: str) -> Iterator[str]:
    # Options (`-r FILE`, `--hash`) begin with a dash, and so match no name.
    return _python_names(text.replace("\\\n", " ").splitlines())


def _python_names(requirements: Iterable[str]) -> Iterator[str]:
    for requirement in requirements:
        if name := _PYTHON.match(requirement):
            yield name[1]


def _package_json(whole: Any) -> Iterator[str]:
    for kind in ("", "dev", "peer", "optional"):
        for name, version in _table(
            whole, f"{kind}Dependencies" if kind else "dependencies"
        ).items():
            alias = isinstance(version, str) and version.startswith("npm:")
            # `npm:NAME@VERSION`, where NAME may begin with `@`.
            yield version[4:5] + version[5:].partition("@")[0] if alias else name


def _go_mod(text: str) -> Iterator[str]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("require ("):
            inside = True
        elif line.startswith(")"):
            inside = False
        elif inside or line.startswith("require "):
            found = _GO.fullmatch(line)
            if found is not None and "indirect" not in (found[2] or ""):
                yield found[1].strip('"')


def _cargo_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _python_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # PEP 503


def _go_name(name: str) -> str:
    return _MAJOR.sub("", name)


KINDS: Final = {
    "Cargo.toml": Kind(toml_files.loads, _cargo, _cargo_name, _cargo_members),
    "pyproject.toml": Kind(toml_files.loads, _pyproject, _python_name, _uv_members),
    "requirements.txt": Kind(_as_it_is, _requirements, _python_name),
    "package.json": Kind(msgspec.json.decode, _package_json, _as_it_is, _npm_members),
    "go.mod": Kind(_as_it_is, _go_mod, _go_name),
    "Gemfile": Kind(_as_it_is, _GEM.findall, _as_it_is),
}
"""Manifests by name; `requirements*.txt` counts as the third."""
