"""`conductor test` of everything that comes along, and of proxies of every other kind."""

import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.author.check.table import CHECKS
from conductor.spec import catalog
from tests.author.check.test_suite import MODULES, run
from tests.places import ROOT

pytestmark = pytest.mark.timeout(600)  # the first may have the Python guest built

BULKY: Final = frozenset({"1-mb", "10-mb", "memory"})
"""Checks that take a sandboxed Python proxy most of the time. All of these are of one SDK, so that
a few of them stand for all."""

WHOLE: Final = frozenset({"cache", "skills"})
"""Components that every check is run on: one handles messages, and one has tools."""

LIGHT: Final = tuple(one.name for one in CHECKS if one.name not in BULKY)


def proxies() -> list[str]:
    """The names of all bundled proxies but those that `test_suite.py` runs every check on."""
    found = {name: catalog.bundled_manifest(name) for name in catalog.bundled()}
    names = [name for name, one in found.items() if one is not None and one.kind == "proxy"]
    # Without `--long` the first stands for all: a small one.
    return sorted((name for name in names if name not in MODULES), key=lambda name: name == "a11y")


@pytest.mark.parametrize("name", proxies())
def test_bundled_components_keep_the_contract(name: str) -> None:
    found = run(name, *(() if name in WHOLE else LIGHT))
    wrong = {name: one.why for name, one in found.items() if one.status in ("fail", "note")}
    assert wrong == {}
    skipped = [name for name, one in found.items() if one.status == "skip"]
    program = catalog.resolve(name).command is not None
    expected = [one.name for one in CHECKS if one.needs and (one.needs == "program") != program]
    assert skipped == [one for one in expected if one in found]


EXAMPLE: Final = ROOT / "guest_sdk" / "python" / "examples" / "library.py"


@pytest.mark.parametrize(
    "component", [str(EXAMPLE), f"{sys.executable} {EXAMPLE}"], ids=["sandboxed", "program"]
)
def test_one_file_keeps_it_sandboxed_and_as_a_program(component: str) -> None:
    found = run(component, *LIGHT)
    wrong = {name: one.why for name, one in found.items() if one.status in ("fail", "note")}
    assert wrong == {}


KEEPING: Final = """
from guest_sdk.python import Proxy

proxy = Proxy("keeping")
kept = []


@proxy.notification()
def keep(notification):
    kept.append(notification.params)
"""


def test_one_that_keeps_what_has_passed_runs_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "keeping.py"
    path.write_text(KEEPING, encoding="utf-8")
    (found,) = run(f"{path},memory=80MB", "memory").values()
    assert found.status == "fail"
    assert "proxy `keeping` (keeping.py)" in found.why
