"""`conductor.record.trace.file`: held back a little, written whole, and given up without harm."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.errors import UsageError
from conductor.record.trace.file import FLUSH_BYTES, FLUSH_SECONDS, TraceFile
from conductor.record.turns import reader


class Timer:
    """What runs later, when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, delay: float, work: Callable[[], None]) -> None:
        assert delay <= FLUSH_SECONDS
        self.waiting.append(work)

    def ring(self) -> None:
        """The time is over."""
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


@pytest.fixture
def timer() -> Timer:
    """A timer by hand."""
    return Timer()


@pytest.fixture
def said() -> list[str]:
    """What was logged."""
    return []


def over(fd: int, said: list[str], timer: Timer, most: int = 0) -> TraceFile:
    """A trace over a descriptor."""
    return TraceFile(
        fd, "t", lambda level, name, text: said.append(f"{level} {name} {text}"), timer, most
    )


def test_lines_are_written_when_time_is_over_or_enough_is_held(
    tmp_path: Path, timer: Timer, said: list[str]
) -> None:
    path = tmp_path / "t"
    file = over(os.open(path, os.O_WRONLY | os.O_CREAT), said, timer)
    file.put(b"1\n")
    file.put(b"2\n")
    assert path.read_bytes() == b""
    assert len(timer.waiting) == 1
    timer.ring()
    assert path.read_bytes() == b"1\n2\n"
    assert timer.waiting == []
    big = b"x" * FLUSH_BYTES + b"\n"
    file.put(big)
    assert path.read_bytes() == b"1\n2\n" + big
    file.put(b"3\n")
    file.close()
    file.close()
    file.put(b"4\n")
    timer.ring()
    assert path.read_bytes() == b"1\n2\n" + big + b"3\n"
    assert said == []


def test_a_failure_is_said_once(
    monkeypatch: pytest.MonkeyPatch, timer: Timer, said: list[str]
) -> None:
    file = over(os.open(os.devnull, os.O_WRONLY), said, timer)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        file.put(b"x" * FLUSH_BYTES)
    monkeypatch.undo()
    file.close()
    assert file.failed
    (text,) = said
    assert text.startswith("error trace the trace `t` is incomplete, ")
    assert text.endswith(": No space left on device\nhint: make room, or trace to another file")


def test_a_pipe_is_waited_for_without_waiting(timer: Timer, said: list[str]) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    file = over(write, said, timer)
    line = b"y" * 999 + b"\n"
    for _ in range(300):
        file.put(line)
    got = b""
    while len(got) < 300 * len(line):
        got += os.read(read, 1 << 20)
        timer.ring()
    assert got == line * 300
    file.close()
    os.close(read)
    assert said == []


def test_what_is_held_comes_once_a_reader_goes_on(timer: Timer, said: list[str]) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    file, line = over(write, said, timer), b"z" * (1 << 20) + b"\n"
    while file.behind < 5 * len(line):
        file.put(line)
    file.gather(b"1")
    assert file.drop() == "the trace `t`"
    assert (file.behind, file.failed) == (0, True)
    file.put(b"not this\n")
    got = b""
    while timer.waiting:
        got += os.read(read, 1 << 20)
        timer.ring()
    got += os.read(read, 1 << 20)
    assert os.read(read, 1) == b"", "it is closed"
    end = b'{"type":"_conductor","records":[1]}\n{"type":"_conductor","gap":"the reader did not'
    assert got.removeprefix(line * 5).removeprefix(line).startswith(end)
    file.close()
    os.close(read)
    assert said == []


def test_it_ends_with_a_reader_behind(timer: Timer, said: list[str]) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    file = over(write, said, timer)
    file.put(b"z" * (1 << 20))
    file.close()
    os.close(read)
    assert ["does not keep up" in text for text in said] == [True]


def test_the_file_is_empty_and_private(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("old")
    path.chmod(0o666)
    TraceFile.create(str(path), lambda *_: None).close()
    assert path.read_bytes() == b""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_link_is_followed_and_no_other_user_s_file_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "t", tmp_path / "link"
    path.write_text("mine")
    path.chmod(0o644)
    link.symlink_to(path)
    with pytest.raises(UsageError, match="it is a link"):
        TraceFile.create(str(link), lambda *_: None)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        TraceFile.create(str(path), lambda *_: None)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("mine", 0o644)


def test_a_device_keeps_its_mode() -> None:
    before = os.stat(os.devnull).st_mode
    TraceFile.create(os.devnull, lambda *_: None).close()
    assert os.stat(os.devnull).st_mode == before


def test_a_pipe_nobody_reads_does_not_hold_up_the_start(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="cannot write the trace"):
        TraceFile.create(str(path), lambda *_: None)


def test_a_path_that_is_none() -> None:
    with pytest.raises(UsageError, match="cannot write the trace"):
        TraceFile.create("a\0b", lambda *_: None)


def test_a_full_trace_says_so_in_its_last_line_and_once_in_the_log(
    tmp_path: Path, said: list[str]
) -> None:
    most, path = 1 << 20, tmp_path / "t"
    event = b'{"type":"request","ts":1.0,"from":"a","to":"b","id":1,"method":"%b"}\n' % (b"m" * 900)
    file = over(os.open(path, os.O_WRONLY | os.O_CREAT), said, Timer(), most)
    file.put(b'{"type":"_conductor","format":1,"components":["a","b"]}\n')
    written = 0
    while not file.failed:
        file.gather(b'{"component":"a"}')
        file.put(event)
        written += 1
    file.gather(b'{"component":"b"}')
    file.put(event)
    file.close()
    (text,) = said
    assert text.startswith("warning trace the trace `t` is full (1 MiB), nothing more is written")
    assert text.endswith("hint: `trace-size` takes another size, or `none`")
    lines = path.read_bytes().splitlines()
    assert most - 2 * len(event) < path.stat().st_size <= most
    assert json.loads(lines[-1]) == {"type": "_conductor", "full": most}
    records = [one for line in lines for one in json.loads(line).get("records", ())]
    assert records == [{"component": "a"}] * written
    assert reader.opened(str(path)).head().gaps == (
        f"the trace was full at line {len(lines)}: what came then is not in it",
    )
