"""The cookbook: each page's proxy is made, run sandboxed, and tested by the page's own test."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import TYPE_CHECKING, Final

import pytest

from conductor.spec import catalog
from tests.docs import pages
from tests.docs.walk import Walk, differences
from tests.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = ROOT / "docs" / "cookbook"
INDEX: Final = FOLDER / "README.md"
RECIPES: Final = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)
RECIPE_IDS: Final = [page.stem for page in RECIPES]
SECTIONS: Final = ["Run it", "Test it", "What it may do", "Bundled"]

pytestmark = pytest.mark.timeout(600)
each_recipe = pytest.mark.parametrize("page", RECIPES, ids=RECIPE_IDS)


@each_recipe
@pytest.mark.usefixtures("python_guest")
def test_what_a_recipe_shows_is_what_comes(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path)
    shown = walk.page(pages.read(page))
    wrong = differences(page, shown)
    assert not wrong, f"{wrong}\npython -m tests.docs.walk {page.relative_to(ROOT)}"
    assert shown
    assert walk.left_out == []
    run_tests(walk.home, monkeypatch)


def run_tests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the test beside the proxies of a folder, in this process."""
    monkeypatch.syspath_prepend(folder)
    names = [path.stem for path in folder.glob("*.py")]
    try:
        (name,) = (one for one in names if one.startswith("test_"))
        tests = inspect.getmembers(importlib.import_module(name), inspect.isfunction)
        ours = [test for what, test in tests if what.startswith("test_")]
        assert ours
        for test in ours:
            test()
    finally:
        for name in names:
            sys.modules.pop(name, None)


@each_recipe
def test_a_recipe_has_the_same_parts_as_all(page: Path) -> None:
    text = pages.read(page)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    bundled = text.partition("\n## Bundled\n")[2]
    named = re.findall(r"components/([\w-]+)/README.md", bundled)
    assert named
    assert set(named) <= set(catalog.bundled())
    (source, *_) = pages.blocks(text, "python")
    assert len(source.text.splitlines()) < 40, "a recipe is short"


def test_every_recipe_is_in_the_index() -> None:
    assert set(pages.links(pages.read(INDEX))) >= {page.name for page in RECIPES}
    assert len(RECIPES) >= 8
