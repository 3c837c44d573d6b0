"""Hosts guests: neighbours in a child process (`conductor.run.segment`), or in this process."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from conductor.core.dialects import CHANNEL
from conductor.core.peer import Component
from conductor.core.policy.rule_syntax import PolicyWords, merged
from conductor.core.policy.rules import NO_PROFILE, TRUSTED, Policy
from conductor.core.services import (
    CHANGED,
    DELIVERED,
    LAST_WORDS,
    OWNED,
    READY,
    RECOVERED,
    RELAYED,
    TRACED,
    VIOLATED,
    granted_names,
)
from conductor.errors import ComponentError, ConductorError
from conductor.run import spawn
from conductor.run.plan import Belongings, Configuration, Options, Planned, Stderr
from conductor.services.calls import Grantee
from conductor.spec import limits
from conductor.spec.catalog import Spec
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian

if TYPE_CHECKING:
    import wasm_host
    from conductor.run.segment_spec import GuestSpec

MakeGuest: TypeAlias = "Callable[[GuestSpec, str], wasm_host.Guest]"
"""Makes an instance of a guest, by name. Raises `wasm_host.GuestError`."""

_HOSTS: Final = itertools.count(1)
_NUMBERS: Final = 10**12
"""How many numbers a host has for its messages, for a trace …"""
_NUMBERS_OF_RUN: Final = 10**9
"""… and how many each of its runs."""

_REPORTS: Final = {LAST_WORDS, VIOLATED, READY, RECOVERED, RELAYED, OWNED}


def inline(spec: Spec, options: Options, make: MakeGuest | None = None) -> Planned:
    """A guest in this very process, or one that `make` makes of what is said of it.

    Raises `ComponentError` where it cannot be loaded.
    """
    import wasm_host
    from conductor.run import guest_module
    from conductor.transports.guest import GuestTransport

    told = guest_spec(spec, _Told(spec).now())
    assert spec.wasm is not None

    def here(told: GuestSpec, name: str) -> wasm_host.Guest:
        folder = options.cache or cache_folder()
        return guest_module.load(told, folder).instantiate(name)

    def guest() -> GuestTransport:
        try:
            return GuestTransport((make or here)(told, spec.name))
        except wasm_host.GuestError as error:
            raise ComponentError(
                f"{told.label}: {error}", error.hint, {"component": spec.name}
            ) from None

    transport = guest()
    return Planned(
        guest_module.component(told, transport.carrier),
        transport,
        guest,
        on_failure=spec.on_failure,
        timeout=spec.timeout,
        files=_files(spec),
        grantees=(grantee(spec),),
        configurations=configurations([spec]),
    )


def segment(
    specs: Sequence[Spec], options: Options, guardian: Guardian, on_stderr: Stderr
) -> Planned:
    """Adjacent guests in one child process, which is a proxy to us."""
    name = "+".join(spec.name for spec in specs)
    labels = [spec.label("proxy") for spec in specs]
    recording = options.trace is not None
    union = _union(specs)
    # Of one guest alone whose policy is enforced here everything that can be known is known here.
    within = len(specs) > 1 or (union is None and specs[0].policy.policy() is not None)
    numbers = _numbers() if recording and within else None
    auditing = options.audit is not None and len(specs) > 1
    guests = list(specs)
    facts = {spec.name: _Told(spec) for spec in specs}
    runs = itertools.count(1)
    belongings = Belongings()

    def first_line() -> bytes:
        # Of one guest alone whose policy the conductor above enforces.
        policed = len(guests) > 1 or _union(guests) is None
        run = next(runs)
        instance = str(run) if run > 1 else ""
        told = {
            "guests": [
                guest_spec(
                    spec,
                    facts[spec.name].last(),
                    instance,
                    belongings.kept[spec.name].told(),
                    policed=policed,
                )
                for spec in guests
            ],
            "cache": options.cache or cache_folder(),
            "clock": options.clock,
            "line_limit": options.line_limit,
            "verbose": options.verbose,
            "require_hardening": options.require_hardening,
            "numbers": numbers.start + run * _NUMBERS_OF_RUN if numbers is not None else 0,
            "recording": recording,
            "auditing": auditing,
            "owned": belongings.by_owner() if run > 1 else {},
            "reserved": options.reserved,
        }
        return msgspec.json.encode(told) + b"\n"

    def process() -> ProcessTransport:
        return ProcessTransport(
            spawn.child_command(),
            env={},
            adopt=spawn.take(),
            guardian=guardian,
            on_stderr=lambda line: on_stderr("", line),
            line_limit=options.line_limit + 1,
            first_line=first_line(),
            shown=" ".join(spec.what for spec in guests),
        )

    label = labels[0] if len(labels) == 1 else "the host of " + ", ".join(labels)
    services = frozenset(
        _REPORTS
        | ({TRACED} if numbers is not None else set())
        | ({DELIVERED} if recording else set())
        | ({CHANGED} if auditing else set())
    )
    names = frozenset(one for spec in specs for one in (spec.name, *known_as(spec)))
    component = Component(
        name,
        label,
        CHANNEL,
        services,
        policy=union,
        known_as=names,
        numbers=numbers,
        allowance=limits.together([spec.limits for spec in specs]),
        hosts=True,
    )
    return Planned(
        component,
        process(),
        process,
        tuple(spec.name for spec in specs),
        on_failure=_together(specs),
        timeout=min((spec.timeout for spec in specs if spec.timeout), default=None),
        files=tuple(file for spec in specs for file in _files(spec)),
        grantees=tuple(map(grantee, specs)),
        configurations=configurations(specs, facts),
        belongings=belongings,
    )


def _numbers() -> range:
    """The numbers of the messages of the next host."""
    first = next(_HOSTS) * _NUMBERS
    return range(first, first + _NUMBERS)


def _files(spec: Spec) -> tuple[str, ...]:
    """What a guest is made of."""
    if spec.script:
        from conductor.spec.python_guest import scripts

        return scripts.parts(spec.script)
    return (spec.wasm,) if spec.wasm is not None else ()


def _together(specs: Sequence[Spec]) -> str:
    """What happens when a whole host fails: what all its guests agree on, else the chain fails."""
    choices = {spec.on_failure for spec in specs}
    return choices.pop() if len(choices) == 1 else "fail"


def _union(specs: Sequence[Spec]) -> Policy | None:
    """What the guests of one child have to do with the conversation, all together: what goes past
    each of them does not even go there. None where everything goes there: when one of them is
    concerned with what the agent says, whose order the child alone can keep."""
    policies = [policy for spec in specs if (policy := spec.policy.policy()) is not None]
    if len(policies) < len(specs):
        return None
    if len(policies) == 1 and (policies[0].watches_only or not policies[0].hears):
        return policies[0]
    if any(policy.hears for policy in policies):
        return None
    return Policy(
        NO_PROFILE,
        tuple(dict.fromkeys(rule for policy in policies for rule in policy.rules)),
        reduce(merged, (policy.grants for policy in policies)),
        fails="closed" if any(policy.fails == "closed" for policy in policies) else "open",
    )


def guest_spec(
    spec: Spec,
    configure: bytes,
    instance: str = "",
    kept: bytes = b"{}",
    *,
    policed: bool = True,
) -> Any:
    """The child's view of a guest (`conductor.run.segment_spec.GuestSpec`), as plain data.

    `configure`: the params of `configure`. `instance`: which one it is, if not the first; `kept`:
    what former ones kept.
    A guest alone in its child whose policy the parent enforces (not `policed`) is trusted there.
    """
    from conductor.run.segment_spec import GuestSpec

    assert spec.wasm is not None
    return GuestSpec(
        name=spec.name,
        path=spec.wasm,
        sha256=spec.sha256,
        script=spec.script,
        script_sha256=spec.script_sha256,
        locked=spec.locked,
        label=spec.label("proxy"),
        dialect=spec.dialect,
        services=granted_names(spec.grants or ()),
        configure=msgspec.Raw(configure),
        instance=instance,
        kept=msgspec.Raw(kept),
        known_as=known_as(spec),
        limits=spec.limits,
        on_failure=spec.on_failure,
        policy=spec.policy if policed else PolicyWords(TRUSTED),
    )


class _Told:
    """What a guest is told of itself, also while its file of settings is not as it should be."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._good: bytes | None = None

    def now(self) -> bytes:
        """As of now. Raises `UsageError`."""
        self._good = msgspec.json.encode(configuration(self._spec))
        return self._good

    def last(self) -> bytes:
        """As of now, or else as it was last. Raises `UsageError` if it never was as it should."""
        try:
            return self.now()
        except ConductorError:
            if self._good is None:
                raise
            return self._good


def configurations(
    specs: Iterable[Spec], told: Mapping[str, _Told] | None = None
) -> tuple[Configuration, ...]:
    """Those of the components whose settings may change while they run."""

    def one(spec: Spec, file: str) -> Configuration:
        return Configuration(spec.name, file, (told[spec.name] if told else _Told(spec)).now)

    return tuple(one(spec, spec.config_file) for spec in specs if spec.config_file is not None)


def known_as(spec: Spec) -> tuple[str, ...]:
    """Other names of a component's own, which its MCP servers may have."""
    return (spec.bundled,) if spec.bundled else ()


def grantee(spec: Spec) -> Grantee:
    """A proxy as the services see it."""
    identity = f"{spec.name}\0{spec.bundled or spec.what}"
    return Grantee(spec.name, identity, spec.grants, {**limits.DEFAULT_LIMITS, **spec.limits})


def configuration(spec: Spec) -> dict[str, object]:
    """The params of `configure`: what a proxy is told about itself before anything else.

    Raises `UsageError` for settings that cannot be read (now).
    """
    return {
        "name": spec.name,
        "config": _settings(spec),
        "grants": sorted(spec.grants) if spec.grants is not None else None,
        "limits": spec.limits,
    }


def _settings(spec: Spec) -> dict[str, Any]:
    given = spec.config
    if spec.config_file is not None:
        from conductor.spec.settings import settings

        given = settings(given, spec.config_file)
    if not spec.schema:
        return given
    from conductor.spec.manifest.settings import checked

    return checked(spec.schema, given, spec.name)


def cache_folder() -> str:
    """The user's folder for compiled modules (private; created when first used)."""
    if sys.platform == "darwin":
        base = "~/Library/Caches"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.path.join(os.path.expanduser(base), "conductor", "modules")
