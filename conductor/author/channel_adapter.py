"""Lets a component on one connection, of the dialect `acp`, play transcripts of the channel.

A WASI command has one id space: messages of its successor come in envelopes, and ids of requests to
the command are made different on either side, as a conductor does. `configure` is sent if it has
any settings, and again when the component asks for it by `_conductor/config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import UNSET, Raw

from conductor.author import sides
from conductor.core import json_text
from conductor.core.dialects import ACP, CANCEL
from conductor.core.json_text import read_members, write_members
from conductor.core.service_table import PREFIX
from conductor.errors import ComponentError

_ENVELOPE: Final = "proxy/successor"
_MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
_NULL: Final = Raw(b"null")
_VERSION: Final = Raw(b'"2.0"')

Message = dict[str, Raw]
"""Members of a message, as they are written."""


class ChannelAdapter:
    """Adapts a component of the dialect: lines of the channel in, lines of the channel out."""

    def __init__(self, deliver: Callable[[bytes], bytes]) -> None:
        """`deliver`: takes the component's own lines and returns its own lines."""
        self._deliver = deliver
        self._settings = Raw(b"{}")
        self._received: dict[bytes, tuple[bytes, Raw]] = {}
        """Side and id, on the channel, of each request to the component, by its id there."""
        self._sent: dict[tuple[bytes, bytes], Raw] = {}
        """Ids of the component's own requests, by side and id on the channel."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel; the lines that come back.

        Raises `ComponentError` for a line that no envelope can hold.
        """
        given = lines.split(b"\n")[:-1]
        to_deliver = [new for line in given for new in self._outward(line[:1], _read(line[1:]))]
        returned: list[bytes] = []
        while to_deliver:
            lines = self._deliver(b"".join(line + b"\n" for line in to_deliver))
            to_deliver = []
            for line in lines.split(b"\n")[:-1]:
                message = _read(line)
                if _method(message) == f"{PREFIX}config":
                    answer = {"jsonrpc": _VERSION, "id": message["id"], "result": self._settings}
                    to_deliver.append(_written(answer))
                else:
                    returned.append(self._inward(message))
        return b"".join(line + b"\n" for line in returned)

    def _outward(self, side: bytes, message: Message) -> Iterator[bytes]:
        """A line of the channel as the component gets it, if it does."""
        message = {"jsonrpc": _VERSION, **message}
        method = _method(message)
        if method is None:
            own = self._sent.pop((side, bytes(message.get("id", _NULL))), None)
            if own is not None:  # else it answers nothing the component has sent
                yield _written({**message, "id": own})
        elif method == "configure":
            self._settings = message.get("params", Raw(b"{}"))
            settings = _read(bytes(self._settings))
            if bytes(settings.get("config", b"{}")) != b"{}" or "kept" in settings:
                yield self._wrapped(side, method, message)
        elif method == CANCEL:
            wanted = (side, bytes(_read(bytes(message["params"]))["requestId"]))
            for outer, (of, id_) in self._received.items():
                if (of, bytes(id_)) == wanted:
                    yield _written({**message, "params": Raw(b'{"requestId":%b}' % outer)})
        else:
            yield self._wrapped(side, method, message)

    def _wrapped(self, side: bytes, method: str, message: Message) -> bytes:
        if "id" in message:
            outer = json_text.encode((side + bytes(message["id"])).decode())
            self._received[outer] = (side, message["id"])
            message["id"] = Raw(outer)
        if side == b"c":
            message["method"] = _text(PREFIX + method)
        elif side == b"s":
            held: Message = {key: message[key] for key in ("method", "params") if key in message}
            message |= {"method": _text(_ENVELOPE), "params": write_members(held)}
        elif method == "initialize":
            message["method"] = _text(ACP.role)
        return _written(message)

    def _inward(self, message: Message) -> bytes:
        """A line of the component's as a line of the channel."""
        method = _method(message)
        if method is None:
            id_ = message.get("id", _NULL)
            side, shown = self._received.get(bytes(id_), (b"p", id_))
            return side + _written({**message, "id": shown})
        if method == CANCEL:
            wanted = bytes(_read(bytes(message["params"]))["requestId"])
            known = (key for key, outer in self._sent.items() if bytes(outer) == wanted)
            side, request = next(known, (b"p", wanted))
            return side + _written({**message, "params": Raw(b'{"requestId":%b}' % request)})
        to, method, params = sides.opened(method, message.pop("params", UNSET))
        message["method"] = _text(method)
        if isinstance(params, Raw):
            message["params"] = params
        side = to.encode()
        if "id" in message:
            outer = message["id"]
            # A request that is passed on may keep its id, and is shown with the one it had.
            message["id"] = self._received.get(bytes(outer), (b"", outer))[1]
            self._sent[side, bytes(message["id"])] = outer
        return side + _written(message)


def _read(text: bytes) -> Message:
    message = read_members(text)
    if message is None:
        shown = text[:80].decode("utf-8", "backslashreplace")
        raise ComponentError(
            f"{shown} is no message that passes an envelope",
            "leave odd messages to components that speak `channel`",
        )
    return message


def _written(message: Message) -> bytes:
    return bytes(write_members({name: message[name] for name in _MEMBERS if name in message}))


def _method(message: Message) -> str | None:
    return json_text.decode(message["method"], type=str) if "method" in message else None


def _text(text: str) -> Raw:
    return Raw(json_text.encode(text))
