"""Which files the editor of `conductor exec --editor` opens, whatever a comment names."""

from __future__ import annotations

import os
from pathlib import Path

from conductor.cli import exec_editor


def test_only_ordinary_files_of_a_bounded_size_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("a\n")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(exec_editor._MOST_FILE + 1)
    assert exec_editor._read(str(tmp_path / "text")) == "a\n"
    odd = ("pipe", "large", "missing", "", "\0", "n" * 300)
    assert [exec_editor._read(str(tmp_path / name)) for name in odd] == [None] * 6
    assert exec_editor._read("/dev/zero") is None
