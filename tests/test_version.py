"""Which conductor this is, read from the folders that Python looks in."""

import sys
from pathlib import Path

import pytest

from conductor.version import DISTRIBUTION, version


def test_the_first_folder_that_has_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = version()
    folder, later = tmp_path / "site", tmp_path / "later"
    for place, number in ((folder, "7.8"), (later, "9")):
        (place / f"{DISTRIBUTION.replace('-', '_')}-{number}.dist-info").mkdir(parents=True)
        (place / f"{DISTRIBUTION.replace('-', '_')}_x-1.dist-info").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        sys, "path", [str(tmp_path / "none"), str(tmp_path / "file"), str(tmp_path)]
    )
    assert version() == own
    sys.path += [str(folder), str(later)]
    assert version() == "7.8"
