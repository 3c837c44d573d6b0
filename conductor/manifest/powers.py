"""What a manifest comes to: powers granted to what is bundled, only narrowed for what is not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from conductor.core.policy import TRUSTED, PolicyWords
from conductor.errors import UsageError
from conductor.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from conductor.catalog import Spec
    from conductor.manifest.values import Manifest


def granted(spec: Spec, found: Manifest) -> Spec:
    """A bundled component: it gets what it asks for."""
    wants = found.wants
    policy = PolicyWords(
        wants.profile or spec.policy.profile, tuple(wants.verbs), tuple(sorted(wants.guards))
    )
    digest = {"script_sha256" if found.scripted else "sha256": found.sha256}
    return msgspec.structs.replace(
        spec,
        grants=frozenset(wants.services) if found.sandboxed else spec.grants,
        limits={**spec.limits, **found.limits},
        policy=policy,
        schema=found.settings,
        **(digest if found.sandboxed and found.sha256 else {}),
    )


def narrowed(spec: Spec, found: Manifest) -> Spec:
    """Anybody else's: it gets no more than it would without a manifest, and no more than it asks
    for. Raises `UsageError` for a file that is not the one its manifest records."""
    _verify(spec, found)
    return msgspec.structs.replace(
        spec,
        limits=_stricter(spec.limits, found.limits) if found.sandboxed else spec.limits,
        policy=_less(spec.policy, found),
        schema=found.settings,
    )


def _less(given: PolicyWords, found: Manifest) -> PolicyWords:
    wants = found.wants
    if wants.profile in (None, TRUSTED):
        return given
    # `full` holds every verb, so rules besides a profile never reach beyond it.
    return PolicyWords(wants.profile, tuple(wants.verbs))


def _stricter(given: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    most = {**DEFAULT_LIMITS, **given}
    return dict(given) | {key: min(value, most.get(key, value)) for key, value in wanted.items()}


def _verify(spec: Spec, found: Manifest) -> None:
    path = spec.wasm if not found.scripted else spec.script
    if not found.sha256 or not path or not os.path.isfile(path):
        return
    import hashlib

    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    if digest != found.sha256:
        raise UsageError(
            f"`{found.file}` of `{found.name}` is not the file its manifest records "
            f"(sha256 {digest[:16]}…, recorded {found.sha256[:16]}…)",
            "if you have built it anew, `conductor build` records it; else ask its author",
        )


def filled(word: str, places: Mapping[str, str]) -> str:
    """A word of a command with `{python}` and the like replaced, once: what is put in stays."""
    return re.sub(r"\{\w+\}", lambda name: places.get(name[0], name[0]), word)
