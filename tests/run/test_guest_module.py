"""What the router is told of a guest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conductor.run import guest_module
from conductor.run.segment_spec import GuestSpec, guest_spec
from conductor.spec import catalog

NONE = b'{"name":"x","config":{},"grants":[],"limits":{}}'
SOME = b'{"name":"x","config":{"n":1.10},"grants":[],"limits":{}}'


@pytest.mark.parametrize(
    ("carrier", "configure", "told"),
    [
        ("core", NONE, NONE),
        ("component", SOME, SOME),
        ("wasi", NONE, None),
        ("wasi", b"null", None),
        ("wasi", SOME, SOME),  # and it can ask for it, as `_conductor/config`
    ],
)
def test_what_it_is_configured_with(carrier: str, configure: bytes, told: bytes | None) -> None:
    spec = GuestSpec(name="x", wasm="x.wasm", configure=msgspec.Raw(configure))
    assert guest_module.component(spec, carrier).configure == told


def test_no_module_of_a_stranger_is_compiled_by_the_baseline_compiler(tmp_path: Path) -> None:
    spec = guest_spec(catalog.resolve("passthrough"), NONE)
    module = guest_module.load(spec, str(tmp_path / "modules"), baseline=True)
    assert (module.baseline, module.cache_report) == (False, "stored")
