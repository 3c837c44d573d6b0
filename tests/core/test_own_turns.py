"""Turns of components' own: who has one, who waits for it, and who ends it."""

import gc
from typing import Any

import pytest

from conductor.core import Changed, Closure, Component, Entry, Send, Serve
from conductor.core import state as state_module
from conductor.core.aliases import Aliases, to_json
from conductor.core.own_turns import MARK, MOST_TURNS
from conductor.core.policy.key_table import STOP
from conductor.core.state import Visit
from conductor.core.turn_queue import LAST_WORDS, MOST_WAIT
from tests.core.policy.test_hosts import ABOVE, host
from tests.harness.router.actors import dump
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    UPDATE,
    Hole,
    Json,
    Noted,
    Playbook,
    came_back,
    cancel,
    chain,
    chain_of,
    error,
    given,
    guest,
    heard,
    notification,
    passed,
    prompt,
    request,
    result,
    settled,
    skip,
    state,
    stop,
    tool_call,
    trusted,
    update,
    wrapped,
)

FREE: Json = {"grants": "turns=unprompted"}
CARRIES = "down:session/prompt:carry+amend"
INSERTED: Json = {"messageId": "m"}
IDLE: Json = {"sessionUpdate": "state_update", "state": "idle"}
GONE = Closure("gone")


def begin(id_: Any = 1, session: str = "S", **more: Any) -> Json:
    """The call that begins a turn."""
    return request(id_, "turn/begin", {"sessionId": session, **more})


def begun(pb: Playbook, name: str = "g", session: str = "S", **more: Any) -> str:
    """A component begins a turn, and has it at once. Returns how the playbook calls it."""
    hole = f"turn-of-{name}"
    pb.values.pop(hole, None)
    pb >> (name, "c", begin(1, session, **more)) << (name, "c", result(1, {"turn": Hole(hole)}))
    return hole


def end(pb: Playbook, hole: str, name: str = "g", id_: int = 2) -> None:
    """The component ends its turn."""
    pb >> (name, "c", request(id_, "turn/end", {"turn": pb.values[hole]}))


def asks(pb: Playbook, id_: str = "a", session: str = "S") -> None:
    """The client prompts."""
    pb >> ("client", request(id_, PROMPT, prompt("hi", session)))


def at_agent(pb: Playbook, id_: str = "a", text: str = "hi", session: str = "S") -> None:
    """The agent gets a prompt."""
    pb.values.pop(f"a-{id_}", None)
    pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, prompt(text, session)))


def own(pb: Playbook, name: str = "g", id_: str = "own", session: str = "S") -> None:
    """The component prompts, and the agent gets it."""
    pb >> (name, "s", request(id_, PROMPT, prompt("mine", session)))
    at_agent(pb, id_, "mine", session)


def over(pb: Playbook, name: str = "g", id_: str = "own") -> None:
    """The agent answers the prompt."""
    pb >> ("agent", result(Hole(f"a-{id_}"), DONE)) << (name, "s", result(id_, DONE))


def mark(component: str = "g", session: str = "S") -> Json:
    """The update that tells the client of version 1 that a turn without a prompt is over."""
    meta = {MARK: {"state": "idle", "component": component}}
    held = {"sessionUpdate": "session_info_update", "_meta": meta}
    return notification(UPDATE, {"sessionId": session, "update": held})


def refused(pb: Playbook, name: str, id_: Any, text: str, code: int = -32600) -> None:
    """A call is refused, and the log says so."""
    if code == -32600:
        pb << Noted("warning", name, text)
    pb << (name, "c", error(id_, code, Hole("why")))
    assert text in pb.values["why"]


# -- a turn, and who waits for it ------------------------------------------------------------------


def test_a_turn_that_the_client_sees_ends_with_a_mark() -> None:
    with chain(**FREE) as pb:
        turn = begun(pb)
        asks(pb)
        own(pb)
        for said in (update("shown"), tool_call("t")):
            pb >> ("agent", said) << ("g", "s", said) << ("client", said)
        over(pb)
        asks(pb, "b")
        end(pb, turn)
        pb << ("client", mark())
        at_agent(pb)
        at_agent(pb, "b")
        pb << ("g", "c", result(2, {}))
        pb >> ("agent", update("theirs")) << ("client", update("theirs"))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        pb >> ("agent", result(Hole("a-b"), DONE)) << ("client", result("b", DONE))
        assert settled(pb.router)


def test_of_one_that_it_does_not_see_nothing_is_left() -> None:
    with chain(**FREE) as pb:
        turn = begun(pb, show=False)
        own(pb)
        for said in (update("hidden"), tool_call("t")):
            pb >> ("agent", said) << ("g", "s", said)
        over(pb)
        end(pb, turn)
        pb << ("g", "c", result(2, {}))
        end(pb, turn, id_=3)  # it is over already
        pb << ("g", "c", result(3, {}))


def test_in_version_2_the_agents_own_state_is_the_mark() -> None:
    with chain(version=2, **FREE) as pb:
        turn = begun(pb)
        own(pb)
        pb >> ("agent", result(Hole("a-own"), INSERTED)) << ("g", "s", result("own", INSERTED))
        asks(pb)
        pb >> ("agent", state("running"))
        pb << ("g", "s", state("running")) << ("client", state("running"))
        end(pb, turn)  # early: the agent still works
        pb << ("g", "c", result(2, {}))
        pb >> ("agent", state("idle")) << ("g", "s", state("idle")) << ("client", state("idle"))
        at_agent(pb)


@pytest.mark.parametrize("answer", [INSERTED, DONE])
def test_in_version_2_nobody_nests_in_a_prompt_that_the_agent_works_on(answer: Json) -> None:
    """Although the component holds the answer to that prompt already."""
    with chain(CARRIES, version=2, grants="turns=within") as pb:
        given(pb)
        passed(pb)
        if answer == INSERTED:
            came_back(pb, answer)
            pb >> ("g", "c", begin(7))
            pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
            pb >> ("agent", state("running")) << ("client", state("running"))
            pb >> ("agent", state("idle")) << ("client", state("idle"))
        else:
            given(pb, asked="b")
            pb >> ("g", "c", begin(7))
            pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
            came_back(pb, answer)
        pb << ("g", "c", result(7, {"turn": Hole("turn")}))
        at_agent(pb, "own", "mine")


@pytest.mark.parametrize("how", ["ended", "cancelled", "gone"])
@pytest.mark.parametrize("reads", [False, True])
def test_in_version_2_the_users_turn_goes_on_while_one_nests_in_it(how: str, reads: bool) -> None:
    """The two turns count as one: the client is told `idle` when both are over."""
    rights = [CARRIES, *([CARRY_TEXT] if reads else [])]
    with chain(*rights, version=2, grants="turns=within") as pb:
        given(pb)
        turn = begun(pb)
        passed(pb)
        came_back(pb, INSERTED)
        pb >> ("g", "p", result(Hole("g-a"), INSERTED)) << ("client", result("a", INSERTED))
        pb >> heard >> ("agent", state("running"))
        if reads:
            pb << ("g", "s", state("running"))
            pb >> heard
        pb << ("client", state("running"))
        pb >> ("agent", update("work"))
        if reads:  # the idle comes while that is on its way
            pb << ("g", "s", update("work"))
            pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
            pb >> ("g", "p", update("work")) << ("client", update("work"))
            pb >> heard
        else:
            pb << ("client", update("work"))
            pb >> ("agent", state("idle"))
        if how == "ended":
            end(pb, turn)
            pb << ("client", state("idle")) << ("g", "c", result(2, {}))
        elif how == "cancelled":
            pb >> ("client", stop())
            pb << ("client", state("idle")) << ("agent", stop())
        else:
            pb >> (lambda router: router.bypassed("g", GONE)) << ("client", state("idle"))
        asks(pb, "b")
        skip(pb)


def test_in_version_2_a_prompt_is_over_once() -> None:
    with chain(version=2, **FREE) as pb:
        asks(pb)
        at_agent(pb)
        pb >> ("agent", state("running")) << ("client", state("running"))
        pb >> ("agent", state("idle")) << ("client", state("idle"))
        begun(pb)
        asks(pb, "b")
        pb >> ("agent", error(Hole("a-a"), 1, "no")) << ("client", error("a", 1, "no"))
        own(pb)


@pytest.mark.parametrize(
    ("key", "message"), [("k", "m"), ("k", "n"), ("k", 1), ("k", None), (1, "m"), ("", "m")]
)
def test_in_version_2_a_prompt_that_is_sent_again_begins_no_turn(key: Any, message: Any) -> None:
    """The agent answers with the message of the first prompt: its turn is over, nothing follows."""
    sent = {**prompt("hi"), "idempotencyKey": key}
    idle = notification(UPDATE, {"sessionId": "S", "update": IDLE})
    with chain(version=2, **FREE) as pb:
        for id_, said in (("a", "m" if message == "n" else message), ("b", message)):
            pb >> ("client", request(id_, PROMPT, sent))
            pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, sent))
            if id_ == "b":
                pb >> ("g", "c", begin())
            inserted = {"messageId": said}
            pb >> ("agent", result(Hole(f"a-{id_}"), inserted)) << ("client", result(id_, inserted))
            if id_ == "a":
                pb >> ("agent", state("idle")) << ("client", state("idle"))
        if (key, message) == ("k", "m"):
            pb << ("client", idle)
        else:  # there is no key, or the agent knows nothing of keys: a turn runs
            pb >> ("agent", state("idle")) << ("client", state("idle"))
        pb << ("g", "c", result(1, {"turn": Hole("turn")}))


def test_in_a_session_of_its_own_nobody_waits() -> None:
    with chain(**FREE) as pb:
        begun(pb)
        asks(pb, "b", "T")
        at_agent(pb, "b", session="T")
        pb >> ("client", request("m", "session/set_mode", {"sessionId": "S", "modeId": "x"}))
        pb << ("agent", request(Hole("m"), "session/set_mode", {"sessionId": "S", "modeId": "x"}))


def test_it_nests_in_a_prompt_that_the_component_holds() -> None:
    with chain(CARRIES, grants="turns=within") as pb:
        given(pb)
        turn = begun(pb, show=False)
        own(pb)
        asks(pb, "b")
        over(pb)
        end(pb, turn)
        pb << ("g", "p", request(Hole("g-b"), PROMPT, prompt("hi")))
        pb << ("g", "c", result(2, {}))
        passed(pb)


def test_one_that_waits_nests_once_the_component_holds_the_answer() -> None:
    """The component may wait for its own turn before it passes the prompt's answer on."""
    with chain(CARRIES, **FREE) as pb:
        given(pb)
        passed(pb)
        pb >> ("g", "c", begin(1, "T")) << ("g", "c", result(1, {"turn": Hole("other")}))
        pb >> ("g", "c", begin(3)) >> ("g", "c", begin(4, "T"))
        pb << ("g", "c", result(4, {"turn": Hole("nested")}))
        came_back(pb)
        pb << ("g", "c", result(3, {"turn": Hole("turn")}))
        own(pb)
        over(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def test_a_program_that_passes_a_prompt_on_twice_gets_both_answers() -> None:
    with chain_of(trusted("f", "acp")) as pb:
        asks(pb)
        pb << ("f", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("f", wrapped("acp", request("one", PROMPT, prompt("hi"))))
        at_agent(pb, "one")
        pb >> ("f", wrapped("acp", request("two", PROMPT, prompt("hi"))))
        pb >> ("agent", result(Hole("a-one"), DONE)) << ("f", result("one", DONE))
        at_agent(pb, "two")
        pb >> ("agent", result(Hole("a-two"), DONE)) << ("f", result("two", DONE))
        pb >> ("f", result(Hole("f-a"), DONE)) << ("client", result("a", DONE))


def two(**more: Any) -> Playbook:
    """Two guests that may prompt at any time, `f` before `g`."""
    return chain_of(guest(name="f", **FREE), guest(**FREE), **more)


def test_a_prompt_that_waits_and_is_cancelled_by_its_own_goes_nowhere() -> None:
    with two() as pb:
        begun(pb, "f")
        pb >> ("g", "s", request("mine", PROMPT, prompt("mine")))
        pb >> ("g", "s", cancel("mine")) << ("g", "s", error("mine", -32800, Hole("why")))
        assert "the turn does not begin" in pb.values["why"]


# -- the end of a turn -----------------------------------------------------------------------------


def test_what_a_message_lets_go_on_does_not_take_its_number() -> None:
    with two(logging=True, audited={"g"}) as pb:
        pb.router.receive("f", b"c" + dump(begin()))
        waits = request("own", PROMPT, prompt("mine"))
        effects = pb.router.receive("g", b"s" + dump(waits))
        effects += pb.router.receive("client", dump(stop()))
        numbers = {one.method: one.number for one in effects if type(one) is Entry and one.method}
        [change] = [one for one in effects if type(one) is Changed]
        assert (change.method, change.number) == (PROMPT, numbers[PROMPT])
        assert numbers.keys() == {PROMPT, STOP}
        assert numbers[PROMPT] < numbers[STOP]


def test_a_session_that_is_closed_has_no_turns() -> None:
    with two() as pb:
        begun(pb, "f")
        pb >> ("g", "c", begin(5, "T")) << ("g", "c", result(5, {"turn": Hole("other")}))
        pb >> ("g", "c", begin())
        params = {"sessionId": "S"}
        pb >> ("client", stop("U")) << ("agent", stop("U"))
        pb >> ("client", request("x", "session/close", params))
        pb << ("g", "c", error(1, -32800, Hole("why")))
        pb << ("agent", request(Hole("x"), "session/close", params))


@pytest.mark.parametrize("how", ["bypassed", "leaving", "pause"])
def test_who_goes_loses_its_turns(how: str) -> None:
    with two() as pb:
        begun(pb, "f")
        pb >> ("f", "c", begin(5, "T")) << ("f", "c", result(5, {"turn": Hole("other")}))
        pb >> ("g", "c", begin(7))
        if how == "pause":
            pb >> (lambda router: router.pause("f", paused=True))
        else:
            pb >> (lambda router: getattr(router, how)("f", GONE))
        pb << ("g", "c", result(7, {"turn": Hole("turn")}))
        if how == "pause":
            pb >> ("f", "c", begin(8))
            refused(pb, "f", 8, "is paused, and begins no turns")


@pytest.mark.proves("turns of several components do")
def test_others_wait_for_a_bounded_time() -> None:
    with two() as pb:
        first = begun(pb, "f")
        own(pb, "f")
        pb.wake(MOST_WAIT)  # nobody waits
        asks(pb)
        pb >> ("g", "c", begin(7))
        pb.wake(MOST_WAIT) << Noted("warning", "f", "had a turn while others waited for 120 s")
        pb << ("agent", stop())
        pb.wake(LAST_WORDS) << ("client", mark("f"))
        at_agent(pb)
        over(pb, "f")
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        pb << ("g", "c", result(7, {"turn": Hole("second")}))
        end(pb, first, "f")
        pb << ("f", "c", result(2, {}))


def test_one_without_a_prompt_ends_at_once_and_one_that_is_over_has_no_time() -> None:
    with two() as pb:
        first = begun(pb, "f")
        asks(pb)
        end(pb, first, "f")
        at_agent(pb)
        pb << ("f", "c", result(2, {}))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        begun(pb)
        pb.wake(MOST_WAIT)
        pb >> ("f", "c", begin(9))
        pb.wake(MOST_WAIT) << Noted("warning", "g", "had a turn while others waited")
        pb << ("f", "c", result(9, {"turn": Hole("turn")}))


def test_those_that_waited_together_wait_for_the_first_for_a_bounded_time() -> None:
    with chain_of(guest(name="f", **FREE), guest(**FREE)) as pb:
        asks(pb)
        at_agent(pb)
        pb >> ("f", "c", begin()) >> ("g", "c", begin())
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        pb << ("f", "c", result(1, {"turn": Hole("first")}))
        pb.wake(MOST_WAIT) << Noted("warning", "f", "had a turn while others waited")
        pb << ("g", "c", result(1, {"turn": Hole("second")}))


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
def test_one_that_nests_runs_out_once_its_prompt_is_over(early: bool) -> None:
    answers = f"{CARRIES}+answer"
    with chain_of(guest(answers, name="f", **FREE), guest(**FREE)) as pb:
        asks(pb)
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        begun(pb, "f")
        if early:
            pb >> ("g", "c", begin())
        pb >> ("f", "p", result(Hole("f-a"), DONE)) << ("client", result("a", DONE))
        if not early:
            pb >> ("g", "c", begin())
        pb.wake(MOST_WAIT) << Noted("warning", "f", "had a turn while others waited")
        pb << ("g", "c", result(1, {"turn": Hole("second")}))


def test_a_turn_within_anothers_prompt_does_not_run_out_for_a_component_that_waits() -> None:
    with chain_of(guest(CARRIES, name="f", grants="turns=within"), guest(**FREE)) as pb:
        asks(pb)
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        begun(pb, "f")
        pb >> ("g", "c", begin(7))
        pb.wake(MOST_WAIT)


def test_the_time_runs_while_somebody_waits() -> None:
    with two() as pb:
        first = begun(pb, "f")
        pb >> ("g", "s", request("mine", PROMPT, prompt("mine")))
        pb >> ("g", "s", cancel("mine")) << ("g", "s", error("mine", -32800, Hole("why")))
        pb.wake(MOST_WAIT)
        asks(pb)
        end(pb, first, "f")
        at_agent(pb)
        pb << ("f", "c", result(2, {}))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        begun(pb, "f")
        asks(pb, "b")
        pb.wake(MOST_WAIT) << Noted("warning", "f", "had a turn while others waited for 120 s")
        at_agent(pb, "b")


@pytest.mark.parametrize("ends_the_first", [False, True])
def test_turns_that_nest_in_each_other_do_not_make_the_time_longer(ends_the_first: bool) -> None:
    with two() as pb:
        first = begun(pb, "f")
        asks(pb)
        pb >> ("f", "c", begin(5)) << ("f", "c", result(5, {"turn": Hole("inner")}))
        if ends_the_first:
            end(pb, first, "f")
            pb << ("f", "c", result(2, {}))
        own(pb, "f")
        pb.wake(MOST_WAIT) << Noted("warning", "f", "had a turn while others waited for 120 s")
        if not ends_the_first:
            pb << Noted("warning", "f", "had a turn while others waited for 120 s")
        pb << ("agent", stop())
        # A turn that would nest in a turn whose time is over does not begin.
        pb >> ("f", "c", begin(6)) << ("f", "c", error(6, -32800, Hole("why")))
        assert "others have waited too long" in pb.values["why"]
        over(pb, "f")
        pb << ("client", mark("f"))
        at_agent(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        begun(pb, "f")


def test_an_agent_that_ends_takes_all_that_waits_with_it() -> None:
    names = ["f", "g", "h"]
    pb = chain_of(*(guest(name=name, **FREE) for name in names))
    pb.router.receive("client", dump(request("a", PROMPT, prompt("hi"))))
    for name in names:
        for number in range(MOST_TURNS):
            asked = request(f"own-{number}", PROMPT, prompt("mine"))
            assert pb.router.receive(name, b"s" + dump(asked)) == []
    effects = pb.router.closed("agent", GONE)
    sent = [effect for effect in effects if isinstance(effect, Send)]
    assert len(sent) == len(names) * MOST_TURNS + 1
    assert settled(pb.router)


# -- calls that are refused ------------------------------------------------------------------------


def test_who_may_not_begin_one() -> None:
    with chain() as pb:
        pb >> ("g", "c", begin())
        refused(pb, "g", 1, "proxy `g` may not begin turns\nhint: `,allow=prompt:within`")
    with chain(CARRIES, grants="turns=within") as pb:
        pb >> ("g", "c", begin())
        refused(pb, "g", 1, "only within one of the user's, while it holds that prompt")


@pytest.mark.proves("turns of several components do")
def test_calls_that_make_no_sense() -> None:
    with two() as pb:
        pb >> ("g", "c", request(1, "turn/begin", {"show": True}))
        pb << Noted("warning", "g", "missing required field `sessionId`")
        pb << ("g", "c", error(1, -32602, Hole("_")))
        pb >> ("g", "c", request(2, "turn/end"))
        pb << Noted("warning", "g", "missing required field `turn`")
        pb << ("g", "c", error(2, -32602, Hole("_ ")))
        pb >> ("g", "c", request(3, "turn/end", {"turn": ""}))
        pb << Noted("warning", "g", "Expected `str` of length >= 1")
        pb << ("g", "c", error(3, -32602, Hole("_  ")))
        pb >> ("g", "c", notification("turn/begin", {"sessionId": "S"}))
        pb >> ("g", "c", notification("turn/end", {}))
        turn = begun(pb, "f")
        end(pb, turn, "g", 3)
        refused(pb, "g", 3, "does not have this turn: another component does")
        pb >> ("f", "c", notification("turn/end", {"turn": pb.values[turn]}))
        begun(pb)


@pytest.mark.proves("turns of several components do")
def test_nobody_begins_turns_for_ever() -> None:
    with two() as pb:
        for number in range(MOST_TURNS):
            pb.values.clear()
            pb >> ("g", "c", begin(number)) << ("g", "c", result(number, {"turn": Hole("t")}))
        pb >> ("g", "c", begin("more"))
        refused(pb, "g", "more", f"has, or waits for, {MOST_TURNS} turns")
    with chain_of(trusted("h")) as pb:  # each guest of a host counts by itself
        for number in range(1, MOST_TURNS + 2):
            pb >> ("h", "c", request(number, "clock")) << Serve("h", "clock", number, None)
            wanted = dump({"sessionId": f"S{number}", "show": True, "within": False})
            pb.values.clear()
            pb >> _relayed("one" if number > 1 else "two", "turn/begin", wanted, number)
            pb << ("h", "c", result(number, {"turn": Hole("t")}))


@pytest.mark.proves("turns of several components do")
def test_the_session_of_another_is_the_others() -> None:
    setup = {"cwd": "/w", "mcpServers": []}
    both = {"grants": "turns=unprompted sessions=own"}
    with chain_of(guest(name="f", **both), guest(**both)) as pb:
        pb >> ("client", request("u", "session/new", setup))
        for name in ("f", "g"):
            pb << (name, "p", request(Hole(f"u-{name}"), "session/new", setup))
            pb >> (name, "s", request(Hole(f"u-{name}"), "session/new", setup))
        pb << ("agent", request(Hole("u"), "session/new", setup))
        made = {"sessionId": "U"}
        pb >> ("agent", result(Hole("u"), made)) << ("g", "s", result(Hole("u-g"), made))
        pb >> ("g", "p", result(Hole("u-g"), made)) << ("f", "s", result(Hole("u-f"), made))
        pb >> ("f", "p", result(Hole("u-f"), made)) << ("client", result("u", made))
        pb >> ("g", "s", request("n", "session/new", setup))
        pb << ("agent", request(Hole("n"), "session/new", setup))
        pb >> ("agent", result(Hole("n"), {"sessionId": "G"}))
        pb << ("g", "s", result("n", {"sessionId": "G"}))
        pb >> ("f", "c", begin(1, "G"))
        refused(pb, "f", 1, "in a session that another component has opened")
        begun(pb, "g", "G")


# -- trusted components ----------------------------------------------------------------------------


def test_of_a_trusted_program_by_how_many_it_holds() -> None:
    with chain_of(trusted("f", "acp"), guest(**FREE)) as pb:
        turn = begun(pb)
        # The program holds no prompt, so this prompt is its own.
        pb >> ("f", wrapped("acp", request("own", PROMPT, prompt("mine"))))
        end(pb, turn)
        at_agent(pb, "own", "mine")
        pb << ("g", "c", result(2, {}))
        pb >> ("g", "c", begin(5))
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("f", result("own", DONE))
        pb << ("g", "c", result(5, {"turn": Hole("turn")}))
        end(pb, "turn", id_=6)
        pb << ("g", "c", result(6, {}))
        asks(pb)
        pb << ("f", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("f", request(8, "_conductor/turn/begin", {"sessionId": "S", "show": False}))
        pb << ("f", result(8, {"turn": Hole("nested")}))
        pb >> ("f", wrapped("acp", request("own", PROMPT, prompt("mine"))))
        at_agent(pb, "own", "mine")
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("f", result("own", DONE))
        ended = {"turn": pb.values["nested"]}
        pb >> ("f", request(9, "_conductor/turn/end", ended)) << ("f", result(9, {}))
        pb >> ("f", wrapped("acp", request("on", PROMPT, prompt("hi"))))
        at_agent(pb, "on")
        pb >> ("f", request(10, "_conductor/turn/begin", {"sessionId": "S"}))  # it holds none now
        pb >> ("agent", result(Hole("a-on"), DONE)) << ("f", result("on", DONE))
        pb << ("f", result(10, {"turn": Hole("later")}))  # and now it holds that again
        pb >> ("f", result(Hole("f-a"), DONE)) << ("client", result("a", DONE))
        pb >> ("f", wrapped("acp", request("none", PROMPT, {"prompt": []})))
        pb << ("agent", request(Hole("none"), PROMPT, {"prompt": []}))


def pending_requests() -> int:
    """How many there are in this process."""
    gc.collect()
    return sum(type(one) is Visit for one in gc.get_objects())


def test_of_prompts_that_are_over_a_trusted_program_remembers_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "_MOST_IGNORED", 2)
    before = pending_requests()
    with chain_of(trusted("f", "acp")) as pb:
        for at in range(40):
            name = f"s{at}"
            pb >> ("client", request(name, PROMPT, prompt("hi", name)))
            pb << ("f", request(Hole(name), PROMPT, prompt("hi", name)))
            if at != 5:
                pb >> ("f", result(Hole(name), DONE)) << ("client", result(name, DONE))
        pb >> ("f", wrapped("acp", request("one", PROMPT, prompt("hi", "s5"))))
        at_agent(pb, "one", "hi", "s5")
        assert pending_requests() - before < 20


def test_prompts_that_are_released_into_a_turn_wait_for_a_bounded_time() -> None:
    with chain_of(trusted("g")) as pb:
        pb.router.hold()
        asks(pb)
        begun(pb)
        pb >> (lambda r: r.release())
        pb.wake(MOST_WAIT) << Noted("warning", "g", "had a turn while others waited")
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))


def test_a_prompt_of_a_trusted_programs_own_is_not_one_that_it_passed_on() -> None:
    """Neither in another session, nor in a turn of the program's own."""
    with chain_of(trusted("f", "acp"), guest(**FREE)) as pb:
        for other in ("T", "S2"):
            if other == "S2":
                pb >> ("f", request(7, "_conductor/turn/begin", {"sessionId": "S2"}))
                pb << ("f", result(7, {"turn": Hole("turn")}))
            pb >> ("f", wrapped("acp", request(f"own-{other}", PROMPT, prompt("mine", other))))
            at_agent(pb, f"own-{other}", "mine", other)
            asks(pb)
            pb.values.pop("f-a", None)
            pb << ("f", request(Hole("f-a"), PROMPT, prompt("hi")))
            pb >> ("f", wrapped("acp", request("on", PROMPT, prompt("hi"))))
            at_agent(pb, "on")
            pb >> ("agent", result(Hole("a-on"), DONE)) << ("f", result("on", DONE))
            pb >> ("f", result(Hole("f-a"), DONE)) << ("client", result("a", DONE))


def test_others_wait_for_the_prompt_of_a_turn_that_has_ended() -> None:
    with chain_of(trusted("f", "acp"), guest(**FREE)) as pb:
        pb >> ("f", request(8, "_conductor/turn/begin", {"sessionId": "S", "show": False}))
        pb << ("f", result(8, {"turn": Hole("turn")}))
        pb >> ("f", wrapped("acp", request("own", PROMPT, prompt("mine"))))
        at_agent(pb, "own", "mine")
        pb >> ("f", request(9, "_conductor/turn/end", {"turn": pb.values["turn"]}))
        pb << ("f", result(9, {}))
        pb >> ("g", "c", begin(5))
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("f", result("own", DONE))
        pb << ("g", "c", result(5, {"turn": Hole("next")}))


# -- hosts of guests -------------------------------------------------------------------------------


def served(pb: Playbook, name: str, wanted: Json) -> int:
    """A host relays the call of a guest; its token."""
    serve = pb.effects[0]
    assert isinstance(serve, Serve)
    pb << Serve(name, "turn/begin", serve.token, dump(wanted))
    assert serve.token is not None
    return serve.token


def test_which_may_refuse_it_or_answer_too_late() -> None:
    wanted = {"sessionId": "S", "show": True, "within": False}
    no = b'{"code":-32600,"message":"no"}'
    with host(guest(name="f", **FREE), guest(**FREE)) as pb:
        pb >> ("g", "c", begin())
        token = served(pb, "g", wanted)
        pb >> (lambda router: router.served(token, None, no))
        pb << ("g", "c", error(1, -32600, "no"))
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        alone = served(pb, "g", {**wanted, "show": False})
        pb >> (lambda router: router.served(alone, None, no))
        pb << ("g", "s", error("own", -32600, "no"))
        pb >> ("g", "c", begin())
        late = served(pb, "g", wanted)
        pb >> ("g", "c", begin(2, "T"))
        open_ = served(pb, "g", {**wanted, "sessionId": "T"})
        pb >> (lambda router: router.served(open_, b'{"turn":"open"}'))
        pb << ("g", "c", result(2, {"turn": "open"}))
        pb >> (lambda router: router.bypassed("g", GONE))
        pb << Serve("g", "turn/end", None, b'{"turn":"open"}')
        pb >> (lambda router: router.served(late, b'{"turn":"late"}'))
        pb << Serve("g", "turn/end", None, b'{"turn":"late"}')
        pb >> ("f", "s", request("own", PROMPT, prompt("mine")))
        token = served(pb, "f", {**wanted, "show": False})
        pb >> (lambda router: router.served(token, b'{"turn":"alone"}'))
        pb << (ABOVE, "s", request(Hole("own"), PROMPT, prompt("mine")))
        pb >> ("f", "c", begin(1))
        refused_late = served(pb, "f", wanted)
        pb >> (lambda router: router.bypassed("f", GONE))
        pb << Serve("f", "turn/end", None, b'{"turn":"alone"}')
        pb << (ABOVE, "s", cancel(Hole("own")))
        pb >> (lambda router: router.served(refused_late, None, no))
        pb >> (ABOVE, "s", result(Hole("own"), DONE))


def test_in_version_2_the_conductor_above_ends_the_users_turn_once() -> None:
    """A guest works on in that turn after the answer; its host keeps `idle` back until the guest's
    turn is over."""
    with chain_of(trusted("h"), version=2) as pb:
        asks(pb)
        pb << ("h", "p", request(Hole("h-a"), PROMPT, prompt("hi")))
        wanted = dump({"sessionId": "S", "show": True, "within": True})
        pb >> ("h", "c", request(1, "clock")) << Serve("h", "clock", 1, None)
        pb >> _relayed("one", "turn/begin", wanted, 1)
        pb << ("h", "c", result(1, {"turn": Hole("one")}))
        pb >> ("h", "s", request(Hole("h-a"), PROMPT, prompt("hi")))
        at_agent(pb)
        pb >> ("agent", result(Hole("a-a"), INSERTED))
        pb << ("h", "s", result(Hole("h-a"), INSERTED))
        pb >> ("h", "p", result(Hole("h-a"), INSERTED)) << ("client", result("a", INSERTED))
        for said in (state("running"), update("work")):
            pb >> ("agent", said) << ("h", "s", said) >> ("h", "p", said) << ("client", said)
        pb >> ("agent", state("idle")) << ("h", "s", state("idle"))
        pb >> ("h", "p", update("more")) << ("client", update("more"))
        pb >> ("h", "p", state("idle")) << ("client", state("idle"))
        pb >> _relayed("one", "turn/end", dump({"turn": pb.values["one"]}), None)


def test_the_conductor_above_gives_it_turns_by_guest() -> None:
    with chain_of(trusted("h"), guest(**FREE)) as pb:
        for id_, name in ((1, "one"), (2, "two")):
            pb >> ("h", "c", request(id_, "clock")) << Serve("h", "clock", id_, None)
            wanted = dump({"sessionId": "S", "show": True, "within": False})
            pb >> _relayed(name, "turn/begin", wanted, id_)
            if name == "one":
                pb << ("h", "c", result(1, {"turn": Hole("one")}))
        asks(pb)
        pb >> ("h", "s", request("c1", PROMPT, prompt("mine")))
        at_agent(pb, "own", "mine")
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("h", "s", result("c1", DONE))
        pb.wake(MOST_WAIT) << Noted("warning", "h", "`one` had a turn while others waited")
        pb << ("client", mark("one"))
        pb << ("h", "p", request(Hole("h-a"), PROMPT, prompt("hi")))
        pb >> _relayed("two", "turn/end", dump({"turn": pb.values["one"]}), None)
        pb >> ("h", "p", result(Hole("h-a"), DONE)) << ("client", result("a", DONE))
        pb << ("h", "c", result(2, {"turn": Hole("two")}))


def test_what_the_agent_is_to_stop_is_the_session_that_a_guest_has_made_of_it() -> None:
    with chain_of(trusted("h"), guest(**FREE)) as pb:
        bound = to_json(Aliases().bind("S", "T"))
        pb.router.aliased("h", [bound])
        begun(pb, "h")
        pb >> ("h", "s", request("own", PROMPT, prompt("mine")))
        at_agent(pb, "own", "mine")
        asks(pb)
        pb.wake(MOST_WAIT) << Noted("warning", "h", "had a turn while others waited")
        pb << ("agent", stop("T"))


def _relayed(guest_: str, call: str, params: bytes, token: int | None) -> Any:
    return lambda router: router.relayed("h", guest_, call, params, token)


def test_a_relayed_call_whose_host_is_gone_is_nobodys() -> None:
    with chain_of(trusted("h"), guest(**FREE)) as pb:
        pb >> ("h", "c", request(1, "clock")) << Serve("h", "clock", 1, None)
        pb >> (lambda router: router.bypassed("h", GONE))
        pb >> _relayed("one", "turn/begin", b"{}", 1)
        pb << Noted("warning", "client", "missing required field `sessionId`")


def test_a_prompt_that_waited_and_is_not_wanted_any_more_is_not_sent() -> None:
    with chain_of(Component("f", "proxy `f`", trusted("f").dialect), guest(**FREE)) as pb:
        turn = begun(pb)
        pb >> ("f", "s", request("own", PROMPT, prompt("mine")))
        pb >> (lambda router: router.leaving("f", GONE))
        end(pb, turn)
        pb << ("g", "c", result(2, {}))


@pytest.mark.parametrize("cancelled", [False, True])
def test_in_version_2_nobody_is_told_idle_while_the_session_works(cancelled: bool) -> None:
    """A component answers the user's prompt while its own, which is hidden, runs."""
    with chain(f"{CARRIES}+answer", version=2, grants="turns=within") as pb:
        given(pb)
        own(pb)
        pb >> ("agent", result(Hole("a-own"), INSERTED)) << ("g", "s", result("own", INSERTED))
        pb >> ("agent", state("running")) << ("g", "s", state("running"))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        pb << ("client", result("a", {"messageId": Hole("of-a")}))
        if cancelled:
            pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
        else:
            asks(pb, "b")  # it waits for the component's turn
        pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
        pb << ("client", notification(UPDATE, {"sessionId": "S", "update": idle}))
        if cancelled:
            asks(pb, "b")
        pb << ("g", "p", request(Hole("g-b"), PROMPT, prompt("hi")))


def test_in_version_2_a_turn_that_fails_while_the_agent_works_leaves_its_idle_to_the_agent() -> (
    None
):
    with chain(f"{CARRIES}+answer", version=2, grants="turns=within") as pb:
        given(pb)
        own(pb)
        pb >> ("agent", state("running")) << ("client", state("running"))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        pb << ("client", result("a", {"messageId": Hole("of-a")}))
        pb >> ("agent", error(Hole("a-own"), -1, "no")) << ("g", "s", error("own", -1, "no"))
        pb >> ("agent", state("idle")) << ("client", state("idle"))


def test_in_version_2_the_idle_of_the_users_other_prompt_is_the_agents() -> None:
    with chain(f"{CARRIES}+answer", version=2) as pb:
        given(pb)
        passed(pb)
        came_back(pb, INSERTED)
        pb >> ("g", "p", result(Hole("g-a"), INSERTED)) << ("client", result("a", INSERTED))
        pb >> ("agent", state("running")) << ("client", state("running"))
        given(pb, asked="b")
        pb >> ("g", "p", result(Hole("g-b"), DONE))
        pb << ("client", result("b", {"messageId": Hole("of-b")}))
        pb >> ("agent", state("idle")) << ("client", state("idle"))


def asks_in_hand(pb: Playbook, answer: Json) -> None:
    """A program asks for a turn while it has the agent's answer to the user's prompt."""
    asks(pb)
    pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
    pb >> ("g", wrapped("acp", request("on", PROMPT, prompt("hi"))))
    at_agent(pb, "on")
    pb >> ("agent", result(Hole("a-on"), answer)) << ("g", result("on", answer))
    pb >> ("g", request(1, "_conductor/turn/begin", {"sessionId": "S"}))


def test_in_version_2_so_does_one_that_waited_until_the_agent_was_idle() -> None:
    ended = notification(UPDATE, {"sessionId": "S", "update": {**IDLE, "stopReason": "end_turn"}})
    with chain_of(trusted("g", "acp"), version=2) as pb:
        asks_in_hand(pb, INSERTED)
        pb >> ("g", result(Hole("g-a"), INSERTED)) << ("client", result("a", INSERTED))
        pb >> ("agent", state("idle")) << ("g", wrapped("acp", state("idle")))
        pb << ("g", result(1, {"turn": Hole("turn")}))
        pb >> ("g", state("idle")) << ("client", state("idle"))
        pb >> ("g", update("one")) << ("client", update("one"))
        pb >> ("g", request(2, "_conductor/turn/end", {"turn": pb.values["turn"]}))
        pb << ("client", ended)
        pb << ("g", result(2, {}))
