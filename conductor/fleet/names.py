"""The names on the bus. They are made here alone; no text of a client gets into a name as it is."""

from __future__ import annotations

import base64
import re
import secrets
from typing import Final

from conductor.errors import ConductorError, UsageError

ROOMS: Final = "rooms"
"""The bucket of leases, by pool and room."""
OWNED: Final = "owned"
"""The bucket of sessions and their principals, by pool, room and session."""
JOURNAL: Final = "journal"
"""The stream of the journal, and the first word of its subjects."""
STATUS: Final = "fleet.status"
"""The subject where every worker answers, and nobody else may."""
GATEWAYS: Final = "fleet.gateways"
"""The subject where every gateway answers."""
WORKERS: Final = "workers"
"""The queue group of the workers that take rooms."""

_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_BORN: Final = re.compile(rb"[0-9]{1,13}")
_CHANGES: Final = 2048
"""More changes than a bucket takes in a millisecond."""
_LONGEST: Final = 256
"""Bytes of the name of a principal."""
_ID_BYTES: Final = 9


def new_id() -> str:
    """The id of a gateway, a worker or a connection: nobody can guess it. Its begin is never that
    of an option of a command line."""
    return secrets.token_hex(_ID_BYTES)


def as_bytes(text: str) -> bytes:
    """Any text, which may hold half an emoji: agents choose the ids of sessions."""
    return text.encode(errors="surrogatepass")


def encoded(text: str) -> str:
    """Any text as one word of a name."""
    return base64.urlsafe_b64encode(as_bytes(text)).decode().rstrip("=") or "-"


def decoded(word: str) -> str:
    """The text of an encoded word. Raises `ValueError`."""
    if word == "-":
        return ""
    return base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode(errors="surrogatepass")


def is_id(text: str) -> bool:
    """Whether it can be an id that `new_id` has made."""
    return _ID.fullmatch(text) is not None


def lease(worker: str, born: int) -> bytes:
    """A lease as the bucket has it: whose it is, and when the bucket was made, in milliseconds."""
    return f"{worker} {born}".encode()


def holder(value: bytes) -> str:
    """The worker that a lease names; a name that no worker has, where the lease is spoilt."""
    text = value.decode(errors="replace").partition(" ")[0]
    return text if is_id(text) else "nobody"


def epoch(value: bytes, revision: int) -> int:
    """The epoch of a lease. It rises with the revision. It also rises where the bucket is made
    anew, with revisions from 1 again. It is below 2**53, so that any reader of JSON takes it."""
    born = value.partition(b" ")[2]
    return (int(born) if _BORN.fullmatch(born) else 0) * _CHANGES + revision


def room(pool: str, principal: str) -> str:
    """The key of a room. Raises `ConductorError` for a principal who can have none."""
    if len(principal.encode(errors="replace")) > _LONGEST:
        raise ConductorError(
            f"the name of this principal is longer than {_LONGEST} bytes, and no room has one",
            "the issuer of its token must give it a shorter `sub`",
        )
    return f"{pool}.{encoded(principal)}"


def word(text: str, what: str) -> str:
    """A word that a person has chosen. Raises `UsageError`."""
    if not _WORD.fullmatch(text):
        raise UsageError(f"{what} `{text}` is no name", "a name has letters, digits, `_` and `-`")
    return text


def place(pool: str) -> str:
    """The subject that asks a worker of a pool to take a room."""
    return f"room.place.{pool}"


def opening(worker: str) -> str:
    """The subject that asks a worker to open a connection."""
    return f"worker.{worker}.open"


def control(worker: str) -> str:
    """The subject of a worker's orders."""
    return f"worker.{worker}.ctl"


def beat(kind: str, id_: str) -> str:
    """The subject on which a `gateway` or a `worker` shows that it lives."""
    return f"{kind}.{id_}.beat"


def packets(kind: str, id_: str, connection: str) -> str:
    """The subject for packets of a connection to a `gateway` or a `worker`; `*`: of all."""
    return f"{kind}.{id_}.to.{connection}"


def journal(room: str, chain: str, way: str) -> str:
    """The subject for a chain's frames of one way in the journal; `*`: of all."""
    return f"{JOURNAL}.{room}.{chain}.{way}"
