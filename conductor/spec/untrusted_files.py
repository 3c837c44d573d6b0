"""Opens files that a stranger's folder holds, or that were named: none of them hangs or fills us.

Only ordinary files are read: a named pipe would hold us up until somebody writes to it, a device
may never end. What is raised is an `OSError` with words in `strerror`, as of any other file.
Imports nothing heavy: manifests are read where an editor waits.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Final

MOST_ENTRIES: Final = 10_000
"""Files and folders that are looked at below a component's folder."""

_MIB: Final = 1024 * 1024
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)


def ordinary(path: str, *, links: bool = True) -> BufferedReader:
    """Opens an ordinary file. Raises `OSError` for anything else.

    Without `links` the last part of the path may not be one: in a stranger's folder it may lead to
    any file.
    """
    flags = _FLAGS | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    try:
        fd = os.open(path, flags)
    except ValueError:  # a NUL in its name
        raise OSError(errno.EINVAL, "is no name of a file", path) from None
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, "it is a link; put a copy there", path) from None
        raise
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
    """A file, or a line of it, is larger than what is read of it."""

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

    Into folders whose names are not `wanted` nobody looks. Raises `OSError` where there are more
    than `MOST_ENTRIES` entries.
    """
    left = MOST_ENTRIES
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        names: list[tuple[str, bool]] = []
        with os.scandir(os.path.join(folder, inner)) as entries:
            for one in entries:
                left -= 1
                if left < 0:
                    why = f"it holds more than {MOST_ENTRIES:,} files and folders"
                    raise TooLargeError(folder, why)
                names.append((one.name, one.is_dir(follow_symlinks=False)))
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
