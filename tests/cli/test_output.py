"""The output on a terminal, and its form."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable

import pytest

from conductor.cli import report, shown_log
from conductor.cli.exec_output import Output, OutputClosed, TextView, remember
from conductor.errors import one_line, visible
from tests.harness.process.command import conductor

ESCAPES = "a\x1b[2Jb\x07\rc\x9b\u202ed\r\n\te"


def test_control_characters_are_shown_not_obeyed() -> None:
    assert visible(ESCAPES) == "a\\u{1b}[2Jb\\u{7}\\u{d}c\\u{9b}\\u{202e}d\r\n\te"
    assert visible("grün — 日本 👍\n") == "grün — 日本 👍\n"
    assert one_line(f"  two\nlines {'x' * 300}", 20) == "two lines xxxxxxxxx…"


@pytest.mark.proves("from anybody to your terminal", "error texts, last words")
def test_errors_and_logs_of_components_are_shown_not_obeyed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report.error("\x1b]0;x\x07", "\x1b[A")
    shown_log.logger("warning")("warning", "guest", "\x1b[31m")
    shown_log.logger("warning")("warning", "gu\x1b[31mest\nerror: me", "said")
    shown_log.relay("warning", shown_log.lines("warning", ()))("gu\x1b[31mest", "said")
    report.write("\x1b[31m", dim=True)
    shown_log.relay("warning", shown_log.lines("warning", ()))("", "\x1b[31m")
    shown_log.relay("warning", shown_log.lines("warning", ()))(
        "agent", "\x1b[1;31mred\x1b[0m \x1b[2J\x1b]0;x\x07\u200f"
    )
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\nwarning: gu\\u{1b}[31mest\n  | error: me: said\n" in said
    assert said.endswith("[agent] red \\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{200f}\n")


def test_errors_cannot_be_forged_by_further_lines(capsys: pytest.CaptureFixture[str]) -> None:
    report.error("p said: x\nerror: y\n\nhint: z", "one\nhint: two")
    assert capsys.readouterr().err == (
        "error: p said: x\n  | error: y\n  | \n  | hint: z\n\nhint: one\n  | hint: two\n"
    )


@pytest.mark.proves("from anybody to standard error")
def test_nobody_has_to_wait_for_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy can fill the pipe to an editor that never reads our standard error."""
    monkeypatch.setattr(report, "_PATIENCE_MS", 0)
    source, target = os.pipe()
    with open(target, "w", encoding="utf-8") as stderr, open(source, "rb", buffering=0) as reader:
        monkeypatch.setattr(sys, "stderr", stderr)
        report.write("first")
        for _ in range(200):
            report.write("x" * 8000)
        read = reader.read(1 << 20)
        assert read.startswith(b"first\nx")
        report.write("last")
        lost = 200 - read.count(b"\n") + 1
        said = f"\nwarning: conductor: nobody read {lost} lines before this one\nlast\n"
        assert reader.read(1 << 20).endswith(said.encode())
        report.write("and on")
        assert reader.read(1 << 20) == b"and on\n"


def test_the_log_of_sandboxed_proxies_has_its_levels_and_cannot_forge_entries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ["debug: p: a", "  more of a", "info: p: b", "warning: p: c", "  more of c", "panicked"]
    lines += ["  more", "error: conductor: d"]
    told_as = [*lines]
    told_as[1], told_as[4] = "  | more of a", "  | more of c"
    told_as[5:] = [f"[host] {line}" for line in lines[5:]]
    shown = {"warning": told_as[3:], "info": told_as[2:], "debug": told_as}
    for level, expected in shown.items():
        told = shown_log.relay(level, shown_log.lines(level, ()))
        for line in lines:
            told("", line)
        assert capsys.readouterr().err.splitlines() == expected
    shown_log.relay("error", shown_log.lines("error", ()))(
        "agent", "info: agent: its own words are not ours"
    )
    shown_log.logger("warning")("warning", "p", "one\nerror: conductor: two")
    assert capsys.readouterr().err.splitlines() == [
        "[agent] info: agent: its own words are not ours",
        "warning: p: one",
        "  | error: conductor: two",
    ]


def test_a_flood_is_cut_unless_lines_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for level, count in (("warning", 21), ("info", 30)):
        log = shown_log.logger(level)
        for number in range(30):
            log("warning", "p", str(number))
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == count
        assert ("conductor hides further lines" in lines[-1]) == (level == "warning")


def on_terminal(work: Callable[[Output], Awaitable[None]]) -> bytes:
    """The bytes that arrive at a terminal to which `work` writes."""
    master, slave = os.openpty()

    async def run() -> None:
        await work(Output(slave))

    shown = b""
    with open(master, "rb", buffering=0) as reader:
        try:
            asyncio.run(run())
        finally:
            os.close(slave)
        with contextlib.suppress(OSError):  # a terminal without its other end
            while data := reader.read(65536):
                shown += data
    return shown


def test_the_answer_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(output: Output) -> None:
        assert output.terminal
        view = TextView(output)
        await view.update(
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ESCAPES}}
        )
        view.note("beside")
        await view.update(
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "end"}}
        )
        await view.finish()

    shown = on_terminal(work)
    assert b"\x1b" not in shown
    assert shown.endswith(b"\teend\r\n")
    # A line of its own although both streams are the same terminal.
    assert capsys.readouterr().err == "\nbeside\n"


def test_an_output_nobody_reads() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(OutputClosed):
        asyncio.run(Output(write).data(b"x"))
    os.close(write)


def test_an_output_that_is_full_waits_without_blocking_the_loop() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    size = 1_000_000

    async def run() -> int:
        writing = asyncio.get_running_loop().create_task(Output(write).data(b"x" * size))
        taken = 0
        while taken < size:
            await asyncio.sleep(0)  # a turn of the loop: were it blocked, nobody would read
            with contextlib.suppress(BlockingIOError):
                taken += len(os.read(read, 65536))
        await writing
        return taken

    assert asyncio.run(run()) == size
    os.close(read)
    os.close(write)


def test_guest_text_in_an_error_is_shown_not_obeyed() -> None:
    ran = conductor("exec", "demo", "-p", "/exit 3 \x1b[31mred")
    assert ran.code == 1
    assert "\x1b" not in ran.err


def test_few_of_many_tool_calls_are_remembered() -> None:
    texts: dict[str, str] = {}
    for number in (*range(1_500), 600):
        remember(texts, str(number), "done")
    assert list(texts) == [*map(str, (*range(500, 600), *range(601, 1_500), 600))]
