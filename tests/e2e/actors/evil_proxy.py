"""E of the rig as a program: a proxy of any dialect that does what lines tell it to. Like
`evil_guest.wat`, which says how lines do that; it speaks of sides, this puts them in envelopes.

    python -m tests.e2e.actors.evil_proxy --dialect pacp --log FILE
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from tests.e2e.actors.options import parse
from tests.e2e.actors.rawjson import members
from tests.e2e.actors.recording_proxy import ROLES, Proxy, Sent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

ID, PASS, ORDER = "\x01", "\x02", "\x03"


class Evil(Proxy):
    """A proxy under orders."""

    def __init__(self, options: argparse.Namespace, write: Callable[[bytes], None]) -> None:
        super().__init__(options, write)
        self._orders = {side: re.compile(f"@@{side}([0-9a-f]*)@@") for side in "ps"}

    def _from(self, side: str, method: str, params: str | None, id_: str | None) -> None:
        order = self._orders[side].search(params or "")
        if order is None or '"user_message"' in (params or ""):  # ACP v2 repeats prompts
            super()._from(side, method, params, id_)
            return
        for line in _lines(order):
            if line == PASS:
                super()._from(side, method, params, id_)
            else:
                asked = "initialize" if method in ROLES else method
                self._say(line[0], line[1:], Sent(side, id_ or "null", asked))

    def _response(self, frame: dict[str, str]) -> None:
        text = frame.get("result", "")
        sent = self._sent.get(frame["id"])
        order = None if sent is None else self._orders["sp"[sent.side == "s"]].search(text)
        if order is None or sent is None:
            super()._response(frame)
            return
        for line in _lines(order):
            if line == PASS:
                super()._response(frame)
            else:
                self._say(line[0], line[1:], sent)

    def _say(self, side: str, text: str, about: Sent) -> None:
        """Says a frame to one side; its id may be that of what it is about."""
        own_id = about.id
        if ID in text and '"method"' in text:
            self._count += 1
            if not self.options.keep_ids:
                own_id = json.dumps(f"{self.options.name}:{self._count}")
            self._sent[own_id] = about
        text = text.replace(ID, own_id)
        if side == "p" or "method" not in (frame := members(text)):
            self._out("main" if side == "p" or not self.launches else "successor", text)
        else:
            self._send(side, json.loads(frame["method"]), frame.get("params"), frame.get("id"))


def _lines(order: re.Match[str]) -> list[str]:
    text = bytes.fromhex(order[1]).decode().replace(ORDER, order[0])
    return [line for line in text.replace(PASS, f"{PASS}\n").split("\n") if line]


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def main() -> None:
    """Runs on standard input and output until the input ends. What it says to one line leaves in
    one write, so that no answer comes in between."""
    proxy = Evil(parse(sys.argv[1:]), _write)
    for line in sys.stdin.buffer:
        proxy.receive(line)
        sys.stdout.buffer.flush()
    proxy.end()


if __name__ == "__main__":
    main()
