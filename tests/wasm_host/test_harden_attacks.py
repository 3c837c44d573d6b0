"""Hostile native code inside a sealed process: whatever it tries is refused, or is its end."""

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wasm_host import cages
from tests.wasm_host.caged_attack import ATTACKS, LIMITED, SETTLED
from wasm_host.harden import landlock, probe
from wasm_host.harden.kernel import Unsupported

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")

BOTH = ATTACKS | SETTLED


@dataclass(frozen=True, slots=True)
class Prey:
    """The targets of attacks outside the cage, and their names as facts for the attacks."""

    folder: Path
    facts: dict[str, object]
    inherited: int

    def attack(self, cage: str, name: str) -> str:
        """The outcome of an attack: ``did it: …``, ``refused: …`` or the name of a signal."""
        done = cages.run(
            "caged_attack", cage, name, json.dumps(self.facts), early=cage != "none",
            inherited=(self.inherited,), env={"SECRET": "of the environment"},
        )  # fmt: skip
        lines = done.stdout.decode().splitlines()
        assert lines[:1] == ["ready"], done.stderr.decode()
        if done.returncode < 0:
            assert len(lines) == 1
            return signal.Signals(-done.returncode).name
        assert len(lines) == 2, done.stderr.decode()
        return lines[1]


@pytest.fixture
def prey(tmp_path: Path) -> Iterator[Prey]:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "victim").write_text("intact")
    memory = ctypes.create_string_buffer(b"of the parent", 64)
    reading, writing = os.pipe()
    abstract = f"conductor-test-{os.getpid()}"
    unix = socket.socket(socket.AF_UNIX)
    hidden = socket.socket(socket.AF_UNIX)
    with unix, hidden, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(tmp_path / "socket"))
        unix.listen()
        hidden.bind(f"\0{abstract}")
        hidden.listen()
        facts: dict[str, object] = {
            "parent": os.getpid(),
            "address": ctypes.addressof(memory),
            "folder": str(tmp_path),
            "program": "/bin/true",
            "tcp": tcp.getsockname()[1],
            "abstract": abstract,
            "inherited": writing,
        }
        yield Prey(tmp_path, facts, writing)
    os.close(reading)
    os.close(writing)


@pytest.mark.proves("around the process of guests", "native code in it opens")
@pytest.mark.parametrize("name", ATTACKS)
def test_a_sealed_process_cannot(name: str, prey: Prey) -> None:
    outcome = prey.attack("sealed", name)
    expected = ATTACKS[name].sealed
    assert outcome == (expected if expected.startswith("SIG") else f"refused: {expected}")
    assert {path.name for path in prey.folder.iterdir()} == {"secret", "victim", "socket"}
    assert (prey.folder / "victim").read_text() == "intact"


@pytest.mark.proves("native code in it opens")
@pytest.mark.parametrize("name", SETTLED)
def test_a_settled_process_cannot(name: str, prey: Prey) -> None:
    assert prey.attack("settled", name) == f"refused: {SETTLED[name].sealed}"


@pytest.mark.proves("those attacks succeed outside")
@pytest.mark.parametrize("name", [name for name, attack in BOTH.items() if attack.works])
def test_the_attack_is_real(name: str, prey: Prey) -> None:
    """Outside of any cage it succeeds, so that its failure inside means something."""
    assert prey.attack("none", name).startswith("did it: ")


def _abi() -> int:
    try:
        return landlock.abi()
    except Unsupported:
        return 0


#: Attacks that Landlock has words for only from some ABI on, and the layer that reports it.
_LATER = {
    "connect by TCP": (4, "landlock-network"),
    "connect to an abstract socket": (6, "landlock-scope"),
    "probe the parent": (6, "landlock-scope"),
    "end the parent": (6, "landlock-scope"),
    "probe the parent's thread": (6, "landlock-scope"),
    "probe the parent by an old call": (6, "landlock-scope"),
}


@pytest.mark.proves("each layer holds by itself")
@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.landlock])
def test_landlock_and_lost_rights_stop_it_by_themselves(name: str, prey: Prey) -> None:
    expected = ATTACKS[name].landlock
    since, layer = _LATER.get(name, (1 if expected == "EACCES" else 0, "landlock-files"))
    if _abi() < since:
        # Then only the filter stands in its way, and the report says so.
        assert layer in {one.name for one in probe() if not one.in_force}
        return
    assert prey.attack("unlimited", name) == f"refused: {expected}"
    assert (prey.folder / "victim").read_text() == "intact"


@pytest.mark.proves("each layer holds by itself")
@pytest.mark.parametrize("name", LIMITED)
def test_limits_stop_it_by_themselves(name: str, prey: Prey) -> None:
    assert prey.attack("unfiltered", name) == f"refused: {LIMITED[name]}"
