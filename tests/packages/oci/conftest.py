"""A registry for each test, and no login but those that a test makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade


@pytest.fixture
def made() -> Iterator[HandMade]:
    """A registry made by hand."""
    with registries.hand_made() as registry:
        yield registry


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who runs the tests may be logged in somewhere."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
