"""Leaves no orphans even when the conductor itself is killed.

A tiny process in a session of its own reads the list of process groups the conductor has started.
When its input ends without the list having been emptied, the conductor is gone, and it ends the
groups: grandchildren behind `npx`, `uvx` or `sh -c` included.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Final

# A constant text: nothing a user or component says becomes part of it. A shell is the smallest
# process every POSIX system has; it gets numbers on its standard input only.
_SCRIPT: Final = """
trap '' HUP INT TERM
while read -r line; do groups=$line; done
test -n "$groups" || exit 0
for group in $groups; do kill -s TERM -- "-$group"; done 2>/dev/null
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
"""


class Guardian:
    """Ends the process groups it was told of, should this process die without `release`."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        """Watches over one more process group."""
        self._groups.add(group)
        self._tell()

    def remove(self, group: int) -> None:
        """The group has ended."""
        self._groups.discard(group)
        self._tell()

    def release(self) -> None:
        """Lets the guardian go; what is still listed is not touched."""
        shell, self._shell = self._shell, None
        if shell is not None:
            assert shell.stdin is not None
            with contextlib.suppress(OSError):
                shell.stdin.write(b"\n")
            shell.stdin.close()
            shell.wait()

    def _tell(self) -> None:
        if sys.platform == "win32":
            return
        if self._shell is None:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                bufsize=0,
            )
        assert self._shell.stdin is not None
        line = " ".join(str(group) for group in sorted(self._groups))
        with contextlib.suppress(BrokenPipeError):  # somebody killed the guardian: go on without
            self._shell.stdin.write(line.encode() + b"\n")
