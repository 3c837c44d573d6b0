"""Requests and a policed component: every right, both ways, and how the component uses it."""

import json
from typing import Final, NamedTuple

import pytest

from conductor.core import Closure, Send, Violated
from conductor.core.policy import ordering
from conductor.core.policy.held_requests import HOLD_SETUP
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    KINDS,
    PROMPT,
    Hole,
    Json,
    Noted,
    Playbook,
    broke,
    came_back,
    carried,
    chain,
    chain_of,
    error,
    failed,
    given,
    guest,
    lacks,
    mode,
    passed,
    prompt,
    refused,
    request,
    result,
    settled,
    skip,
    taken,
    wrapped,
)

GONE: Final = Closure("agent `agent` ended")
Q: Final[Json] = {"grants": "methods=_q"}
SESSION: Final = {"sessionId": "S"}


class Route(NamedTuple):
    """How a request goes through the component."""

    source: str
    way: str
    inlet: str
    outlet: str
    target: str

    def given(self, pb: Playbook, asked: str = "a", n: int = 1) -> None:
        """The asker asks, and the component is given it."""
        pb >> (self.source, request(asked, "_q", {**SESSION, "n": n}))
        pb << ("g", self.inlet, request(Hole(f"g-{asked}"), "_q", {**SESSION, "n": n}))

    def passed(self, pb: Playbook, asked: str = "a", n: int = 1) -> None:
        """The component passes it on."""
        pb >> ("g", self.outlet, request(Hole(f"g-{asked}"), "_q", {**SESSION, "n": n}))
        pb << (self.target, request(Hole(f"t-{asked}"), "_q", {**SESSION, "n": n}))


DOWN: Final = Route("client", "down", "p", "s", "agent")
UP: Final = Route("agent", "up", "s", "p", "client")
ROUTES: Final = pytest.mark.parametrize("r", [DOWN, UP], ids=["down", "up"])


@ROUTES
def test_with_no_right_it_goes_past_and_so_does_its_answer(r: Route) -> None:
    with chain() as pb:
        pb >> (r.source, request("a", "_q", SESSION))
        pb << (r.target, request(Hole("t"), "_q", SESSION))
        pb >> (r.target, result(Hole("t"), 5)) << (r.source, result("a", 5))
        pb >> ("g", r.outlet, request("own", "_q", SESSION))
        lacks(pb, "originate", "_q")
        refused(pb, "own", "`,allow=extension:_q` lets it", side=r.outlet)


@ROUTES
def test_with_all_of_them_it_passes_on_and_amends(r: Route) -> None:
    with chain(**Q) as pb:
        r.given(pb)
        r.passed(pb)
        pb >> (r.target, result(Hole("t-a"), 5)) << ("g", r.outlet, result(Hole("g-a"), 5))
        pb >> ("g", r.inlet, result(Hole("g-a"), 6)) << (r.source, result("a", 6))
        assert settled(pb.router)


@ROUTES
def test_it_answers_instead(r: Route) -> None:
    with chain(**Q) as pb:
        r.given(pb)
        pb >> ("g", r.inlet, result(Hole("g-a"), 7)) << (r.source, result("a", 7))


@pytest.mark.proves("conductor does not mistake a")
@ROUTES
def test_two_of_one_session_are_told_apart_by_their_ids(r: Route) -> None:
    with chain(**Q) as pb:
        for asked in "ab":
            r.given(pb, asked)
        for asked in "ba":  # of equal bytes, and out of turn
            r.passed(pb, asked)
        for asked, n in (("a", 1), ("b", 2)):
            pb >> (r.target, result(Hole(f"t-{asked}"), n))
            pb << ("g", r.outlet, result(Hole(f"g-{asked}"), n))
            pb >> ("g", r.inlet, result(Hole(f"g-{asked}"), n)) << (r.source, result(asked, n))


def test_without_amend_the_answer_goes_past_and_the_component_has_a_copy() -> None:
    with chain("down:session/prompt:carry") as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE))
        pb << ("g", "s", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE))  # the result of its handler is not sent
        assert settled(pb.router)


def test_what_it_answers_otherwise_then_is_told_once_as_a_missing_right() -> None:
    with chain("down:session/prompt:carry") as pb:
        for again in (False, True):
            given(pb)
            passed(pb)
            pb >> ("agent", result(Hole("a-a"), DONE))
            pb << ("g", "s", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
            pb >> ("g", "p", error(Hole("g-a"), 1, "no"))
            lacks(pb, "amend", PROMPT, again=again)
            pb.values.clear()


def test_a_violation_names_the_right_and_how_it_is_had() -> None:
    with chain("down:session/prompt:carry") as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        assert "`,allow=answer:prompts` lets it" in broke(pb).text
        skip(pb)
        pb >> ("g", "s", request("own", "fs/read_text_file", SESSION))
        assert "only `,only=trusted` lets it" in broke(pb).text
        skip(pb)


def test_what_it_may_answer_only_it_may_not_change() -> None:
    with chain("down:session/prompt:answer") as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("changed")))
        lacks(pb, "carry", PROMPT)
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        given(pb, asked="b")
        spelled = json.dumps(request(pb.values["g-b"], PROMPT, prompt("hi"))).replace(": ", ":")
        pb >> (lambda router: router.receive("g", b"s" + spelled.encode()))
        effect = taken(pb)  # as it was spelled by who changed nothing else
        assert isinstance(effect, Send)
        assert effect.peer == "agent"


def test_the_same_under_another_method_is_its_own() -> None:
    with chain("down:session/prompt:carry") as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), "session/set_mode", mode()))
        lacks(pb, "originate", "session/set_mode")
        refused(pb, Hole("g-a"))


@pytest.mark.proves("conductor answers a component's", "the conductor in its stead")
@pytest.mark.parametrize("profile", ["full", "none"])
def test_a_change_that_breaks_a_rule_goes_on_as_it_was_given(profile: str) -> None:
    with chain("down:session/prompt:carry", profile=profile) as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi", "T")))
        violated = taken(pb)
        assert isinstance(violated, Violated)
        assert violated.text.startswith("proxy `g`: ")
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        skip(pb)


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["given", "returned"])
def test_a_session_s_set_up_is_held_so_long(state: str) -> None:
    setup = {"cwd": "/", "mcpServers": []}
    with chain("down:session/new:carry", grants="sessions=own") as pb:
        pb >> ("client", request("n", "session/new", setup))
        pb << ("g", "p", request(Hole("g-n"), "session/new", setup))
        if state == "returned":
            pb >> ("g", "s", request(Hole("g-n"), "session/new", setup))
            pb << ("agent", request(Hole("a-n"), "session/new", setup))
            pb >> ("agent", result(Hole("a-n"), {"sessionId": "S"}))
            pb << ("g", "s", result(Hole("g-n"), {"sessionId": "S"}))
        pb.wake(HOLD_SETUP)
        broke(pb, "hold", "held `session/new` for more than 60 s")
        if state == "given":
            pb << ("agent", request(Hole("a-n"), "session/new", setup))
            pb >> ("agent", result(Hole("a-n"), {"sessionId": "S"}))
        pb << ("client", result("n", {"sessionId": "S"}))
        pb >> ("g", "p", result(Hole("g-n"), {"sessionId": "S"}))
        assert settled(pb.router)


def test_a_limit_that_is_kept_does_nothing() -> None:
    with chain("down:session/prompt:carry+amend", hold=7.0) as pb:
        given(pb)
        passed(pb)
        pb.wake(7.0)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        del pb.values["a-a"]
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        first = pb.wakes.pop(0)
        pb >> (lambda router: router.woken(first.token))  # of the first time it came back
        pb.wake(7.0)
        broke(pb, "hold")
        pb << ("client", result("a", DONE))
        pb >> (lambda router: router.woken(10_000))  # of nothing


def test_who_keeps_everything_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_MOST_CLOSED", 4)
    with chain("down:session/prompt:carry") as pb:
        for number in range(40):
            given(pb, asked=f"n{number}")
            if number % 2:
                passed(pb, asked=f"n{number}")
                pb >> ("agent", result(Hole(f"a-n{number}"), DONE))
            else:
                pb >> ("g", "p", result(Hole(f"g-n{number}"), DONE))
            skip(pb)
        assert len(carried(pb)) <= 9


def test_who_answered_too_early_and_was_started_again_holds_up_no_answer() -> None:
    """Nothing is told to the new instance, so it has no round that the answer could wait for."""
    with chain(profile="filter") as pb:
        given(pb)
        pb.router.delivering("g")  # it is a guest: it has rounds
        passed(pb)
        pb >> ("g", "p", error(Hole("g-a"), 1, "no"))
        broke(pb, "identity", "too early")
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> (lambda router: router.returned("g"))
        pb << ("g", "p", request(Hole("role"), "initialize", Hole("params")))
        pb >> ("g", "s", request(Hole("role"), "initialize", Hole("params")))
        pb << ("g", "s", result(Hole("role"), Hole("answer")))
        pb >> ("g", "p", result(Hole("role"), Hole("answer")))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


# -- programs, whose libraries choose ids ----------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_s_request_is_the_one_of_equal_params_else_the_oldest_alike(kind: str) -> None:
    with chain("down:session/prompt:carry", kind=kind) as pb:
        for asked, text, session in (
            ("a", "one", "S"),
            ("b", "two", "S"),
            ("c", "one", "T"),
            ("d", "four", "S"),
        ):
            pb >> ("client", request(asked, PROMPT, prompt(text, session)))
            pb << ("g", request(Hole(f"g-{asked}"), PROMPT, prompt(text, session)))
        order = (("d", "four", "S"), ("c", "three", "T"), ("a", "ONE", "S"), ("b", "TWO", "S"))
        for asked, text, session in order:
            pb >> ("g", wrapped(kind, request(f"m-{asked}", PROMPT, prompt(text, session))))
            pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(text, session)))
        for asked in "abcd":
            pb >> ("agent", result(Hole(f"a-{asked}"), asked))
            pb << ("g", result(f"m-{asked}", asked)) << ("client", result(asked, asked))
        pb >> ("g", wrapped(kind, request("own", PROMPT, prompt("five"))))
        lacks(pb, "originate", PROMPT)
        skip(pb)


def test_mcp_of_one_connection_is_told_from_that_of_another() -> None:
    def said(connection: str, inner: str) -> Json:
        return {"connectionId": connection, "method": inner, "params": {"n": 1}}

    with chain(kind="acp", grants="mcp=others") as pb:
        for asked, params in (
            ("a", said("k", "tools/list")),
            ("b", said("l", "tools/list")),
            ("c", said("k", "tools/call")),
        ):
            pb >> ("agent", request(asked, "mcp/message", params))
            pb << ("g", wrapped("acp", request(Hole(f"g-{asked}"), "mcp/message", params)))
        for asked, params in (
            ("c", {**said("k", "tools/call"), "params": {}}),
            ("b", {**said("l", "tools/list"), "params": {}}),
            ("a", {**said("k", "tools/list"), "params": {}}),
        ):
            pb >> ("g", request(f"m-{asked}", "mcp/message", params))
            pb << ("client", request(Hole(f"c-{asked}"), "mcp/message", params))
            pb >> ("client", result(Hole(f"c-{asked}"), asked))
            pb << ("g", result(f"m-{asked}", asked))
            pb >> ("g", result(Hole(f"g-{asked}"), asked)) << ("agent", result(asked, asked))


def test_a_program_that_keeps_ids_is_taken_at_its_word() -> None:
    with chain("down:session/prompt:carry", kind="acp", ids="kept") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("g", wrapped("acp", request("m", PROMPT, prompt("hi"))))
        lacks(pb, "originate", PROMPT)
        skip(pb)
        pb >> ("g", wrapped("acp", request(Hole("g-a"), PROMPT, prompt("changed"))))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("changed")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_a_program_is_checked_entry_by_entry(kind: str) -> None:
    with chain("down:session/prompt:carry+amend", kind=kind) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
        good = wrapped(kind, request("m", PROMPT, prompt("hi")))
        bad = wrapped(kind, request("n", "_other", {}))
        pb >> ("g", json.dumps([good, bad]).encode())
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        lacks(pb, "originate", "_other")
        pb >> ("agent", result(Hole("a-a"), DONE))
        both = taken(pb)
        assert isinstance(both, Send)
        told = json.loads(both.frame)
        assert [one["id"] for one in told] == ["n", "m"]
        pb >> ("g", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


# -- who is gone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["carry", "copy"])
def test_a_component_whose_chain_is_over_is_not_gone_past(right: str) -> None:
    with chain(f"down:session/prompt:{right}") as pb:
        pb >> (lambda router: router.closed("g", Closure("proxy `g` died", "", {"component": "g"})))
        skip(pb)
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        if right == "carry":
            failed(pb, "a", "proxy `g` died")
        else:
            pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))


def test_a_program_s_prompt_in_another_session_is_not_the_one_it_holds() -> None:
    with chain("down:session/prompt:carry", kind="acp") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("g", wrapped("acp", request("x", PROMPT, prompt("hi", "T"))))
        lacks(pb, "originate", PROMPT)
        skip(pb)


# -- messages that do not fit --------------------------------------------------------------------


def undeliverable(pb: Playbook, frame: bytes) -> None:
    """A transport would not take a frame for `g`."""
    pb >> (lambda router: router.undeliverable("g", frame, "too long"))
    pb << Noted("warning", "g", "not delivered: too long")


@pytest.mark.parametrize("fails", ["open", "closed"])
def test_a_request_that_does_not_fit_goes_on_without_the_component(fails: str) -> None:
    with chain("down:session/prompt:carry+amend", fails=fails) as pb:
        given(pb)
        frame = b"p" + json.dumps(request(pb.values["g-a"], PROMPT, {})).encode()
        undeliverable(pb, frame)
        if fails == "closed":
            failed(pb, "a", "proxy `g` was not given `session/prompt`: too long")
            return
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        undeliverable(pb, frame)  # of nothing that is open any more


def test_only_the_request_whose_answer_is_lost_may_be_answered_so() -> None:
    with chain("down:session/prompt:carry", CARRY_TEXT) as pb:
        for asked, session in (("b", "T"), ("a", "S")):
            given(pb, asked=asked, session=session)
            passed(pb, asked=asked, session=session)
        came_back(pb)
        undeliverable(pb, b"s" + json.dumps(result(pb.values["g-a"], DONE)).encode())
        skip(pb)
        pb >> ("g", "p", error(Hole("g-b"), -32603, "lost"))
        broke(pb, "identity", "too early")
        skip(pb)
        pb >> ("g", "p", error(Hole("g-a"), -32603, "lost")) << ("client", result("a", DONE))


def test_a_copy_that_does_not_fit_concerns_nobody() -> None:
    with chain(profile="observer") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("c"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        undeliverable(pb, b"p" + json.dumps(request(pb.values["c"], PROMPT, {})).encode())
        pb >> ("agent", result(Hole("a"), DONE)) << ("client", result("a", DONE))


# -- several in a row ------------------------------------------------------------------------------


def test_two_that_both_answer_what_they_may_not() -> None:
    one = guest("down:session/prompt:carry", name="f")
    with chain_of(one, guest("down:session/prompt:carry")) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("f", "p", result(Hole("f-a"), 1))
        lacks(pb, "answer", PROMPT, "f")
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("g", "p", result(Hole("g-a"), 2))
        lacks(pb, "answer", PROMPT)
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a"), DONE)) << ("client", result("a", DONE))
        assert settled(pb.router)


@pytest.mark.parametrize("fails", ["open", "closed"])
def test_a_handler_that_fails_breaks_no_rule(fails: str) -> None:
    """The component has no right to answer, and reports its failure where it can do nothing
    else."""
    failed = {"code": -32603, "message": "proxy `g` failed at `session/prompt`: boom"}
    with chain("down:session/prompt:carry", fails=fails) as pb:
        given(pb)
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": failed})
        told = "its message goes on as it came" if fails == "open" else "who asked gets the error"
        pb << Noted("warning", "g", f"it failed at `session/prompt`; {told}")
        if fails == "open":
            pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        else:
            wrong = {**failed, "data": {"component": "g"}}
            pb << ("client", {"jsonrpc": "2.0", "id": "a", "error": wrong})


@pytest.mark.parametrize("code", [-32603, -32000])
def test_who_cannot_take_the_copy_of_an_answer_has_failed(code: int) -> None:
    """A host tells its guest of the failure, and hands on the guest's answer."""
    with chain("down:session/prompt:carry") as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE))
        pb << ("g", "s", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        pb >> ("g", "p", error(Hole("g-a"), code, "the answer could not be delivered"))
        if code == -32603:
            pb << Noted(
                "warning", "g", "it failed at `session/prompt`; the answer has gone past it"
            )
        else:
            lacks(pb, "amend", PROMPT)
        assert settled(pb.router)


def test_what_it_may_not_change_goes_on_in_the_bytes_it_came_in() -> None:
    """A name that stands twice is read as the first by some, and as the last by others."""
    with chain("down:session/prompt:answer") as pb:
        given(pb)
        head = json.dumps({"jsonrpc": "2.0", "id": pb.values["g-a"], "method": PROMPT})[:-1]
        other = json.dumps(prompt("delete it"))[:-1]
        was = json.dumps(prompt("hi"))
        pb >> ("g", f's{head}, "params": {other}, {was[1:]}}}'.encode())
        sent = taken(pb)
        assert isinstance(sent, Send)
        assert sent.peer == "agent"
        assert was.encode() in sent.frame
        assert b"delete it" not in sent.frame
