"""Recipes: the proxy of each is made, run sandboxed, and tested by the test that stands there."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.spec import catalog
from tests.docs import pages
from tests.docs.walk import Walk, differences
from tests.places import ROOT

FOLDER: Final = ROOT / "docs"
RECIPES: Final = [
    (page, title, pages.section(text, title))
    for page in sorted(FOLDER.glob("*.md"))
    for text in [pages.read(page)]
    for title in re.findall(r"^## (Recipe: .*)$", text, re.MULTILINE)
]
PARTS: Final = ["Run it", "Test it", "Rights", "Bundled"]

pytestmark = pytest.mark.timeout(600)
each_recipe = pytest.mark.parametrize(
    ("page", "title", "text"), RECIPES, ids=[title for _, title, _ in RECIPES]
)


@each_recipe
@pytest.mark.usefixtures("python_guest")
def test_what_a_recipe_shows_is_what_comes(
    page: Path, title: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path)
    shown = walk.page(text)
    wrong = differences(page, shown)
    assert not wrong, f"{title}: {wrong}"
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
def test_a_recipe_has_the_same_parts_as_all(page: Path, title: str, text: str) -> None:
    del page, title
    assert re.findall(r"^\*\*(.*)\*\*$", text, re.MULTILINE) == PARTS
    bundled = text.partition("\n**Bundled**\n")[2]
    named = re.findall(r"components/([\w-]+)/README.md", bundled)
    assert named
    assert set(named) <= set(catalog.bundled())
    (source, *_) = pages.blocks(text, "python")
    assert len(source.text.splitlines()) < 40, "a recipe is short"


def test_every_recipe_is_in_the_index() -> None:
    index = pages.section(pages.read(FOLDER / "proxies.md"), "Recipes")
    linked = {link.partition("#")[2] for link in pages.links(index)}
    assert linked >= {slug for _, title, _ in RECIPES for slug in pages.anchors(f"## {title}")}
    assert len(RECIPES) >= 8
