"""The router under damaged conversations: it never raises, and what it sends is always sound."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import Closure, Effect, Listen, Reopen, Router, Send, Serve

from .material import CONVERSATIONS, CORPUS, Said, router, strange

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
NAMES = sorted(CONVERSATIONS)
SERVER = b'{"command":"shim"}'


class Run:
    """A router, everything it was told and everything it asked for, checked as it comes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.router: Router = router(name)
        self.effects: list[Effect] = []
        self.asked: Counter[tuple[str, str]] = Counter()
        self._take(self.router.start())

    def say(self, peer: str, frame: bytes) -> None:
        """Has a peer say something, unless it has no such connection (yet)."""
        if peer not in self.router.peers:
            peer = peer.partition("/")[0]
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
        """One line of JSON-RPC that can be read in one way only; no answer nobody asked for."""
        assert frame.endswith(b"\n")
        assert frame.count(b"\n") == 1
        text = frame.decode()
        if self.name.startswith("channel") and peer != "agent" and text[0] in "psc":
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
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_undamaged_conversation_stays_open_nowhere(name: str) -> None:
    run = Run(name)
    for said in CONVERSATIONS[name]:
        run.say(*said)
    sent = [effect for effect in run.effects if isinstance(effect, Send)]
    assert len(sent) >= len(CONVERSATIONS[name]) / 2
    run.end()


@pytest.mark.parametrize("odd", CORPUS)
@pytest.mark.parametrize("name", NAMES)
def test_every_frame_of_the_corpus_from_every_peer(name: str, odd: str) -> None:
    said = CONVERSATIONS[name]
    for peer in sorted({each.peer for each in said}):
        for at in (0, len(said) // 2, len(said)):
            run = Run(name)
            for each in (*said[:at], Said(peer, CORPUS[odd]), *said[at:]):
                run.say(*each)
            run.end()


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_damaged_conversations(data: st.DataObject) -> None:
    """Lines are replaced, put in, left out, said twice or by another; twice comes to the same."""
    name = data.draw(st.sampled_from(NAMES))
    said = list(CONVERSATIONS[name])
    peers = st.sampled_from(sorted({each.peer for each in said}))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(said) - 1))
        frame = data.draw(strange(said))
        match data.draw(st.sampled_from(["replace", "insert", "drop", "repeat", "impersonate"])):
            case "replace":
                said[at] = Said(said[at].peer, frame)
            case "insert":
                said.insert(at, Said(data.draw(peers), frame))
            case "drop" if len(said) > 1:
                del said[at]
            case "repeat":
                said.insert(at, said[at])
            case _:
                said[at] = Said(data.draw(peers), said[at].frame)
    runs = Run(name), Run(name)
    for run in runs:
        for each in said:
            run.say(*each)
        run.end()
    assert runs[0].effects == runs[1].effects


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_what_is_no_json_changes_nothing(data: st.DataObject) -> None:
    """Garbage of a component is as if it had not been said: all else is the same, byte for byte."""
    name = data.draw(st.sampled_from(NAMES))
    said = CONVERSATIONS[name]
    components = st.sampled_from(sorted({each.peer for each in said} - {"client"}))
    garbage = st.binary(min_size=1, max_size=40).map(lambda junk: b"\xff" + junk)
    clean, dirty = Run(name), Run(name)
    for each in said:
        clean.say(*each)
        if data.draw(st.booleans()):
            dirty.say(data.draw(components), data.draw(garbage).replace(b"\n", b" "))
        dirty.say(*each)
    assert _sent(dirty) == _sent(clean)


def _sent(run: Run) -> list[Effect]:
    return [effect for effect in run.effects if isinstance(effect, Send)]
