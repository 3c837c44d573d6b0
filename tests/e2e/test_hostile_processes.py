"""Programs that mean harm in the middle of a chain, behind the real command.

`passthrough` and the agent stand beside each of them, and the session `healthy` goes through it
while another session's prompt sets it off. It lives, and `healthy` is complete; or it ends, and
everybody who waits is told by whom, once; or it hangs, and is ended with the chain.
"""

import json
from collections import Counter
from typing import Final, NamedTuple

import pytest

from tests.e2e.actors.hostile_proxy import FAULTS, FLOOD
from tests.harness.process.client import Json
from tests.harness.process.processes import needs_proc, wait_gone
from tests.harness.process.rig import Chain, Rig
from tests.places import DEADLINE

pytestmark = needs_proc

COUNT, SIZE = 400, 500
"""Updates of the healthy session, and bytes in each."""

OPTIONS: Final = ("-c", "line-limit=1M", "-c", "grace=0.2")


class Lives(NamedTuple):
    """The process may go on: the words of the log, and the counts of its messages to the client."""

    says: str = ""
    sends: dict[str, int] = {}  # noqa: RUF012 - read only
    reaches_agent: dict[str, int] = {}  # noqa: RUF012 - read only
    poisoned: str = "result"
    """How the poisoned prompt is answered."""


NOT_OPEN: Final = "warning: EVIL: answer dropped: no request is open under its id"

LIVES: Final = {
    "forged_ids": Lives(NOT_OPEN),
    "answers_others": Lives(NOT_OPEN),
    "replays_ids": Lives(NOT_OPEN),
    "answers_twice": Lives(NOT_OPEN),
    "answers_wrong_kind": Lives("warning: EVIL: answer dropped: it has no valid id"),
    "asks_twice": Lives('request id "same" is still in use', {"_evil/asked": 1}),
    "odd_ids": Lives("a request id must be null, a 64-bit integer or a string"),
    "cancels_others": Lives(),
    "both": Lives(poisoned="with both result and error"),
    "neither": Lives(poisoned="with neither result nor error"),
    "floods_client": Lives(sends={"_evil/flood": FLOOD}),
    "floods_agent": Lives(reaches_agent={"_evil/flood": FLOOD}),
    "floods_requests": Lives(sends={"_evil/ask": 500}),
    "floods_stderr": Lives("[EVIL] evil"),
    "endless_stderr": Lives(),
    "slowloris": Lives(sends={"_evil/slow": 1}),
    "endless_line": Lives("a line longer than 1048576 bytes was skipped"),
    "invalid_utf8": Lives("message is not UTF-8 (byte 0)", {"_evil/bom": 1}),
    "nested": Lives("message nests deeper than 512 levels"),
    "duplicate_keys": Lives(NOT_OPEN, {"_evil/two": 1, "_evil/three": 1}),
    "batches": Lives("an array that holds no message", {"_evil/batched": 1001}),
    "envelopes": Lives("`proxy/successor` notification dropped"),
    "roles_up": Lives(),
    "roles_down": Lives(),
    "hybrid": Lives("must have neither `result` nor `error`"),
    "fork_bomb": Lives(),
    "zombies": Lives(),
    "ignores_everything": Lives(),
    "writes_after_eof": Lives(),
}

ENDS: Final = {
    "dies_in_flood": "exited with code 3",
    "dies_silent": "exited with code 7",
    "exits_cleanly": "exited with code 0",
    "crashes": "was ended by SIGSEGV",
    "closes_stdout": "closed its standard output",
    "closes_stdin": "closed its standard input",
    "closes_both": "closed its standard",
    "held_stdout": "exited with code 3",
    "daemon": "exited with code 3",
}
"""The words about the processes that end the chain, or are left out of it."""

HANGS: Final = ("never_ending_line", "half_a_line", "stops")
"""Nothing passes through these any more, and nothing shows that anything ever will not."""


def test_every_fault_has_a_verdict() -> None:
    assert sorted(FAULTS) == sorted([*LIVES, *ENDS, *HANGS])


def _chain(rig: Rig, fault: str, on_failure: str = "fail", drain: str = "0.2") -> Chain:
    evil = json.loads(rig.actor("hostile_proxy", "--fault", fault, name="EVIL"))
    evil |= {"dialect": "acp", "on_failure": on_failure}
    options = (*OPTIONS, "-c", f"drain={drain}")
    return rig.agent("passthrough", json.dumps(evil), "passthrough", rig.demo(), options=options)


def _complete(texts: list[str]) -> None:
    """Every update of a healthy stream, in order and whole."""
    assert [int(text[:8]) for text in texts] == list(range(COUNT))
    assert {len(text) for text in texts} == {SIZE}


def _once(chain: Chain) -> None:
    """Nobody was answered twice, or without having asked; nothing can be read in two ways."""
    answered = Counter(repr(f.get("id")) for f in chain.frames if "method" not in f)
    assert set(answered.values()) == {1}
    assert set(answered) <= {repr(number) for number in range(1001, 1001 + len(chain.frames))}
    for line in chain.lines:
        if b"_evil" in line:
            names = [name for name, _ in json.loads(line, object_pairs_hook=list)]
            assert len(set(names)) == len(names), line
            assert set(names) <= {"jsonrpc", "id", "method", "params"}, line


def _noticed(chain: Chain, fault: str) -> list[int]:
    """Requests to somebody who closed its input: only those show that it did."""
    if fault != "closes_stdin":
        return []
    chain.expect("_evil/closed")
    return [int(chain.start("_rig/nudge"))]


def _names_evil(answer: Json, says: str) -> None:
    error = answer["error"]
    assert "proxy `EVIL`" in error["message"], error
    assert says in error["message"], error
    assert error["data"]["component"] == "EVIL"


@pytest.mark.proves("nor do hostile programs: floods")
@pytest.mark.parametrize("fault", LIVES)
def test_a_fault_that_harms_nobody(rig: Rig, fault: str) -> None:
    lives = LIVES[fault]
    chain = _chain(rig, fault)
    chain.serves["_evil/ask"] = chain.serves["_evil/asked"] = None
    healthy, other = chain.begin(), chain.new_session()
    stream = chain.start_prompt(healthy, f"/stream {COUNT} {SIZE}")
    poisoned = chain.start_prompt(other, "/echo poison")
    if lives.poisoned == "result":
        assert chain.answer(poisoned)["result"] == {"stopReason": "end_turn"}
        assert chain.texts(other) == ["poison"]
    else:
        _names_evil(chain.answer(poisoned), lives.poisoned)
    assert chain.answer(stream)["result"] == {"stopReason": "end_turn"}
    _complete(chain.texts(healthy))
    assert chain.prompt(healthy, "/echo after") == "after"
    sent = Counter(f["method"] for f in chain.frames if "method" in f)
    assert {**sent, "session/update": 0} == {**lives.sends, "session/update": 0}
    _in_order([f["params"] for f in chain.seen("_evil/flood")])
    agents = Counter(rig.methods("A"))
    prompts = 3 if lives.poisoned == "result" else 2
    chains_own = {"initialize": 1, "session/new": 2, "session/prompt": prompts}
    assert agents == {**chains_own, **lives.reaches_agent}
    assert lives.says in chain.stderr
    assert chain.finish() == 0
    _once(chain)
    assert "error: " not in chain.stderr
    assert rig.leftovers(chain) == []


def _in_order(params: list[Json]) -> None:
    assert [each["n"] for each in params] == list(range(len(params)))


@pytest.mark.proves("nor do hostile programs: floods")
@pytest.mark.parametrize("fault", ENDS)
def test_a_fault_that_ends_the_chain(rig: Rig, fault: str) -> None:
    """Every open request is told once who it was; what came before is complete."""
    chain = _chain(rig, fault)
    healthy, other = chain.begin(), chain.new_session()
    assert "result" in chain.answer(chain.start_prompt(healthy, f"/stream {COUNT} {SIZE}"))
    hang = chain.start_prompt(healthy, "/hang")
    poisoned = chain.start_prompt(other, "/echo poison")
    for asked in (*_noticed(chain, fault), hang, poisoned):
        _names_evil(chain.answer(asked), ENDS[fault])
        assert "\nhint: " in chain.answer(asked)["error"]["message"]
    assert chain.exit_code() == 1
    _complete(chain.texts(healthy))
    _once(chain)
    _in_order([f["params"] for f in chain.seen("_evil/flood")])
    assert len(chain.seen("_evil/flood")) == (FLOOD if "flood" in fault else 0)
    assert chain.stderr.count("error: ") == 1, chain.stderr
    assert ENDS[fault] in chain.stderr
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("fault", ENDS)
def test_a_chain_goes_on_without_it(rig: Rig, fault: str) -> None:
    """With `on_failure=bypass` the same faults cost what was open, and nothing else."""
    chain = _chain(rig, fault, "bypass")
    healthy, other = chain.begin(), chain.new_session()
    evil = rig.kin(chain).named("hostile_proxy")
    poisoned = chain.start_prompt(other, "/echo poison")
    for asked in (*_noticed(chain, fault), poisoned):
        _names_evil(chain.answer(asked), ENDS[fault])
    chain.until_stderr("the chain goes on without it")
    assert [pid for pid in evil if not wait_gone(pid, DEADLINE)] == []
    assert "result" in chain.answer(chain.start_prompt(healthy, f"/stream {COUNT} {SIZE}"))
    _complete(chain.texts(healthy))
    assert chain.prompt(other, "/echo poison no more") == "poison no more"
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    _once(chain)
    assert rig.leftovers(chain) == []


@pytest.mark.proves("nor do hostile programs: floods")
@pytest.mark.parametrize("fault", HANGS)
def test_a_fault_that_hangs_is_ended_with_the_chain(rig: Rig, fault: str) -> None:
    chain = _chain(rig, fault, drain="3")  # as long as what was asked may take to come to it
    healthy, other = chain.begin(), chain.new_session()
    assert "result" in chain.answer(chain.start_prompt(healthy, f"/stream {COUNT} {SIZE}"))
    chain.settled()
    asked = [chain.start_prompt(other, "/echo poison"), chain.start_prompt(healthy, "/echo on")]
    chain.eof()
    for each in asked:
        assert "error" in chain.answer(each)
        _names_evil(chain.answer(each), "did not answer `session/prompt`")
    assert chain.exit_code() == 1
    _complete(chain.texts(healthy))
    _once(chain)
    assert rig.leftovers(chain) == []


def test_who_asks_while_the_chain_ends_is_told_of_the_culprit(rig: Rig) -> None:
    """The error does not name a neighbour that was ended because of the culprit; the culprit ends
    slowly."""
    chain = _chain(rig, "closes_stdout")
    chain.begin()
    late = [chain.start_prompt(chain.new_session(), "/echo poison")]

    def over() -> bool:
        if chain.answers(late[-1]):
            late.append(int(chain.start("_rig/late")))
        return chain.output_ended

    chain.until(over, "the end of what the conductor says")
    assert chain.exit_code() == 1
    answers = [chain.answers(asked) for asked in late]
    assert len(answers[0]) == 1
    for answer in answers:
        for each in answer:  # the last ones may have been too late to be heard
            _names_evil(each, ENDS["closes_stdout"])
    _once(chain)
