"""The programs that the package installs."""

import tomllib

from tests.places import ROOT


def test_the_package_installs_a_program_of_its_own_name() -> None:
    """`uvx PACKAGE` and entries of registries (`{"uvx": {"package": …}}`) run that one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["scripts"][project["name"]] == project["scripts"]["conductor"]
