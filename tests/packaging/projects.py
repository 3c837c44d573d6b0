"""The entries of `pyproject.toml`, as the tests of packaging compare them with other files."""

import tomllib
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.places import ROOT

SETTINGS: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: Final[dict[str, Any]] = SETTINGS["project"]

_MINOR: Final = "Programming Language :: Python :: 3."


def python_versions() -> list[str]:
    """The supported Pythons, as `3.11`, from the classifiers."""
    named = [name for name in PROJECT["classifiers"] if name.startswith(_MINOR)]
    return [name.rpartition(" ")[2] for name in named]


def required(*extras: str) -> list[Requirement]:
    """The project's requirements, and those of extras, with the extras that these name in turn."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = []
    for requirement in map(Requirement, lines):
        if canonicalize_name(requirement.name) == PROJECT["name"]:
            lines_of_extras = required(*sorted(requirement.extras))  # a set has no order
            requirements += lines_of_extras
        else:
            requirements.append(requirement)
    return requirements
