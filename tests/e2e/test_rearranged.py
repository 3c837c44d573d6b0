"""A running chain gets other components at SIGHUP, while a client talks to it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import pytest

from tests.harness.process.rig import Chain, Rig

CHAIN = "the chain is now: "
CLOCK = ("--clock", "2025-10-08T12:34:56+00:00")


class Changing:
    """A chain that is started over a list of components, and gets others."""

    def __init__(self, rig: Rig, components: Sequence[str], *options: str) -> None:
        self._file = rig.folder / "components"
        self._times = 0
        self._write(components)
        actor = [sys.executable, "-m", "tests.e2e.actors.changing_chain", str(self._file), "agent"]
        self.chain: Chain = rig.start(
            [*actor, "--log", "info", "--cache", str(rig.cache), *CLOCK, *options]
        )

    def _write(self, components: Sequence[str]) -> None:
        self._file.write_text("\n".join(components), encoding="utf-8")

    def ask(self, *components: str) -> None:
        """Writes another list, and says so."""
        self._write(components)
        os.kill(self.chain.process.pid, signal.SIGHUP)

    def change(self, *components: str) -> None:
        """The same, and waits until the chain has them."""
        self._times += 1
        self.ask(*components)
        self.chain.until(
            lambda: self.chain.stderr.count(CHAIN) == self._times, "the chain to change"
        )


def heard(rig: Rig, chain: Chain, session: str) -> list[str]:
    """Sends a prompt; the texts of it that reach the agent: what the nearest proxy put in front of
    it comes first, the client's own text last."""
    turn = chain.start_prompt(session, "hi")
    assert "result" in chain.answer(turn), chain.story()
    prompts = [e.frame for e in rig.log("A", "in") if e.frame.get("method") == "session/prompt"]
    return [block["text"] for block in prompts[-1]["params"]["prompt"]]


@pytest.mark.parametrize("version", [1, 2])
def test_components_are_added_removed_moved_and_replaced(rig: Rig, version: int) -> None:
    x, y = rig.x("X", "--mark", "x"), rig.x("Y", "--mark", "y", dialect="sacp", told=False)
    z = rig.x("Z", "--mark", "z", dialect="pacp")
    changing = Changing(rig, [x, rig.demo()])
    chain = changing.chain
    chain.initialize(protocolVersion=version, info={"name": "c", "version": "1"})
    session = chain.new_session()
    print(heard(rig, chain, session))
    changing.change(x, y, rig.demo())
    print(heard(rig, chain, session))
    changing.change(z, y, "datetime", x, "passthrough", rig.demo())
    print(heard(rig, chain, session))
    changing.change("passthrough", rig.demo())
    print(heard(rig, chain, session))
    assert rig.methods("A").count("initialize") == 1
    print(chain.stderr)
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
