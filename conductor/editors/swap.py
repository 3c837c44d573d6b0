"""Two files change places, in one step of the kernel.

A rename replaces any file that is at its target at that moment. Between the last look at a file and
the rename an editor may write the file, and its edit would be lost. Of two files that change places
both are still there, so one can look at the file that came out, and put it back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any, Final

_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2
"""`RENAME_EXCHANGE` of Linux and `RENAME_SWAP` of macOS."""
_CANNOT: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
"""Errors of a kernel, a file system or a sandbox that does not swap files."""


@cache
def _call() -> Any:
    """The function of the C library; None where there is none."""
    library = ctypes.CDLL(None, use_errno=True)
    name = "renamex_np" if sys.platform == "darwin" else "renameat2"
    return getattr(library, name, None)


def swap(one: str, other: str) -> bool:
    """Two files change places; False where the system cannot do that. Raises `OSError`."""
    call = _call()
    if call is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = call(*paths, _EXCHANGE)
    else:
        failed = call(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _EXCHANGE)
    number = ctypes.get_errno()
    if failed and number not in _CANNOT:
        raise OSError(number, os.strerror(number), other)
    return not failed
