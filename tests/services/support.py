"""Grantees, as the tests of services need them."""

from collections.abc import Iterable

from conductor.services.calls import Grantee
from conductor.spec.limits import DEFAULT_LIMITS


def grantee(name: str = "p", grants: Iterable[str] | None = None, **limits: int) -> Grantee:
    """A proxy with these grants (None: all of them) and the default limits but for `limits`."""
    granted = None if grants is None else frozenset(grants)
    return Grantee(name, name, granted, {**DEFAULT_LIMITS, **limits})
