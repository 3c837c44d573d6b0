"""Every target of the guided fuzzer over its seeds, its former finds, and damage."""

import os
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.material import cut
from tests.fuzz.targets import TARGETS, starts

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "60"))


@pytest.mark.parametrize("name", TARGETS)
def test_what_fuzzing_starts_from(name: str) -> None:
    target = TARGETS[name]
    seeds = list(starts(name))
    assert len(seeds) >= 3
    for data in (*seeds, b""):
        target.run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_damage(name: str) -> None:
    target = TARGETS[name]
    seeds = st.sampled_from(starts(name))

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(seeds.flatmap(cut) | st.binary(max_size=200))
    def run(data: bytes) -> None:
        target.run(data)

    run()
