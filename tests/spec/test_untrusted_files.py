"""Files of strangers, and those that are named: whatever they are, nothing hangs and nothing fills.

Each command here runs with its memory bounded and ends with an error of ours. Before files were
opened in one place, it hung, or was killed, or showed a traceback.
"""

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import ComponentError, UsageError
from conductor.run import spawn
from conductor.spec import catalog, toml_files, untrusted_files
from conductor.spec.manifest import reading, section
from conductor.spec.python_guest import scripts
from conductor.spec.python_guest.facts import declared
from conductor.spec.python_guest.scripts import Script
from tests.harness.process.command import COMMAND, Ran, environment
from tests.places import DEADLINE

_MEMORY: Final = 6 * 1024**3
"""Bytes of address space, most of which is reserved and never used."""

SPARSE: Final = 40 * 1024**3


def bounded(*arguments: str, cwd: Path) -> Ran:
    """Runs a command that may not have much memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    done = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        cwd=cwd,
        env=environment(),
        check=False,
        preexec_fn=limit,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"\0asm\1\0\0\0")
        file.truncate(SPARSE)


def folder(path: Path) -> None:
    path.mkdir()


ODD: Final = (fifo, endless, sparse, folder)

COMMANDS: Final[dict[str, list[str]]] = {
    "conductor.lock": ["exec", "--locked", "passthrough", "demo", "-p", "hi"],
    "lock.lock": ["lock", "-o", "lock.lock", "demo"],
    "t.jsons": ["log", "replay", "t.jsons", "passthrough"],
    "a.jsons": ["log", "replay", "--agent", "a.jsons"],
    "v.jsonl": ["log", "verify", "v.jsonl"],
    "s.jsonl": ["log", "show", "s.jsonl"],
    "i.wasm": ["inspect", "./i.wasm"],
    "e.wasm": ["exec", "./e.wasm", "demo", "-p", "hi"],
    "l.wasm": ["lock", "./l.wasm", "demo"],
    "c.wasm": ["test", "./c.wasm"],
    "i.py": ["inspect", "./i.py"],
    "e.py": ["exec", "./e.py", "demo", "-p", "hi"],
    "x.txt": ["test", "--component", "passthrough", "x.txt"],
    "settings.toml": ["exec", "passthrough,config=settings.toml", "demo", "-p", "hi"],
    "settings.json": ["exec", "passthrough,config=settings.json", "demo", "-p", "hi"],
    "theirs/component.toml": ["inspect", "./theirs"],
    "theirs2/component.toml": ["exec", "./theirs2", "demo", "-p", "hi"],
    "theirs3/component.toml": ["test", "./theirs3"],
    "theirs4/component.toml": ["test", "--build", "./theirs4"],
    "theirs5/proxy.py": ["inspect", "./theirs5"],
}


@pytest.mark.proves("FIFOs, devices, links and files")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("odd", ODD)
def test_what_is_named_is_an_ordinary_file_of_bounded_size(
    name: str, odd: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    odd(path)
    ran = bounded(*COMMANDS[name], cwd=tmp_path)
    ran.assert_error(ran.code)
    assert ran.code in (1, 2)


# -- a component's folder ------------------------------------------------------------------------


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A component of a stranger's."""
    place = tmp_path / "theirs"
    (place / "test-scenarios").mkdir(parents=True)
    (place / "p.py").write_text("from guest_sdk.python import Proxy\nproxy = Proxy('p')\n")
    (place / "component.toml").write_text("name = 'p'\nfile = 'p.py'\n")
    return place


def test_transcripts_do_not_come_from_behind_links(theirs: Path, tmp_path: Path) -> None:
    inner = theirs / "test-scenarios"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("# theirs\n")
    (inner / "up.txt").symlink_to(tmp_path / "elsewhere")
    (inner / "loop.txt").symlink_to(inner)
    (inner / "all.txt").symlink_to("/")
    (inner / "own.txt").write_text("# own\n")
    for name in ("all.txt", "loop.txt", "up.txt"):  # in the order in which they are found
        refused = bounded("test", "./theirs", cwd=tmp_path)
        refused.assert_error(2, f"theirs/test-scenarios/{name}` is a link")
        (inner / name).unlink()
    (inner / "folder").symlink_to(tmp_path / "elsewhere")  # no folder below is looked at
    ran = bounded("test", "./theirs/test-scenarios", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "passed  theirs/test-scenarios/own.txt: 0 deliveries\n")


def test_transcripts_are_bounded_in_number(theirs: Path, tmp_path: Path) -> None:
    for number in range(1001):
        (theirs / "test-scenarios" / f"{number}.txt").touch()
    bounded("test", "./theirs", cwd=tmp_path).assert_error(2, "more than 1,000 scenarios")


def test_a_transcript_is_bounded_in_size(theirs: Path, tmp_path: Path) -> None:
    sparse(theirs / "test-scenarios" / "a.txt")
    bounded("test", "./theirs", cwd=tmp_path).assert_error(2, "it is larger than 16 MiB")


def test_a_folder_is_looked_at_so_far_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted_files, "MOST_ENTRIES", 5)
    (tmp_path / "proxy.py").write_text("1\n")
    for number in range(4):
        (tmp_path / f"{number}.txt").touch()
    assert scripts.read(str(tmp_path)).files == {"proxy.py": "1\n"}
    (tmp_path / "one.txt").touch()
    with pytest.raises(ComponentError, match="it holds more than 5 files and folders"):
        scripts.read(str(tmp_path))


def test_what_is_below_a_folder_comes_in_order_and_not_from_behind_links(tmp_path: Path) -> None:
    for name in ("b/x", "a/y", "a/.z", "skip/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert list(untrusted_files.below(str(tmp_path), lambda name: name != "skip")) == [
        "a/.z",
        "a/loop",
        "a/y",
        "b/x",
    ]


def test_a_strangers_manifest_is_no_link(theirs: Path) -> None:
    (theirs / "component.toml").rename(theirs / "other.toml")
    (theirs / "component.toml").symlink_to("other.toml")
    with pytest.raises(UsageError, match="it is a link; put a copy there"):
        catalog.resolve(f"{theirs}/")


def test_the_look_at_a_manifest_before_the_start_waits_for_nobody(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(spawn, "_spawn", lambda *_: started.append(True))
    for make in ODD:
        path = theirs / "component.toml"
        path.rename(theirs / f"was-{make.__name__}.toml")
        make(path)
        spawn.start(["agent", str(theirs), "demo"])
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        (theirs / f"was-{make.__name__}.toml").rename(path)
    assert not started
    spawn.start(["agent", str(theirs), "demo"])
    assert started


# -- what cannot be judged -----------------------------------------------------------------------


def test_sections_are_looked_at_so_far_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "p.wasm"
    path.write_bytes(b"\0asm\1\0\0\0" + b"\0\1\0" * 20_001)
    with pytest.raises(UsageError, match=f"`{re.escape(str(path))}` has more than 20,000 sections"):
        section.find(str(path))


def test_of_much_source_nothing_is_read() -> None:
    said = "proxy = Proxy('p', rights={'observer': 'why'})\n"
    assert declared(Script({"p.py": said}, "p.py", folder=False)).rights == {"observer": "why"}
    much = said + "a\n" * 200_000
    found = declared(Script({"p.py": much}, "p.py", folder=False))
    assert (found.rights, found.hidden) == (None, True)


def test_defaults_by_name_are_told_once_they_are_not_much() -> None:
    head = f"L = {'x' * 100_000!r}\n@dataclass\nclass Config:\n"
    fields = "".join(f"    a{number}: str = L\n" for number in range(9))
    text = f"{head}{fields}proxy = Proxy('p', config=Config)\n"
    found = declared(Script({"p.py": text}, "p.py", folder=False)).settings
    assert [one.default is not None for one in found.values()] == [True] * 2 + [False] * 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "nests too deeply"),
        (".".join("a" * 3000) + " = 1", "too many dots"),
        ("[" + ".".join("a" * 1500) + "]\n" + "b = 1\nc = 1\n" * 4000, "too many dots"),
        ("a = 0x" + "f" * 9000, "4300 digits"),
        ("a = " + "9" * 9000, "4300 digits"),
    ],
)
def test_toml_is_read_within_bounds(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        toml_files.loads(text)
    assert toml_files.loads("a = 1979-05-27") == {"a": "1979-05-27"}
    assert toml_files.loads("a.b.c = 1\n[d.e]\nf = 'x.y.z'") == {
        "a": {"b": {"c": 1}},
        "d": {"e": {"f": "x.y.z"}},
    }


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("cpu_ms", "9" * 400 + "s"),
        ("memory_bytes", "9" * 30),
        ("timers", 10**30),
        ("timers", "9" * 20),
    ],
)
def test_a_limit_is_a_number_that_can_be_counted(limit: str, value: object) -> None:
    text = f"name = 'p'\nfile = 'p.py'\n[limits]\n{limit} = {json.dumps(value)}\n"
    with pytest.raises(UsageError, match=r"line 4: `\w+`: (is more than|a time is a number)"):
        reading.parse(text.encode())


def test_a_trace_has_lines_of_bounded_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conductor.record.replay import recording
    from conductor.record.turns import lines

    line = {"type": "request", "from": "client", "to": "agent", "id": 1, "method": "x"}
    path = tmp_path / "t.jsons"
    path.write_text(json.dumps(line) + "\n" + "x" * 2000 + "\n")
    monkeypatch.setattr(recording, "_MOST_HELD", 50)
    with pytest.raises(UsageError, match="holds more than"):
        recording.load(str(path))
    monkeypatch.setattr(lines, "MOST_LINE", 1000)
    with pytest.raises(UsageError, match="a line of more than"):
        recording.load(str(path))
