"""The real host of sandboxed proxies, started by the real command line, is caged."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from wasm_host.harden import Layer, probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")

SECONDS: Final = 60.0
"""Until an answer that should have come is given up."""


@dataclass(slots=True)
class Conductor:
    """A running conductor with one sandboxed proxy and the demo agent."""

    process: subprocess.Popen[bytes]
    rest: bytes = b""

    def request(self, number: int, method: str, params: dict[str, object]) -> Any:
        """The answer to a request; notifications on the way are passed over."""
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self._line())
            if answer.get("id") == number and "method" not in answer:
                return answer

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            assert select.select([self.process.stdout], [], [], max(left, 0))[0], "no answer"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "conductor has ended"
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def host(self) -> Path:
        """The process that runs the guest, in ``/proc``."""
        found = [
            entry
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _parent(entry) == self.process.pid and _hosts(entry)
        ]
        assert len(found) == 1
        return found[0]


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _hosts(entry: Path) -> bool:
    try:
        return b"conductor.run.segment" in (entry / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def conductor(cache: Path) -> Iterator[Conductor]:
    """A conductor that has answered ``initialize``, so that its guest has been started."""
    command = [sys.executable, "-m", "conductor", "agent", "-c", f"cache={cache}"]
    with subprocess.Popen(
        [*command, "passthrough", "demo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        one = Conductor(process)
        answer = one.request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "result" in answer, answer
        yield one
        answer = one.request(2, "session/new", {"cwd": "/", "mcpServers": []})
        assert answer["result"]["sessionId"], "it works on"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0


@pytest.fixture(scope="module")
def layers() -> dict[str, Layer]:
    """The layers that this machine offers."""
    return {layer.name: layer for layer in probe()}


@pytest.mark.proves("around the process of guests", "the process that really hosts")
@pytest.mark.parametrize("run", ["first", "later"])
def test_each_thread_of_the_host_is_locked_up(
    run: str, layers: dict[str, Layer], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    if run == "later":
        with conductor(cache):
            pass
    with conductor(cache) as one:
        threads = list((one.host() / "task").iterdir())
        assert threads
        for thread in threads:
            text = (thread / "status").read_text()
            facts = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
            assert facts["NoNewPrivs"] == "1"
            assert facts["Seccomp"] == ("2" if layers["system-calls"].in_force else "0")
            assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0


@pytest.mark.proves("the process that really hosts")
def test_the_host_holds_its_channel_its_modules_and_its_code_only(tmp_path: Path) -> None:
    with conductor(tmp_path / "cache") as one:
        host = one.host()
        if os.geteuid() != 0:
            # A process that must not be dumped is shown to nobody but root.
            with pytest.raises(PermissionError):
                list((host / "fd").iterdir())
            return
        held = {int(entry.name): str(entry.readlink()) for entry in (host / "fd").iterdir()}
        assert {fd: target[:5] for fd, target in held.items() if fd < 3} == dict.fromkeys(
            range(3), "pipe:"
        )
        for fd, target in held.items():
            if fd > 2:
                is_code = target.endswith(".host")
                assert is_code or target.startswith(str(tmp_path / "cache")), "a compiled module"
                info = (host / "fdinfo" / str(fd)).read_text()
                flags = next(line.split()[1] for line in info.splitlines() if "flags" in line)
                assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
        assert (host / "environ").read_bytes().strip(b"\0") == b""
        assert os.readlink(host / "cwd") == "/"


@pytest.mark.proves("the process that really hosts")
def test_the_host_has_limits(tmp_path: Path) -> None:
    with conductor(tmp_path / "cache") as one:
        rows = (one.host() / "limits").read_text().splitlines()
        limits = {row[:26].strip(): row[26:].split()[:2] for row in rows}
        assert limits["Max file size"] == ["0", "0"]
        assert limits["Max core file size"] == ["0", "0"]
        assert int(limits["Max open files"][1]) < 8
