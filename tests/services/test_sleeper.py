"""The clock as an attack: a guest that may sleep does nothing else."""

from pathlib import Path

import pytest
import wasmtime

import wasm_host
from wasm_host import GuestError, Limits

WAITS = {
    "a second again and again": (1_000_000_000, 0),
    "a moment again and again": (1_000_000, 0),
    "as long as there is": (-1, 0),
    "until the end of time": (2**63 - 1, 1),
    "not at all": (0, 0),
}
SLEEPER = Path(__file__).parent / "sleeper.wat"


@pytest.mark.proves("a guest with a real clock that")
@pytest.mark.parametrize("how", WAITS)
def test_a_guest_that_sleeps_is_ended_by_its_limit(how: str) -> None:
    text = SLEEPER.read_text().replace("TIMEOUT", str(WAITS[how][0]))
    code = bytes(wasmtime.wat2wasm(text.replace("FLAGS", str(WAITS[how][1]))))
    granted = frozenset({"clock"})
    module = wasm_host.load(code, limits=Limits(cpu_ms=100), grants=granted)
    with pytest.raises(GuestError) as caught:
        module.instantiate("sleeper").deliver(b"p{}\n")
    assert caught.value.limit == "cpu_ms"
