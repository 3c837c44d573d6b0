"""The account of guests that cost: what it draws can be played, and what it sees."""

import sys
from pathlib import Path
from random import Random

import pytest
import wasmtime

import wasm_host
from benchmarks.chaos import costs
from tests.hostile.costs import KINDS, Attack, draw, module
from tests.places import checkout_environment

CONDUCTOR = [sys.executable, "-m", "conductor"]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_drawn_are_guests(seed: int) -> None:
    for attack in draw(Random(seed)):  # noqa: S311 - no secret is drawn
        found = wasm_host.load(bytes(wasmtime.wat2wasm(module(attack))))
        assert found.carrier == "core"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_one_chain_is_accounted_for(tmp_path: Path) -> None:
    attack = Attack("evil", KINDS["clock"], own=True, options="only=full+clock")
    env = checkout_environment()
    found = costs.play([attack], CONDUCTOR, env, tmp_path, prompts=3)
    assert found.trouble == []
    assert (len(found.trips), found.code) == (3, 0)
    assert 0 < found.before_mb <= found.most_mb
    alone = costs.play(costs.passive([attack]), CONDUCTOR, env, tmp_path, prompts=3)
    assert "1 x 43 B" in costs.line("it", found, alone)


def test_a_neighbour_that_is_blamed_is_trouble() -> None:
    account = costs.Account([], code=0, stderr="error: proxy `passthrough` trapped\n")
    costs.judge(account)
    assert account.trouble == ["the neighbour is blamed: error: proxy `passthrough` trapped"]
