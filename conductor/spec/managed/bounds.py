"""The most that a component may do and cost."""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.policy import words
from conductor.spec import limits, origins
from conductor.spec.managed.file import Most
from conductor.spec.model import Spec

_SHOWN: Final = 6
"""Words that a refusal names."""


class BeyondError(Exception):
    """A component may do more than the policy allows: `key` is the key of `most`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def bounded(most: Most, spec: Spec) -> Spec:
    """The component, with the limits that it leaves to their defaults within the bounds.

    Raises `BeyondError`.
    """
    _check_rights(most, spec)
    held = dict(spec.limits)
    for key, value in most.limits.items():
        bound, default = limits.read(key, value), limits.DEFAULT_LIMITS.get(key)
        if spec.limits.get(key, 0) > bound:
            by = origins.limit(spec, key)
            raise BeyondError("limits", f"its limit `{key}` is {spec.limits[key]} ({by})")
        if key not in spec.limits:
            held[key] = bound if default is None else min(default, bound)
    return msgspec.structs.replace(spec, limits=held)


def _check_rights(most: Most, spec: Spec) -> None:
    """A policy refuses a component that asks for more; it narrows nothing."""
    held = spec.policy.rights
    if most.only is not None and (more := words.lacking(held, most.only)):
        raise BeyondError("only", f"it has {_listed(spec, more)}")
    denied = tuple(name for name in words.flat(held) if words.is_denied(name, most.deny))
    if denied:
        raise BeyondError("deny", f"it has {_listed(spec, denied)}")


def _listed(spec: Spec, names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}` ({origins.giver(spec, name)})" for name in names[:_SHOWN]) + more
