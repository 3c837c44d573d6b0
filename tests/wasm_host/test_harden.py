"""The cage: what it is made of, that guests work inside as outside, and that it tells the truth."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.places import HOSTILE
from tests.wasm_host import caged_guests, cages
from tests.wasm_host.support import CARRIERS, GUESTS, wasm
from tests.wasm_host.test_hostile import HARM
from wasm_host import harden
from wasm_host.harden import landlock, layers
from wasm_host.harden.kernel import Unsupported

linux = pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")

CARRIER_FILES = {carrier.name: carrier.file for carrier in CARRIERS}


def written(folder: Path, files: dict[str, Path]) -> dict[str, str]:
    """The modules assembled into a folder; their paths by name."""
    paths = {}
    for name, source in files.items():
        path = folder / f"{name}.wasm"
        path.write_bytes(wasm(source))
        paths[name] = str(path)
    return paths


def carriers(folder: Path) -> dict[str, str]:
    """The pass-through guest of each carrier."""
    return written(folder, {name: GUESTS / file for name, file in CARRIER_FILES.items()})


def in_cage(scenario: str, **plan: object) -> tuple[Any, dict[str, harden.Layer]]:
    """The result of a scenario of `caged_guests`, and the layers that it reports."""
    done = cages.run("caged_guests", scenario, msgspec.json.encode(plan).decode())
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"written after sealing\n"
    body = msgspec.json.decode(done.stdout)
    layers = [msgspec.convert(layer, harden.Layer) for layer in body["layers"]]
    return body["result"], {layer.name: layer for layer in layers}


def _abi() -> int:
    """The kernel's Landlock ABI, 0 without."""
    try:
        return landlock.abi()
    except Unsupported:
        return 0


@linux
def test_every_layer_is_in_force_where_the_kernel_has_it(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    in_cage("nothing", modules=carriers(tmp_path), cache=cache)  # fills the cache
    _, layers = in_cage("deliver", modules=carriers(tmp_path), cache=cache)
    abi = _abi()
    since = {"landlock-files": 1, "landlock-network": 4, "landlock-scope": 6}
    layers.pop("cgroup")  # who may make one is for the machine to say
    for name, layer in layers.items():
        assert layer.in_force == (abi >= since.get(name, 0)), layer
        assert layer.detail
    assert set(harden.ESSENTIAL) | set(since) == set(layers)


@linux
@pytest.mark.parametrize("settle", [False, True])
def test_guests_work_inside(settle: bool, tmp_path: Path) -> None:
    found, layers = in_cage("deliver", modules=carriers(tmp_path), settle=settle)
    assert found == {
        "core": [1000, 1000, "s999\n"],
        "component": [1000, 1000, "s999\n"],
        "wasi": [1000, 1000, "999\n"],
    }
    assert ("threads" in layers) == settle


@linux
def test_guests_come_and_go_inside(tmp_path: Path) -> None:
    threads, _ = in_cage("many", modules=carriers(tmp_path))
    assert threads == 2, "the main thread and the ticker"


@linux
def test_large_messages_pass_inside(tmp_path: Path) -> None:
    limits = {"memory_bytes": 512 << 20, "message_bytes": 65 << 20, "cpu_ms": 60_000}
    limits["outbox_bytes"] = 65 << 20
    found, _ = in_cage(
        "large", modules=carriers(tmp_path), limits=dict.fromkeys(CARRIER_FILES, limits)
    )
    assert {name: said[:2] for name, said in found.items()} == {
        name: [True, True] for name in CARRIER_FILES
    }
    assert found["core"][2] > 64 << 20, "its memory grew"


@linux
def test_hostile_guests_end_inside_as_outside(tmp_path: Path) -> None:
    """Traps, endless loops, greed for memory and output: same phase, same limit, same words."""
    names = [name for name, expected in HARM.items() if expected.phase != "load"]
    limits = {name: msgspec.to_builtins(HARM[name].limits) for name in names}
    modules = written(
        tmp_path, {name: HOSTILE / f"{name}.wat" for name in names} | {"good": GUESTS / "flip.wat"}
    )
    found, _ = in_cage("hostile", modules=modules, limits=limits)
    outside = caged_guests.load({"modules": modules, "limits": limits})
    del outside["good"]
    assert found == {name: caged_guests.harm(module) for name, module in outside.items()}
    assert {end[1] for end in found.values()} >= {"cpu_ms", "memory_bytes", "outbox_bytes", None}


@linux
def test_a_fault_of_the_host_is_reported_with_its_traceback(tmp_path: Path) -> None:
    plan = msgspec.json.encode({"modules": carriers(tmp_path)}).decode()
    done = cages.run("caged_guests", "fault", plan)
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "Traceback (most recent call last)" in said
    assert "in fault" in said
    assert said.endswith("RuntimeError: a fault of the host with 3 modules\n")


@linux
def test_abort_still_aborts() -> None:
    done = cages.run("caged_guests", "crash", '{"modules":{}}')
    assert done.returncode == -signal.SIGABRT


@linux
def test_threads_from_before_are_told_of() -> None:
    """Landlock of older kernels does not reach them."""
    code = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "from wasm_host import harden\n"
        "harden.drop_inherited(); harden.seal()\n"
        "import os\n"
        "for one in harden.report():\n"
        "    os.write(1, f'{one.name} {one.in_force} {one.detail}\\n'.encode())\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(cages.code(code), capture_output=True, check=True)
    said = dict(line.split(" ", 1) for line in done.stdout.decode().splitlines())
    assert said["landlock-files"].startswith(str(_abi() >= landlock.TSYNC_SINCE))
    assert "not covered" in said["landlock-files"] or "Landlock" in said["landlock-files"]
    assert said["system-calls"].startswith("True")


@pytest.mark.proves("nothing of the environment remains")
@linux
@pytest.mark.parametrize("env", [{}, {"SECRET": "swordfish", "LANG": "C.UTF-8"}])
def test_nothing_is_left_of_the_environment(env: dict[str, str]) -> None:
    code = (
        "import os, ctypes\n"
        "fields = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
        "start, end = int(fields[47]), int(fields[48])\n"
        "print(b'SECRET=swordfish' in ctypes.string_at(start, end - start))\n"
        "from wasm_host import harden; harden.drop_inherited()\n"
        "libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p\n"
        "print(dict(os.environ), libc.getenv(b'SECRET'))\n"
        "print(ctypes.string_at(start, end - start).strip(bytes(1)))"
    )
    done = subprocess.run(cages.code(code), env=env, capture_output=True, check=True)
    assert done.stdout.decode() == f"{'SECRET' in env}\n{{}} None\nb''\n"


@linux
def test_drop_inherited_leaves_three_descriptors_and_no_rights() -> None:
    reading, writing = os.pipe()
    code = (
        "from wasm_host import harden; harden.drop_inherited()\n"
        "import os\n"
        "print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], oct(os.umask(0)))\n"
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        cages.code(code), pass_fds=(reading, writing), capture_output=True, check=True
    )
    os.close(reading)
    os.close(writing)
    first, _, status = done.stdout.decode().partition("\n")
    assert first == "[0, 1, 2] 0o77"
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["NoNewPrivs"] == "1"
    assert int(facts["CapEff"], 16) & ~layers.FILE_CAPABILITIES == 0
    assert int(facts["CapPrm"], 16) & ~layers.FILE_CAPABILITIES == 0


def _ends(pipe: int) -> None:
    """Wait until nobody holds the other end any more."""
    assert select.select([pipe], [], [], cages.SECONDS)[0], "a process outlived its parent"
    assert os.read(pipe, 1) == b""


@pytest.mark.proves("it dies with its parent")
@linux
def test_it_dies_with_its_parent() -> None:
    """Killed, the parent can tell nobody; its child's input stays open, held by this test."""
    inside = (
        "from wasm_host import harden; harden.drop_inherited(); "
        "import os; os.write(1, b'.'); os.read(0, 1)"
    )
    between = f"import os, subprocess, sys\nsubprocess.Popen({cages.code(inside)!r})\nos.read(2, 1)"
    held = os.pipe()
    with subprocess.Popen(
        cages.code(between), stdin=held[0], stdout=subprocess.PIPE, stderr=held[0]
    ) as parent:
        assert parent.stdout is not None
        assert os.read(parent.stdout.fileno(), 1) == b"."
        parent.kill()
        _ends(parent.stdout.fileno())
    for end in held:
        os.close(end)


@pytest.mark.proves("it dies with its parent")
@linux
def test_it_ends_if_its_parent_is_dead_already() -> None:
    code = "from wasm_host import harden; harden.drop_inherited(parent=1); print('alive')"
    done = subprocess.run(cages.code(code), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""
    code = (
        f"from wasm_host import harden; harden.drop_inherited(parent={os.getpid()}); print('alive')"
    )
    assert subprocess.run(cages.code(code), capture_output=True, check=True).stdout == b"alive\n"


def _loaded_by(text: str) -> set[str]:
    done = subprocess.run(
        cages.code(f"{text}\nprint(*sys.modules)"), capture_output=True, check=True
    )
    return set(done.stdout.decode().split())


def test_it_costs_no_import_that_a_host_of_guests_does_not_need_anyway() -> None:
    added = _loaded_by(
        "from wasm_host import harden; harden.drop_inherited(); import wasm_host.calls.capi"
    )
    needed = _loaded_by("import wasm_host.calls.capi")
    names = ("kernel", "landlock", "layers", "seccomp")
    own = {"wasm_host.harden", *(f"wasm_host.harden.{name}" for name in names)}
    assert added - needed <= own | {"errno", "resource"}


ELSEWHERE = {
    "environment": True,
    "descriptors": True,
    "limits": True,
    "no-new-privileges": False,
    "no-dump": False,
    "parent-death": False,
    "capabilities": False,
    "cgroup": False,
    "landlock-files": False,
    "landlock-network": False,
    "landlock-scope": False,
    "system-calls": False,
}


@pytest.mark.proves("a report names the missing layers")
def test_elsewhere_there_is_less_and_the_report_says_so() -> None:
    """As on macOS: nothing raises, what POSIX has is in force, the rest says that it is not."""
    code = (
        "from wasm_host.harden import kernel; kernel.LINUX = False; kernel.MACHINE = ''\n"
        "import msgspec; from wasm_host import harden\n"
        "harden.drop_inherited()\n"
        "import os; os.write(1, msgspec.json.encode(harden.seal()))"
    )
    done = subprocess.run(cages.code(code), capture_output=True, check=True)
    layers = msgspec.json.decode(done.stdout, type=list[harden.Layer])
    assert {layer.name: layer.in_force for layer in layers} == ELSEWHERE
    for layer in layers:
        assert layer.in_force or "only Linux" in layer.detail


@pytest.mark.proves("a report names the missing layers")
@linux
def test_without_landlock_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, reason in {38: "no Landlock", 95: "switched off"}.items():

        def refuse(*_: object, code: int = code) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(landlock, "syscall", refuse)
        with pytest.raises(Unsupported, match=reason):
            landlock.restrict()


def test_an_older_kernel_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights it refuses as unknown are left out, level by level; its flag for threads is used."""
    asked: list[int] = []
    flags: list[int] = []

    def syscall(name: str, *arguments: int) -> int:
        if name == "landlock_restrict_self":
            flags.append(arguments[1])
            return 0
        if arguments[2] == landlock.VERSION_FLAG:
            return 12
        asked.append(arguments[1])
        if len(asked) < 4:
            raise OSError(22, "invalid")
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(landlock, "syscall", syscall)
    assert landlock.restrict() == landlock.Restriction(12, "TCP", scoped=False, threads=True)
    assert asked == [24, 24, 24, 16]
    assert flags == [landlock.TSYNC_FLAG]


def _layers(*names: str) -> tuple[harden.Layer, ...]:
    return tuple(harden.Layer(name, name not in names, "…") for name in harden.ESSENTIAL)


@pytest.mark.parametrize(
    ("layers", "missing"),
    [
        (_layers(), []),
        (_layers("no-dump"), ["no-dump"]),
        (_layers()[:-1], ["system-calls"]),
        ((*_layers(), harden.Layer("landlock-scope", False, "old kernel")), []),
        ((), list(harden.ESSENTIAL)),
    ],
)
def test_what_is_missing(layers: tuple[harden.Layer, ...], missing: Iterable[str]) -> None:
    assert [layer.name for layer in harden.missing(layers)] == missing


def test_this_process_is_not_sealed() -> None:
    assert harden.report() == ()
    assert len(harden.missing()) == len(harden.ESSENTIAL)


def test_the_probe_leaves_this_process_alone() -> None:
    report = harden.probe()
    assert set(harden.ESSENTIAL) <= {layer.name for layer in report}
    assert harden.report() == ()
    assert Path(__file__).read_bytes()


@pytest.mark.parametrize(
    ("code", "says"),
    [("raise SystemExit('no luck')", "code 1: no luck"), ("", "code 0: no reason given")],
)
def test_a_probe_that_fails_is_no_cage(code: str, says: str) -> None:
    report = harden.probe(code)
    assert [layer.name for layer in report] == list(harden.ESSENTIAL)
    assert not any(layer.in_force for layer in report)
    assert all(says in layer.detail for layer in report)


@linux
@pytest.mark.parametrize("cached", [True, False])
def test_compiling_leaves_no_threads(cached: bool, tmp_path: Path) -> None:
    """A first run, too, can be sealed completely: the module is compiled by another process."""
    (module,) = written(tmp_path, {"flip": GUESTS / "flip.wat"}).values()
    cache = f"Path({str(tmp_path / 'cache')!r})" if cached else "None"
    code = (
        "from pathlib import Path\n"
        "import wasm_host\n"
        "from wasm_host.harden import kernel\n"
        f"report = wasm_host.load({module!r}, cache_dir={cache}).cache_report\n"
        "print(report, kernel.thread_count())\n"
    )
    done = subprocess.run(cages.code(code), capture_output=True, check=True)
    assert done.stdout.decode() == ("stored 1\n" if cached else "off 1\n")


@linux
def test_a_module_that_kills_the_compiler_is_refused(tmp_path: Path) -> None:
    """The cause of the child's end would end the host too, so the host does not compile the module
    itself."""
    (module,) = written(tmp_path, {"flip": GUESTS / "flip.wat"}).values()
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "import wasm_host\n"
        "from wasm_host import capi\n"
        "capi.Module.serialize = lambda self: os.abort()\n"
        "try:\n"
        f"    wasm_host.load({module!r}, cache_dir=Path({str(tmp_path / 'cache')!r}))\n"
        "except wasm_host.LoadError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(cages.code(code), capture_output=True, check=True)
    assert b"makes the compiler fail (SIGABRT)" in done.stdout
