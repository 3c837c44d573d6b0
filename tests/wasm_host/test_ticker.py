"""The epoch thread: ticks while a guest runs, sleeps when none does, survives forks."""

import _thread
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import wasm_host
from tests.places import DEADLINE, HOSTILE, ROOT
from tests.wasm_host.support import CARRIERS, GUESTS, assemble, wasm
from wasm_host.carriers import wasi
from wasm_host.ticker import IDLE_TICKS, TICK_NS, TICKER, Ticker


class Counter:
    """An engine that tells when it has been ticked often enough."""

    def __init__(self) -> None:
        self.count = 0
        self.target = 1
        self.reached = threading.Event()

    def tick(self) -> None:
        self.count += 1
        if self.count >= self.target:
            self.reached.set()

    def wait_for(self, more: int) -> None:
        """Waits for so many more ticks, while they come."""
        # The target first: a tick of before does not reach it after that.
        self.target = self.count + more
        self.reached.clear()
        assert self.reached.wait(DEADLINE)


@pytest.fixture(name="ticker")
def _ticker() -> Ticker:
    # Nobody computes here.
    return Ticker(time.monotonic_ns)


def threads() -> int:
    """How many threads this process has started."""
    return _thread._count()


def until(done: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(TICK_NS / 1e9)


def test_no_thread_before_the_first_guest(ticker: Ticker) -> None:
    before = threads()
    ticker.add_engine(Counter().tick)
    assert ticker.asleep
    assert threads() == before


def test_ticks_while_a_guest_runs_and_dozes_after(ticker: Ticker) -> None:
    before = threads()
    counter = Counter()
    ticker.add_engine(counter.tick)
    for _ in range(2):
        ticker.running.add("guest")
        ticker.wake()
        # Longer than it stays up for nothing: a guest that runs keeps it ticking.
        counter.wait_for(IDLE_TICKS + 20)
        assert not ticker.asleep
        ticker.running.discard("guest")
        until(lambda: ticker.asleep)
        assert threads() == before + 1
    ticker.stop()
    until(lambda: threads() == before)  # a busy machine may take longer than `stop` waits


def test_only_processor_time_counts() -> None:
    """A busy machine gives its time to others; what passes meanwhile is not the guest's."""
    looked = threading.Semaphore(0)
    used = [0]

    def clock() -> int:
        looked.release()
        return used[0]

    ticker, counter = Ticker(clock), Counter()
    ticker.add_engine(counter.tick)
    ticker.running.add("guest")
    ticker.wake()
    for _ in range(10):
        assert looked.acquire(timeout=DEADLINE)
    assert counter.count == 0
    counter.target = 5  # before they can come: no more than these do
    used[0] = 5 * TICK_NS + TICK_NS // 2
    assert counter.reached.wait(DEADLINE)
    for _ in range(10):
        assert looked.acquire(timeout=DEADLINE)
    assert counter.count == ticker.ticks == 5
    ticker.stop()


def test_a_guest_s_time_is_that_of_the_process() -> None:
    assert TICKER.clock is time.process_time_ns


def test_every_engine_is_ticked(ticker: Ticker) -> None:
    counters = [Counter(), Counter()]
    ticker.add_engine(counters[0].tick)
    ticker.running.add("guest")
    ticker.wake()
    counters[0].wait_for(1)
    ticker.add_engine(counters[1].tick)
    counters[1].wait_for(2)
    ticker.stop()


def test_stopping_is_final_and_repeatable(ticker: Ticker) -> None:
    before = threads()
    ticker.stop()
    ticker.stop()
    ticker.wake()
    assert threads() == before


def test_a_program_that_is_left_to_its_limit_runs_no_more_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else this process would tick for ever."""
    monkeypatch.setattr(wasi, "CLOSING_SECONDS", 0.01)
    echo = (GUESTS / "echo_wasi.wat").read_text()
    loops = assemble(echo.replace("(return)", "(loop $ever (br $ever))"))
    guest = wasm_host.load(loops, limits=wasm_host.Limits(cpu_ms=50)).instantiate("loops")
    guest.start(b"")
    guest.close()
    until(lambda: not TICKER.running)


def test_a_forked_child_has_a_ticker_of_its_own() -> None:
    """A guest that loops in a forked child is still stopped, though the parent's thread is not."""
    script = (
        "import os, sys, wasm_host\n"
        "module = wasm_host.load(sys.argv[1], limits=wasm_host.Limits(cpu_ms=30))\n"
        "def loops():\n"
        "    guest = module.instantiate('loops')\n"
        "    guest.start(b'')\n"
        "    try:\n"
        "        guest.deliver(b'p1\\n')\n"
        "    except wasm_host.GuestError as error:\n"
        "        assert error.limit == 'cpu_ms', error\n"
        "        return 0\n"
        "    return 1\n"
        "assert loops() == 0\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(loops())\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    module = wasm(HOSTILE / "loop_deliver.wat")
    _run_script(script, module)


def test_leaving_with_guests_alive_is_quiet() -> None:
    """Interpreter exit with a running ticker, a parked program and open guests."""
    script = (
        "import sys, wasm_host\n"
        "module = wasm_host.load(sys.argv[1])\n"
        "guests = [module.instantiate(str(n)) for n in range(3)]\n"
        "for guest in guests:\n"
        "    guest.start(b'p1\\n')\n"
    )

    for carrier in CARRIERS:
        _run_script(script, wasm(GUESTS / carrier.file))


def _run_script(script: str, module: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guest.wasm"
        path.write_bytes(module)
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
