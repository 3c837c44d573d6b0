"""Lines of components in the log: so many a second."""

import pytest

from conductor.cli import shown_log
from conductor.core.accounts import BURST
from conductor.services.log_lines import LogLines


class Log:
    """A log with a clock that stands still."""

    def __init__(self, least: str = "debug", **limits: int) -> None:
        self.now = 0.0
        self.written: list[tuple[str, str, str]] = []
        self.lines = LogLines(limits, self.write, least, lambda: self.now)

    def write(self, level: str, name: str, text: str) -> None:
        """Keeps an entry."""
        self.written.append((level, name, text))

    def taken(self) -> list[tuple[str, str, str]]:
        """The lines that were written since the last call."""
        found, self.written = self.written, []
        return found


def test_a_burst_is_shown_and_the_rest_is_counted_once_it_is_calm() -> None:
    log = Log(p=2, q=2)
    burst = int(2 * BURST)
    for _ in range(burst + 1000):
        log.lines.say("info", "p", "x")
    log.lines.say("info", "q", "y")
    assert log.taken() == [("info", "p", "x")] * burst + [("info", "q", "y")]
    log.now = 0.5
    log.lines.say("info", "p", "too early")
    assert log.taken() == []
    log.now = 1.0
    log.lines.say("info", "conductor", "its own lines have no limit")
    count = "1001 of its lines are left out, over 2 a second (limit `log_lines`)"
    assert log.taken() == [
        ("warning", "p", count),
        ("info", "conductor", "its own lines have no limit"),
    ]
    log.lines.say("info", "p", "calm")
    assert log.taken() == [("info", "p", "calm")]
    log.lines.close()
    assert log.taken() == []


def test_a_text_counts_as_the_lines_it_takes() -> None:
    log = Log(p=2)
    log.lines.say("info", "p", "\n" * 1000)
    log.lines.say("info", "p", "a")
    log.lines.close()
    assert [text for _, _, text in log.taken()] == [
        "\n" * 1000,
        "1 of its lines is left out, over 2 a second (limit `log_lines`)",
    ]
    log = Log(p=2)
    log.lines.say("info", "p", "x" * 1_000_000)
    log.lines.say("info", "p", "a")
    assert len(log.taken()) == 1


def test_what_is_not_shown_at_all_does_not_count() -> None:
    log = Log("warning", p=1)
    for _ in range(100):
        log.lines.say("info", "p", "x")
    log.lines.say("error", "p", "y")
    assert log.taken() == [("error", "p", "y")]


def test_standard_error_of_a_program_counts_too(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(p=1)
    told = shown_log.relay("info", log.lines)
    for _ in range(100):
        told("p", "x")
    assert capsys.readouterr().err == "[p] x\n" * 5
    log.lines.say("info", "p", "left out, too")
    log.now = 10.0
    told("p", "y")
    assert log.taken() == [
        ("warning", "p", "96 of its lines are left out, over 1 a second (limit `log_lines`)")
    ]
    assert capsys.readouterr().err == "[p] y\n"
