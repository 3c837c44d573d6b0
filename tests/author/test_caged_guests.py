"""Guests to try out run in a locked-up process, and are otherwise as in this one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
import wasmtime

import wasm_host
from conductor.author import transcripts
from conductor.author.caged import CagedGuests
from conductor.author.check import suite
from conductor.author.subject import subjects
from conductor.run.segment_spec import GuestSpec, guest_spec
from conductor.spec import catalog
from conductor.spec.paths import compiled_modules
from tests.harness.process.processes import children
from tests.places import HOSTILE
from wasm_host.harden import probe

CAGED: Final = "conductor.author.caged"
"""A part of the command line of a caged child."""

LINE: Final = b'{"jsonrpc":"2.0","method":"x"}\n'


def bundled(name: str, **limits: int) -> GuestSpec:
    """A bundled guest, as its host gets it."""
    spec = guest_spec(catalog.resolve(name), b"null", policed=False)
    return msgspec.structs.replace(spec, limits={**spec.limits, **limits})


def hostile(name: str, folder: Path, **limits: int) -> GuestSpec:
    """A hostile guest, as its host gets it."""
    path = folder / f"{name}.wasm"
    path.write_bytes(bytes(wasmtime.wat2wasm((HOSTILE / f"{name}.wat").read_text("utf-8"))))
    return GuestSpec(name=name, wasm=str(path), limits=limits)


@pytest.fixture
def guests() -> Iterator[CagedGuests]:
    with CagedGuests(compiled_modules()) as hosts:
        yield hosts


@pytest.mark.proves("a guest that `conductor test`")
@pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")
def test_the_process_is_locked_up(guests: CagedGuests) -> None:
    assert guests.carrier(bundled("passthrough")) == "core"
    (number,) = children(CAGED)
    process = Path("/proc") / str(number)
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


def test_a_guest_says_what_it_would_say_here(guests: CagedGuests, tmp_path: Path) -> None:
    one = guests.instantiate(bundled("passthrough", message_bytes=100_000), "one")
    other = guests.instantiate(bundled("passthrough", message_bytes=100_000), "other")
    assert one.start(b"") == b""
    assert one.deliver(b"p" + LINE) == b"s" + LINE
    with pytest.raises(wasm_host.LimitRefused, match="100000"):
        one.deliver(b"p" + b"x" * 200_000 + b"\n")
    assert one.deliver(b"s" + LINE) == b"p" + LINE
    assert not one.dead
    one.close()
    one.close()
    assert other.deliver(b"p" + LINE) == b"s" + LINE
    bad = guests.instantiate(hostile("trap_divide", tmp_path), "bad")
    with pytest.raises(wasm_host.GuestError, match=r"^bad .*divide") as caught:
        bad.deliver(b"p" + LINE)
    assert caught.value.phase == "deliver"
    assert bad.dead
    slow = guests.instantiate(hostile("loop_deliver", tmp_path, cpu_ms=50), "slow")
    with pytest.raises(wasm_host.GuestError, match=r"^slow .*cpu_ms") as caught:
        slow.deliver(b"p" + LINE)
    assert caught.value.limit == "cpu_ms"
    with pytest.raises(wasm_host.LoadError, match="is no guest this host runs"):
        guests.instantiate(hostile("import_host", tmp_path), "none")
    with pytest.raises(wasm_host.GuestError) as caught:
        guests.instantiate(hostile("trap_start", tmp_path), "early")
    assert caught.value.phase == "instantiate"


def test_a_host_that_is_gone_is_told_and_replaced() -> None:
    spec = bundled("passthrough", cpu_ms=100)
    with CagedGuests(compiled_modules()) as guests:
        guest = guests.instantiate(spec, "one")
        (process,) = children(CAGED)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(wasm_host.GuestError, match="hosts it has ended with exit code -9"):
            guest.deliver(b"p" + LINE)
        assert guest.dead
        guest.close()
        again = guests.instantiate(spec, "again")
        assert again.deliver(b"p" + LINE) == b"s" + LINE
        (process,) = children(CAGED)
        (host,) = guests._hosts.values()
        host._patience = 0.5  # it had longer to start
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(wasm_host.GuestError, match="hosts it does not answer"):
            again.deliver(b"p" + LINE)
    assert children(CAGED) == []


@pytest.mark.proves("a guest that `conductor test`")
def test_nothing_of_a_guest_runs_in_the_process_of_who_tries_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def here(*_: object, **__: object) -> None:
        raise AssertionError("an instance was made here")

    monkeypatch.setattr(wasm_host.Module, "instantiate", here)
    spec = catalog.resolve("passthrough")
    chosen = ("requests", "no-services", "message-limit", "odd-ids")
    outcomes = list(suite.outcomes(spec, chosen, 100.0))
    assert [(outcome.name, outcome.status, outcome.why) for outcome in outcomes] == [
        (name, "pass", "") for name in chosen
    ]
    with subjects(spec) as make:
        text = b"> p" + LINE + b"< s" + LINE
        assert transcripts.play(make, text, "t.txt", loose=False).mismatches == []
    assert children(CAGED) == []
