"""An agent that is right in what it means and odd in how it says it. Standard library only.

A prompt names what to write; `MOVES` is the table. In process it is
`py:tests.e2e.actors.odd_agent:in_process`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"odd","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}}}'
)
DONE = b'{"jsonrpc":"2.0","id":%b,"result":{"stopReason":"end_turn"}}'
FAILED = b'"error":{"code":-32050,"message":"odd"}'

# The lines after a prompt: `%id` is its request's id, `%up` an update, `%done` the answer.
MOVES: dict[str, bytes] = {
    "/plain": b"%up\n%done\n",
    "/crlf": b"%up\r\n%done\r\n",
    "/blank": b"\n\r\n   \n%up\n\n\t\n%done\n\n",
    "/spaces": b"  %up  \n\t%done \n",
    "/twice": b"%up\n%done\n%done\n",
    "/unasked": b'{"jsonrpc":"2.0","id":1,"result":1}\n%up\n%done\n',
    "/wrongid": b'%up\n{"jsonrpc":"2.0","id":"%id","result":{"stopReason":"end_turn"}}\n%done\n',
    "/nullid": b'%up\n{"jsonrpc":"2.0","id":null,"result":{"stopReason":"end_turn"}}\n',
    "/mark": b"\xef\xbb\xbf%up\n\xef\xbb\xbf%done\n",
    "/float": b'%up\n{"jsonrpc":"2.0","id":%id.0,"result":{"stopReason":"end_turn"}}\n',
    "/nulls": b'%up\n{"jsonrpc":"2.0","id":%id,"method":null,"params":null,"error":null,"result":'
    b'{"stopReason":"end_turn"}}\n',
    "/cause": b'%up\n{"jsonrpc":"2.0","id":%id,"result":null,' + FAILED + b"}\n",
    "/array": b"[%up,%done]\n",
    "/list": b'["loading",1]\n[]\n[[1],{"id":%id,"step":1}]\n%up\n[%done,"loaded"]\n',
    "/old": b'{"jsonrpc":"1.0","method":"session/update"}\n%up\n%done\n',
    "/nothing": b'{"jsonrpc":"2.0"}\n%up\n%done\n',
    "/badid": b'{"jsonrpc":"2.0","id":1.5,"method":"_odd/ask"}\n%up\n%done\n',
    "/latin": b'{"jsonrpc":"2.0","method":"_odd/\xe9"}\n%up\n%done\n',
    "/cut": b'{"jsonrpc":"2.0","method":"_od\n%up\n%done\n',
    "/number": b"42\n%up\n%done\n",
    "/misplaced": b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"_evil"}}\n'
    b"%up\n%done\n",
    "/partial": b"%up\n%done",
    "/big": b'%up\n{"jsonrpc":"2.0","id":%id,"result":{"filler":"%big"}}\n',
    "/bigupdate": b'{"jsonrpc":"2.0","method":"_odd/big","params":{"a":"%big"}}\n%up\n%done\n',
}
LAST = ("/partial",)
"""Moves after which it exits."""


COUNTED = [0, 0]
"""Notifications `_odd/count` so far, and how many of them came out of order."""


def answer(line: bytes) -> tuple[bytes, bool]:
    """The text to write after a line, and whether the agent ends with it."""
    frame: dict[str, Any] = json.loads(line)
    if frame.get("method") == "_odd/count" and "id" not in frame:
        COUNTED[1] += frame["params"]["number"] != COUNTED[0]
        COUNTED[0] += 1
    if "id" not in frame or "method" not in frame:
        return b"", False
    id_ = json.dumps(frame["id"]).encode()
    if frame["method"] == "session/prompt":
        text = str(frame["params"]["prompt"][-1]["text"])
        said = MOVES[text]
        for name, value in (
            (b"%up", UPDATE % text[1:].encode()), (b"%done", DONE % id_), (b"%id", id_),
            (b"%big", b"x" * 2_000_000),
        ):  # fmt: skip
            said = said.replace(name, value)
        return said, text in LAST
    results = {
        "initialize": b'{"protocolVersion":1,"agentCapabilities":{}}',
        "session/new": b'{"sessionId":"odd"}',
        "_odd/counted": json.dumps(COUNTED).encode(),
    }
    result = results.get(frame["method"])
    body = b'"result":%b' % result if result else b'"error":{"code":-32601,"message":"?"}'
    return b'{"jsonrpc":"2.0","id":%b,%b}\n' % (id_, body), False


class Channel(Protocol):
    """The connection that an in-process component is given."""

    async def receive(self) -> bytes | None:
        """The next line, None at the end."""

    def send(self, line: bytes) -> None:
        """Sends one line."""


async def in_process(channel: Channel) -> None:
    """The same agent as a component in the conductor's process."""
    while (line := await channel.receive()) is not None:
        said, last = answer(line)
        for each in said.split(b"\n"):
            if each:
                channel.send(each)
        if last:
            return


async def raising(channel: Channel) -> None:
    """A component in the conductor's process that fails at its third line."""
    for _ in range(2):
        line = await channel.receive()
        channel.send(answer(line or b"{}")[0])
    await channel.receive()
    raise RuntimeError("as it was told to")


async def stubborn(channel: Channel) -> None:
    """A component that does not end when its input does."""
    while (line := await channel.receive()) is not None:
        channel.send(answer(line)[0])
    await asyncio.Event().wait()


def main(write: Callable[[bytes], None]) -> None:
    """Serves standard input until it ends."""
    if "--silent" in sys.argv:
        while data := os.read(0, 65536):
            os.write(2, b"mute: heard %d bytes\n" % len(data))
        return
    for line in sys.stdin.buffer:
        said, last = answer(line)
        write(said)
        if last:
            return


def write_all(data: bytes) -> None:
    """Writes to standard output."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main(write_all)
