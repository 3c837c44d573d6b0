"""The Python guest, compiled once, and a rig of chains for the library's components."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import wasm_host
from conductor import scripts
from conductor.hosting import cache_folder
from tests.e2e.rig import Rig


@pytest.fixture(name="python_guest", scope="session")
def _python_guest() -> Path:
    """The shared guest; compiled into the user's cache, so that no chain has to wait for that."""
    path, digest = scripts.guest()
    limits = wasm_host.Limits(**scripts.LIMITS)
    wasm_host.load(path, limits=limits, cache_dir=Path(cache_folder()), digest=digest)
    return Path(path)


@pytest.fixture(name="rig")
def _rig(tmp_path: Path, python_guest: Path) -> Iterator[Rig]:
    """A rig whose chains use the compiled guest."""
    del python_guest
    made = Rig.create(tmp_path, tmp_path)
    try:
        yield made
    finally:
        made.close()
