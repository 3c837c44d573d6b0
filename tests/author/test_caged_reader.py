"""A file of a stranger is read in a child: whatever that costs, it costs the child."""

from __future__ import annotations

import ast
import os
import resource
import sys
import time
from pathlib import Path
from typing import Final

import pytest

import wasm_host
from conductor.author.caged import CagedReader
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.spec.python_guest.scripts import Script
from tests.harness.process.processes import children
from tests.places import PASSTHROUGH, ROOT

CAGED: Final = "conductor.author.caged"
"""A part of the command line of a caged child."""

MAGIC: Final = b"\0asm\1\0\0\0"
MOST: Final = 64 * 1024 * 1024


def module(folder: Path, content: bytes) -> str:
    path = folder / "p.wasm"
    path.write_bytes(content)
    return str(path)


def test_a_module_is_described_as_it_is_here(tmp_path: Path) -> None:
    here = PASSTHROUGH
    with CagedReader() as reader:
        assert reader.module(str(here), MOST) == wasm_host.describe(here)


def test_a_large_module_is_described_too(tmp_path: Path) -> None:
    path = module(tmp_path, MAGIC + b"\0\x80\x80\x40" + bytes(1024 * 1024))
    with CagedReader() as reader:
        assert reader.module(path, MOST) == wasm_host.describe(path)


def test_what_is_wrong_with_a_module_is_said_as_it_is_here(tmp_path: Path) -> None:
    path = module(tmp_path, b"\0asm\1\0\0")
    with pytest.raises(wasm_host.LoadError) as here:
        wasm_host.describe(path)
    with CagedReader() as reader, pytest.raises(wasm_host.LoadError) as there:
        reader.module(path, MOST)
    assert (str(there.value), there.value.hint) == (str(here.value), here.value.hint)


def test_a_source_is_read_as_it_is_here() -> None:
    text = (
        "@dataclass\nclass Config:\n    a: list = field(default_factory=lambda: [1, 'x'])\n"
        "proxy = Proxy('p', rights={'observer': 'why'}, config=Config)\n"
    )
    with CagedReader() as reader:
        said = reader.source(Script({"p.py": text}, "p.py", folder=False), "p.py")
    assert said.rights == {"observer": "why"}
    assert said.settings["a"].default == [1, "x"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = module(tmp_path, MAGIC)
    os.truncate(path, 40 * 1024**3)
    with (
        CagedReader() as reader,
        pytest.raises(wasm_host.LoadError, match="it is larger than 64 MiB"),
    ):
        reader.module(path, MOST)


def starting(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    """Another program in place of the child."""
    monkeypatch.setattr(spawn, "child_command", lambda _: list(command))


def test_a_file_that_needs_too_much_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that may have next to no memory, in place of a file that needs very much."""
    code = (
        f"import sys;sys.path[:0]={sys.path!r};"
        "from conductor.run.stand_ins import load;load('msgspec');"
        "from conductor.author import caged_process as child;"
        f"child.READER_MEMORY={64 * 1024 * 1024};child.main()"
    )
    path = module(tmp_path, MAGIC + (b"\0\1\0" * 3_000_000))
    starting(monkeypatch, sys.executable, "-c", code)
    with CagedReader() as reader, pytest.raises(wasm_host.LoadError) as refused:
        reader.module(path, MOST)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("command", "patience"),
    [
        (["true"], 60.0),
        (["cat", "/dev/null"], 60.0),
        (["echo", "nonsense"], 60.0),
        (["sleep", "1000"], 0.05),
    ],
)
def test_a_child_that_ends_or_is_silent_is_an_error(
    command: list[str], patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"p.py": "x = 1\n" * 100_000}, "p.py", folder=False)
    starting(monkeypatch, *command)
    wanted = pytest.raises(ComponentError, match="too much time or memory")
    with CagedReader(patience) as reader, wanted:
        reader.source(script, "p.py")


def test_the_child_has_bounds() -> None:
    before = set(children(CAGED))
    with CagedReader():
        while not (started := set(children(CAGED)) - before):
            time.sleep(0.01)  # until it is that program
        (process,) = started
        while resource.prlimit(process, resource.RLIMIT_CPU) != (5, 5):
            time.sleep(0.01)  # until it has loaded what it needs
    assert set(children(CAGED)) == before


def test_nothing_that_runs_a_chain_starts_it() -> None:
    """An editor waits for a chain: the input that a chain reads of a stranger's is bounded
    instead."""
    root = ROOT / "conductor"
    users = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and any(name.name == "CagedReader" for name in node.names)
    }
    assert users == {"cli/inspect_.py", "cli/lock.py"}
