"""The most that a component may do and cost."""

from __future__ import annotations

import msgspec

from conductor.core.policy.rule_syntax import parse_grant, parse_rule
from conductor.core.policy.rules import TRUSTED, Grants, Policy, lacking, merged, within
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.services import scopes
from conductor.spec import limits
from conductor.spec.managed.file import Most
from conductor.spec.model import Spec


class BeyondError(Exception):
    """A component may do more than the policy allows: `key` is the key of `most`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def bounded(most: Most, spec: Spec) -> Spec:
    """The component, with the limits that it leaves to their defaults within the bounds.

    Raises `BeyondError`.
    """
    _check_policy(most, spec)
    _check_services(most, spec)
    held = dict(spec.limits)
    for key, value in most.limits.items():
        bound, default = limits.read(key, value), limits.DEFAULT_LIMITS.get(key)
        if spec.limits.get(key, 0) > bound:
            raise BeyondError("limits", f"its limit `{key}` is {spec.limits[key]}")
        if key not in spec.limits:
            held[key] = bound if default is None else min(default, bound)
    return msgspec.structs.replace(spec, limits=held)


def _check_policy(most: Most, spec: Spec) -> None:
    if most.profile in (None, TRUSTED):
        return
    policy = spec.policy.policy()
    if policy is None:
        raise BeyondError("profile", "its profile is `trusted`")
    grants = Grants()
    for word in most.grants:
        grants = merged(grants, parse_grant(word))
    held = Policy(str(most.profile), tuple(map(parse_rule, most.rights)), grants)
    if more := lacking(_grants(policy), _grants(held)).words():
        raise BeyondError("grants", f"it has {', '.join(more)}")
    if not within(policy, held):
        raise BeyondError("profile", f"its profile `{policy.profile}` and its rights are more")


def _grants(policy: Policy) -> Grants:
    """The grants of a policy, with what its profile has of them."""
    return merged(policy.grants, Grants(turns=policy.turns))


def _check_services(most: Most, spec: Spec) -> None:
    if most.services is None:
        return
    if spec.grants is None:
        if spec.sandboxed:
            raise BeyondError("services", "it may use every service")
        return  # of a program: it has its user's rights and needs no service
    for grant in sorted(spec.grants - ALWAYS_GRANTED):
        if not any(scopes.covers(grant, held) for held in most.services):
            raise BeyondError("services", f"it may use `{grant}`")
