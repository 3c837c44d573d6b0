"""A program on its standard input and output, for who talks to one thing at a time."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue


class LineProgram:
    """A running program. Raises `OSError` where it cannot be started; `env` None: our own."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env or {**os.environ}
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> bool:
        """Gives it whole lines; False if it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def next(self, seconds: float) -> bytes | None:
        """The next line it says, with its newline; empty at its end; None if none came in time."""
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            return None

    def exit_code(self) -> int:
        """Of a program whose output has ended."""
        return self._process.wait()

    def finish(self) -> bool:
        """Ends its input; False if it is gone, and did not read all."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            return False
        return True

    def close(self, seconds: float) -> None:
        """Ends it, by force if it takes longer than that after the end of its input."""
        patience = seconds if self.finish() else 0
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")
