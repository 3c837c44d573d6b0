"""`conductor log` finds out which kind of file it has, and says so where it cannot take that."""

import io
import itertools
import json
from pathlib import Path
from typing import Final

import msgspec
import pytest

from conductor.cli import main
from conductor.fleet.journal_reader import Written
from conductor.fleet.journal_trace import Trace
from conductor.record.audit.file import Head, sealed

COMMANDS: Final = {
    "show": (), "stats": (), "view": ("--output", "page.html"), "verify": (),
    "export": ("--output", "spans.json"), "replay": ("--agent",),
}  # fmt: skip
PROMPT: Final = {"type": "request", "ts": 0, "from": "Client", "to": "Agent", "id": 1,
                 "method": "session/prompt", "params": {"prompt": []}}  # fmt: skip
ANSWER: Final = {"type": "response", "ts": 1, "from": "Agent", "to": "Client", "id": 1,
                 "is_error": False, "payload": {"stopReason": "end_turn"}}  # fmt: skip
HEADER: Final = {"type": "_conductor", "format": 1, "content": "all", "components": ["a"]}
RING: Final = HEADER | {"ring": {"why": "it failed"}}


def lines(*of: object) -> bytes:
    """A line each, as JSON."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in of)


JOURNAL: Final = b"".join(
    line
    for trace in (Trace(),)
    for number, (way, frame) in enumerate(
        [
            ("mark", {"begins": "", "epoch": 1}),
            ("c2a", {"id": 1, "method": "session/prompt", "params": {"prompt": []}}),
            ("a2c", {"id": 1, "result": {"stopReason": "end_turn"}}),
        ]
    )
    for line in trace.lines(
        Written(at=1e9 + number, epoch=1, chain="c", way=way, number=number,
                frame=json.dumps({"jsonrpc": "2.0", **frame}).encode())
    )
)  # fmt: skip

RECORD, LAST = sealed(Head(), "2026-03-01T12:00:00.000000Z", "end", {"failure": None})
AUDIT: Final = {"verify", "show"}
TRACE: Final = COMMANDS.keys() - {"verify"}

FILES: Final = {
    "a trace of ours": (lines(HEADER, PROMPT, ANSWER), TRACE, "the file is not sealed"),
    "one of the reference": (lines(PROMPT, ANSWER), TRACE, "the file is not sealed"),
    "one spelled with space": (b" " + lines(PROMPT, ANSWER), TRACE, "the file is not sealed"),
    "a ring": (lines(RING, PROMPT, ANSWER), TRACE, "the file is not sealed"),
    "an audit": (RECORD, AUDIT, "the file holds the changes of components"),
    "a fleet's journal": (JOURNAL, TRACE, "the file is not sealed"),
    "a log": (b"2026-03-01T12:00:00.000Z agent demo: ready\n", set(), "a log file"),
    "a log as JSON": (
        b'{"ts":"2026-03-01T12:00:00.000Z","level":"info","component":"p","text":"x"}\n',
        set(),
        "a log file",
    ),
    "a packed trace": (b"\x1f\x8b\x08\x00", set(), "unpack it first"),
}


@pytest.mark.parametrize(("name", "command"), list(itertools.product(FILES, COMMANDS)))
def test_what_takes_which_file(
    name: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    content, takes, why = FILES[name]
    (tmp_path / "f").write_bytes(content)
    code = main(["log", command, "f", *COMMANDS[command]])
    said = capsys.readouterr().err
    if command in takes:
        assert (code, said) == (0, "")
        return
    assert code == 2
    assert said.startswith(f"error: `conductor log {command}` does not take `f`, ")
    assert why in said
    assert "\nhint: " in said


@pytest.mark.parametrize("command", sorted(TRACE))
@pytest.mark.parametrize("content", [b"hello, world\n", b'{"type":"request"}\n[]\n'])
def test_a_file_of_another_kind(
    content: bytes, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page is served of none either."""
    path = tmp_path / "f"
    path.write_bytes(content)
    assert main(["log", command, str(path), *COMMANDS[command]]) == 2
    more = {"view": ["--no-open"], "show": ["--would"]}.get(command)
    assert more is None or main(["log", command, str(path), *more]) == 2
    assert f"error: `{path}` is no trace\n" in capsys.readouterr().err


def test_an_audit_is_verified_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit"
    path.write_bytes(RECORD)
    head = LAST.digest
    for given in (head, f" {head.upper()} "):
        assert main(["log", "verify", str(path), "--head", given]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{path}: unbroken, 1 records are as they were written\n")
    assert said.count(f"  last hash  {head}\n") == 2
    assert main(["log", "verify", str(path), "--head", "0" * 64]) == 1


@pytest.mark.parametrize("at", range(0, len(RECORD), 17))
def test_an_audit_is_one_whichever_byte_is_changed(
    at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit"
    path.write_bytes(RECORD[:at] + bytes([RECORD[at] ^ 1]) + RECORD[at + 1 :])
    for command in AUDIT:
        assert main(["log", command, str(path)]) == 1
        said = capsys.readouterr().err
        assert "line 1" in said
        assert "keep the file unchanged" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f"
    path.touch()
    code = main(["log", command, str(path), *COMMANDS[command]])
    assert code == (1 if command in AUDIT else 2)
    assert ("holds no record at all" in capsys.readouterr().err) == (command in AUDIT)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_read(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert main(["log", command, str(path), *COMMANDS[command]]) == 2
        said = capsys.readouterr().err
        assert f"cannot read the trace or audit `{path}`: " in said
        assert "hint: name a file that --trace or --audit wrote" in said


@pytest.mark.parametrize("depth", [*range(900, 1000, 5), 1_900])
def test_no_depth_of_a_forged_record_ends_in_a_traceback(depth: int, tmp_path: Path) -> None:
    diff = [{"op": "add", "pointer": "/a", "after": msgspec.Raw(b"[" * depth + b"]" * depth)}]
    line, _ = sealed(Head(), "2026-03-01T12:00:00.000000Z", "change", {"diff": diff})
    (tmp_path / "f").write_bytes(line)
    for command in AUDIT:
        assert main(["log", command, str(tmp_path / "f")]) in (0, 1)


@pytest.mark.parametrize("text", ["hello\n", '{"a": 1}\n', "x" * 70_000])
def test_what_is_followed_and_is_no_trace_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f").write_text(text)
    assert main(["log", "view", "--live", "--no-open", str(tmp_path / "f")]) == 2
    said = capsys.readouterr().err
    assert f"`{tmp_path}/f` is no trace" in said
    assert "hint: `conductor agent --trace FILE …` writes one" in said
