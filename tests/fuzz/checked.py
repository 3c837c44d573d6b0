"""A router whose every effect is checked as it comes, by the rules of the fuzzers."""

import json
import re
from collections import Counter
from typing import Any, Final

from conductor.core import Closure, Effect, Listen, Reopen, Send, Serve
from conductor.core.router import Router

SERVER: Final = b'{"command":"shim"}'
_ID: Final = re.compile(rb'"id"\s*:\s*(-?(?:0|[1-9][0-9]*)|"[^"\\\x00-\x1f\x7f-\xff]*")')


class Run:
    """A router, everything it was told and everything it asked for.

    `tagged`: its proxy speaks `channel/1`, where a line begins with its side.
    """

    def __init__(self, router: Router, *, tagged: bool) -> None:
        self.router = router
        self.effects: list[Effect] = []
        self.asked: Counter[tuple[str, str]] = Counter()
        self._tagged = tagged
        self._take(self.router.start())

    def say(self, peer: str, frame: bytes) -> None:
        """Has a peer say something, unless it has no such connection (yet)."""
        if peer not in self.router.peers:
            peer = peer.partition("/")[0]
        if peer not in self.router.peers:
            return
        self.asked.update((peer, each) for each in _ids(frame))
        self._take(self.router.receive(peer, frame))

    def end(self) -> None:
        """Ends every component and then the chain: nothing may stay open."""
        for peer in ("p1", "agent"):
            if peer in self.router.peers:
                self._take(self.router.closed(peer, Closure("it is over")))
        self._take(self.router.abandon(Closure("it is over")))
        assert self.router.pending() == 0

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Send(peer, frame):
                    self._sound(peer, frame)
                case Listen(peer):
                    self._take(self.router.listening(peer, SERVER))
                case Reopen(peer):
                    self._take(self.router.reopened(peer))
                case Serve(_, _, int() as token, _):
                    self._take(self.router.served(token, b"{}"))
                case _:
                    pass

    def _sound(self, peer: str, frame: bytes) -> None:
        """Asserts a line of JSON-RPC that can be read in one way only, and is no answer that nobody
        asked for."""
        assert frame.endswith(b"\n")
        assert frame.count(b"\n") == 1
        text = frame.decode()
        if self._tagged and peer != "agent" and text[0] in "psc":
            text = text[1:]
        value = json.loads(text, object_pairs_hook=_Members)
        for each in value if type(value) is list else [value]:
            names = [name for name, _ in each]
            assert len(set(names)) == len(names), frame
            members = dict(each)
            assert members["jsonrpc"] == "2.0"
            body = set(names) - {"jsonrpc", "id"}
            if "method" in body:
                assert body <= {"method", "params"}
                continue
            assert body in ({"result"}, {"error"}), frame
            if members["id"] is not None:
                key = (peer, json.dumps(members["id"]))
                self.asked[key] -= 1
                assert self.asked[key] >= 0, f"answered without being asked: {frame!r}"


class _Members(list[tuple[str, Any]]):
    """The members of one object, in order, repeated ones included."""


def _ids(frame: bytes) -> list[str]:
    """Every id an attentive reader could find in a frame, written in one way."""
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        found.extend(json.dumps(value) for name, value in pairs if name == "id")

    for start in (0, 1):  # a guest's frame begins with its side
        try:
            json.loads(frame[start:].decode("utf-8", "replace"), object_pairs_hook=note)
        except (ValueError, RecursionError):
            continue
        break
    else:
        # The router also answers what nests too deeply for `json`, or is cut off deep inside.
        found.extend(json.dumps(json.loads(one)) for one in _ID.findall(frame))
    return found
