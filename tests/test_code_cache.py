"""The code of the modules that a program loads, kept in one file for its next start."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pytest

from conductor import code_cache
from tests.places import ROOT

PROGRAM: Final = """
import sys
sys.path.insert(1, {root!r})
from conductor.code_cache import of_script
cache = of_script("test")
import importlib, json
from importlib import resources
import alone, package, package.inner
if "full" in sys.argv:
    import os
    os.fsync = lambda fd: os.stat("no such disk")
if cache and "close" in sys.argv:
    cache.close()
    import late
elif cache and "hold" in sys.argv:
    cache.hold(["package"], ["package.outer"])
    cache.keep()
    if "change" in sys.argv:
        open("package/deep.py", "a").write("VALUE = 7")
    before = "package.outer" in sys.modules, "package.deep" in sys.modules
    sys.meta_path[:] = [cache]
    import package.outer
    print(json.dumps([before, package.outer.VALUE]))
    raise SystemExit
elif cache:
    cache.keep()
def is_kept(name):
    return type(getattr(sys.modules.get(name), "__loader__", None)).__name__ == "_Loader"
kept = [name for name in ("alone", "package", "package.inner", "late") if is_kept(name)]
print(json.dumps({{
    "cache": cache is not None,
    "kept": kept,
    "values": [alone.VALUE, package.VALUE, package.inner.VALUE],
    "files": [alone.__file__, package.__file__, list(package.__path__), package.inner.__package__],
    "data": resources.files("package").joinpath("data.txt").read_text(),
    "line": alone.where(),
}}))
"""
ALL: Final = ["alone", "package", "package.inner"]


class Place:
    """A program of some modules, and a folder for what Python writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pyc = folder / "pyc"
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM.format(root=str(ROOT)))
        self.module(
            "alone", 1, "def where():\n    import sys\n    return sys._getframe().f_lineno\n"
        )
        self.module("late", 0)
        (folder / "package").mkdir()
        self.module("package/__init__", 2)
        self.module("package/inner", 3)
        (folder / "package" / "data.txt").write_text("of the package")

    def module(self, name: str, value: int, more: str = "") -> None:
        self.folder.joinpath(f"{name}.py").write_text(f"VALUE = {value}\n{more}")

    def run(self, *arguments: str, program: tuple[str, ...] = (), **environment: str) -> Any:
        """The program's report on its modules."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [sys.executable, *(program or [str(self.program)]), *arguments],
            cwd=self.folder,
            env={**clean, "PYTHONPYCACHEPREFIX": str(self.pyc), **environment},
            capture_output=True,
            check=True,
            text=True,
        )
        assert not done.stderr
        return json.loads(done.stdout)

    @property
    def file(self) -> Path:
        (file,) = self.pyc.rglob("*.test")
        return file


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_second_start_loads_what_the_first_has_loaded(place: Place) -> None:
    first, second = place.run(), place.run()
    assert (first.pop("kept"), second.pop("kept")) == ([], ALL)
    assert first == second
    assert second["data"] == "of the package"


def test_a_source_that_has_changed_is_loaded_anew_and_kept(place: Place) -> None:
    place.run()
    place.module("package/inner", 44)
    changed = place.run()
    assert changed["kept"] == ["alone", "package"]
    assert changed["values"] == [1, 2, 44]
    again = place.run()
    assert (again["kept"], again["values"]) == (ALL, [1, 2, 44])


def test_a_module_that_nobody_has_kept_is_added(place: Place) -> None:
    place.run()
    place.program.write_text(
        place.program.read_text().replace("import alone,", "import late, alone,")
    )
    assert place.run()["kept"] == ALL
    assert place.run()["kept"] == [*ALL, "late"]


def test_a_module_comes_from_its_folder_once_the_cache_is_closed(place: Place) -> None:
    place.program.write_text(
        place.program.read_text().replace("import alone,", "import late, alone,")
    )
    place.run()
    place.program.write_text(
        place.program.read_text().replace("import late, alone,", "import alone,")
    )
    assert place.run("close")["kept"] == ALL


def test_what_is_held_is_loaded_at_its_first_use_as_it_was(place: Place) -> None:
    place.module("package/deep", 5)
    place.module("package/outer", 0, "from package.deep import VALUE\n")
    assert place.run("hold") == [[True, True], 5]
    assert place.run("hold") == [[False, False], 5]
    place.module("package/deep", 66)  # `outer` is as it was, and needs a file for this one
    assert place.run("hold") == [[True, True], 66]
    assert place.run("hold") == [[False, False], 66]
    place.file.write_bytes(place.file.read_bytes()[:-1])
    assert place.run("hold") == [[True, True], 66]
    assert place.run("hold", PYTHONPATH=str(place.pyc)) == [[True, True], 66]
    assert place.run("hold") == [[True, True], 66]
    assert place.run("hold", "change") == [[False, False], 66]
    assert place.run("hold") == [[True, True], 7]


def test_a_start_that_adds_nothing_writes_nothing(place: Place) -> None:
    place.run()
    written = place.file.stat()
    place.run()
    assert place.file.stat().st_ino == written.st_ino


def test_other_folders_are_searched_as_always(place: Place) -> None:
    place.run()
    other = place.folder / "other"
    other.mkdir()
    (other / "late.py").write_text("")
    found = place.run(PYTHONPATH=str(other))
    assert found["kept"] == []
    assert place.run()["kept"] == []  # the file is of that path now
    assert place.run()["kept"] == ALL


def test_who_writes_no_bytecode_has_no_cache(place: Place) -> None:
    place.run(PYTHONDONTWRITEBYTECODE="1")
    assert not list(place.pyc.rglob("*"))
    place.run()
    assert place.run(PYTHONDONTWRITEBYTECODE="1")["kept"] == []


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, b"\1\0\0\0\0\0\0\0N", b"\5\0\0\0\0\0\0\0i\0"])
def test_a_damaged_file_is_no_file(place: Place, data: bytes) -> None:
    place.run()
    place.file.write_bytes(data)
    assert place.run()["kept"] == []
    assert place.run()["kept"] == ALL


@pytest.mark.parametrize("put", [b"", b"N" * 40, bytes(4096)], ids=["cut", "other", "zeros"])
def test_damaged_code_is_loaded_from_its_folder_and_kept_anew(place: Place, put: bytes) -> None:
    place.run()
    data = place.file.read_bytes()
    place.file.write_bytes((data[: -len(put) or -40] + put)[: len(data)])
    damaged = place.run()
    assert damaged["values"] == [1, 2, 3]
    assert damaged["kept"] != ALL
    assert place.run()["kept"] == ALL


def test_a_byte_of_the_code_that_is_another_is_seen(place: Place) -> None:
    place.run()
    data = place.file.read_bytes()
    place.file.write_bytes(data[:-30] + bytes([data[-30] ^ 1]) + data[-29:])
    assert place.run()["kept"] == ALL[:2]
    assert place.run()["kept"] == ALL


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _link(file: Path) -> None:
    file.with_suffix(".other").write_bytes(b"")
    file.symlink_to(file.with_suffix(".other"))


def _strangers(file: Path) -> None:
    file.write_bytes(b"")
    os.chown(file, 12345, -1)


STRANGERS: Final = pytest.param(
    _strangers,
    marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
)


@pytest.mark.parametrize("make", [_fifo, _link, STRANGERS])
def test_what_is_no_file_of_ours_is_not_read_and_replaced(
    place: Place, make: Callable[[Path], None]
) -> None:
    place.run()
    file = place.file
    kept = file.read_bytes()
    file.unlink()
    make(file)
    if file.is_file():  # it would be right
        file.write_bytes(kept)
    assert place.run()["kept"] == []
    assert not file.is_symlink()
    assert file.stat().st_uid == os.geteuid()
    assert place.run()["kept"] == ALL


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_the_file_is_never_taken_for_a_closed_stream(place: Place, stream: int) -> None:
    place.run()
    asks = f"import os\ntry:\n    os.fstat({stream})\nexcept OSError:\n    os._exit(7)\n"
    place.program.write_text(
        place.program.read_text().replace("import alone,", f"{asks}import alone,")
    )
    closed = f'exec "$@" {stream}>&-'
    command = ["sh", "-c", closed, "sh", sys.executable, str(place.program)]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place.pyc)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    assert subprocess.run(command, env=environment, check=False).returncode == 7


def test_where_nothing_may_be_written_modules_come_from_their_folders(place: Place) -> None:
    place.run()
    folder = place.file.parent
    place.file.unlink()
    folder.chmod(0o500)
    try:
        found = [place.run()["values"] for _ in range(2)]
    finally:
        folder.chmod(0o700)
    assert found == [[1, 2, 3]] * 2
    assert os.geteuid() == 0 or not list(folder.glob("*.test*"))


def test_functions_of_others_keep_their_docstrings(place: Place) -> None:
    """A `py:` component may show them. Ours have none."""
    text = 'def told():\n    "Said."\n\n\ndef both():\n    "Same."\n    return "Same."\n'
    place.module("late", 0, text)
    asks = (
        "import late, json.decoder; from conductor import cli; "
        "print(json.dumps([late.told.__doc__, late.both(), "
        "json.decoder.JSONDecoder.decode.__doc__, cli.main.__annotations__, "
        "cli.main.__doc__, cli.__doc__]))"
    )
    program = place.program.read_text()
    place.program.write_text(f"{program.partition('import importlib')[0]}{asks}\ncache.keep()\n")
    first, second = place.run(), place.run()
    assert first[:2] == second[:2] == ["Said.", "Same."]
    assert all(first[2:])
    assert second[2:] == [*first[2:4], None, None]


def test_code_of_ours_keeps_the_line_of_each_instruction() -> None:
    """Also of instructions that belong to no line, and of lines far from each other."""
    source = Path(code_cache.__file__).read_text()
    far = "def far(a):\n    with a:\n        return [\n" + "\n" * 5000 + "a(),\n        a]\n"

    def lines(code: CodeType) -> Iterator[list[int | None]]:
        yield [line for begin, end, line in code.co_lines() for _ in range(begin, end)]
        for const in code.co_consts:
            if isinstance(const, CodeType):
                yield from lines(const)

    code = compile(source + far, "ours.py", "exec", dont_inherit=True)
    small = code_cache.small(code, annotated=False)
    assert list(lines(small)) == list(lines(code))
    assert len(small.co_linetable) < len(code.co_linetable)


def test_functions_of_ours_work_without_their_annotations() -> None:
    text = (
        "from __future__ import annotations\n"
        "pair = ('a', 'str', 'return', 'None')\n"
        "def plain(a: str) -> None: pass\n"
        "def more(b: int, *, c: tuple[str, ...] = ()) -> list[int]: return [b, *c]\n"
        "def outer(d: int) -> object:\n"
        "    def inner(e: int) -> int: return d + e\n"
        "    return inner\n"
    )
    code = compile(text, "ours.py", "exec", dont_inherit=True)
    made: dict[str, Any] = {}
    exec(code_cache.small(code, annotated=False), made)  # noqa: S102
    assert made["pair"] == ("a", "str", "return", "None")
    assert made["more"](1, c=(2,)) == [1, 2]
    assert made["outer"](1)(2) == 3
    assert made["more"].__annotations__ == {} or sys.version_info >= (3, 13)
    kept: dict[str, Any] = {}
    exec(code_cache.small(code, annotated=True), kept)  # noqa: S102
    assert kept["plain"].__annotations__ == {"a": "str", "return": "None"}


def test_modules_of_email_are_loaded_beside_kept_ones(place: Place) -> None:
    """Modules of `email` make docstrings of some functions from those of others."""
    place.module("alone", 1, "import email.message\ndef where(): return 0\n")
    place.run()
    place.module("alone", 2, "import email.policy\ndef where(): return 0\n")
    assert place.run()["values"][0] == 2


def test_a_file_that_is_not_yet_on_the_disk_replaces_none(place: Place) -> None:
    place.run("full")
    assert not list(place.pyc.rglob("*.test*"))


def test_a_folder_in_its_place_stops_nobody(place: Place) -> None:
    place.run()
    file = place.file
    file.unlink()
    file.mkdir()
    before = file.parent.stat().st_mtime_ns
    assert place.run()["values"] == place.run()["values"] == [1, 2, 3]
    assert list(file.parent.glob("*.test*")) == [file]
    assert file.parent.stat().st_mtime_ns == before  # nor was a file made for nothing


def test_a_module_that_is_run_has_none(place: Place) -> None:
    # Its path begins with the current folder.
    assert not place.run(program=("-m", "program"))["cache"]
    assert not place.run(program=("-c", place.program.read_text()))["cache"]


def test_a_user_of_the_machine_may_read_what_a_locked_up_host_has_written(tmp_path: Path) -> None:
    from conductor.run import spawn

    *command, code = spawn.child_command()
    prefix = f"import sys;sys.pycache_prefix={str(tmp_path)!r};"
    done = subprocess.run([*command, prefix + code], input=b"", capture_output=True, check=True)
    assert not done.stderr
    (file,) = tmp_path.rglob("*.host")
    assert (
        file.stat().st_mode & 0o777
        == ROOT.joinpath("conductor/code_cache.py").stat().st_mode & 0o777
    )
