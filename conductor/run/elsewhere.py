"""The transport of a component at an address."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from conductor.core.component import Component
from conductor.errors import ComponentError, UsageError
from conductor.run import stand_ins
from conductor.run.planned import Stderr
from conductor.spec import origins
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.transports import backoff
from conductor.transports.base import Transport
from conductor.transports.remote import address as addresses
from conductor.transports.remote.address import Address
from conductor.transports.remote.dial import CaError, dial, shown

_ELSEWHERE: Final = 5.0
"""Seconds for which it is tried to come back to one of several addresses: then it is another's
turn."""


def carriers(
    spec: Spec, component: Component, options: Options, on_stderr: Stderr
) -> tuple[Transport, Callable[[], Transport]]:
    """The transport to a component at its address, and a function that makes another one. Raises
    `UsageError` where nobody can dial the address."""
    places, token = _places(spec), _token(spec)
    note = partial(on_stderr, spec.name)
    patience = backoff.PATIENCE if len(places) == 1 else _ELSEWHERE

    def dialled(place: Address) -> Transport:
        limit = options.line_limit
        return dial(place, token=token, ca=spec.ca, line_limit=limit, log=note, patience=patience)

    turns = itertools.cycle(places)

    def connected() -> Transport:
        try:
            return dialled(next(turns))
        except UsageError as error:  # a file is gone: the component fails, not the chain
            raise ComponentError(error.text, error.hint) from None

    def first() -> Transport:
        retries = max(spec.retries, len(places) - 1)
        if not retries:
            return connected()
        from conductor.transports.retried import Retried

        return Retried(connected, retries, note)

    def again() -> Transport:
        """An agent's server may need a moment to start again, or its network to come back."""
        from conductor.transports.retried import Retried

        tries = max(spec.retries, backoff.tries(backoff.PATIENCE))
        return Retried(connected, tries, note, returns=True)

    try:
        for place in places:
            dialled(place)  # raises now for a wrong address
    except UsageError as error:
        set_by = origins.of(spec).get("ca") if isinstance(error, CaError) else spec.written
        raise origins.blamed(error, set_by) from None
    return first(), again if component.revived else first


def _places(spec: Spec) -> Sequence[Address]:
    """The addresses of a component. Raises `UsageError`."""
    assert spec.address is not None
    places = addresses.parse_all(spec.address)
    if any(place.has_tls for place in places) and stand_ins.is_without_tls():
        raise UsageError(
            f"{spec.label('component')} joins a chain that was started without TLS",
            "start the chain again: then it is there from the beginning",
        )
    return places


def _token(spec: Spec) -> Callable[[], str] | None:
    """Reads the token, each time anew; None: there is no token. Raises `UsageError` for a token
    that nobody can read now."""
    if not spec.token:
        return None
    from conductor.spec import secrets

    token = partial(secrets.read, spec.token, spec.name)
    try:
        shown(token)
    except ComponentError as error:  # nothing runs yet: the error is a mistake of the user
        wrong = UsageError(error.text, error.hint)
        raise origins.blamed(wrong, origins.of(spec).get("token")) from None
    return token
