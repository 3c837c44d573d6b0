"""A chain that runs elsewhere: how `connect`, `attach` and `chat` reach an address.

`conductor connect ADDRESS`, which an editor starts, is a chain whose one component is at the
address. So it comes back after a restart there as any agent does that is started again.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from conductor.errors import ConductorError
from conductor.transports.remote import address as addresses
from conductor.transports.remote.dial import dial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conductor.transports.base import Transport
    from conductor.transports.remote.address import Address

TOKEN: Final = "CONDUCTOR_TOKEN"  # noqa: S105 - the variable's name, not a secret


def run(address: str, token_file: str | None = None, ca: str | None = None) -> int:
    """Connects standard input and output to an address, until either end is done; the exit code."""
    from conductor.cli import report
    from conductor.cli import run as running
    from conductor.spec.parsed import assemble

    try:
        component = _component(addresses.parse_all(address), token_file, ca)
    except ConductorError as error:
        report.error(error.text, error.hint)
        running.tell_client(error)
        return error.exit_code
    return running.chain(assemble("agent", [component]))


def _component(places: Sequence[Address], token_file: str | None, ca: str | None) -> str:
    """The agent at one of some addresses, as a component of a command line. Raises `UsageError`."""
    written = {"component": ",".join(map(str, places)), "on_failure": "restart"}
    if token := _token(token_file):
        written["token"] = token
    if ca:
        written["ca"] = ca
    return json.dumps(written)


def dialled(
    place: Address, token_file: str | None, ca: str | None, log: Callable[[str], None]
) -> Transport:
    """The way to an address, as the options have it. Raises `UsageError`."""
    from conductor.spec import secrets

    reference = _token(token_file)
    token = partial(secrets.read, reference, str(place)) if reference else None
    if token is not None:
        token()  # raises now for a token that cannot be read
    return dial(place, token=token, ca=ca or "", log=log)


def _token(file: str | None) -> str:
    """The token, as a reference to a secret: it is read anew at each connection. Empty: there is
    none."""
    if file is not None:
        return f"file:{os.path.abspath(os.path.expanduser(file))}"
    return f"env:{TOKEN}" if TOKEN in os.environ else ""
