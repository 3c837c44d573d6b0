"""What a stranger has made is read in a child: whatever it costs, it costs that."""

from __future__ import annotations

import ast
import os
import resource
import select
from pathlib import Path
from typing import Final

import pytest

import wasm_host
from conductor.author.caged import reader as judges
from conductor.author.caged.reader import Judge
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.spec.python_guest.scripts import Script

MAGIC: Final = b"\0asm\1\0\0\0"
MOST: Final = 64 * 1024 * 1024


def module(folder: Path, content: bytes) -> str:
    path = folder / "p.wasm"
    path.write_bytes(content)
    return str(path)


def test_a_module_is_described_as_it_is_here(tmp_path: Path) -> None:
    here = Path(__file__).parents[3] / "components" / "passthrough" / "passthrough.wasm"
    with Judge() as judge:
        assert judge.module(str(here), MOST) == wasm_host.describe(here)


def test_a_large_module_is_described_too(tmp_path: Path) -> None:
    path = module(tmp_path, MAGIC + b"\0\x80\x80\x40" + bytes(1024 * 1024))
    with Judge() as judge:
        assert judge.module(path, MOST) == wasm_host.describe(path)


def test_what_is_wrong_with_a_module_is_said_as_it_is_here(tmp_path: Path) -> None:
    path = module(tmp_path, b"\0asm\1\0\0")
    with pytest.raises(wasm_host.LoadError) as here:
        wasm_host.describe(path)
    with Judge() as judge, pytest.raises(wasm_host.LoadError) as there:
        judge.module(path, MOST)
    assert (str(there.value), there.value.hint) == (str(here.value), here.value.hint)


def test_a_source_is_read_as_it_is_here() -> None:
    text = (
        "@dataclass\nclass Config:\n    a: list = field(default_factory=lambda: [1, 'x'])\n"
        "proxy = Proxy('p', profile='observer', wants={'clock': 'why'}, config=Config)\n"
    )
    with Judge() as judge:
        said = judge.source(Script({"p.py": text}, "p.py", folder=False), "p.py")
    assert said.profiles == ("observer",)
    assert said.wants == {"clock": "why"}
    assert said.settings["a"].default == [1, "x"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = module(tmp_path, MAGIC)
    os.truncate(path, 40 * 1024**3)
    with Judge() as judge, pytest.raises(wasm_host.LoadError, match="it is larger than 64 MiB"):
        judge.module(path, MOST)


def test_what_needs_too_much_is_told_apart_from_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that may have next to no memory, in place of a file that needs very much."""
    code = (
        "import sys;sys.path[:0]={!r};from conductor.run.fast_msgspec import load;load();"
        "from conductor.author.caged import judging;judging.MEMORY={};judging.main()"
    )
    path = module(tmp_path, MAGIC + (b"\0\1\0" * 3_000_000))
    import sys

    def command(_: str) -> list[str]:
        return [sys.executable, "-c", code.format(sys.path, 64 * 1024 * 1024)]

    monkeypatch.setattr(spawn, "child_command", command)
    with Judge() as judge, pytest.raises(wasm_host.LoadError) as refused:
        judge.module(path, MOST)
    assert refused.value.hint


def test_a_child_that_ends_or_is_silent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({"p.py": "x = 1\n" * 100_000}, "p.py", folder=False)
    for command in (["true"], ["cat", "/dev/null"], ["echo", "nonsense"]):
        monkeypatch.setattr(spawn, "child_command", lambda _, command=command: command)
        with Judge() as judge, pytest.raises(ComponentError, match="too much time or memory"):
            judge.source(script, "p.py")
    monkeypatch.setattr(judges, "_PATIENCE", 0.05)
    monkeypatch.setattr(spawn, "child_command", lambda _: ["sleep", "1000"])
    with Judge() as judge, pytest.raises(ComponentError, match="too much time or memory"):
        judge.source(script, "p.py")
    assert judge._process.returncode == -9


def test_the_child_has_bounds_and_nothing_else() -> None:
    with Judge() as judge:
        pid = judge._process.pid
        assert judge._process.stdin is not None
        judge._process.stdin.write(b"x")  # it reads when it is locked up
        limits = resource.prlimit(pid, resource.RLIMIT_CPU)
        poll = select.poll()
        poll.register(judge._process.stdin.fileno(), select.POLLOUT)
        while limits[0] != 5:
            assert judge._process.poll() is None
            limits = resource.prlimit(pid, resource.RLIMIT_CPU)
        assert limits == (5, 5)


def test_nothing_that_runs_a_chain_starts_it() -> None:
    """An editor waits for a chain: what that reads of a stranger's is bounded instead."""
    root = Path(__file__).parents[3] / "conductor"
    users = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "conductor.author.caged.reader"
    }
    assert users == {"cli/inspect_.py", "spec/lock/writing.py"}
