"""The Python guest, built and compiled once."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

import wasm_host
from conductor import scripts
from conductor.hosting import cache_folder

Make = Callable[..., wasm_host.Guest]


@pytest.fixture(scope="session")
def python_guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared guest; compiled into the user's cache, so that no chain has to wait for that."""
    lock = tmp_path_factory.getbasetemp().parent / "python-guest.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # one of the processes that run tests makes it for all
        path, digest = scripts.guest()
        limits = wasm_host.Limits(**scripts.LIMITS)
        wasm_host.load(path, limits=limits, cache_dir=Path(cache_folder()), digest=digest)
    return Path(path)


@pytest.fixture(scope="session")
def make_guest(python_guest: Path) -> Make:
    """Makes a guest of a file or folder, optionally with other limits."""

    def make(path: Path, **limits: int) -> wasm_host.Guest:
        digest = python_guest.with_suffix(".sha256").read_text(encoding="ascii").strip()
        module = wasm_host.load(
            python_guest,
            # However busy the machine is: time is not what is tested.
            limits=wasm_host.Limits(**{**scripts.LIMITS, "cpu_ms": 60_000, **limits}),
            cache_dir=Path(cache_folder()),
            digest=digest,
        )
        module.preface = scripts.read(str(path)).preface
        return module.instantiate(path.stem)

    return make
