"""Which chains are measured, and the command line of each."""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain. ``proxies`` is 0 exactly for the kinds ``ALONE`` and ``NONE``."""

    runner: Runner
    kind: Kind
    proxies: int = 0

    @property
    def label(self) -> str:
        """For people: who, how many of what."""
        if self.kind is Kind.ALONE:
            return "client + agent alone"
        if self.kind is Kind.NONE:
            return f"{self.runner} 0"
        return f"{self.runner} {self.proxies} {self.kind}"


@dataclass(frozen=True, slots=True)
class Cast:
    """The programs that take part; a runner that is None stays out.

    ``isolation`` is how sandboxed kinds but ``INLINE`` are run (``process`` or ``separate``).
    """

    programs: Programs
    conductor: tuple[str, ...] | None = None
    reference: tuple[str, ...] | None = None
    isolation: str = "process"


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
    if chain.runner is not Runner.CONDUCTOR:
        return None
    return Chain(Runner.REFERENCE, COUNTERPART[chain.kind], chain.proxies)


def reference_kinds(kinds: Collection[Kind]) -> set[Kind]:
    """The kinds of the reference's chains that ``kinds`` are compared with."""
    return {COUNTERPART[kind] for kind in kinds if kind in COUNTERPART}


def plan(cast: Cast, proxies: Sequence[int], kinds: Collection[Kind]) -> list[Chain]:
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
                chains += [Chain(runner, kind, n) for n in sizes]
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
    return [*runner, "agent", *isolation, *proxies, shlex.join(agent)]


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
