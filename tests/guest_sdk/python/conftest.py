"""Python guests, and a rig of chains that have some."""

from collections.abc import Callable
from pathlib import Path

import pytest

import wasm_host
from conductor.spec.paths import compiled_modules
from conductor.spec.python_guest import scripts
from tests.harness.process.rig import Rig

Make = Callable[..., wasm_host.Guest]


@pytest.fixture(name="rig")
def scripted_rig(rig: Rig, python_guest: Path) -> Rig:
    """The rig; the guest that runs Python proxies is compiled before a chain waits for it."""
    del python_guest
    return rig


@pytest.fixture(scope="session")
def make_guest(python_guest: Path) -> Make:
    """Makes a guest of a file or folder, optionally with other limits."""

    def make(path: Path, **limits: int) -> wasm_host.Guest:
        digest = python_guest.with_suffix(".sha256").read_text(encoding="ascii").strip()
        module = wasm_host.load(
            python_guest,
            # However busy the machine is: time is not what is tested.
            limits=wasm_host.Limits(**{**scripts.LIMITS, "cpu_ms": 60_000, **limits}),
            cache_dir=Path(compiled_modules()),
            digest=digest,
        )
        module.preface = scripts.read(str(path)).preface
        return module.instantiate(path.stem)

    return make
