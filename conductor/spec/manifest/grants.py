"""What a manifest comes to: powers granted to what is bundled, only narrowed for what is not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from conductor.core.policy.older_rules import Translated, lifted, read_rule
from conductor.core.policy.rule_syntax import PolicyWords, parse_rule, shown
from conductor.core.policy.rules import PROFILE_NAMES, PROFILES, TRUSTED, Policy, permits, within
from conductor.errors import UsageError
from conductor.spec.component_options import Older
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.manifest.values import Manifest, Wants

if TYPE_CHECKING:
    from conductor.spec.catalog import Spec
    from conductor.spec.python_guest.facts import Declared


def granted(spec: Spec, found: Manifest) -> Spec:
    """A bundled component: it gets what it asks for."""
    wants = found.wants
    digest = {"script_sha256" if found.scripted else "sha256": found.sha256}
    return msgspec.structs.replace(
        spec,
        grants=frozenset(wants.services) if found.sandboxed else spec.grants,
        limits={**spec.limits, **found.limits},
        policy=_asked(wants, wants.profile or spec.policy.profile),
        schema=found.settings,
        **(digest if found.sandboxed and found.sha256 else {}),
    )


def _asked(wants: Wants, profile: str) -> PolicyWords:
    return PolicyWords(profile, tuple(wants.rights), wants.named, fails=wants.fails, ids=wants.ids)


def narrowed(spec: Spec, found: Manifest) -> Spec:
    """Anybody else's: it gets no more than it would without a manifest, and no more than it asks
    for. Raises `UsageError` for a file that is not the one its manifest records."""
    _verify(spec, found)
    return msgspec.structs.replace(
        spec,
        limits=_stricter(spec.limits, found.limits) if found.sandboxed else spec.limits,
        policy=_less(spec.policy, found.wants),
        schema=found.settings,
        asked=found,
        older=older(found.wants),
    )


def _less(given: PolicyWords, wants: Wants) -> PolicyWords:
    """What it asks for, as far as it would be given that without a manifest.

    Copies are given to all that ask: nothing comes of them by themselves.
    """
    if given.profile == TRUSTED:
        return given if wants.profile in (None, TRUSTED) else _asked(wants, wants.profile)
    most = Policy(given.profile, PROFILES["observer"])
    asked = wants.profile if wants.profile in PROFILES else None
    return msgspec.structs.replace(
        given,
        profile=asked if asked is not None and within(Policy(asked), most) else given.profile,
        allow=tuple(rule for rule in wants.rights if permits(most, parse_rule(rule))),
        fails=wants.fails,
    )


def older(wants: Wants) -> tuple[Older, ...]:
    """What a manifest says in words of older versions."""
    found = []
    for rule in wants.verbs:
        read_as = read_rule(rule)
        found.append(Older(f'[wants.verbs] "{rule}"', _as_tables(read_as), read_as.lost))
    for guard in wants.guards:
        read_as = lifted(guard)
        found.append(Older(f"[wants.guards] {guard}", _as_tables(read_as), read_as.lost))
    return tuple(found)


def _as_tables(read_as: Translated) -> str:
    """What older words come to, as a manifest says it."""
    rules = [f'[wants.rights] "{shown(rule)}"' for rule in read_as.rules]
    return ", ".join([*rules, *(f'[wants.grants] "{one}"' for one in read_as.grants.words())])


def of_source(name: str, file: str, said: Declared) -> Manifest:
    """What a Python proxy says of itself, as a manifest would. Raises `UsageError` for a profile
    that does not exist, and for more than one."""
    known = ", ".join(PROFILE_NAMES)
    for profile in said.profiles:
        if profile not in PROFILE_NAMES:
            raise UsageError(
                f"`{file}` declares the profile `{profile}`, which does not exist",
                f"profiles are: {known}",
            )
    if len(said.profiles) > 1:
        raise UsageError(
            f"`{file}` declares several profiles: {', '.join(said.profiles)}",
            "declare the same one in every `Proxy(…)`",
        )
    return Manifest(
        name=name,
        file=file,
        version=said.version or "",
        description=said.description or "",
        wants=Wants(profile=next(iter(said.profiles), None), services=said.wants),
    )


def _stricter(given: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    most = {**DEFAULT_LIMITS, **given}
    return dict(given) | {key: min(value, most.get(key, value)) for key, value in wanted.items()}


def _verify(spec: Spec, found: Manifest) -> None:
    path = spec.wasm if not found.scripted else spec.script
    if not found.sha256 or not path or not os.path.isfile(path):
        return
    from conductor.spec import digests

    try:
        digest = digests.of(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}", "check the file") from None
    if digest != found.sha256:
        raise UsageError(
            f"`{found.file}` of `{found.name}` is not the file its manifest records "
            f"(sha256 {digest[:16]}…, recorded {found.sha256[:16]}…)",
            "if you have built it anew, `conductor build` records it; else ask its author",
        )


def filled(word: str, places: Mapping[str, str]) -> str:
    """A word of a command with `{python}` and the like replaced, once: what is put in stays."""
    return re.sub(r"\{\w+\}", lambda name: places.get(name[0], name[0]), word)
