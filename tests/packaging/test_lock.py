"""`requirements-dev.lock` holds what `pyproject.toml` asks for, and names no registry."""

import re
from typing import Final, NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.projects import python_versions, required
from tests.places import ROOT

TEXT: Final = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
AGAIN: Final = "run scripts/lock"
_ENTRY: Final = re.compile(
    r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+))? \\\n((?:    --hash=\S+.*\n)+)", re.MULTILINE
)


class Entry(NamedTuple):
    """A locked package, and the systems where it is installed."""

    version: str
    marker: Marker | None
    hashes: int


LOCKED: Final[dict[str, list[Entry]]] = {}
"""By name; several where a package needs different versions on different Pythons."""
for _name, _version, _marker, _hashes in _ENTRY.findall(TEXT):
    _entry = Entry(_version, Marker(_marker) if _marker else None, _hashes.count("--hash"))
    LOCKED.setdefault(canonicalize_name(_name), []).append(_entry)


@pytest.mark.parametrize("requirement", required("dev"), ids=str)
def test_each_requirement_is_locked_at_a_version_that_satisfies_it(
    requirement: Requirement,
) -> None:
    entries = LOCKED.get(canonicalize_name(requirement.name), [])
    assert entries, AGAIN
    for entry in entries:
        assert requirement.specifier.contains(entry.version), AGAIN


@pytest.mark.parametrize("python", python_versions())
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_each_requirement_is_installed_once_on_every_platform(python: str, system: str) -> None:
    where = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": system}
    for requirement in required("dev"):
        if requirement.marker is None or requirement.marker.evaluate({**where}):
            entries = LOCKED.get(canonicalize_name(requirement.name), [])
            markers = [entry.marker for entry in entries]
            chosen = [marker for marker in markers if marker is None or marker.evaluate({**where})]
            assert len(chosen) == 1, f"{requirement}: {AGAIN}"


def test_every_package_has_hashes() -> None:
    pinned = [line for line in TEXT.splitlines() if re.match(r"\w", line)]
    entries = [entry for entries in LOCKED.values() for entry in entries]
    assert len(pinned) == len(entries) > 30
    assert all(entry.hashes for entry in entries)


def test_it_names_no_registry() -> None:
    assert "://" not in TEXT
    options = [line for line in TEXT.splitlines() if line.startswith("-")]
    assert options == []
