"""Freed memory goes back to the system: when, and that it does."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from conductor.transports.buffers import Tidying

# 64 MB in pieces, and between each two a small block that stays: nothing can be cut off at the end.
PIECES: Final = """
from pathlib import Path
from conductor.transports.buffers import give_back, keep_large

def held():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))

keep_large()
pieces = []
for at in range(256):
    pieces += (bytes([at]) * 250_000, bytes([at]) * 1_000)
del pieces[::2]
before = held()
give_back()
print(before - held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told to")
def test_what_lies_between_pieces_in_use_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, check=True)
    assert int(done.stdout) > 40_000, "KiB"


def test_it_is_done_once_after_traffic_has_ceased() -> None:
    tidying = Tidying()
    assert [tidying.due(traffic) for traffic in (0, 0, 5, 9, 9, 9, 9)] == [
        False, False, False, False, True, False, False,
    ]  # fmt: skip


def test_it_is_done_now_and_then_where_traffic_never_ceases() -> None:
    tidying = Tidying()
    done = [at for at in range(1, 19) if tidying.due(at)]
    assert done == [6, 12, 18]
