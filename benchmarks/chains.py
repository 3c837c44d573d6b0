"""Which chains are measured, and the command line of each."""

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from benchmarks.native import Programs


class Runner(StrEnum):
    """Who runs the chain; ``ALONE`` is the client talking to the agent itself."""

    ALONE = "alone"
    CONDUCTOR = "conductor"
    REFERENCE = "reference"


class Kind(StrEnum):
    """What stands between client and agent."""

    ALONE = "alone"
    NONE = "none"
    SANDBOXED = "sandboxed"
    UNCONCERNED = "unconcerned"
    TRUSTED = "trusted"
    INLINE = "inline"
    SUBPROCESS = "subprocess"
    SDK = "sdk"


class Keeps(StrEnum):
    """What conductor keeps of the messages of a chain; ``RING`` is what it does unless asked."""

    RING = "ring"
    NOTHING = "nothing kept"
    TRACE = "trace"
    TRACE_ALL = "trace, all"
    TRACE_NONE = "trace, none"


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain. ``proxies`` is 0 exactly for the kinds ``ALONE`` and ``NONE``."""

    runner: Runner
    kind: Kind
    proxies: int = 0
    keeps: Keeps = Keeps.RING

    @property
    def label(self) -> str:
        """For people: who, how many of what."""
        if self.kind is Kind.ALONE:
            return "client + agent alone"
        kind = "" if self.kind is Kind.NONE else f" {self.kind}"
        keeps = "" if self.keeps is Keeps.RING else f", {self.keeps}"
        return f"{self.runner} {self.proxies}{kind}{keeps}"


@dataclass(frozen=True, slots=True)
class Cast:
    """The programs that take part; a runner that is None stays out.

    ``isolation`` is how sandboxed kinds but ``INLINE`` are run (``process`` or ``separate``);
    ``trace`` is where chains that keep a trace write it.
    """

    programs: Programs
    conductor: tuple[str, ...] | None = None
    reference: tuple[str, ...] | None = None
    isolation: str = "process"
    trace: Path = Path(os.devnull)


ALONE = Chain(Runner.ALONE, Kind.ALONE)

#: The profiles of the kinds whose proxies are sandboxed; ``full`` is their default.
PROFILES: dict[Kind, str] = {
    Kind.SANDBOXED: "full",
    Kind.UNCONCERNED: "context",
    Kind.TRUSTED: "trusted",
}

#: The reference runs no WASM, so its own SDK's proxies stand against sandboxed ones.
COUNTERPART: dict[Kind, Kind] = {
    Kind.NONE: Kind.NONE,
    Kind.SANDBOXED: Kind.SDK,
    Kind.UNCONCERNED: Kind.SDK,
    Kind.TRUSTED: Kind.SDK,
    Kind.INLINE: Kind.SDK,
    Kind.SUBPROCESS: Kind.SUBPROCESS,
    Kind.SDK: Kind.SDK,
}

_KINDS: dict[Runner, tuple[Kind, ...]] = {
    Runner.CONDUCTOR: (
        Kind.NONE,
        Kind.SANDBOXED,
        Kind.UNCONCERNED,
        Kind.TRUSTED,
        Kind.INLINE,
        Kind.SUBPROCESS,
        Kind.SDK,
    ),
    Runner.REFERENCE: (Kind.NONE, Kind.SUBPROCESS, Kind.SDK),
}


def counterpart(chain: Chain) -> Chain | None:
    """The reference's chain that ``chain`` is compared with; None if it is not compared."""
    if chain.runner is not Runner.CONDUCTOR or chain.keeps is not Keeps.RING:
        return None
    return Chain(Runner.REFERENCE, COUNTERPART[chain.kind], chain.proxies)


def bare(chain: Chain) -> Chain | None:
    """The chain that keeps nothing, of the same components; None if ``chain`` is that itself."""
    if chain.runner is not Runner.CONDUCTOR or chain.keeps is Keeps.NOTHING:
        return None
    return replace(chain, keeps=Keeps.NOTHING)


def reference_kinds(kinds: Collection[Kind]) -> set[Kind]:
    """The kinds of the reference's chains that ``kinds`` are compared with."""
    return {COUNTERPART[kind] for kind in kinds if kind in COUNTERPART}


def plan(
    cast: Cast,
    proxies: Sequence[int],
    kinds: Collection[Kind],
    keeps: Collection[Keeps] = (Keeps.RING,),
) -> list[Chain]:
    """Every chain of the wished sizes and kinds that ``cast`` can play.

    The reference's side follows from the kinds: each gets what it is compared with.
    """
    chains = [ALONE] if Kind.ALONE in kinds else []
    for runner, possible in _KINDS.items():
        if _runner_command(cast, runner) is None:
            continue
        wished = set(kinds) if runner is Runner.CONDUCTOR else reference_kinds(kinds)
        for kind in possible:
            if kind in wished and (kind is not Kind.SDK or cast.programs.sdk_proxy is not None):
                sizes = [n for n in proxies if (n == 0) == (kind is Kind.NONE)]
                kept = keeps if runner is Runner.CONDUCTOR else (Keeps.RING,)
                chains += [Chain(runner, kind, n, keep) for n in sizes for keep in kept]
    return chains


def command(chain: Chain, cast: Cast, start_ms: int = 0) -> list[str]:
    """The chain's command line; its agent takes ``start_ms`` milliseconds to start."""
    agent = [str(cast.programs.agent)]
    if start_ms:
        agent += ["--start-ms", str(start_ms)]
    runner = _runner_command(cast, chain.runner)
    if runner is None:
        return agent
    isolation: list[str] = []
    if chain.kind in PROFILES:
        isolation = ["--isolation", cast.isolation]
    elif chain.kind is Kind.INLINE:
        isolation = ["--isolation", "inline"]
    proxies = [_proxy(chain.kind, cast.programs)] * chain.proxies
    return [*runner, "agent", *isolation, *_kept(chain, cast), *proxies, shlex.join(agent)]


def _kept(chain: Chain, cast: Cast) -> list[str]:
    """The options by which a chain keeps what it is to keep."""
    if chain.keeps is Keeps.RING:
        return []
    trace = ["--trace", str(cast.trace)]
    return [
        *("--ring", "none"),
        *{
            Keeps.NOTHING: [],
            Keeps.TRACE: trace,
            Keeps.TRACE_ALL: [*trace, "--trace-content", "all"],
            Keeps.TRACE_NONE: [*trace, "--trace-content", "none"],
        }[chain.keeps],
    ]


def _runner_command(cast: Cast, runner: Runner) -> tuple[str, ...] | None:
    return {
        Runner.ALONE: None,
        Runner.CONDUCTOR: cast.conductor,
        Runner.REFERENCE: cast.reference,
    }[runner]


def _proxy(kind: Kind, programs: Programs) -> str:
    """One proxy as it stands on the command line; empty for kinds without proxies."""
    return {
        Kind.ALONE: "",
        Kind.NONE: "",
        Kind.SANDBOXED: "passthrough,profile=full",
        Kind.UNCONCERNED: "passthrough,profile=context",
        Kind.TRUSTED: "passthrough,profile=trusted",
        Kind.INLINE: "passthrough",
        Kind.SUBPROCESS: shlex.quote(str(programs.proxy)),
        Kind.SDK: shlex.quote(str(programs.sdk_proxy)),
    }[kind]
