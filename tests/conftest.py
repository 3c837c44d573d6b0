"""Fixtures of all tests: Hypothesis's profile, the guest of Python proxies, the rig of chains."""

import asyncio
import fcntl
import inspect
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.harness.process.rig import Rig
from tests.places import DEADLINE, LONG

# Where this is set, as in many containers, each of the thousands of processes that the tests start
# would compile whatever it imports from the checkout.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples each time, however busy the machine: what fails once fails always. For others,
# `pytest --hypothesis-profile wild`, or FUZZ_EXAMPLES with a number.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("wild", _NO_CLOCK)
settings.register_profile("steady", _NO_CLOCK, derandomize=True, database=None)
settings.load_profile("wild" if os.environ.get("FUZZ_EXAMPLES") else "steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --long` runs all tests: before a release, and before an issue is resolved."""
    parser.addoption("--long", action="store_true", help="all rows of the tests in tests/long.txt")


def pytest_configure(config: pytest.Config) -> None:
    """`pytest --long` starts each process as users do (tests/harness/process/forks.py)."""
    if config.getoption("--long"):
        os.environ["NO_COPIES"] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test in tests/long.txt that has parameters, the first row runs; one without does not
    run. Tests that are named one by one always run."""
    if config.getoption("--long") or any("::" in each for each in config.args):
        return
    table = set(LONG.read_text(encoding="utf-8").split())
    tried: set[str] = set()
    now: list[pytest.Item] = []
    later: list[pytest.Item] = []
    for item in items:
        name, parameters, _ = item.nodeid.partition("[")
        is_later = name in table and (not parameters or name in tried)
        (later if is_later else now).append(item)
        tried.add(name)
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = now


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An async test has a loop of its own, of the kind that conductor itself runs on, and ends
    within the deadline."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    work = test(**{name: pyfuncitem.funcargs[name] for name in names})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(work, DEADLINE))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any], dict[str, Any]]:
    """A report with half an emoji in it cannot cross to the process that prints it: without this
    the failure of one test would end the whole run."""
    data = yield
    if data["outcome"] != "failed":
        return data
    text = json.dumps(data, ensure_ascii=False, default=str).encode(errors="replace")
    taken: dict[str, Any] = json.loads(text)
    return taken


@pytest.fixture(scope="session", autouse=True)
def _user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Who runs the tests may use conductor too: no test reads or changes what that user has
    configured, trusts, and has seen reported."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(variable, str(tmp_path_factory.mktemp("user")))
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        yield


@pytest.fixture(scope="session")
def python_guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest that runs Python proxies, built and compiled into the user's cache, so that no test
    has to wait for the guest, or sees a report of it."""
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


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """The rig; ends everything the test has started. No chain may print a traceback."""
    from conductor.spec.paths import compiled_modules

    # In the user's cache: a module is compiled once, and not for each process that runs tests.
    rig = Rig.create(tmp_path, Path(compiled_modules()))
    try:
        yield rig
    finally:
        rig.close()
    for chain, _ in rig.chains:
        assert "Traceback" not in chain.stderr, chain.story()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    """A NATS server with JetStream, ready; tests that need others make them of `Nats`."""
    with Nats(tmp_path) as server:
        yield server


@pytest.fixture
def fleet(rig: Rig, nats: Nats) -> Fleet:
    """The parts of a fleet beside a NATS server of their own."""
    return Fleet(rig, nats.url)
