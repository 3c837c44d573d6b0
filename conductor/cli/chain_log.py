"""The log of a chain: lines of the conductor and of components, on standard error and in the file.

Standard error gets lines of the level that `--log` names and above. The log file gets all lines but
messages, and these too with `--log debug`. In each, a component keeps within its limit. Lines that
agents write to their standard error may be withheld from ours until something has failed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from conductor.cli import shown_log
from conductor.errors import ConductorError, PrivateKeys, UsageError, with_log
from conductor.services.log_lines import LogLines

if TYPE_CHECKING:
    from conductor.cli.chain_log_file import LogFile

_WITHHELD: Final = 20
"""The most withheld lines that are kept: the last lines tell most."""


class ChainLog:
    """The log of one chain."""

    def __init__(self, level: str, opens: Callable[[], LogFile | None]) -> None:
        """`opens`: the log file, with the first line."""
        self._opens = opens
        self._keys: defaultdict[str, PrivateKeys] = defaultdict(PrivateKeys)
        """By component."""
        filed = "debug" if level == "debug" else "info"
        shown = LogLines({}, shown_log.logger(level), level)
        kept = LogLines({}, self._filed, filed)
        self._lines = shown, kept
        self._show = shown_log.relay(level, shown)
        self._keep = shown_log.relay(filed, kept, self._relayed)
        self._quiet: Collection[str] = ()
        self._withheld: deque[tuple[str, str]] = deque(maxlen=_WITHHELD)

    @cached_property
    def _file(self) -> LogFile | None:
        return self._opens()

    @property
    def path(self) -> str:
        """The log file; empty: there is none."""
        return self._file.path if self._file is not None else ""

    def limit(self, limits: Mapping[str, int]) -> None:
        """Gives components their limits: lines a second."""
        for lines in self._lines:
            lines.limit(limits)

    def say(self, level: str, name: str, text: str) -> None:
        """Puts a line about a component into the log."""
        for lines in self._lines:
            lines.say(level, name, text)

    def heard(self, name: str, line: str, *, shown: bool = True) -> None:
        """A component wrote a line to its standard error; an empty name: a host of guests.

        `shown`: standard error gets it too.
        """
        filed = self._keys[name].without(line)  # the file keeps no secret
        if name in self._quiet:
            self._withheld.append((name, line))
            shown = False
        if shown:
            self._show(name, line)
        if filed is not None:
            self._keep(name, filed)

    def withhold(self, names: Collection[str]) -> None:
        """From now on standard error gets no line that these components write to theirs."""
        self._quiet = names

    def tell(self, error: str) -> None:
        """Standard error gets the withheld lines, as far as they are kept: something has failed.
        Lines that the error quotes are left out."""
        from conductor.cli import error_details  # no start needs it

        for name, line in self._withheld:
            if not error_details.repeats(line, error):
                self._show(name, line)
        self._withheld.clear()

    def note(self, text: str) -> None:
        """Puts a line into the log file alone."""
        if self._file is not None:
            self._file.write(text)

    def failed(self, error: ConductorError) -> None:
        """The chain could not start: the log file has the reason, and the reason names the file. A
        mistake of the command line is in the error as a whole."""
        if self._file is None:
            return
        self._file.write(f"error: {error.with_hint}")
        error.data = {**error.data, "log": self.path}
        if not isinstance(error, UsageError):
            error.hint = with_log(error.hint, self.path)

    def close(self) -> None:
        """Logs how many lines were left out: nothing more comes."""
        for lines in self._lines:
            lines.close()
        if self._file is not None:
            self._file.close()

    def _filed(self, level: str, name: str, text: str) -> None:
        self.note(f"{level}: {name}: {text}")

    def _relayed(self, name: str, line: str) -> None:
        self.note(f"[{name}] {line}" if name else line)
