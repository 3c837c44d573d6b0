"""Files that `conductor exec --fs` gives the chain."""

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from conductor.client.handlers import Files
from conductor.errors import RequestError
from tests.harness.process.command import conductor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a file, beside a file that is none of its business."""
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "work"
    inside.mkdir()
    (inside / "poem.txt").write_bytes("eins\r\nzwei\nüber drei\nvier".encode())
    (inside / "link").symlink_to(tmp_path / "secret")
    return inside


def done(work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """The result of serving one request."""

    async def run() -> dict[str, Any]:
        return await work

    return asyncio.run(run())


@pytest.mark.parametrize("mode", ["none", "read", "write"])
def test_what_is_offered(folder: Path, mode: str) -> None:
    reads = conductor("exec", "demo", "-p", "/read poem.txt", "--fs", mode, "--cwd", str(folder))
    writes = conductor("exec", "demo", "-p", "/write new.txt hi", "--fs", mode, cwd=folder)
    assert (reads.code, writes.code) == (0, 0)
    lacks = "the client lacks the capability fs."
    assert (lacks in reads.out) == (mode == "none")
    assert ("über drei" in reads.out) == (mode != "none")
    assert (lacks in writes.out) == (mode != "write")
    assert (folder / "new.txt").exists() == (mode == "write")


@pytest.mark.parametrize(
    ("extra", "content"),
    [
        ({}, "eins\r\nzwei\nüber drei\nvier"),
        ({"line": 2}, "zwei\nüber drei\nvier"),
        ({"line": 2, "limit": 2}, "zwei\nüber drei\n"),
        ({"limit": 1}, "eins\r\n"),
        ({"limit": 0}, ""),
        ({"line": 9}, ""),
        ({"line": None, "limit": None}, "eins\r\nzwei\nüber drei\nvier"),
    ],
)
def test_reading(folder: Path, extra: dict[str, Any], content: str) -> None:
    params = {"path": str(folder / "poem.txt"), **extra}
    assert done(Files(folder, "read").read(params)) == {"content": content}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("../secret", "outside"),
        ("link", "outside"),
        ("/etc/passwd", "outside"),
        ("missing", "no such file"),
        (".", "no such file"),
        ("pipe", "no such file"),
        ("latin", "not UTF-8 text"),
        ("nul\0", "absolute path"),
    ],
)
def test_reading_what_is_not_given(folder: Path, path: str, text: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "latin").write_bytes(b"\xfc")
    with pytest.raises(RequestError, match=text):
        done(Files(folder, "read").read({"path": str(folder / path)}))


@pytest.mark.parametrize("path", ["../new", "link", "link/x", "no/folder", ".", "/no/such"])
def test_writing_where_it_is_not_allowed(folder: Path, path: str) -> None:
    with pytest.raises(RequestError):
        done(Files(folder, "write").write({"path": str(folder / path), "content": "x"}))
    assert (folder.parent / "secret").read_text() == "secret"
    assert not (folder.parent / "new").exists()


@pytest.mark.parametrize(
    "params",
    [{}, {"path": 1}, {"path": "poem.txt"}, {"path": None}],
)
def test_params_that_make_no_sense(folder: Path, params: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="absolute path"):
        done(Files(folder, "read").read(params))
    params = {"path": str(folder / "poem.txt")}
    with pytest.raises(RequestError, match="`line`"):
        done(Files(folder, "read").read({**params, "line": -1}))
    with pytest.raises(RequestError, match="`content`"):
        done(Files(folder, "write").write(params))


def test_writing_is_exact(folder: Path) -> None:
    target = folder / "out.txt"
    assert done(Files(folder, "write").write({"path": str(target), "content": "a\r\nß\n"})) == {}
    assert target.read_bytes() == "a\r\nß\n".encode()
