"""Fixtures that the tests of the benchmarks share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the native programs are built: once, for building takes ten seconds."""
    return tmp_path_factory.mktemp("built")
