"""The router under damaged conversations: it never raises, and its lines are always sound."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import Effect, Send
from tests.fuzz.checked import Run
from tests.fuzz.material import CONVERSATIONS, CORPUS, Said, router, strange

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
NAMES = sorted(CONVERSATIONS)


def run_of(name: str) -> Run:
    """The router of a golden transcript."""
    return Run(router(name), tagged=name.startswith("channel"))


@pytest.mark.parametrize("name", NAMES)
def test_an_undamaged_conversation_stays_open_nowhere(name: str) -> None:
    run = run_of(name)
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
            run = run_of(name)
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
    runs = run_of(name), run_of(name)
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
    clean, dirty = run_of(name), run_of(name)
    for each in said:
        clean.say(*each)
        if data.draw(st.booleans()):
            dirty.say(data.draw(components), data.draw(garbage).replace(b"\n", b" "))
        dirty.say(*each)
    assert _sent(dirty) == _sent(clean)


def _sent(run: Run) -> list[Effect]:
    return [effect for effect in run.effects if isinstance(effect, Send)]
