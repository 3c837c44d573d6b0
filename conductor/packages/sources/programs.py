"""Runs the programs that fetch packages (`git`, `pip`), bounded in time and in their output."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final

from conductor.errors import ConductorError, one_line

_UNIT: Final = 512
"""Bytes: the unit of `ulimit -f`."""

_MIB: Final = 1024 * 1024
_MEMORY: Final = 4096 * _MIB
"""The most bytes that a program may ask for: its input may unpack to far more."""

_SHOWN: Final = 4096
"""Bytes of complaints that are read: the last."""


class ProgramError(Exception):
    """The program has failed; the text is its last complaint."""


def bounded(
    command: Sequence[str],
    environment: Mapping[str, str],
    until: float,
    given: bytes = b"",
    *,
    largest: int,
) -> bytes:
    """Runs a program and returns its output.

    It ends with the time, together with all processes that it started. No file that it writes
    becomes larger than `largest` bytes, its output goes to a file, and its memory is bounded.

    Raises:
        ProgramError: It failed.
        ConductorError: It took too long.
        OSError: It cannot be started.
    """
    name = os.path.basename(command[0])
    # Not every system bounds memory this way.
    limits = f"ulimit -f {largest // _UNIT}; ulimit -v {_MEMORY // 1024} 2>/dev/null"
    with (
        tempfile.TemporaryFile() as question,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as complaint,
    ):
        question.write(given)
        question.seek(0)
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{limits}; exec "$@"', name, *command],
            stdin=question,
            stdout=answer,
            stderr=complaint,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        code = _ended(process, name, until)
        if code == 0:
            answer.seek(0)
            return answer.read()
        if code == -signal.SIGXFSZ:
            raise ProgramError(f"it has more than {largest // _MIB} MiB for us")
        raise ProgramError(_last_words(complaint) or f"`{name}` ended with {code}")


def _ended(process: subprocess.Popen[bytes], name: str, until: float) -> int:
    """Waits for the end of a program; its exit code. No error leaves anything of it behind."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            text = f"`{name}` has taken too long"
            raise ConductorError(text, "try again later; nothing was changed") from None
        raise


def _last_words(complaint: IO[bytes]) -> str:
    size = complaint.seek(0, os.SEEK_END)
    complaint.seek(max(0, size - _SHOWN))
    return one_line(complaint.read().decode("utf-8", "replace"), 400)
