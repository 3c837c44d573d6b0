"""What the conductor offers proxies on the channel: `clock`, `random`, `log`.

Guests ask on side `c`, everyone else by `_conductor/NAME`. Whether a proxy may ask was decided in
the core; here the answer is made. Used by the runtime and by the child that hosts guests.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from conductor.core import jsonrpc

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Log = Callable[[str, str, str], None]
"""Called with level, component name and text."""

_MOST_RANDOM = 4096


class Services:
    """Answers service requests. `clock`: a fixed ISO 8601 time, for reproducible runs."""

    def __init__(self, log: Log, clock: str | None = None) -> None:
        self._log = log
        self._fixed = datetime.datetime.fromisoformat(clock) if clock else None

    def serve(
        self, peer: str, service: str, params: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """`(result, None)` or `(None, error)`, both raw JSON."""
        try:
            held = _decode(params) if params is not None else {}
            if not isinstance(held, dict):
                raise ValueError("params must be an object")
            if service == "clock":
                return _encode(self._clock()), None
            if service == "random":
                return _encode(_random(held)), None
            self._write_log(peer, held)
            return b"null", None
        except ValueError as error:
            return None, jsonrpc.error_object(jsonrpc.INVALID_PARAMS, f"{service}: {error}")

    def _clock(self) -> dict[str, object]:
        now = self._fixed or datetime.datetime.now().astimezone()
        return {
            "unixMs": int(now.timestamp() * 1000),
            "iso": now.isoformat(timespec="seconds"),
            "date": now.strftime("%Y-%m-%d"),
            "time": now.strftime("%H:%M:%S"),
            "weekday": now.strftime("%A"),
            "timezone": now.tzname() or "",
        }

    def _write_log(self, peer: str, params: dict[str, Any]) -> None:
        level = params.get("level", "info")
        if level not in ("debug", "info", "warn", "warning", "error"):
            raise ValueError("level must be debug, info, warn or error")
        text = str(params.get("message", ""))[:4096]
        if "data" in params:
            text = f"{text} {_encode(params['data'])[:4096].decode(errors='replace')}"
        self._log("warning" if level == "warn" else level, peer, text)


def _random(params: dict[str, Any]) -> dict[str, str]:
    import os

    count = params.get("bytes", 16)
    if not isinstance(count, int) or not 1 <= count <= _MOST_RANDOM:
        raise ValueError(f"bytes must be an integer of 1 to {_MOST_RANDOM}")
    return {"hex": os.urandom(count).hex()}
