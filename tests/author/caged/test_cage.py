"""Guests that are tried out run in a locked-up process, and are otherwise as they were here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import wasmtime

import wasm_host
from conductor.author import replay_targets, subject
from conductor.author.caged import Cages
from conductor.author.check import suite
from conductor.run.guest_host import cache_folder, guest_spec
from conductor.run.segment_spec import GuestSpec
from conductor.spec import catalog
from wasm_host.harden.probe import probe

HOSTILE: Final = Path(__file__).parents[2] / "hostile"
LINE: Final = b'{"jsonrpc":"2.0","method":"x"}\n'


def told(name: str, **limits: int) -> GuestSpec:
    """What a host is told of a bundled guest."""
    spec = guest_spec(catalog.resolve(name), b"null", policed=False)
    assert isinstance(spec, GuestSpec)
    return GuestSpec(spec.name, spec.path, spec.sha256, limits={**spec.limits, **limits})


def hostile(name: str, folder: Path, **limits: int) -> GuestSpec:
    """The same of a hostile one."""
    path = folder / f"{name}.wasm"
    path.write_bytes(bytes(wasmtime.wat2wasm((HOSTILE / f"{name}.wat").read_text("utf-8"))))
    return GuestSpec(name, str(path), limits=limits)


@pytest.fixture
def cages() -> Iterator[Cages]:
    with Cages(cache_folder()) as found:
        yield found


def processes() -> list[Path]:
    """The cages of this process, in `/proc`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if (
                parent == os.getpid()
                and b"conductor.author.caged" in (entry / "cmdline").read_bytes()
            ):
                found.append(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")
def test_the_process_is_locked_up(cages: Cages) -> None:
    assert cages.carrier(told("passthrough")) == "core"
    (process,) = processes()
    text = (process / "status").read_text()
    facts = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    offered = {layer.name: layer.in_force for layer in probe()}
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == ("2" if offered["system-calls"] else "0")
    assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0
    if os.geteuid() == 0:  # to all others it cannot even be told
        assert (process / "environ").read_bytes() == b""
        held = {int(entry.name): os.readlink(entry) for entry in (process / "fd").iterdir()}
        assert all(fd < 3 or where.endswith(".cwasm") for fd, where in held.items()), held


def test_a_guest_says_what_it_would_say_here(cages: Cages, tmp_path: Path) -> None:
    one = cages.instantiate(told("passthrough", message_bytes=100_000), "one")
    other = cages.instantiate(told("passthrough", message_bytes=100_000), "other")
    assert one.start(b"") == b""
    assert one.deliver(b"p" + LINE) == b"s" + LINE
    with pytest.raises(wasm_host.LimitRefused, match="100000"):
        one.deliver(b"p" + b"x" * 200_000 + b"\n")
    assert one.deliver(b"s" + LINE) == b"p" + LINE
    assert not one.dead
    one.close()
    one.close()
    assert other.deliver(b"p" + LINE) == b"s" + LINE
    bad = cages.instantiate(hostile("trap_divide", tmp_path), "bad")
    with pytest.raises(wasm_host.GuestError, match=r"^bad .*divide") as caught:
        bad.deliver(b"p" + LINE)
    assert caught.value.phase == "deliver"
    assert bad.dead
    with pytest.raises(wasm_host.GuestError, match=r"^slow .*cpu_ms") as caught:
        cages.instantiate(hostile("loop_deliver", tmp_path, cpu_ms=50), "slow").deliver(b"p" + LINE)
    assert caught.value.limit == "cpu_ms"
    with pytest.raises(wasm_host.LoadError, match="is no guest this host runs"):
        cages.instantiate(hostile("import_host", tmp_path), "none")
    with pytest.raises(wasm_host.GuestError) as caught:
        cages.instantiate(hostile("trap_start", tmp_path), "early")
    assert caught.value.phase == "instantiate"


def test_a_host_that_is_gone_is_told_and_replaced(cages: Cages) -> None:
    spec = told("passthrough")
    guest = cages.instantiate(spec, "one")
    (process,) = (cage._process.pid for cage in cages._open.values())
    os.kill(process, signal.SIGKILL)
    with pytest.raises(wasm_host.GuestError, match="hosts it has ended with exit code -9"):
        guest.deliver(b"p" + LINE)
    assert guest.dead
    guest.close()
    again = cages.instantiate(spec, "again")
    assert again.deliver(b"p" + LINE) == b"s" + LINE
    (cage,) = cages._open.values()
    cage._patience = 0.05
    os.kill(cage._process.pid, signal.SIGSTOP)
    with pytest.raises(wasm_host.GuestError, match="hosts it does not answer"):
        again.deliver(b"p" + LINE)


def test_nothing_of_a_guest_runs_in_the_process_of_who_tries_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def here(*_: object, **__: object) -> None:
        raise AssertionError("an instance was made here")

    monkeypatch.setattr(wasm_host.Module, "instantiate", here)
    spec = catalog.resolve("passthrough")
    chosen = ("requests", "no-services", "message-limit", "odd-ids")
    found = list(suite.outcomes(spec, chosen, 100.0))
    assert [(one.name, one.status, one.why) for one in found] == [
        (name, "pass", "") for name in chosen
    ]
    with subject.targets(spec) as make:
        text = b"> p" + LINE + b"< s" + LINE
        assert subject.play(make, text, "t.txt", loose=False).differences == []
    with replay_targets.targets(spec, 100.0) as start:
        target = start()
        target.send(b"p" + LINE)
        assert target.next() == "s" + LINE.decode().rstrip()
    assert processes() == []
