"""The rig as a fixture; whatever a test does, no chain may print a traceback or leave a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.process.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled modules, shared by all tests of a run."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def rig(tmp_path: Path, module_cache: Path) -> Iterator[Rig]:
    """The rig; ends everything the test has started."""
    made = Rig.create(tmp_path, module_cache)
    try:
        yield made
    finally:
        made.close()
    for chain, _ in made.chains:
        assert "Traceback" not in chain.stderr, chain.story()
