"""The README and the tutorial, done from their first line to their last, in an empty folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.docs import pages
from tests.docs.walk import Walk, differences
from tests.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "tutorial.md"

pytestmark = pytest.mark.timeout(600)


@pytest.mark.usefixtures("python_guest")
def test_what_the_tutorial_shows_is_what_comes(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    shown = walk.page(pages.read(PAGE))
    wrong = differences(PAGE, shown)
    assert not wrong, f"{wrong}\npython -m tests.docs.walk {PAGE.relative_to(ROOT)}"
    assert len(shown) > 20
    # What takes an account cannot be run here. Nothing else is left out.
    assert ["claude-agent-acp" in block.text for block in walk.left_out] == [True]
    assert {path.name for path in walk.home.iterdir()} == {
        "briefing", "briefing.zip", "conductor.lock", "downloads"
    }  # fmt: skip


@pytest.mark.usefixtures("python_guest")
def test_what_the_readme_shows_is_what_comes(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    walk = Walk(tmp_path)
    shown = walk.page(pages.read(page))
    wrong = differences(page, shown)
    assert not wrong, wrong
    assert len(shown) == 4
    assert not walk.left_out
