"""The log of a chain: lines of the conductor and of components, on standard error and in the file.

Standard error gets those of the level that `--log` names and above; the log file all but messages,
which it gets with `--log debug`. In each, a component keeps within its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conductor.cli import report
from conductor.cli.log_file import LogFile
from conductor.errors import ConductorError, UsageError, with_log
from conductor.services.log_lines import LogLines

_KEY: Final = "PRIVATE KEY-----"
_KEY_LINES: Final = 200
"""Lines that a private key has, at most: one without an end must not hide all that follows."""


class ChainLog:
    """The log of one chain."""

    def __init__(self, level: str, file: LogFile | None) -> None:
        self._file = file
        self._keys: dict[str, int] = {}
        """Lines that the private key may still have which a component is writing."""
        self._places = [_Place(level, LogLines({}, report.logger(level), level))]
        if file is not None:
            level = "debug" if level == "debug" else "info"
            lines = LogLines({}, self._filed, level)
            self._places.append(_Place(level, lines, file))

    @property
    def path(self) -> str:
        """The log file; empty: there is none."""
        return self._file.path if self._file is not None else ""

    def limit(self, limits: Mapping[str, int]) -> None:
        """Gives components their limits: lines a second."""
        for place in self._places:
            place.lines.limit(limits)

    def say(self, level: str, name: str, text: str) -> None:
        """Puts a line about a component into the log."""
        for place in self._places:
            place.lines.say(level, name, text)

    def heard(self, name: str, line: str, *, shown: bool = True) -> None:
        """A component wrote a line to its standard error; an empty name: a host of guests.

        `shown`: standard error gets it too.
        """
        hidden = self._in_key(name, line)
        for place in self._places:
            if (shown and place.file is None) or (place.file is not None and not hidden):
                place.relay(name, line)

    def note(self, text: str) -> None:
        """Puts a line into the log file alone."""
        if self._file is not None:
            self._file.write(text)

    def failed(self, error: ConductorError) -> None:
        """The chain could not start: the log file has the reason, and the reason names it. What
        was merely written wrong is in the error as a whole."""
        if self._file is None:
            return
        self._file.write(f"error: {error.with_hint}")
        error.data = {**error.data, "log": self.path}
        if not isinstance(error, UsageError):
            error.hint = with_log(error.hint, self.path)

    def close(self) -> None:
        """Logs how many lines were left out: nothing more comes."""
        for place in self._places:
            place.lines.close()
        if self._file is not None:
            self._file.close()

    def _in_key(self, name: str, line: str) -> bool:
        """Whether a line goes on with a private key: a file that keeps no secret skips it. The line
        that begins one is cleaned as any other."""
        left = self._keys.pop(name, 0)
        ended = left == 1 or ("-----END " in line and _KEY in line)
        if left and not ended:
            self._keys[name] = left - 1
        elif not left and not ended and "-----BEGIN " in line and _KEY in line:
            self._keys[name] = _KEY_LINES
        return left > 0

    def _filed(self, level: str, name: str, text: str) -> None:
        self.note(f"{level}: {name}: {text}")


class _Place:
    """Where lines go."""

    def __init__(self, level: str, lines: LogLines, file: LogFile | None = None) -> None:
        self.lines = lines
        self.file = file
        self.relay = report.relay(level, lines, report.heard if file is None else self._filed)

    def _filed(self, name: str, line: str) -> None:
        assert self.file is not None
        self.file.write(f"[{name}] {line}" if name else line)
