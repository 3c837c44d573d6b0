"""The services that need nothing outside: `clock`, `random`, `log`.

The process that runs a proxy performs them itself: the conductor's, or the child that hosts guests.
The core has checked by then that the proxy may call them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conductor.core import json_text, jsonrpc

if TYPE_CHECKING:
    import datetime

_encode = json_text.encode
_decode = json_text.Decoder().decode

Log = Callable[[str, str, str], None]
"""Called with level, component name and text."""

Function = Callable[[str, dict[str, Any]], object]
"""Called with component name and params; returns the result, or raises `ValueError`."""

_LEVELS = {level: level for level in ("debug", "info", "warning", "error")} | {"warn": "warning"}
_MOST_RANDOM = 4096
_MOST_TEXT = 4096


class LocalServices:
    """Performs calls at once. `clock`: a fixed ISO 8601 time, for reproducible runs."""

    def __init__(self, log: Log, clock: str | None = None) -> None:
        self._log = log
        self._fixed: datetime.datetime | None = None
        if clock:
            import datetime

            self._fixed = datetime.datetime.fromisoformat(clock)
        self.functions: dict[str, Function] = {
            "clock": self._clock,
            "random": _random,
            "log": self._write_log,
        }
        """By the name of the call in `conductor.core.service_table.TABLE`."""

    def serve(
        self, peer: str, call: str, params: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """Performs one call. Returns `(result, None)` or `(None, error)`, both raw JSON.

        Raises `KeyError` for a call that is not in `functions`.
        """
        function = self.functions[call]
        try:
            decoded = _decode(params) if params is not None else {}
            if not isinstance(decoded, dict):
                raise ValueError("params must be an object")
            return _encode(function(peer, decoded)), None
        except ValueError as error:
            return None, jsonrpc.error_object(jsonrpc.INVALID_PARAMS, f"{call}: {error}")

    def _clock(self, _peer: str, _params: dict[str, Any]) -> object:
        import datetime  # only once it is asked for: an editor waits for the start

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
        if not isinstance(level, str) or level not in _LEVELS:
            raise ValueError("level must be debug, info, warn or error")
        text = str(params.get("message", ""))[:_MOST_TEXT]
        if "data" in params:
            text = f"{text} {_encode(params['data'])[:_MOST_TEXT].decode(errors='replace')}"
        self._log(_LEVELS[level], peer, text)


def _random(_peer: str, params: dict[str, Any]) -> object:
    import os

    count = params.get("bytes", 16)
    if not isinstance(count, int) or not 1 <= count <= _MOST_RANDOM:
        raise ValueError(f"bytes must be an integer of 1 to {_MOST_RANDOM}")
    return {"hex": os.urandom(count).hex()}
