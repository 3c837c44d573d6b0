"""The dialect `acp` shown as lines of the channel, so that WASI commands play the same transcripts.

A WASI command has one connection and one id space: messages of the successor come in envelopes, and
ids of requests to it are made different on either side, as a conductor does. `configure` is told
if there is anything to tell, and again when the component asks for it by `_conductor/config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from conductor.errors import ComponentError

ENVELOPE: Final = "proxy/successor"
_SERVICE: Final = "_conductor/"
_CANCEL: Final = "$/cancel_request"
_VERSION: Final = b'"2.0"'
_MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")

Raw = dict[str, bytes]
"""Members of a message, as they are written."""

_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


def _read(text: bytes) -> Raw:
    try:
        return {name: bytes(value) for name, value in _decode(text).items()}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = text[:80].decode("utf-8", "backslashreplace")
        raise ComponentError(
            f"{shown} is no message that passes an envelope: {error}",
            "leave odd messages to components that speak `channel`",
        ) from None


def _message(said: Raw) -> bytes:
    held = (b'"%b":%b' % (name.encode(), said[name]) for name in _MEMBERS if name in said)
    return b"{" + b",".join(held) + b"}"


def _name(said: Raw) -> str | None:
    return msgspec.json.decode(said["method"], type=str) if "method" in said else None


class Wire:
    """A component of the dialect, on the channel; `deliver` takes and gives its own lines."""

    def __init__(self, deliver: Callable[[bytes], bytes]) -> None:
        self._deliver = deliver
        self._settings = b"{}"
        self._given: dict[bytes, tuple[bytes, bytes]] = {}
        """Side and id, on the channel, of each request to the component."""
        self._asked: dict[tuple[bytes, bytes], bytes] = {}
        """The ids of its own requests, by side and the id shown."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel; what comes back, as such lines.

        Raises `ComponentError` for what cannot be put into an envelope.
        """
        given = lines.split(b"\n")[:-1]
        outer = [one for line in given for one in self._outer(line[:1], _read(line[1:]))]
        shown: list[bytes] = []
        while outer:
            said = self._deliver(b"".join(line + b"\n" for line in outer))
            outer = []
            for line in said.split(b"\n")[:-1]:
                inner = _read(line)
                if _name(inner) == f"{_SERVICE}config":
                    answer = {"jsonrpc": _VERSION, "id": inner["id"], "result": self._settings}
                    outer.append(_message(answer))
                else:
                    shown.append(self._inner(inner))
        return b"".join(line + b"\n" for line in shown)

    def _outer(self, side: bytes, said: Raw) -> Iterator[bytes]:
        """A line of the channel as the component is told it."""
        said = {"jsonrpc": _VERSION, **said}
        name = _name(said)
        if name is None:
            own = self._asked.pop((side, said.get("id", b"null")), None)
            if own is not None:
                yield _message({**said, "id": own})
        elif name == "configure":
            self._settings = said.get("params", b"{}")
            told = _read(self._settings)
            if told.get("config", b"{}") != b"{}" or "kept" in told:
                yield self._told(side, name, said)
        elif name == _CANCEL:
            wanted = (side, _read(said["params"])["requestId"])
            for outer, known in self._given.items():
                if known == wanted:
                    yield _message({**said, "params": b'{"requestId":%b}' % outer})
        else:
            yield self._told(side, name, said)

    def _told(self, side: bytes, name: str, said: Raw) -> bytes:
        if "id" in said:
            outer = _encode((side + said["id"]).decode())
            self._given[outer] = (side, said["id"])
            said["id"] = outer
        if side == b"c":
            said["method"] = _encode(_SERVICE + name)
        elif side == b"s":
            held: Raw = {key: said[key] for key in ("method", "params") if key in said}
            said |= {"method": _encode(ENVELOPE), "params": _message(held)}
        elif name == "initialize":
            said["method"] = _encode("proxy/initialize")
        return _message(said)

    def _inner(self, said: Raw) -> bytes:
        """What the component says, as a line of the channel."""
        name = _name(said)
        if name is None:
            side, shown = self._given.get(said.get("id", b"null"), (b"p", said.get("id", b"null")))
            return side + _message({**said, "id": shown})
        if name == _CANCEL:
            wanted = _read(said["params"])["requestId"]
            known = (key for key, outer in self._asked.items() if outer == wanted)
            side, shown = next(known, (b"p", wanted))
            return side + _message({**said, "params": b'{"requestId":%b}' % shown})
        side = b"p"
        if name == ENVELOPE:
            side = b"s"
            said = {**said, **_read(said.pop("params"))}
        elif name.startswith(_SERVICE):
            side, said["method"] = b"c", _encode(name.removeprefix(_SERVICE))
        if "id" in said:
            outer = said["id"]
            # A request that is passed on may keep its id, and is shown with the one it had.
            said["id"] = self._given.get(outer, (b"", outer))[1]
            self._asked[side, said["id"]] = outer
        return side + _message(said)
