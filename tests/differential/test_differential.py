"""The differential player finds a difference that is there, and none where there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.comparing import differences, shrunk
from tests.differential.playing import KINDS, drawn
from tests.differential.revisions import PACKAGES, Player
from tests.places import ROOT


@pytest.fixture(scope="module")
def ours() -> Iterator[Player]:
    """Plays with this tree."""
    with Player(ROOT) as player:
        yield player


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    """A copy of this tree in which cancellations have another name."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc"))
    for module in (tmp_path / "conductor/core").rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        module.write_text(text.replace("$/cancel_request", "$/cancel"), encoding="utf-8")
    return tmp_path


def test_a_tree_plays_as_itself(ours: Player) -> None:
    plays = [drawn(kind, 1) for kind in KINDS]
    with Player(ROOT) as again:
        assert list(differences(ours, again, plays)) == []


def test_a_planted_difference_is_found_and_its_play_made_short(ours: Player, altered: Path) -> None:
    plays = [drawn("policed", seed) for seed in range(12)]
    with Player(altered) as theirs:
        found = min(differences(ours, theirs, plays), key=lambda one: one.at)
        short = shrunk(ours, theirs, found)
    assert len(short.play.steps) < 8
    assert "$/cancel" in short.transcript().partition("-- step")[2]
