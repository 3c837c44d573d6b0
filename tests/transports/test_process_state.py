"""The system's report on a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.transports.process_state import memory, processor_time, words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems say nothing")

GONE = 2**30


def test_it_says_what_this_process_has_used() -> None:
    while os.times().system < 0.3:
        os.stat(".")
    before = sum(os.times()[:2])
    used, size = processor_time(os.getpid()), memory(os.getpid())
    assert used is not None
    # The clock of the system has steps.
    assert before - 0.1 <= used <= sum(os.times()[:2]) + 0.1
    assert size is not None
    assert size % os.sysconf("SC_PAGE_SIZE") == 0


def test_the_name_of_a_program_may_hold_anything(tmp_path: Path) -> None:
    program = tmp_path / "a) b (c"
    program.symlink_to(sys.executable)
    works = "import os\nwhile sum(os.times()[:2]) < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([program, "-c", works], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert words(process.pid) == program.name
        assert (processor_time(process.pid) or 0) >= 0.1
        process.communicate(b"\n")


def test_nothing_is_said_of_a_process_that_is_gone() -> None:
    assert (processor_time(GONE), memory(GONE), words(GONE)) == (None, None, "")
