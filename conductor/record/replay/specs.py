"""The components of a recorded chain, as a replay runs them anew.

A trace may be a stranger's. A component of its header runs in the sandbox alone, with the rights it
had then: a replay performs no service, so these rights reach nothing. A program, which would have
all rights of the user, is run only if the user names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from conductor.errors import ConductorError, UsageError, did_you_mean
from conductor.record.replay.recording import Recording
from conductor.record.trace.chain import ChainComponent, digest
from conductor.spec import catalog, digests, managed, secrets, trust
from conductor.spec.config.model import Config
from conductor.spec.model import Spec
from conductor.spec.programs import is_name, is_reserved

_SANDBOXED: Final = ("module", "script")


class Chosen(msgspec.Struct):
    """The proxies of a replay."""

    specs: list[Spec]
    swapped: dict[str, str]
    """By name: the component that takes its place, as the user wrote it."""
    without: tuple[str, ...]
    notes: list[str]
    """The differences from the recorded chain, for people."""


def chosen(
    recording: Recording,
    swapped: Mapping[str, str],
    without: Sequence[str],
    config: Config | None,
    *,
    alone: bool,
) -> Chosen:
    """The proxies, with those that the user swaps or leaves out. Raises `ConductorError`.

    `alone`: one component is replayed by itself. A component in its place has its rights and
    settings.
    """
    for option, names in (("--with", swapped), ("--without", without)):
        for name in names:
            _check_name(recording, option, name)
    made = Chosen([], dict(swapped), tuple(without), [])
    for name in recording.names:
        if name in without:
            continue
        then = recording.chain.get(name)
        if name in swapped:
            spec = _swapped(name, swapped[name], then, config, alone=alone)
        else:
            spec = _as_recorded(name, then, made.notes.append)
        taken = [each.name for each in made.specs]
        free = catalog.free_name(spec.name, taken.__contains__)
        made.specs.append(managed.tried(msgspec.structs.replace(spec, name=free)))
    return made


def judged(then: ChainComponent) -> Spec:
    """A component of a trace, to be judged and not to be run. Raises `ConductorError`.

    A trace has no arguments of a program, so the component has none.
    """
    own = {"name": _name(then.name), "policy": then.policy, "config": then.config}
    return msgspec.structs.replace(_resolved(then), **own)


def _resolved(then: ChainComponent) -> Spec:
    """The component of a trace, as this machine has it. Raises `ConductorError`."""
    by_name = then.kind not in _SANDBOXED or is_name(then.source)
    return catalog.resolve(then.source) if by_name else catalog.at(then.source)


def _check_name(recording: Recording, option: str, name: str) -> None:
    if name not in recording.names:
        near = did_you_mean(name, recording.names)
        proxies = ", ".join(recording.names) or "none"
        raise UsageError(
            f"`{option} {name}`: the trace has no proxy of that name",
            near or f"its proxies: {proxies}",
        )


def _swapped(
    name: str, component: str, then: ChainComponent | None, config: Config | None, *, alone: bool
) -> Spec:
    try:
        spec = catalog.resolve(component, config)
        trust.check_program(spec)
    except ConductorError as error:
        raise UsageError(f"`--with {name}={component}`: {error.text}", error.hint) from None
    # A new build of a proxy has the rights and settings of the former build.
    is_build = spec.sandboxed and spec.bundled is None and spec.receipt is None
    is_build = is_build and spec.source == component and then is not None
    if then is not None and (alone or (is_build and then.kind in _SANDBOXED)):
        spec = _like(spec, then)
    return msgspec.structs.replace(spec, name=_name(name))


def _as_recorded(name: str, then: ChainComponent | None, note: Callable[[str], None]) -> Spec:
    instead = f"`--with {name}=COMPONENT` runs another in its place, `--without {name}` none"
    if then is None:
        bundled = catalog.bundled_manifest(name)
        if bundled is None or bundled.command:
            raise UsageError(f"the trace does not describe `{name}`", instead)
        return msgspec.structs.replace(catalog.resolve(name), name=_name(name))
    if then.kind not in _SANDBOXED:
        raise UsageError(
            f"`{name}` was at the address {then.source}, and a replay connects to none that a file "
            "names"
            if then.kind == "remote"
            else f"`{name}` was a program ({then.source}), and a replay runs no program that a "
            "file names",
            instead,
        )
    try:
        spec = _resolved(then)
    except ConductorError as error:
        raise UsageError(f"`{name}` of the trace is not here: {error.text}", instead) from None
    if not spec.sandboxed:
        raise UsageError(f"`{name}` is a program here: `{then.source}`", instead)
    now = digest(spec)
    if then.sha256 and now != then.sha256:
        short = f"sha256 {digests.short(then.sha256)} → {digests.short(now)}"
        note(f"`{name}` is not the build that was recorded: {short}")
    return msgspec.structs.replace(_like(spec, then), name=_name(name))


def _like(spec: Spec, then: ChainComponent) -> Spec:
    """A component with the rights and settings of the recorded one. It keeps its own limits: the
    limits in a trace might be anything. Raises `UsageError`."""
    try:
        then.policy.policy()
    except ValueError as error:
        text = f"the policy of `{then.name}` in the trace cannot be read: {error}"
        raise UsageError(text, "record the trace anew") from None
    return msgspec.structs.replace(
        spec,
        policy=then.policy,
        config=_without_secrets(then.config),
        dialect=spec.dialect or then.dialect,
        on_failure=then.on_failure,
    )


def _without_secrets(value: Any) -> Any:
    """Settings in which no reference leads to a secret of the user."""
    if secrets.is_reference(value):
        return "[redacted]"
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value


def _name(name: str) -> str:
    """The component's name in the chain; a name of the trace may be one that no component can
    have."""
    return name if is_name(name) and not is_reserved(name) else "proxy"
