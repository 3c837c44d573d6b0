"""The errors on the way to an address, in words: who, the fault, and the next step."""

from __future__ import annotations

import errno
import socket
from typing import Final

from conductor.errors import ComponentError
from conductor.transports.remote.address import Address

CONNECT: Final = 10.0
"""Seconds that the way to an address may take, with its handshake."""

FINAL: Final = frozenset({400, 401, 403, 404, 405, 406, 410, 415, 501})
"""Answers of a server that a further try would get again."""

_STATUS: Final = {
    401: (
        "it wants a token that is valid",
        "give it by `,token=env:NAME` or CONDUCTOR_TOKEN; the one you have may have expired",
    ),
    403: ("it lets nobody in who comes like this", "ask its operator for the rights of the token"),
    404: ("nothing is served at this path", "check the path of the address; usual is `/acp`"),
    405: ("it does not speak this protocol", "it may be served over ws:// only; check the address"),
    407: (
        "a proxy on the way wants a login",
        "give it as in HTTPS_PROXY=http://USER:PASSWORD@HOST",
    ),
    410: ("the chain that it served there is gone for good", "ask who runs it for the new address"),
    429: ("too many clients are there, or too many requests came", "try again later"),
    501: ("it does not speak this protocol", "it may be served over ws:// only; check the address"),
    502: ("a server between finds no conductor behind it", "check that the chain is served"),
    503: ("it takes no more clients for now", "try again later"),
}


FORGOTTEN: Final = "its server has forgotten this connection, as after a restart"
FORGOTTEN_HINT: Final = "connect again; `on_failure=restart` of an agent does so"


class LinkError(ComponentError):
    """The way to an address ends in an error.

    Attributes:
        is_final: Whether a further try would end in the same way.
    """

    def __init__(self, text: str, hint: str, data: dict[str, object], *, is_final: bool) -> None:
        super().__init__(text, hint, data)
        self.is_final = is_final


def unreachable(address: Address, error: OSError | TimeoutError) -> LinkError:
    """The error for a network, or a system, that did not let us through."""
    data: dict[str, object] = {"address": str(address)}
    certificate = getattr(error, "verify_message", "")
    if certificate:
        return LinkError(
            f"the certificate of {address} is not to be trusted: {certificate}",
            "where it is signed by an authority of your own, name that: `,ca=FILE` behind a "
            "component, `--ca FILE` for `conductor connect`",
            data,
            is_final=True,
        )
    if type(error).__module__ == "ssl":
        return LinkError(
            f"there is no TLS at {address} ({getattr(error, 'reason', None) or 'it broke off'})",
            "a server without TLS is `ws://` or `http://`",
            data,
            is_final=True,
        )
    what, hint = _words(address, error)
    return LinkError(f"cannot reach {address}: {what}", hint, data, is_final=False)


def _words(address: Address, error: OSError | TimeoutError) -> tuple[str, str]:
    if isinstance(error, socket.gaierror):
        return f"there is no host `{address.host}`", "check the name, and the network"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT:g} s", "check the address, and firewalls on the way"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "there is no such socket", "start the server there, or check the path"
    if error.errno == errno.EACCES:
        return "its socket is not yours", "run this as the user who listens there"
    if error.errno == errno.ECONNREFUSED:
        return "nobody listens there", "start the server there, or check the address"
    what = error.strerror or str(error) or type(error).__name__
    return what, "check the address, and the network"


def refused(address: Address, status: int) -> LinkError:
    """The error for a server that answered with an HTTP status that is none of success."""
    what, hint = _STATUS.get(status, ("", "check the address; its server may have a log"))
    why = f": {what}" if what else ""
    return LinkError(
        f"{address} answered with HTTP status {status}{why}",
        hint,
        {"address": str(address), "status": status},
        is_final=status in FINAL,
    )


def broken_off(address: Address) -> LinkError:
    """The error for a connection that ended without an answer: a further try may get an answer."""
    return LinkError(
        f"{address} closed the connection without an answer",
        "check the address and its path; the network may have been cut",
        {"address": str(address)},
        is_final=False,
    )


def no_protocol(address: Address, why: str) -> LinkError:
    """The error for a server that does not speak the protocol of its address."""
    return LinkError(
        f"the server at {address} does not speak this protocol: {why}",
        "check the address and its path",
        {"address": str(address)},
        is_final=True,
    )
