"""What holds for every test: how Hypothesis chooses its examples; what is built once for all."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however busy the machine: what fails once fails always. For others,
# `pytest --hypothesis-profile wild`, or FUZZ_EXAMPLES with a number.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("wild", _NO_CLOCK)
settings.register_profile("steady", _NO_CLOCK, derandomize=True, database=None)
settings.load_profile("wild" if os.environ.get("FUZZ_EXAMPLES") else "steady")


@pytest.fixture(scope="session")
def python_guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What runs Python proxies, built and compiled into the user's cache, so that nobody has to
    wait for that, or is told of it."""
    import wasm_host
    from conductor.spec.paths import compiled_modules
    from conductor.spec.python_guest import scripts

    lock = tmp_path_factory.getbasetemp().parent / "python-guest.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # one of the processes that run tests makes it for all
        path, digest = scripts.guest()
        limits = wasm_host.Limits(**scripts.LIMITS)
        wasm_host.load(path, limits=limits, cache_dir=Path(compiled_modules()), digest=digest)
    return Path(path)
