"""The states of a carried request: every row of the table, and every move that it does not have."""

import itertools
from collections.abc import Callable
from typing import Final

import pytest

from conductor.core import Closure
from conductor.core.policy.cancellations import GRACE
from conductor.core.policy.states import MOST_RETRIES, MOVES, Event, State, to
from tests.harness.router.policed import (
    CANCELLED,
    DONE,
    PROMPT,
    V1,
    Hole,
    Noted,
    Playbook,
    broke,
    cancel,
    carried,
    chain,
    chain_of,
    error,
    failed,
    given,
    guest,
    lacks,
    notification,
    passed,
    prompt,
    refused,
    request,
    result,
    returned,
    settled,
    skip,
    stop,
)

ALL: Final = "down:session/prompt:carry+answer+amend"
GONE: Final = Closure("proxy `g` died", "start it again", {"component": "g"})
REFUSED: Final = (-32800, "Request cancelled")
S, E = State, Event


# -- how a state is come by, and how an event ------------------------------------------------------


def queue(pb: Playbook) -> None:
    """The component is being started again: a prompt waits."""
    pb >> (lambda router: router.leaving("g", GONE))
    pb >> ("client", request("a", PROMPT, prompt("hi")))


def stopped(pb: Playbook) -> None:
    """A prompt is cancelled while the component has it."""
    given(pb)
    pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())


def passed_on(pb: Playbook) -> None:
    """A prompt is passed on."""
    given(pb)
    passed(pb)


def closed(pb: Playbook) -> None:
    """A prompt has been answered."""
    returned(pb)
    pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


REACHED: Final[dict[State, Callable[[Playbook], None]]] = {
    S.QUEUED: queue,
    S.GIVEN: given,
    S.STOPPED: stopped,
    S.PASSED: passed_on,
    S.RETURNED: returned,
    S.CLOSED: closed,
}


def deliver(pb: Playbook) -> None:
    """The component is there again, and takes its role."""
    pb >> (lambda router: router.returned("g"))
    pb << ("g", "p", request(Hole("role"), "initialize", V1))
    pb >> ("g", "p", result(Hole("role"), {}))


HAPPENS: Final[dict[Event, Callable[[Playbook], object]]] = {
    E.DELIVERED: deliver,
    E.PASSED_ON: lambda pb: pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi"))),
    E.ANSWERED: lambda pb: pb >> ("g", "p", result(Hole("g-a"), DONE)),
    E.CAME_BACK: lambda pb: pb >> ("agent", result(Hole("a-a"), DONE)),
    E.WENT_PAST: lambda pb: pb >> ("agent", result(Hole("a-a"), DONE)),
    E.CANCELLED: lambda pb: pb >> ("client", cancel("a")),
    E.GRACE_OVER: lambda pb: pb.wake(GRACE),
    E.LATE: lambda pb: pb.wake(7.0),
    E.LOST: lambda pb: pb >> (lambda router: router.bypassed("g", GONE)),
}
HAPPENS_NOT: Final = {
    # Nobody has been told its id.
    *itertools.product([S.QUEUED], [E.PASSED_ON, E.ANSWERED, E.CAME_BACK, E.WENT_PAST]),
    # A request is delivered once, after it was queued.
    *itertools.product(set(S) - {S.QUEUED}, [E.DELIVERED]),
    # The agent has not got it, or has answered.
    *itertools.product(set(S) - {S.PASSED}, [E.CAME_BACK, E.WENT_PAST]),
}
HOLDS: Final = (("g", 7.0), ("h", 9.0))
NO_AMEND: Final = "down:session/prompt:carry+answer"


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_a_request_moves_by_the_table_and_no_further(state: State, event: Event) -> None:
    if (state, event) in HAPPENS_NOT:
        assert (state is not S.QUEUED) or to(state, event) is None
        return
    with chain(NO_AMEND if event is E.WENT_PAST else ALL, hold=7.0) as pb:
        REACHED[state](pb)
        (one,) = carried(pb)
        assert one.state is state
        HAPPENS[event](pb)
        skip(pb)
        assert one.state is (to(state, event) or state)
        pb.wake()
        skip(pb)
        pb >> (lambda router: router.bypassed("g", GONE))
        skip(pb)
        assert settled(pb.router)


# -- a playbook for each row -------------------------------------------------------------------


def queued_delivered(pb: Playbook) -> None:
    queue(pb)
    pb >> (lambda router: router.returned("g"))
    pb << ("g", "p", request(Hole("role"), "initialize", V1))
    pb >> ("g", "s", request(Hole("role"), "initialize", V1))
    skip(pb)
    pb >> ("g", "p", result(Hole("role"), {}))
    pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
    passed(pb)


def queued_cancelled(pb: Playbook) -> None:
    queue(pb)
    pb >> ("client", stop()) << ("client", result("a", CANCELLED)) << ("agent", stop())
    pb >> ("client", request("b", PROMPT, prompt("again")))
    pb >> ("client", cancel("b")) << ("client", error("b", *REFUSED))
    deliver(pb)  # and it never sees either


def queued_lost(pb: Playbook) -> None:
    queue(pb)
    pb >> (lambda router: router.bypassed("g", GONE))
    pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def given_passed_on(pb: Playbook) -> None:
    given(pb)
    changed = prompt("changed")
    pb >> ("g", "s", request(Hole("g-a"), PROMPT, changed))
    pb << ("agent", request(Hole("a-a"), PROMPT, changed))


def given_answered(pb: Playbook) -> None:
    given(pb)
    pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def given_cancelled(pb: Playbook) -> None:
    given(pb)
    pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
    given(pb, "again", "b")
    pb >> ("client", cancel("b")) << ("g", "p", cancel(Hole("g-b")))


def given_late(pb: Playbook) -> None:
    given(pb)
    pb.wake(7.0)
    broke(pb, "hold", "held `session/prompt` for more than 7 s")
    pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def given_lost(pb: Playbook) -> None:
    given(pb)
    pb >> (lambda router: router.bypassed("g", GONE))
    pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def stopped_passed_on(pb: Playbook) -> None:
    stopped(pb)
    pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
    pb << ("g", "s", result(Hole("g-a"), CANCELLED)) << ("client", result("a", CANCELLED))


def stopped_answered(pb: Playbook) -> None:
    stopped(pb)
    pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", CANCELLED))


def stopped_grace_over(pb: Playbook) -> None:
    stopped(pb)
    pb.wake(GRACE)
    pb << ("client", result("a", CANCELLED))


def stopped_lost(pb: Playbook) -> None:
    stopped(pb)
    pb >> (lambda router: router.bypassed("g", GONE)) << ("client", result("a", CANCELLED))


def passed_came_back(pb: Playbook) -> None:
    passed_on(pb)
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))


def passed_went_past(pb: Playbook) -> None:
    passed_on(pb)
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
    pb << ("client", result("a", DONE))


def passed_cancelled(pb: Playbook) -> None:
    passed_on(pb)
    pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
    pb << ("agent", cancel(Hole("a-a")))
    pb >> ("g", "s", cancel(Hole("g-a")))  # which it passes on, and is known already
    given(pb, "again", "b")
    passed(pb, "again", "b")
    pb >> ("client", stop()) << ("agent", stop())  # who does not hold it need not know


def passed_lost(pb: Playbook) -> None:
    passed_on(pb)
    pb >> (lambda router: router.bypassed("g", GONE))
    pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def returned_passed_on(pb: Playbook) -> None:
    returned(pb)
    for _ in range(MOST_RETRIES):
        del pb.values["a-a"]
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
    pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
    broke(pb, "identity", "once more")
    refused(pb, Hole("g-a"), "passed on `session/prompt` once more")
    pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def returned_answered(pb: Playbook) -> None:
    returned(pb)
    said = {"stopReason": "end_turn", "_meta": {"example.com/n": 1}}
    pb >> ("g", "p", result(Hole("g-a"), said))
    skip(pb)  # whether it may be changed so is for the guards


def returned_cancelled(pb: Playbook) -> None:
    returned(pb)
    pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
    pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def returned_late(pb: Playbook) -> None:
    returned(pb)
    pb.wake(7.0)
    broke(pb, "hold", "held `session/prompt` for more than 7 s")
    pb << ("client", result("a", DONE))


def returned_lost(pb: Playbook) -> None:
    returned(pb)
    pb >> (lambda router: router.bypassed("g", GONE)) << ("client", result("a", DONE))


ROWS: Final[dict[tuple[State, Event], Callable[[Playbook], None]]] = {
    (S.QUEUED, E.DELIVERED): queued_delivered,
    (S.QUEUED, E.CANCELLED): queued_cancelled,
    (S.QUEUED, E.LOST): queued_lost,
    (S.GIVEN, E.PASSED_ON): given_passed_on,
    (S.GIVEN, E.ANSWERED): given_answered,
    (S.GIVEN, E.CANCELLED): given_cancelled,
    (S.GIVEN, E.LATE): given_late,
    (S.GIVEN, E.LOST): given_lost,
    (S.STOPPED, E.PASSED_ON): stopped_passed_on,
    (S.STOPPED, E.ANSWERED): stopped_answered,
    (S.STOPPED, E.GRACE_OVER): stopped_grace_over,
    (S.STOPPED, E.LOST): stopped_lost,
    (S.PASSED, E.CAME_BACK): passed_came_back,
    (S.PASSED, E.WENT_PAST): passed_went_past,
    (S.PASSED, E.CANCELLED): passed_cancelled,
    (S.PASSED, E.LOST): passed_lost,
    (S.RETURNED, E.PASSED_ON): returned_passed_on,
    (S.RETURNED, E.ANSWERED): returned_answered,
    (S.RETURNED, E.CANCELLED): returned_cancelled,
    (S.RETURNED, E.LATE): returned_late,
    (S.RETURNED, E.LOST): returned_lost,
}


@pytest.mark.proves("every request gets its answer")
@pytest.mark.parametrize("row", MOVES, ids=lambda row: f"{row.state.value}-{row.event.name}")
def test_each_row_has_its_playbook(row: object) -> None:
    assert len(ROWS) == len(MOVES)
    assert isinstance(row, tuple)
    with chain(NO_AMEND if row[1] is E.WENT_PAST else ALL, hold=7.0) as pb:
        ROWS[row[0], row[1]](pb)


# -- with `fails=closed`, and where a rule is broken -----------------------------------------------


@pytest.mark.parametrize("fails", ["open", "closed"])
@pytest.mark.parametrize("event", ["rule", "answer", "late", "lost"])
def test_what_becomes_of_a_request_whose_component_fails(fails: str, event: str) -> None:
    """The request goes on as it was given; a gatekeeper's is answered with an error that names the
    component."""
    with chain("down:session/prompt:carry", "up:*:copy", hold=7.0, fails=fails) as pb:
        given(pb)
        if event == "rule":
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi", "T")))
            broke(pb, taken_rule(pb))
            if fails == "closed":
                refused(pb, Hole("g-a"))
        elif event == "answer":
            pb >> ("g", "p", result(Hole("g-a"), DONE))
            lacks(pb, "answer", PROMPT)
        elif event == "late":
            pb.wake(7.0)
            broke(pb, "hold")
        else:
            pb >> (lambda router: router.bypassed("g", GONE))
        if fails == "closed":
            failed(pb, "a", "proxy `g`")
            return
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        if event == "rule":
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        else:
            pb >> ("agent", result(Hole("a-a"), DONE))
        pb << ("client", result("a", DONE))


def taken_rule(pb: Playbook) -> str:
    """The rule of the violation that follows."""
    rule: str = pb.effects[0].rule  # type: ignore[union-attr]
    return rule


def test_settings_wait_behind_a_prompt_that_is_queued() -> None:
    with chain(ALL) as pb:
        queue(pb)
        pb >> ("client", request("m", "session/set_mode", {"sessionId": "S", "modeId": "x"}))
        pb.wake()
        deliver(pb)
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
        passed(pb)
        pb << ("agent", request(Hole("m"), "session/set_mode", {"sessionId": "S", "modeId": "x"}))


def test_what_else_goes_past_waits_for_a_component_that_is_away_no_longer_than_a_round() -> None:
    note = notification("_n", {"sessionId": "S"})
    with chain(ALL) as pb:
        queue(pb)
        pb >> ("client", note)
        pb.wake(1.0)
        pb << ("agent", note)
        deliver(pb)
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))


# -- every other move ----------------------------------------------------------------------------


def test_passing_it_on_twice_is_refused() -> None:
    with chain(ALL) as pb:
        passed_on(pb)
        pb >> ("g", "p", notification("_n"))
        lacks(pb, "originate", "_n")
        # Under an id that is open, JSON-RPC itself forbids it.
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb << Noted("warning", "g", "still in use")
        pb << ("g", "s", error(None, -32600, "request id 2 is still in use"))
        pb >> ("g", "s", request("own", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "own", "may not send `session/prompt` of its own")


@pytest.mark.parametrize("error_", [False, True])
def test_answering_before_the_answer_is_there_is_a_violation(error_: bool) -> None:
    answer = error(Hole("g-a"), 1, "no") if error_ else result(Hole("g-a"), DONE)
    with chain(ALL) as pb:
        passed_on(pb)
        pb >> ("g", "p", answer)
        broke(pb, "identity", "too early")
        pb >> ("agent", result(Hole("a-a"), CANCELLED))
        pb << ("g", "s", result(Hole("g-a"), CANCELLED)) << ("client", result("a", CANCELLED))
        assert settled(pb.router)


@pytest.mark.proves("conductor does not mistake a")
def test_what_is_over_is_over() -> None:
    with chain(ALL) as pb:
        closed(pb)
        pb >> ("g", "p", result(Hole("g-a"), CANCELLED))
        pb << Noted("warning", "g", "no request is open under its id")
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        broke(pb, "identity", "too late")
        refused(pb, Hole("g-a"))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        broke(pb, "identity", again=True)
        refused(pb, Hole("g-a"))


@pytest.mark.parametrize("late", [True, False])
def test_who_has_lost_a_request_has_no_say_over_it_with_the_next(late: bool) -> None:
    """Messages that waited behind the request go on as far as it does; its time is the next
    component's own."""
    guests = [guest("down:session/prompt:carry", name=name, hold=hold) for name, hold in HOLDS]
    with chain_of(*guests) as pb:
        given(pb)
        pb >> ("client", notification("_x", {"sessionId": "S"}))
        if late:
            pb.wake(7.0)
            broke(pb, "hold")
        else:
            pb >> ("g", "p", error(Hole("g-a"), -32603, "it failed"))
            pb << Noted("warning", "g", "failed at `session/prompt`")
        pb << ("h", "p", request(Hole("h-a"), PROMPT, prompt("hi")))
        pb.wake(7.0)
        pb >> ("h", "s", request(Hole("h-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb << ("agent", notification("_x", {"sessionId": "S"}))
