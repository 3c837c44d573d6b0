"""`conductor.record.trace.file`: held back a little, written whole, and given up without harm."""

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.record.trace.file import FLUSH_BYTES, TraceFile
from conductor.record.turns import reader

MIB: Final = 1 << 20


@pytest.fixture
def said() -> list[str]:
    """The lines that were logged."""
    return []


def over(fd: int, said: list[str], most: int = 0) -> TraceFile:
    """A trace over a descriptor."""
    return TraceFile(fd, "t", lambda level, name, text: said.append(f"{level} {name} {text}"), most)


def test_lines_are_written_when_time_is_over_or_enough_is_held(said: list[str]) -> None:
    """And at the end."""
    read, write = os.pipe()
    file = over(write, said)
    file.put(b"1\n")
    file.put(b"2\n")
    assert os.read(read, MIB) == b"1\n2\n"
    big = b"x" * FLUSH_BYTES + b"\n"
    file.put(big)
    got = b""
    while len(got) < len(big):
        got += os.read(read, MIB)
    file.put(b"3\n")
    file.close()
    file.close()
    file.put(b"4\n")
    assert (got, os.read(read, MIB), os.read(read, MIB)) == (big, b"3\n", b"")
    os.close(read)
    assert said == []


def test_a_failure_is_said_once(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    file = over(os.open(os.devnull, os.O_WRONLY), said)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for _ in range(3):
            file.put(b"x" * FLUSH_BYTES)
        file.close()
    file.put(b"more\n")
    assert file.failed
    (text,) = said
    assert text.startswith("error trace the trace `t` is incomplete, ")
    assert text.endswith(": No space left on device\nhint: make room, or trace to another file")


def test_what_is_held_comes_once_a_reader_goes_on(said: list[str]) -> None:
    """Whoever writes a line never waits for the reader."""
    read, write = os.pipe()
    file, line = over(write, said), b"z" * MIB + b"\n"
    for _ in range(5):
        file.put(line)
    assert file.behind > 4 * MIB
    assert file.drop() == "the trace `t`"
    assert (file.behind, file.failed) == (0, True)
    file.put(b"not this\n")
    got = b""
    while piece := os.read(read, MIB):
        got += piece
    assert got.removeprefix(line * 5).startswith(b'{"type":"_conductor","gap":"the reader did not')
    file.close()
    os.close(read)
    assert said == []


def test_it_ends_with_a_reader_behind(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setattr("conductor.record.trace.file._PATIENCE", 0.01)
    read, write = os.pipe()
    file = over(write, said)
    file.put(b"z" * MIB)
    file.close()
    os.close(read)
    assert ["does not keep up" in text for text in said] == [True]


def test_a_process_without_room_for_a_thread_has_no_trace(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    read, write = os.pipe()
    file = over(write, said)
    file.put(b"a\n")
    file.put(b"b\n")
    file.close()
    assert os.read(read, 1) == b""
    os.close(read)
    assert ["can't start new thread" in text for text in said] == [True]


def test_its_end_waits_for_a_reader_that_goes_on(said: list[str]) -> None:
    read, write = os.pipe()
    file, got = over(write, said), bytearray()

    def reads() -> None:
        while piece := os.read(read, MIB):
            got.extend(piece)

    reader_ = threading.Thread(target=reads)
    file.put(b"z" * (4 * MIB))
    reader_.start()
    file.close()
    reader_.join()
    os.close(read)
    assert (len(got), said) == (4 * MIB, [])


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
    most, path = MIB, tmp_path / "t"
    event = b'{"type":"request","ts":1.0,"from":"a","to":"b","id":1,"method":"%b"}\n' % (b"m" * 900)
    file = over(os.open(path, os.O_WRONLY | os.O_CREAT), said, most)
    file.put(b'{"type":"_conductor","format":1,"components":["a","b"]}\n')
    while not file.failed:
        file.put(event)
    file.put(event)
    file.close()
    (text,) = said
    assert text.startswith("warning trace the trace `t` is full (1 MiB), nothing more is written")
    assert text.endswith("hint: `trace-size` takes another size, or `none`")
    lines = path.read_bytes().splitlines()
    assert most - 2 * len(event) < path.stat().st_size <= most
    assert json.loads(lines[-1]) == {"type": "_conductor", "full": most}
    assert reader.opened(str(path)).head().gaps == (
        f"the trace was full at line {len(lines)}: later messages are not in it",
    )


def test_two_chains_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = TraceFile.create(str(path), print)
    first.put(b"1\n")
    with pytest.raises(UsageError, match="another conductor is writing it"):
        TraceFile.create(str(path), print)
    first.close()
    assert path.read_bytes() == b"1\n"
    TraceFile.create(str(path), print).close()
    assert path.read_bytes() == b""
