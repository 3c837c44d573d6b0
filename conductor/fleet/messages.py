"""The messages between gateways and workers, beside the packets of links: JSON."""

from __future__ import annotations

import os
import socket
from typing import Final, Literal, TypeVar

import msgspec

from conductor.core import json_text
from conductor.errors import ConductorError
from conductor.version import version

VERSION: Final = 3
"""Of this protocol: an end of another version is refused by name."""

Kind = TypeVar("Kind")


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gateway asks for a worker that takes a room."""

    principal: str
    lost: int = 0
    """The epoch of a lease whose worker does not answer; 0: none is known."""
    version: int = 0


class Placed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker has a room."""

    worker: str
    epoch: int


class Open(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gateway opens a connection in a room."""

    principal: str
    chain: str
    connection: str
    gateway: str
    epoch: int
    key: str = ""
    """The public key of the gateway, in hexadecimal digits; its id is made of it."""
    version: int = 0


class Opened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The connection is open."""

    message: int
    """Bytes of the longest message."""
    key: str
    """The public key of the worker; its id, which the lease names, is made of it."""
    number: str
    """Chosen for this connection: it and the keys of both make the keys of its packets."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The worker refuses a request."""

    text: str
    hint: str = ""
    gone: bool = False
    """The worker does not have the room in this epoch: ask again where it is."""


class Closed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker closes a connection, or is about to."""

    when: Literal["now", "soon", "later"] = "now"
    """`soon`: the gateway sends nothing more, and says so when all it has sent has come. `later`:
    it may send again."""
    text: str = ""
    hint: str = ""
    clean: bool = False
    lost: bool = False
    """Whether the connection is lost, with its open requests."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a connection's client."""

    cut: bool = False
    """The client is gone, and may come back."""
    left: bool = False
    """The client has left for good."""
    waits: bool = False
    """The client must wait: nothing from it is on its way."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order to a worker."""

    do: str
    """`alive`: only answer. `holds`: say whether it has a room in an epoch. `check`: look whether
    the leases of its rooms still stand. `drain`. `disown`: forget a session."""
    principal: str = ""
    epoch: int = 0
    session: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity and the state of a gateway or a worker. Also its beat."""

    kind: str
    """`gateway` or `worker`."""
    id: str
    host: str
    pid: int
    version: str
    pool: str
    state: str
    """`ready`, `full`, `draining`, or `waiting` for a first bundle."""
    counts: dict[str, int] = {}
    """`rooms`, `connections`, `chains`, `sessions`, `open_turns`."""
    record: str = ""
    """Of a worker that follows rollouts: the newest record of its pool that it knows, as it is
    signed. A worker is not believed: the signature is."""
    refused: str = ""
    """Why the record that NATS has counts for nothing there."""
    config: str = ""
    """The place of the bundle that holds, by its digest; empty: the files of the machine count."""
    bundles: dict[str, str] | None = None
    """The state of the pool's bundles on a worker (`conductor.fleet.rollout`); None: it follows no
    rollouts."""


def here(kind: str, id_: str, pool: str, state: str, counts: dict[str, int]) -> Status:
    """The status of a gateway or a worker of this process."""
    return Status(
        kind=kind,
        id=id_,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version(),
        pool=pool,
        state=state,
        counts=counts,
    )


def write(message: object) -> bytes:
    """A message as it travels."""
    return json_text.encode(message)


def read(data: bytes, kind: type[Kind]) -> Kind:
    """Reads a message of a kind. Raises `ConductorError`: another kind, or a refusal."""
    try:
        return json_text.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        refused = json_text.decode(data, type=Refused)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConductorError(
            f"another part of the fleet sent something that is no `{kind.__name__.lower()}`",
            "all parts of a fleet run the same version of conductor, or neighbouring ones",
        ) from None
    raise RefusedError(refused)


def facts(request: Open, worker: str, number: str) -> tuple[object, ...]:
    """The facts of a connection that its keys are made of, beside the keys of its ends."""
    of_one = (request.connection, request.principal, request.chain, request.epoch)
    return (*of_one, request.gateway, worker, number)


def key(text: str) -> bytes:
    """A public key; empty: it is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


class RefusedError(ConductorError):
    """The other end refuses."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.text, refused.hint)
        self.gone = refused.gone
