"""Which chains there are, and the command line of each."""

import os
import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from benchmarks.native import Programs


class Runner(StrEnum):
    """The program that runs the chain; in ``ALONE`` the client talks to the agent itself.

    ``BEFORE`` is the conductor of another revision (``--against``), ``RELAY`` is ``relay.py``.
    """

    ALONE = "alone"
    CONDUCTOR = "conductor"
    BEFORE = "before"
    REFERENCE = "reference"
    RELAY = "bare relay"


class Kind(StrEnum):
    """The components between client and agent."""

    ALONE = "alone"
    NONE = "none"
    SANDBOXED = "sandboxed"
    CONTEXT = "context"
    CHANGING = "changing"
    SUBPROCESS = "subprocess"
    SDK = "sdk"


class Keeps(StrEnum):
    """The part of a chain's messages that conductor keeps; ``RING`` is its default."""

    RING = "ring"
    NOTHING = "nothing kept"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain. ``proxies`` is 0 exactly for the kinds ``ALONE`` and ``NONE``."""

    runner: Runner
    kind: Kind
    proxies: int = 0
    keeps: Keeps = Keeps.RING

    @property
    def label(self) -> str:
        """The chain for people: its runner, the number of components, and their kind."""
        if self.kind is Kind.ALONE:
            return "client + agent alone"
        if self.runner is Runner.RELAY:
            return self.runner
        kind = "" if self.kind is Kind.NONE else f" {self.kind}"
        keeps = "" if self.keeps is Keeps.RING else f", {self.keeps}"
        return f"{self.runner} {self.proxies}{kind}{keeps}"

    @property
    def blocks(self) -> int:
        """The number of blocks of a prompt of one block when the agent gets it."""
        return 1 + self.proxies if self.kind is Kind.CHANGING else 1


@dataclass(frozen=True, slots=True)
class Cast:
    """The programs that take part; a runner that is None stays out.

    ``trace`` is where chains that keep a trace write it.
    """

    programs: Programs
    conductor: tuple[str, ...] | None = None
    reference: tuple[str, ...] | None = None
    before: tuple[str, ...] | None = None
    trace: Path = Path(os.devnull)


ALONE: Final = Chain(Runner.ALONE, Kind.ALONE)
RELAY: Final = Chain(Runner.RELAY, Kind.NONE)

_BARE: Final[dict[Runner, tuple[str, ...]]] = {
    Runner.ALONE: (),
    Runner.RELAY: (sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py"))),
}
"""The runners that always take part, and are given nothing but the agent."""

KINDS: Final[dict[Runner, tuple[Kind, ...]]] = {
    Runner.ALONE: (Kind.ALONE,),
    Runner.CONDUCTOR: tuple(kind for kind in Kind if kind is not Kind.ALONE),
    Runner.REFERENCE: (Kind.NONE, Kind.SUBPROCESS, Kind.SDK),
    Runner.RELAY: (Kind.NONE,),
}
"""The kinds that each runner can run."""


def counterpart(chain: Chain) -> Chain | None:
    """The reference's chain that ``chain`` is compared with; None if it is not compared.

    The reference runs no WebAssembly, so proxies of its own SDK stand against sandboxed ones.
    """
    if chain.runner is not Runner.CONDUCTOR or chain.keeps is not Keeps.RING:
        return None
    kind = chain.kind if chain.kind in KINDS[Runner.REFERENCE] else Kind.SDK
    return Chain(Runner.REFERENCE, kind, chain.proxies)


def takes_part(chain: Chain, cast: Cast) -> bool:
    """Whether who runs the chain takes part at all."""
    return chain.runner in _BARE or _runner(chain, cast) is not None


def playable(chain: Chain, cast: Cast) -> bool:
    """Whether ``cast`` has all that the chain needs."""
    if not takes_part(chain, cast):
        return False
    programs = cast.programs
    needed = {Kind.CHANGING: programs.changing, Kind.SDK: programs.sdk_proxy}
    return needed.get(chain.kind, programs.agent) is not None


def command(chain: Chain, cast: Cast) -> list[str]:
    """The chain's command line."""
    agent = str(cast.programs.agent)
    if chain.runner in _BARE:
        return [*_BARE[chain.runner], agent]
    runner = _runner(chain, cast)
    assert runner is not None, "only chains of those who take part are run"
    proxies = [_proxy(chain.kind, cast.programs)] * chain.proxies
    return [*runner, "agent", *_kept(chain, cast), *proxies, shlex.quote(agent)]


def _kept(chain: Chain, cast: Cast) -> list[str]:
    """The options that make a chain keep its messages as `keeps` says."""
    if chain.keeps is Keeps.RING:
        return []
    trace = ["--trace", str(cast.trace)] if chain.keeps is Keeps.TRACE else []
    return ["-c", "ring=none", *trace]


def _runner(chain: Chain, cast: Cast) -> tuple[str, ...] | None:
    return {
        Runner.CONDUCTOR: cast.conductor,
        Runner.BEFORE: cast.before,
        Runner.REFERENCE: cast.reference,
    }[chain.runner]


def _proxy(kind: Kind, programs: Programs) -> str:
    """One proxy as it stands on the command line; empty for kinds without proxies."""
    return {
        Kind.ALONE: "",
        Kind.NONE: "",
        Kind.SANDBOXED: "passthrough,only=full",
        Kind.CONTEXT: "passthrough,only=context",
        Kind.CHANGING: f"{shlex.quote(str(programs.changing))},only=full",
        Kind.SUBPROCESS: shlex.quote(str(programs.proxy)),
        Kind.SDK: shlex.quote(str(programs.sdk_proxy)),
    }[kind]
