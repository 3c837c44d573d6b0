"""The proxy: lines of ``channel/1`` in and out, changed only where a session is set up.

Every line starts with the side it came from: ``p`` the editor's, ``s`` the agent's, ``c`` the
conductor's. Passing one on is writing it with the other side's letter. Standard library only.
"""

import contextlib
import json
import sys
from typing import Any, BinaryIO

from attach_json import Span, is_empty, member, members
from attach_servers import Json, Server, servers, supported

_SETUPS = {"session/new", "session/load", "session/resume", "session/fork"}
_LOOKED_AT = _SETUPS | {"initialize"}
_FLIPPED = {b"p": b"s", b"s": b"p"}
_NEWEST = 1


class Proxy:
    """The proxy between two neighbours, writing to one stream."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._servers: list[Server] = []
        self._greeting: str | None = None
        """The raw id of the ``initialize`` that is not answered yet."""
        self._version = _NEWEST
        self._takes = frozenset({"stdio"})
        self._told: set[str] = set()

    def line(self, line: bytes) -> None:
        """Takes one line with its newline."""
        side = line[:1]
        if side == b"c":
            self._conductor(line[1:])
            return
        body = line[1:]
        if (side == b"p" and (b"session" in body or b"initialize" in body)) or (
            side == b"s" and self._greeting is not None
        ):
            # A line that cannot be read is not ours to change.
            with contextlib.suppress(ValueError, RecursionError):
                body = self._looked_at(side, body)
        self._out.write(_FLIPPED.get(side, side) + body)

    def _conductor(self, body: bytes) -> None:
        message = json.loads(body)
        if message.get("method") == "configure":
            self._told.clear()
            self._servers = servers(message["params"].get("config", {}), self._warn)
        elif "method" in message and "id" in message:
            error = {"code": -32601, "message": "Method not found"}
            self._say({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _looked_at(self, side: bytes, body: bytes) -> bytes:
        text = body.decode("utf-8", "surrogateescape")
        if side == b"p" and _method(text) not in _LOOKED_AT:
            return body
        found = dict(members(text))
        if side == b"s":
            self._greeted(text, found)
            return body
        method = json.loads(_cut(text, found["method"]))
        if method == "initialize" and "id" in found:
            self._greeting = _cut(text, found["id"])
        if method not in _SETUPS or not {"id", "params"} <= found.keys():
            return body
        return self._set_up(text, found["params"]).encode("utf-8", "surrogateescape")

    def _greeted(self, text: str, found: dict[str, Span]) -> None:
        """Reads in the agent's answer to ``initialize`` which kinds of servers it takes."""
        if "method" in found or _cut(text, found.get("id")) != self._greeting:
            return
        self._greeting = None
        result = json.loads(_cut(text, found.get("result")) or "{}")
        if isinstance(result, dict):
            version = result.get("protocolVersion")
            self._version = version if isinstance(version, int) else _NEWEST
            self._takes = supported(self._version, result)

    def _set_up(self, text: str, params: Span) -> str:
        """A session's setup with our servers behind those that are declared."""
        declared = member(text, "mcpServers", params[0])
        held: Any = json.loads(_cut(text, declared)) if declared else None
        if declared and not isinstance(held, list | dict | None):
            return text
        entries = {each.name: each for each in self._wanted(_names(held))}
        if not entries:
            return text
        encoded = {name: _encode(each.entry(self._version)) for name, each in entries.items()}
        if isinstance(held, dict):
            added = ",".join(f"{_encode(name)}:{entry}" for name, entry in encoded.items())
        else:
            added = ",".join(encoded.values())
        if declared is None:
            at = params[0] + 1
            comma = "" if is_empty(text, params) else ","
            return f'{text[:at]}"mcpServers":[{added}]{comma}{text[at:]}'
        if held is None:
            return f"{text[: declared[0]]}[{added}]{text[declared[1] :]}"
        at = declared[1] - 1
        comma = "" if is_empty(text, declared) else ","
        return f"{text[:at]}{comma}{added}{text[at:]}"

    def _wanted(self, taken: set[str]) -> list[Server]:
        """Our servers that may be declared; of the others it is said once why not."""
        wanted = []
        for each in self._servers:
            if each.name in taken:
                self._warn(f"server `{each.name}` is left out: that name is taken")
            elif each.kind not in self._takes:
                self._warn(f"server `{each.name}` is left out: the agent takes no {each.kind}")
            else:
                wanted.append(each)
        return wanted

    def _warn(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            said = {"level": "warn", "message": text}
            self._say({"jsonrpc": "2.0", "method": "log", "params": said})

    def _say(self, message: Json) -> None:
        self._out.write(b"c" + _encode(message).encode() + b"\n")


def _method(text: str) -> Any:
    """The method of a message; the text behind it, for example a large prompt, is not read."""
    for name, (start, end) in members(text):
        if name == "method":
            return json.loads(text[start:end])
    return None


def _cut(text: str, span: Span | None) -> str:
    return text[span[0] : span[1]] if span else ""


def _names(held: Any) -> set[str]:
    if isinstance(held, dict):
        return set(held)
    return {str(each.get("name")) for each in held or () if isinstance(each, dict)}


def _encode(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def main() -> None:
    """Serves until standard input ends."""
    proxy = Proxy(sys.stdout.buffer)
    for line in sys.stdin.buffer:
        proxy.line(line)
        # Nothing is read ahead of what is written: the conductor waits for either.
        sys.stdout.buffer.flush()
