"""Real toolchains: programs and reactors in C and Go, a Python component."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wasm_host
from tests.wasm_host.support import GUESTS
from wasm_host import GuestError, Limits

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
)
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
needs_componentize = pytest.mark.skipif(
    shutil.which("componentize-py") is None, reason="componentize-py is not installed"
)

PYTHON_APP = """
import os, random, sys, time

class Channel:
    def deliver(self, lines: str) -> str:
        if "raise" in lines:
            raise ValueError("as asked")
        if "socket" in lines:
            import_socket()
        if "print" in lines:
            print("to stdout")
            print("to stderr", file=sys.stderr)
        if "facts" in lines:
            return f's{{"time":{time.time()},"env":{len(os.environ)},"r":{random.random()}}}\\n'
        return "".join({"p": "s", "s": "p"}[line[0]] + line[1:] for line in lines.splitlines(True))
"""


def run(*command: str, **environment: str) -> None:
    """Run a compiler; its output is in the failure."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def zig_cc(source: Path, target: Path, *options: str) -> Path:
    run(sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", "-Os", "-s",
        *options, "-o", str(target), str(source))  # fmt: skip
    return target


@pytest.fixture(scope="module", name="c_program")
def _c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zig_cc(GUESTS / "stdio.c", tmp_path_factory.mktemp("c") / "stdio.wasm")


@pytest.fixture(scope="module", name="reactor")
def _reactor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("-mexec-model=reactor", "-Wl,-z,stack-size=131072")
    return zig_cc(GUESTS / "reactor.c", tmp_path_factory.mktemp("r") / "r.wasm", *options)


@pytest.fixture(scope="module", name="go_program")
def _go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    shutil.copy(GUESTS / "stdio.go.txt", folder / "main.go")
    target = folder / "stdio.wasm"
    cache = {"GOCACHE": str(folder / "cache")} if "HOME" not in os.environ else {}
    run("go", "build", "-o", str(target), str(folder / "main.go"),
        GOOS="wasip1", GOARCH="wasm", GO111MODULE="off", GOFLAGS="", **cache)  # fmt: skip
    return target


@pytest.fixture(scope="module", name="python_component")
def _python_component(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("py")
    (folder / "app.py").write_text(PYTHON_APP, encoding="utf-8")
    wit = Path(wasm_host.__file__).parent / "channel.wit"
    target = folder / "app.wasm"
    run("componentize-py", "-d", str(wit), "-w", "proxy",
        "componentize", "-p", str(folder), "app", "-o", str(target))  # fmt: skip
    return target


def started(path: Path, *grants: str, limits: Limits | None = None) -> wasm_host.Guest:
    guest = wasm_host.load(path, grants=frozenset(grants), limits=limits).instantiate("it")
    assert guest.start(b"") == b""
    return guest


@needs_zig
def test_c_answers_line_by_line(c_program: Path) -> None:
    guest = started(c_program)
    assert guest.carrier == "wasi"
    for number in range(50):
        assert guest.deliver(b"%d\n" % number) == b"got %d\n" % number
    many = b"".join(b"%d\n" % number for number in range(5000))
    assert guest.deliver(many) == b"".join(b"got %d\n" % number for number in range(5000))
    guest.close()
    assert guest.stderr == "end of input\n"


@pytest.mark.proves("around a guest")
@needs_zig
def test_c_gets_nothing(c_program: Path) -> None:
    guest = started(c_program)
    assert guest.deliver(b"file\n") == b'{"file":0,"argc":0,"env":0}\n'
    assert guest.deliver(b"time\n") == b'{"time":0}\n'
    assert "clock_time_get" in guest.denied
    guest.close()


@needs_zig
def test_c_sleeps_in_no_time_and_finds_that_time_has_passed(c_program: Path) -> None:
    guest = started(c_program)
    assert guest.deliver(b"sleep\n") == b'{"slept":3600}\n'
    guest.close()


@needs_zig
def test_c_random_repeats_unless_granted(c_program: Path) -> None:
    first, second, granted = (
        started(c_program), started(c_program), started(c_program, "random"),
    )  # fmt: skip
    drawn = [guest.deliver(b"random\nrandom\n") for guest in (first, second, granted)]
    assert drawn[0] == drawn[1] != drawn[2]
    one, two = drawn[0].splitlines()
    assert one != two
    assert first.denied == {"random_get"}
    assert granted.denied == set()


@needs_zig
def test_c_clock_granted(c_program: Path) -> None:
    guest = started(c_program, "clock")
    before = int(time.time())
    told = int(guest.deliver(b"time\n")[len(b'{"time":') : -2])
    assert before <= told <= time.time()
    assert guest.denied == set()
    guest.close()


@needs_zig
def test_c_half_a_line_is_kept_for_the_next_delivery(c_program: Path) -> None:
    guest = started(c_program)
    assert guest.deliver(b"half\n") == b""
    assert guest.deliver(b"1\n") == b'{"half":got 1\n'
    guest.close()


@needs_zig
def test_c_a_line_of_input_may_come_in_two_deliveries(c_program: Path) -> None:
    guest = started(c_program)
    assert guest.deliver(b"ab") == b""
    assert guest.deliver(b"cd\nef\n") == b"got abcd\ngot ef\n"
    guest.close()


@needs_zig
def test_c_abort_shows_its_stderr(c_program: Path) -> None:
    guest = started(c_program)
    with pytest.raises(GuestError, match="unreachable") as caught:
        guest.deliver(b"1\nabort\n")
    assert caught.value.outbox == b"got 1\n"
    assert "about to abort" in caught.value.detail


@needs_zig
def test_c_exit_code(c_program: Path) -> None:
    guest = started(c_program)
    with pytest.raises(GuestError, match="it exited with code 7"):
        guest.deliver(b"exit\n")


@needs_zig
def test_reactor_with_a_libc(reactor: Path) -> None:
    info = wasm_host.describe(reactor)
    assert info.carrier == "core"
    assert info.wasi
    assert info.problems == ()
    guest = started(reactor)
    assert guest.deliver(b"p1\ns2\n") == b"s1\np2\n"
    assert guest.deliver(b"pp\n") == b"sp\n"
    assert guest.stderr == "printed by the guest\n"
    assert guest.deliver(b"pf\n") == b"sf\n"
    assert guest.stderr.endswith("denied\n")
    with pytest.raises(GuestError, match="trapped") as caught:
        guest.deliver(b"pa\n")
    assert "printed by the guest" in caught.value.detail


@needs_zig
def test_reactor_that_exits(reactor: Path) -> None:
    guest = started(reactor)
    with pytest.raises(GuestError, match="guest called proc_exit with code 4"):
        guest.deliver(b"pe\n")
    assert guest.dead


@needs_go
def test_go(go_program: Path) -> None:
    guest = started(go_program)
    for number in range(50):
        assert guest.deliver(b'{"b": 1,  "a": [%d]}\n' % number) == b'{"a":[%d],"b":1}\n' % number
    assert wasm_host.describe(go_program).language == "Go"
    assert guest.deliver(b"[1]\n" * 1000) == b"[1]\n" * 1000
    assert guest.deliver(b"file\n") == b'{"file":false,"env":0,"slept":3600}\n'
    assert guest.deliver(b"{\n") == b""
    assert "bad: unexpected end of JSON input" in guest.stderr
    assert {"clock_time_get", "random_get"} <= guest.denied
    guest.close()


@needs_go
def test_go_panic_shows_its_stderr(go_program: Path) -> None:
    guest = started(go_program)
    with pytest.raises(GuestError, match="exited with code 2") as caught:
        guest.deliver(b"[1]\npanic\n")
    assert caught.value.outbox == b"[1]\n"
    assert "panic: as asked" in caught.value.detail


@needs_componentize
def test_python(python_component: Path) -> None:
    module = wasm_host.load(python_component)
    assert module.carrier == "component"
    assert all(name.startswith("wasi:") for name in module.info.wasi)
    guest = module.instantiate("py")
    assert guest.start(b"") == b""
    assert guest.deliver('p{"a":"ż🦀"}\ns2\n'.encode()) == 's{"a":"ż🦀"}\np2\n'.encode()
    assert guest.deliver(b'p"print"\n') == b's"print"\n'
    assert guest.stderr == "to stdout\nto stderr\n"
    facts = guest.deliver(b'p"facts"\n')
    assert b'"time":0.0,"env":0' in facts
    assert {"clock", "random"} <= guest.denied
    other = module.instantiate("other")
    other.start(b"")
    other.deliver(b'p"print"\n')
    assert other.deliver(b'p"facts"\n') == facts
    with pytest.raises(GuestError, match="py trapped") as caught:
        guest.deliver(b'p"raise"\n')
    assert "ValueError: as asked" in caught.value.detail
    assert guest.dead
    assert other.deliver(b"p1\n") == b"s1\n"
    other.close()
