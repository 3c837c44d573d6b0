"""The effect of a manifest: a bundled component gets what it requests, any other is narrowed.

A stranger writes the manifest of a stranger's component. So it must never add a right: only the
user's command line and the lock do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from conductor.core.policy import words
from conductor.core.policy.policy_words import PolicyWords
from conductor.errors import UsageError, visible_path
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.manifest.reading import Manifest
from conductor.spec.model import Spec
from conductor.spec.origins import MANIFEST, layered


def granted(spec: Spec, manifest: Manifest) -> Spec:
    """A bundled component with the rights and limits that it requests."""
    wanted = msgspec.structs.replace(
        spec,
        limits={**spec.limits, **manifest.limits},
        policy=_requested(manifest, spec.policy),
        manifest=manifest,
    )
    # Its manifest is the whole list: the defaults of its kind do not count.
    none = msgspec.structs.replace(spec, policy=PolicyWords(()))
    spec = layered(none, wanted, MANIFEST)
    if not manifest.sandboxed or not manifest.sha256:
        return spec
    digest = {"script_sha256" if manifest.scripted else "sha256": manifest.sha256}
    return msgspec.structs.replace(spec, **digest)


def narrowed(spec: Spec, manifest: Manifest) -> Spec:
    """Any other component: it has the rights that it would have without a manifest, as far as the
    manifest requests them. Raises `UsageError` for a file that is not the one its manifest
    records."""
    _verify(spec, manifest)
    limits = dict(spec.limits)
    if manifest.sandboxed:
        most = {**DEFAULT_LIMITS, **limits}
        limits |= {key: min(value, most.get(key, value)) for key, value in manifest.limits.items()}
    less = msgspec.structs.replace(
        spec,
        limits=limits,
        policy=_less(spec.policy, manifest),
        manifest=manifest,
    )
    return layered(spec, less, visible_path(spec.manifest_path) if spec.manifest_path else MANIFEST)


def _requested(manifest: Manifest, default: PolicyWords) -> PolicyWords:
    rights = default.rights if manifest.rights is None else tuple(manifest.rights)
    return PolicyWords(rights, fails=manifest.fails, ids=manifest.ids)


def _less(policy: PolicyWords, manifest: Manifest) -> PolicyWords:
    """The requested policy, as far as the component would have it without a manifest.

    Every component that requests copies gets them: a copy alone has no effect.
    """
    if not policy.enforced:
        return _requested(manifest, policy)
    most = (*policy.rights, "observer")
    rights = list(policy.rights) if manifest.rights is None else []
    for name in manifest.rights or ():
        rights += _within(name, most)
    return msgspec.structs.replace(
        policy, rights=tuple(dict.fromkeys(rights)), fails=manifest.fails
    )


def _within(name: str, most: tuple[str, ...]) -> list[str]:
    """A word, or the words of a set, as far as `most` gives them."""
    if not words.lacking([name], most):
        return [name]
    several = words.members(name)
    return [] if several == (name,) else [one for each in several for one in _within(each, most)]


def _verify(spec: Spec, manifest: Manifest) -> None:
    path = spec.script if manifest.scripted else spec.wasm
    if not manifest.sha256 or not path or not os.path.isfile(path):
        return
    from conductor.spec import digests

    try:
        digest = digests.of(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}", "check the file") from None
    if digest != manifest.sha256:
        raise UsageError(
            f"`{manifest.file}` of `{manifest.name}` is not the file its manifest records "
            f"(sha256 {digest[:16]}…, recorded {manifest.sha256[:16]}…)",
            "if you have built it anew, `conductor test --build` records it; else ask its author",
        )


def filled(word: str, places: Mapping[str, str]) -> str:
    """A word of a command with `{python}` and the like replaced, once: replacements stay."""
    return re.sub(r"\{\w+\}", lambda name: places.get(name[0], name[0]), word)
