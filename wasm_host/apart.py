"""Compiling in a process of its own, so that none of its threads is left behind.

wasmtime compiles on a pool of threads that stays for good. Landlock and capabilities are held by
each thread for itself, so a process that is to be sealed (`harden.seal`) must not have them.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from .kernel import LINUX, thread_count

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["apart"]


def apart(work: Callable[[], object]) -> bool:
    """Do work that only changes files in a forked child; whether it was done.

    False if it failed there, so that the caller does it once more itself and meets the error; or
    at once, in a process that has several threads and hence cannot be forked safely. Raises
    `ChildProcessError` if the child was ended by a signal: what killed it would kill the caller.
    """
    if not LINUX:
        return False
    try:
        if thread_count() != 1:
            return False
        child = os.fork()
    except OSError:
        return False
    if child == 0:
        os._exit(_exit_code(work))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        raise ChildProcessError(signal.Signals(-code).name)
    return code == 0


def _exit_code(work: Callable[[], object]) -> int:
    try:
        work()
    except BaseException:
        return 1
    return 0
