"""The log file of a chain: stages, warnings and the standard error of components.

Each run writes a file of its own in the user's folder of logs, or appends to the file that
`log-file` names. The file holds no content of messages, and no secret that conductor recognises. A
log that cannot be written is given up; the chain goes on. The start path loads this module.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Final

from conductor.errors import marked
from conductor.secret_shapes import HINTS
from conductor.spec import paths, private_files, retention

NONE: Final = "none"
"""As `log-file`: no log file."""

MOST: Final = 10 * 1024 * 1024
"""The most bytes of a file. A full one becomes `FILE.1`, in place of the former `FILE.1`."""
_LONGEST: Final = 4096
"""The most characters of an entry."""
_NAMES: Final = (
    *("secret", "passw", "passphrase", "key", "credential", "authorization", "cookie", "token"),
    *("bearer", "-----end", "-u ", "-user", "mysql", "mariadb", "sshpass"),
)
"""An entry without any of these words, in lower case, and without a hint of a secret's shape, holds
no text that looks like a secret. Then the module that recognises secrets is not loaded: an editor
waits for the first entries."""

_FLAGS: Final = os.O_RDWR | os.O_APPEND

Complain = Callable[[str], None]
"""Takes the reason why there is no log file, or no log file any more."""


class LogFile:
    """One run's log file. Made by `opened`."""

    def __init__(self, path: str, complain: Complain, *, own: bool) -> None:
        """`own`: only this run writes it, and holds a lock on it. Raises `OSError`."""
        self.path = path
        self._complain = complain
        self._own = own
        self._fd = self._opened()
        self._size = os.fstat(self._fd).st_size

    def write(self, text: str) -> None:
        """Writes one entry, with the time; nothing once a write has failed."""
        if self._fd < 0:
            return
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        entry = _clean(marked(text))
        line = f"{stamp}.{int(now * 1000) % 1000:03d}Z {entry}\n".encode(errors="replace")
        try:
            if self._size + len(line) > MOST:
                self._rotate()
            os.write(self._fd, line)
            self._size += len(line)
        except OSError as error:
            self.close()
            self._complain(f"the log file `{self.path}` ends here: {private_files.reason(error)}")

    def close(self) -> None:
        """Ends the log."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _opened(self) -> int:
        flags = _FLAGS | (os.O_EXCL if self._own else 0)
        fd = private_files.open_private(self.path, flags, ordinary=True)
        try:
            if self._own:
                private_files.hold(fd, alone=False)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _rotate(self) -> None:
        """Begins the file anew. Of several runs that write to one file, one renames it and the
        others follow. Raises `OSError`."""
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            private_files.hold(self._fd, alone=True)  # released with the descriptor
            if os.path.samestat(os.fstat(self._fd), os.lstat(self.path)):
                os.replace(self.path, self.path + retention.FORMER)
        before, self._fd = self._fd, self._opened()
        os.close(before)
        self._size = os.fstat(self._fd).st_size


def opened(wanted: str | None, complain: Complain) -> LogFile | None:
    """The log file of this run; None: there is none.

    Args:
        wanted: The value of `log-file`; None: a new file in the user's folder of logs.
        complain: Gets the reason where a file that the user has named cannot be written.
    """
    if wanted == NONE:
        return None
    try:
        if wanted is None:
            return _own()
        return LogFile(os.path.abspath(wanted), complain, own=False)
    except (OSError, ValueError) as error:
        if wanted is not None:
            complain(f"there is no log file: `{wanted}`: {private_files.reason(error)}")
        return None


def _own() -> LogFile:
    """A new file in the folder of logs, which keeps the newest. Raises `OSError`."""
    folder = paths.logs()
    retention.prepare(folder)
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    name = f"{stamp}.{int(now * 1_000_000) % 1_000_000:06d}-{os.getpid()}{retention.LOGS.suffix}"
    log = LogFile(os.path.join(folder, name), lambda why: None, own=True)
    with contextlib.suppress(OSError):
        retention.prune(folder, retention.LOGS)
    return log


def _clean(text: str) -> str:
    """A short entry without texts that look like a secret."""
    if len(text) > _LONGEST:
        # Between two words: the beginning of a secret would not be recognised.
        text = text[:_LONGEST].rpartition(" ")[0] + " …"
    lower = text.lower()
    if not any(name in lower for name in _NAMES) and not any(hint in text for hint in HINTS):
        return text
    from conductor.spec.redaction import clean_text

    return clean_text(text)
