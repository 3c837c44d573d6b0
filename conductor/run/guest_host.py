"""Hosts guests: neighbours in a child process (`conductor.run.segment`), or in this process.

A child of their own is the default, since the kernel can lock it up; this process starts programs
and opens files. Neighbours share a child, so that messages between them cost no system call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from conductor.core import json_text
from conductor.core.component import HOLD_INITIALIZE, Component, setters
from conductor.core.dialects import CHANNEL, INITIALIZE
from conductor.core.policy.key_table import CARRY, Direction
from conductor.core.policy.rules import Policy, merged
from conductor.core.service_table import (
    CHANGED,
    LAST_WORDS,
    OWNED,
    REACHED,
    READY,
    RECOVERED,
    RELAYED,
    VIOLATED,
)
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.run.planned import (
    Belongings,
    Configuration,
    Planned,
    Stderr,
    grantee,
)
from conductor.run.segment_spec import GuestSpec, SegmentSpec, guest_spec
from conductor.spec import limits, origins, paths
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian

if TYPE_CHECKING:
    import wasm_host

MakeGuest: TypeAlias = "Callable[[GuestSpec, str], wasm_host.Guest]"
"""Makes an instance of a guest, by name. Raises `wasm_host.GuestError`."""

_HOSTS: Final = itertools.count(1)
NUMBERS: Final = 10**12
"""The number of message numbers of a host, for a trace."""
_NUMBERS_OF_RUN: Final = 10**9
"""The number of message numbers of one run of a host."""

_REPORTS: Final = {LAST_WORDS, VIOLATED, READY, RECOVERED, RELAYED, OWNED, REACHED}


def inline(spec: Spec, options: Options, make: MakeGuest | None = None) -> Planned:
    """A guest in this process; `make` replaces the loader of its module.

    Raises `ComponentError` where it cannot be loaded.
    """
    import wasm_host
    from conductor.run import guest_module
    from conductor.transports.guest import GuestTransport

    configuration = Configuration(spec)
    guest, set_by = guest_spec(spec, configuration.params()), origins.given(spec)

    def load(guest: GuestSpec, name: str) -> wasm_host.Guest:
        cache = options.cache or paths.compiled_modules()
        return guest_module.load(guest, cache).instantiate(name)

    def transport() -> GuestTransport:
        try:
            return GuestTransport((make or load)(guest, spec.name))
        except wasm_host.GuestError as error:
            text = f"{guest.label}: {error}"
            by = setters(set_by, text, starting=True)
            raise ComponentError(f"{text}{by}", error.hint, {"component": spec.name}) from None

    first = transport()
    component = guest_module.component(guest, first.carrier)
    return Planned(
        msgspec.structs.replace(component, set_by={spec.name: set_by}),
        first,
        transport,
        on_failure=spec.on_failure,
        timeout=spec.timeout,
        files=_files(spec),
        grantees=(grantee(spec),),
        configurations=(configuration,),
    )


def segment(
    specs: Sequence[Spec],
    options: Options,
    guardian: Guardian,
    on_stderr: Stderr,
    belongings: Belongings | None = None,
) -> Planned:
    """Neighbouring guests in one child process, which is a proxy to us; `belongings` has the
    addresses and kept members of their former instances."""
    host = _Host(specs, options, belongings or Belongings())

    def process() -> ProcessTransport:
        return ProcessTransport(
            spawn.child_command(),
            env={},  # a guest must not find a secret of the user's there
            adopt=spawn.take(),
            guardian=guardian,
            on_stderr=lambda line: on_stderr("", line),
            line_limit=options.line_limit + 1,  # for the side byte
            first_line=host.first_line(),
            shown=" ".join(spec.what for spec in specs),
        )

    # The whole host restarts only if all its guests have that option.
    choices = {spec.on_failure for spec in specs}
    return Planned(
        host.component(),
        process(),
        process,
        tuple(spec.name for spec in specs),
        on_failure=choices.pop() if len(choices) == 1 else "fail",
        timeout=min((spec.timeout for spec in specs if spec.timeout), default=None),
        files=tuple(file for spec in specs for file in _files(spec)),
        grantees=tuple(map(grantee, specs)),
        configurations=tuple(host.configurations),
        belongings=host.belongings,
    )


class _Host:
    """A child process with guests, and the first line that it reads at each of its starts."""

    def __init__(self, specs: Sequence[Spec], options: Options, belongings: Belongings) -> None:
        self.configurations = [Configuration(spec) for spec in specs]
        self.belongings = belongings
        belongings.reserved = frozenset(options.reserved)
        self._specs = specs
        self._runs = itertools.count(1)
        self._union = _union(specs)
        # The parent enforces the policy of a guest that is alone, unless the order of messages
        # matters to it: that order only the child can keep.
        self._policed = len(specs) > 1 or self._union is None
        recording = options.recording or options.trace is not None
        self._numbers = _numbers() if recording else None
        self._first_line = SegmentSpec(
            [],
            cache=options.cache or paths.compiled_modules(),
            clock=options.clock,
            line_limit=options.line_limit,
            verbose=options.verbose,
            require_hardening=options.require_hardening,
            recording=recording,
            deliveries=options.deliveries,
            relays=options.relays,
            # Only the child sees the names of sessions within and between guests.
            auditing=options.audit is not None and self._policed,
        )

    def first_line(self) -> bytes:
        """The first line of the next run. Raises `UsageError` for settings that cannot be read."""
        run = next(self._runs)
        belongings = self.belongings
        kept, starts = belongings.kept, belongings.starts
        belongings.started(spec.name for spec in self._specs)
        line = msgspec.structs.replace(
            self._first_line,
            guests=[
                guest_spec(
                    spec,
                    configuration.last_good(),
                    str(starts[spec.name]) if starts[spec.name] > 1 else "",
                    kept[spec.name].to_json(),
                    policed=self._policed,
                )
                for spec, configuration in zip(self._specs, self.configurations, strict=True)
            ],
            reserved=tuple(sorted(belongings.reserved)),
            paused=tuple(sorted(belongings.paused)),
            numbers=self._numbers.start + run * _NUMBERS_OF_RUN if self._numbers else 0,
            owned=belongings.by_owner() if max(starts.values()) > 1 else {},
        )
        return json_text.encode(line) + b"\n"

    def component(self) -> Component:
        """The host as a component of the parent's router."""
        labels = [spec.label("proxy") for spec in self._specs]
        reports = _REPORTS | ({CHANGED} if self._first_line.auditing else set())
        return Component(
            "+".join(spec.name for spec in self._specs),
            labels[0] if len(labels) == 1 else "the host of " + ", ".join(labels),
            CHANNEL,
            frozenset(reports),
            policy=self._union,
            known_as=frozenset(n for spec in self._specs for n in (spec.name, *spec.aliases)),
            numbers=self._numbers,
            allowance=limits.together([spec.limits for spec in self._specs]),
            hosts=True,
            ports={name: policed for spec in self._specs for name, policed in spec.ports.items()},
            agents={name: spec.name for spec in self._specs for name in spec.agents},
            # Each guest may have its time to pass `initialize` on, and to answer it.
            patience=sum(2 * (s.timeout or HOLD_INITIALIZE) for s in self._specs)
            if self._policed
            else self._specs[0].timeout,
            guests={
                spec.name: policy.grants.turns
                for spec in self._specs
                if (policy := spec.policy.policy()) is not None
            },
            initialize_passes=not any(map(_may_initialize, self._specs)),
            set_by={spec.name: origins.given(spec) for spec in self._specs},
        )


def _numbers() -> range:
    """The message numbers of the next host."""
    first = next(_HOSTS) * NUMBERS
    return range(first, first + NUMBERS)


def _files(spec: Spec) -> tuple[str, ...]:
    """The files a guest is made of."""
    if spec.script:
        from conductor.spec.python_guest import scripts

        return scripts.parts(spec.script)
    return (spec.wasm,) if spec.wasm is not None else ()


def _may_initialize(spec: Spec) -> bool:
    """Whether a guest may take part in `initialize`."""
    policy = spec.policy.policy()
    return policy is None or bool(policy.rights(Direction.DOWN, INITIALIZE) & CARRY)


def _union(specs: Sequence[Spec]) -> Policy | None:
    """The union of the policies of a child's guests: a message that no guest may see does not even
    go to the child.

    None where every message goes there: when a guest hears the agent's messages, since only the
    child can keep their order.
    """
    policies = [policy for spec in specs if (policy := spec.policy.policy()) is not None]
    # Whoever may have a session go on as another must see all of both.
    if len(policies) < len(specs) or any(policy.grants.sessions for policy in policies):
        return None
    if len(policies) == 1 and (policies[0].watches_only or not policies[0].hears):
        return policies[0]
    if any(policy.hears for policy in policies):
        return None
    return Policy(
        tuple(dict.fromkeys(rule for policy in policies for rule in policy.rules)),
        reduce(merged, (policy.grants for policy in policies)),
        fails="closed" if any(policy.fails == "closed" for policy in policies) else "open",
    )
