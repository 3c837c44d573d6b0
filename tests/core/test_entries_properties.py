"""Entries alone tell all that everybody got and sent, byte for byte and in order, but for copies
and for frames that are no message to anybody: a request that is refused before it is a visit has no
entry, and its sender an error."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from conductor.core import Effect, Entry, Send, jsonrpc
from conductor.core.dialects import ENVELOPES, unwrap
from conductor.core.jsonrpc import Malformed, Message
from tests.harness.world.ends import CANCEL, Step
from tests.harness.world.policies import ANY, KINDS, MISHAPS, SCRIPTS, casts
from tests.harness.world.world import Cast, Mishap, World

REFUSED: Final = b'"error":{"code":-32600,'
NOBODYS: Final = (
    ("notification", "initialize"),  # a role is asked for
    ("notification", CANCEL),  # maybe of nothing
)
"""Messages of a component that are not passed on to anybody."""

Said = tuple[str, str, bytes]
"""Kind, method (of a response none) and payload."""


class Heard(World):
    """Notes the frames that each connection got, those that both ends sent, and both by the
    entries."""

    def play(self, name: str, line: bytes) -> None:
        """See `World.play`."""
        before = len(self.lines)
        super().play(name, line)
        if not hasattr(self, "said"):
            return
        if name in self.ends:
            self.said[name].append(_read(line))
            return
        new = [frame for peer, frame in self.lines[before:] if peer == name]
        is_array = line.lstrip(b"psc")[:1] == b"["
        if not (is_array and any(REFUSED in frame for frame in new)):  # refused as a whole
            self.said[name] += _asked(line)

    def apply(self, effects: Sequence[Effect]) -> None:
        """See `World.apply`."""
        if not hasattr(self, "got"):
            self.said: defaultdict[str, list[Said]] = defaultdict(list)
            self.got: defaultdict[str, list[Said]] = defaultdict(list)
            self.told: defaultdict[str, list[Said]] = defaultdict(list)
            self.sent: defaultdict[str, dict[tuple[int, str], Said]] = defaultdict(dict)
        for effect in effects:
            if isinstance(effect, Entry) and not (effect.own or effect.past):
                # Once, also where it goes on to another since the first could not take it.
                self.sent[effect.source][effect.number, effect.kind] = _entered(effect)
            if isinstance(effect, Entry) and effect.target and not effect.lost:
                if not self.router.peers[effect.target].deaf:  # it has gone meanwhile
                    self.told[effect.target].append(_entered(effect))
            elif isinstance(effect, Send):
                self.got[effect.peer].append(_read(effect.frame))
        super().apply(effects)


def _asked(line: bytes) -> list[Said]:
    """The requests and notifications of a line that a component sends to others."""
    bare = line.lstrip(b"psc")  # without the side of a guest's line
    texts = [bare]
    if bare[:1] == b"[":
        with contextlib.suppress(msgspec.DecodeError):
            texts = [bytes(one) for one in msgspec.json.decode(bare, type=list[Raw])]
    found = []
    for text in texts:
        with contextlib.suppress(Malformed, AssertionError):
            found.append(_read(text))
    return [one for one in found if one[0] != "response" and one[:2] not in NOBODYS]


def _entered(entry: Entry) -> Said:
    method = "" if entry.kind == "response" else entry.method
    return entry.kind, method, bytes(entry.payload or b"")


def _read(frame: bytes) -> Said:
    message = jsonrpc.parse(frame.lstrip(b"psc"))
    assert isinstance(message, Message)
    if not isinstance(message.method, str):
        outcome = message.result if message.result is not UNSET else message.error
        return "response", "", bytes(outcome) if isinstance(outcome, Raw) else b""
    kind = "notification" if message.id is UNSET else "request"
    method, params = message.method, message.params
    if method in ENVELOPES:
        method, params, _, _ = unwrap(params)
    return kind, method, b"" if params is UNSET else bytes(params)


def _comparable(said: Iterable[Said]) -> list[Said]:
    # What cancels a request names it by an id, which is another one at each hop; a request that is
    # refused because it is none has no entry.
    return [
        one if one[1] != CANCEL else (*one[:2], b"")
        for one in said
        if b'"code":-32600' not in one[2]
    ]


def _tell_what_it_sent(entries: list[Said], said: list[Said], got: list[Said]) -> None:
    """Entries have all that a trusted component asked and told, in order. A request may be missing
    that waited until the component had gone: nobody got it, and nobody an answer. So may one that
    was refused: its id was none, or too much was open."""
    told = [one for one in entries if one[0] != "response" and one[:2] not in NOBODYS]
    rest = iter(said)
    assert all(one in rest for one in told)
    missing = Counter(said) - Counter(told)
    assert {kind for kind, _, _ in missing} <= {"request"}
    answers = sum(one[0] == "response" for one in _comparable(got))
    assert missing.total() <= sum(one[0] == "request" for one in said) - answers


@settings(max_examples=300)
@given(
    st.lists(casts(st.one_of(st.none(), ANY), kinds=KINDS), min_size=1, max_size=3),
    SCRIPTS, MISHAPS, st.booleans(),
)  # fmt: skip
def test_entries_tell_what_everybody_got_and_sent(
    several: list[Cast], script: list[Step], mishaps: list[Mishap], rounds: bool
) -> None:
    world = Heard(*several, rounds=rounds, tracing=True)
    # The role that each got in another dialect is no part of this.
    for known in (world.got, world.told, world.said, world.sent):
        known.clear()
    world.play_out(script, [one for one in mishaps if not one.returns])
    for name, frames in world.got.items():
        got, told = _comparable(frames), _comparable(world.told[name])
        cast = world.casts.get(name.partition("/")[0])
        if cast is None or cast.policy is None:
            assert told == got
        else:  # it gets copies too
            rest = iter(got)
            assert all(one in rest for one in told)
    for name, cast in world.casts.items():
        if cast.policy is None:
            by_number = [said for _, said in sorted(world.sent[name].items())]
            _tell_what_it_sent(by_number, world.said[name], world.got[name])
    for name in world.ends:
        by_number = [said for _, said in sorted(world.sent[name].items())]
        # A cancellation of a request that is over goes nowhere.
        sent, said = (
            [one for one in _comparable(some) if one[1] != CANCEL]
            for some in (by_number, world.said[name])
        )
        assert sent == said
