"""What the router is told of a guest."""

from __future__ import annotations

import msgspec
import pytest

from conductor.run import guest_module
from conductor.run.segment_spec import GuestSpec

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
