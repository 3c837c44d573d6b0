"""Imports the event loop without TLS, which would take a tenth of the start of a chain, and 3 MB.

asyncio and uvloop load `ssl`, and that OpenSSL, for connections that an event loop encrypts itself.
Only Python components of others, and components at an address, could need that: a chain that starts
with one loads all, and one that joins later has no such TLS.

A small `poll` loop of our own, in Python, was tried in place of both. A chain without proxies was
ready after 79 ms, not 98; one with four sandboxed ones after 101, not 112, since its host is ready
no sooner. A round trip took 2 µs more: uvloop is compiled.
"""

from __future__ import annotations

import sys

_STAND_INS: dict[str, object] = {
    **dict.fromkeys(("SSLContext", "MemoryBIO", "create_default_context"), object),
    **dict.fromkeys(("SSLError", "SSLZeroReturnError", "CertificateError"), OSError),
    **dict.fromkeys(("SSLWantReadError", "SSLSyscallError"), OSError),
    **dict.fromkeys(("SSL_ERROR_WANT_READ", "SSL_ERROR_WANT_WRITE", "SSL_ERROR_SYSCALL"), 0),
}
"""What uvloop takes from `ssl`."""


_without_tls: list[bool] = []


def is_without_tls() -> bool:
    """Whether the event loop was imported so that it cannot encrypt connections."""
    return bool(_without_tls)


def load() -> None:
    """Imports asyncio and uvloop, unless that has happened; what imports `ssl` later gets it.

    A uvloop that takes more than the stand-in has gets the real module.
    """
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # asyncio can do without
    try:
        import asyncio  # noqa: F401

        sys.modules["ssl"] = stand_in = type(sys)("ssl")
        stand_in.__dict__.update(_STAND_INS)
        import uvloop  # noqa: F401

        _without_tls.append(True)
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "uvloop"]:
            del sys.modules[name]
    finally:
        del sys.modules["ssl"]
