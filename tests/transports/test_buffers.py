"""Freed memory goes back to the system."""

import subprocess
import sys
from typing import Final

import pytest

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


THREAD: Final = """
import threading
from pathlib import Path
from conductor.transports.buffers import give_back, keep_large, share_heap

def held():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))

def work():
    pieces = [bytes([at]) * 250_000 for at in range(40)]
    del pieces
    done.set()
    over.wait()

share_heap()
keep_large()
give_back()
done, over, before = threading.Event(), threading.Event(), held()
thread = threading.Thread(target=work)
thread.start()
done.wait()
give_back()
print(held() - before)
over.set()
"""

CODE: Final = """
from pathlib import Path
from conductor.transports.buffers import give_back_code
import msgspec, unicodedata

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))

before = resident()
give_back_code()
print(before, resident())
"""

WRITTEN: Final = """
import ctypes, mmap
from conductor.transports.buffers import give_back_code, library_code
import msgspec

system = ctypes.CDLL(None, use_errno=True)
places = [place for place, size in library_code.__wrapped__()]
place = next(place for place in places if ctypes.string_at(place, 4) == b"\\x7fELF")

def may(rights):
    assert system.mprotect(ctypes.c_void_p(place), mmap.PAGESIZE, rights) == 0

may(mmap.PROT_READ | mmap.PROT_WRITE)
ctypes.memset(place + 9, 66, 1)  # the head of a library has room there
may(mmap.PROT_READ)
give_back_code()
print(ctypes.string_at(place + 9, 1).decode())
"""

OWN: Final = """
import asyncio
from conductor.cli import loop
from conductor.transports import buffers

given = []
buffers.give_back_code = lambda: given.append("code")
loop._LOADED = 0

async def work():
    while not given:
        await asyncio.sleep(0.001)
    return 7

print(loop.run_loop(work), given)
"""

needs_linux: Final = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is told to")


@needs_linux
def test_what_lies_between_pieces_in_use_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, check=True)
    assert int(done.stdout) > 40_000, "KiB"


@needs_linux
def test_what_a_thread_has_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", THREAD], capture_output=True, check=True)
    assert int(done.stdout) < 2_000, "KiB"


@needs_linux
def test_code_that_only_the_start_needed_takes_no_memory() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < 0.8 * before, "KiB"


@needs_linux
def test_a_page_of_a_library_that_was_written_to_stays() -> None:
    done = subprocess.run([sys.executable, "-c", WRITTEN], capture_output=True, check=True)
    assert done.stdout == b"B\n"


def test_a_process_of_conductors_own_gives_code_back() -> None:
    done = subprocess.run([sys.executable, "-c", OWN], capture_output=True, check=True)
    assert done.stdout == b"7 ['code']\n"
