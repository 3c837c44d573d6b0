"""The rig of the library's components, which are Python proxies."""

from pathlib import Path

import pytest

from tests.harness.process.rig import Rig


@pytest.fixture(name="rig")
def scripted_rig(rig: Rig, python_guest: Path) -> Rig:
    """The rig; the guest that runs Python proxies is compiled before a chain waits for it."""
    del python_guest
    return rig
