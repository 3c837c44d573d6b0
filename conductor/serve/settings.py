"""How a server is set: `[serve]` of the configuration, and the options of `conductor serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MIB: Final = 1024 * 1024


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server."""

    share: bool = False
    """Whether the connections of one principal share a running chain."""
    linger: float = 60.0
    """Seconds that a connection whose link is gone waits for its client."""
    wind_down: float = 30.0
    """Seconds that running turns have to end once the server is to end."""
    login: float = 10.0
    """Seconds that a network connection has to show a token and a whole request."""
    connections: int = 64
    """Connections of one principal at once."""
    sockets: int = 512
    """Network connections over HTTP of one principal at once; a WebSocket and a stream have one."""
    all_connections: int = 1_000
    """Connections of all principals at once."""
    sessions: int = 1_000
    """Live sessions of one principal."""
    message: int = 64 * MIB
    """Bytes of one message."""
    unread: int = 64 * MIB
    """Bytes that a client may leave unread, until the server sends it away."""
    history: int = 16 * MIB
    """Bytes of updates that are kept of one live session."""
    prompt_time: float = 0.0
    """Seconds that a turn may take; 0: any time."""
    insecure: bool = False
    """Whether addresses beyond this machine are served without TLS or without tokens."""
    tls_cert: str = ""
    tls_key: str = ""
    listen: tuple[str, ...] = ("ws://127.0.0.1:8790",)
    chain: tuple[str, ...] = ()
    tokens: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = ""
    owners: str | None = None
    """None: the file in the user's state folder."""
    host: tuple[str, ...] = ()
    """Names beyond the addresses themselves by which clients may call the server."""
    origin: tuple[str, ...] = ()
    """Origins of web pages that may connect."""
    set_by: Mapping[str, str] = {}
    """The origin of each setting that a file or a variable set."""
