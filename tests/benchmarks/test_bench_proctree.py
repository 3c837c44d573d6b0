"""Reading /proc: the parsing anywhere, the tree on Linux."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import proctree

linux = pytest.mark.skipif(not proctree.SUPPORTED, reason="needs Linux's /proc")


def test_stat_fields_count_from_the_last_parenthesis() -> None:
    stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 10 20 0 0 30 12 5 6 20 0 1 0 99 1 1"
    assert proctree.parse_stat(stat) == (7, 42)


def test_pss_is_not_its_parts() -> None:
    text = "5000-6000 [rollup]\nRss: 900 kB\nPss: 120 kB\nPss_Anon: 80 kB\nPss_File: 40 kB\n"
    assert proctree.parse_pss_kb(text) == 120
    assert proctree.parse_pss_kb("") == 0


@linux
def test_a_grandchild_is_found_and_told_apart() -> None:
    shell = "sleep 1000 & echo $!; read line; kill $!"
    parent = subprocess.Popen(
        ["/bin/sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        assert {parent.pid, grandchild} <= set(proctree.descendants(os.getpid()))
        assert proctree.descendants(parent.pid) == [grandchild]
        # `exec` may not have happened yet when the shell prints the pid, so the
        # program told apart is the one surely running: the shell itself.
        shell_path = Path(f"/proc/{parent.pid}/exe").resolve()
        memory = proctree.pss_mb(os.getpid(), shell_path)
        assert memory.agent > 0
    assert parent.returncode is not None
    assert grandchild not in proctree.descendants(os.getpid())


@linux
def test_cpu_time_of_a_process_grows_with_its_work() -> None:
    before = proctree.cpu_s(os.getpid())
    assert before > 0
    sum(range(200_000))
    assert proctree.cpu_s(os.getpid()) > before


@linux
def test_a_process_that_is_gone_counts_as_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert proctree.cpu_s(gone.pid) == 0.0
    assert proctree.cpu(gone.pid, Path("/nowhere")) == proctree.Usage(0.0, 0.0)
