"""A rig whose chains have Python proxies, for the tests of other folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process.rig import Rig


@pytest.fixture(name="rig")
def scripted_rig(tmp_path: Path, python_guest: Path) -> Iterator[Rig]:
    """The rig; what runs Python proxies has been compiled before a chain has to wait for that."""
    del python_guest
    made = Rig.create(tmp_path, tmp_path)
    try:
        yield made
    finally:
        made.close()
