"""Landlock: gives up the file system, TCP, and reaching processes outside, for good (Linux).

A ruleset that handles every right the kernel knows and holds no rule allows nothing. Open files
stay open.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

import msgspec

from wasm_host.harden.kernel import Unsupported, syscall

VERSION_FLAG: Final = 1
TSYNC_FLAG: Final = 1 << 3
TSYNC_SINCE: Final = 8

_RIGHTS: Final = (
    (10, (1 << 17) - 1, 0b1111, 0b11),
    (9, (1 << 17) - 1, 0b11, 0b11),
    (6, (1 << 16) - 1, 0b11, 0b11),
    (5, (1 << 16) - 1, 0b11, 0),
    (4, (1 << 15) - 1, 0b11, 0),
    (3, (1 << 15) - 1, 0, 0),
    (2, (1 << 14) - 1, 0, 0),
    (1, (1 << 13) - 1, 0, 0),
)
"""First ABI with these rights -> all rights known there: files, network, scopes. From ABI 4 there
is TCP, from 6 signals and abstract sockets, from 10 UDP."""

_SIZES: Final = ((6, 24), (4, 16), (1, 8))
"""First ABI -> size in bytes of the structure that holds the rights."""


class Restriction(msgspec.Struct, frozen=True):
    """The restriction that `restrict` put in force.

    Attributes:
        abi: the kernel's Landlock ABI.
        network: `TCP`, `TCP and UDP`, or empty where the kernel has neither.
        scoped: signals and abstract sockets to processes outside are refused.
        threads: it holds for all threads, not only for the calling one and those it starts.
    """

    abi: int
    network: str
    scoped: bool
    threads: bool


def abi() -> int:
    """The kernel's Landlock ABI.

    Raises:
        Unsupported: without Landlock, with the reason.
    """
    try:
        return syscall("landlock_create_ruleset", 0, 0, VERSION_FLAG)
    except OSError as error:
        reasons = {
            errno.ENOSYS: "this kernel has no Landlock (it came with Linux 5.13)",
            errno.EOPNOTSUPP: "Landlock is switched off in this kernel (boot parameter lsm=)",
        }
        raise Unsupported(reasons.get(error.errno or 0, f"Landlock: {error.strerror}")) from None


def restrict() -> Restriction:
    """Give up everything Landlock can take away; the caller has set `no_new_privs`.

    Raises:
        Unsupported: without Landlock.
        OSError: the kernel refused.
    """
    version = abi()
    ruleset, network, scopes = _ruleset(version)
    try:
        everyone = version >= TSYNC_SINCE
        syscall("landlock_restrict_self", ruleset, TSYNC_FLAG if everyone else 0)
    finally:
        os.close(ruleset)
    protocols = {0: "", 0b11: "TCP", 0b1111: "TCP and UDP"}[network]
    return Restriction(version, protocols, bool(scopes), everyone)


def _ruleset(version: int) -> tuple[int, int, int]:
    """Descriptor of an empty ruleset, and the network rights and scopes it handles."""
    refused: OSError | None = None
    for since, files, network, scopes in _RIGHTS:
        if since > version:
            continue
        size = next(size for first, size in _SIZES if first <= since)
        rights = ctypes.create_string_buffer(struct.pack("=QQQ", files, network, scopes), 24)
        try:
            ruleset = syscall("landlock_create_ruleset", ctypes.addressof(rights), size, 0)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            refused = error  # a kernel built without one of them: try the rights of an older one
            continue
        return ruleset, network, scopes
    raise refused or Unsupported(f"Landlock ABI {version} is not known")
