"""Opens files that a stranger has made or named, so that none hangs the process or fills memory.

Only ordinary files are read: a named pipe would block until somebody writes to it, and a device may
never end. Errors are `OSError`s with a text in `strerror`, as of any other file.
The start path loads this module: it imports nothing heavy.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Final

MOST_ENTRIES: Final = 10_000
"""Files and folders that `below` visits in a component's folder."""

_MIB: Final = 1024 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def ordinary(path: str, *, links: bool = True) -> BufferedReader:
    """Opens an ordinary file. Raises `OSError` for anything else.

    Without `links` the last part of the path may not be a link: in a stranger's folder a link may
    lead to any file.
    """
    flags = _FLAGS | (0 if links else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags)
    except ValueError:  # a NUL in its name
        raise OSError(errno.EINVAL, "is no name of a file", path) from None
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, "it is a link; put a copy there", path) from None
        raise
    # Of the open descriptor: a check before opening would leave time to replace the file.
    kind = os.fstat(fd).st_mode
    if not stat.S_ISREG(kind):
        os.close(fd)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        raise OSError(errno.EINVAL, "it is no ordinary file", path)
    return os.fdopen(fd, "rb")


def read(path: str, most: int, *, links: bool = True) -> bytes:
    """The content of an ordinary file of at most so many bytes. Raises `OSError`."""
    with ordinary(path, links=links) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise TooLargeError(path, f"it is larger than {_size(most)}")
    return content


class TooLargeError(OSError):
    """A file, or a line of it, is larger than its bound."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EFBIG, why, path)


def lines(file: BufferedReader, path: str, most: int) -> Iterator[bytes]:
    """The lines of a file, one at a time. Raises `OSError` at one of more than so many bytes."""
    while line := file.readline(most + 1):
        if len(line) > most:
            raise TooLargeError(path, f"it has a line of more than {_size(most)}")
        yield line


def below(folder: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The paths below a folder, relative to it and in order; links to folders are not followed.

    Folders whose names are not `wanted` are skipped. Raises `OSError` for more than `MOST_ENTRIES`
    entries.
    """
    left = MOST_ENTRIES
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        names: list[tuple[str, bool]] = []
        with os.scandir(os.path.join(folder, inner)) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    why = f"it holds more than {MOST_ENTRIES:,} files and folders"
                    raise TooLargeError(folder, why)
                names.append((entry.name, entry.is_dir(follow_symlinks=False)))
        folders = []
        for name, is_folder in sorted(names):
            path = f"{inner}/{name}" if inner else name
            if not is_folder:
                yield path
            elif wanted(name):
                folders.append(path)
        waiting += reversed(folders)


def _size(most: int) -> str:
    return f"{most // _MIB} MiB" if most >= _MIB and most % _MIB == 0 else f"{most:,} bytes"
