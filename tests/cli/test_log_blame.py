"""`conductor log blame`: who made a line, from the records that lie in the project."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import blame as reading
from tests.harness.process.command import conductor

LINES = reading._lines()
EDIT = {"at": "2026-03-01T12:00:00+00:00", "agent": "ag 1", "model": "m", "prompt": "do it"}


def keep(project: Path, name: str, text: str, owners: list[str | None], **edit: Any) -> None:
    """Writes a file of the project, and whose its lines are."""
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)
    shard = project / LINES.shard(name)
    shard.parent.mkdir(parents=True, exist_ok=True)
    book = LINES.book(shard.read_text() if shard.exists() else None)
    lines = LINES.packed(LINES.digests(text), owners)
    book["files"][name] = {"at": "2026", "lines": lines}
    book["edits"]["e"] = EDIT | edit
    shard.write_text(LINES.written(book))


def test_lines_are_shown_with_who_made_them(tmp_path: Path) -> None:
    keep(tmp_path, "src/a.py", "one\ntwo\nthree\n", [None, "e", "e"], proxy="hooks")
    path = tmp_path / "src/a.py"
    path.write_text("one\ntwo\nnew\nthree\n")
    ran = conductor("log", "blame", "src/a.py", cwd=tmp_path)
    by = "2026-03-01T12:00:00+00:00  ag 1, m, by hooks  “do it”"
    assert ran.out.splitlines() == [
        "1-1  (no record)",
        f"2-2  {by}",
        "3-3  (no record)",
        f"4-4  {by}",
    ]
    said = json.loads(conductor("log", "blame", "--json", str(path)).out)
    assert said["record"] == "src/a.py"
    assert said["ranges"][1] == {
        "start": 2,
        "end": 2,
        "edit": {**EDIT, "proxy": "hooks", "session": ""},
    }


def test_a_renamed_file_has_the_record_of_the_one_that_is_gone(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(9))
    keep(tmp_path, "a.py", text, ["e"] * 9)
    (tmp_path / "moved.py").write_text(text)
    assert conductor("log", "blame", "moved.py", cwd=tmp_path).code == 1  # the other is still there
    (tmp_path / "a.py").unlink()
    ran = conductor("log", "blame", "--json", "moved.py", cwd=tmp_path)
    assert json.loads(ran.out)["record"] == "a.py"
    (tmp_path / "moved.py").write_text("line 1\nelse\n")
    assert conductor("log", "blame", "moved.py", cwd=tmp_path).code == 1


def test_what_has_no_record_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    ran = conductor("log", "blame", "a.py", cwd=tmp_path)
    ran.assert_error(2, "no folder above it has records of edits")
    keep(tmp_path, "b.py", "one\n", ["e"])
    conductor("log", "blame", "a.py", cwd=tmp_path).assert_error(1, "`a.py` has no record")
    conductor("log", "blame", "no.py", cwd=tmp_path).assert_error(2, "cannot read")
    (tmp_path / "c.py").write_bytes(b"\xff\n")
    conductor("log", "blame", "c.py", cwd=tmp_path).assert_error(2, "is no text in UTF-8")
    conductor("log", "blame", cwd=tmp_path).assert_error(2, "takes a file, or `--notes`")
    (tmp_path / LINES.shard("b.py")).write_text('{"version": 1, "edits": {}, "files": {"b.py": 3}}')
    conductor("log", "blame", "b.py", cwd=tmp_path).assert_error(1, "cannot be read")


def test_a_stranger_s_record_does_not_speak_to_the_terminal(tmp_path: Path) -> None:
    keep(tmp_path, "a.py", "one\n", ["e"], prompt="\x1b[31mred\nerror: x", agent="\u202eag")
    ran = conductor("log", "blame", "a.py", cwd=tmp_path)
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert ran.out.count("\n") == 1
    keep(tmp_path, "b.py", "one\n", ["e"], agent=["no", "text"])
    assert conductor("log", "blame", "b.py", cwd=tmp_path).out == "1-1  (no record)\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_notes_say_whose_the_lines_of_the_last_commit_are(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],  # noqa: S607
            cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    conductor("log", "blame", "--notes", cwd=tmp_path).assert_error(2, "`git rev-parse` failed")
    git("init", "-q")
    git("config", "user.name", "a")
    git("config", "user.email", "a@b")
    keep(tmp_path, "a b.py", "one\n", ["e"])
    (tmp_path / "c.py").write_text("c\n")
    git("add", "c.py")
    conductor("log", "blame", "--notes", cwd=tmp_path).assert_error(2, "has no commit so far")
    git("commit", "-q", "-m", "first")
    conductor("log", "blame", "--notes", cwd=tmp_path).assert_error(1, "no line that commit")
    keep(tmp_path, "a b.py", "one\ntwo\nthree\n", ["e", None, "e"])
    git("add", "a b.py")
    git("commit", "-q", "-m", "second")
    (tmp_path / "a b.py").write_text("changed since\n")
    by = "2026-03-01T12:00:00+00:00  ag 1, m  “do it”"
    note = f"a b.py:1-1  {by}\na b.py:3-3  {by}\n"
    assert conductor("log", "blame", "--notes", cwd=tmp_path).out == note
    assert git("notes", "--ref", "conductor", "show") == note
    keep(tmp_path, "a b.py", "zero\none\ntwo\nthree\n", ["e", "e", None, "e"])
    git("commit", "-q", "-a", "-m", "third")
    said = json.loads(conductor("log", "blame", "--notes", "--json", cwd=tmp_path).out)
    assert said["text"] == f"a b.py:1-1  {by}\n"
