"""Requests through a policed guest: changed, answered early, late or twice, cancelled, cut off."""

from __future__ import annotations

import json

import pytest

from conductor.core import DIALECTS, Component, Fail, Owned, Router, Trace, Violated
from conductor.core.policy import NO_PROFILE
from tests.core.plays import OK, V1, Json, error, notification, request, result
from tests.core.test_enforcement_plays import (
    GONE,
    GONE_TEXT,
    OVER,
    ROLE_REQUEST,
    S,
    T,
    asked_and_forwarded,
    begun,
    broken,
    cancel,
    guest,
    prompt,
    refusal,
)
from tests.playbook import Hole, Noted, Playbook

SHOWN = "up:session/update:modify"
PROMPT = "session/prompt"


def passed(pb: Playbook, id_: str, method: str, params: Json = S) -> None:
    """A request of the client goes through the guest; holes `q…` and `f…` are its ids."""
    pb >> ("client", request(id_, method, params))
    pb << ("g", "p", request(Hole(f"q{id_}"), method, params))
    pb >> ("g", "s", request(f"f{id_}", method, params))
    pb << ("agent", request(Hole(f"f{id_}"), method, params))


# -- forwarding ----------------------------------------------------------------------------------


def test_a_filter_changes_requests_and_answers() -> None:
    with begun(guest("filter")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("g", "s", request("f", "_q", {**S, "more": 1}))
        pb << ("agent", request(Hole("f"), "_q", {**S, "more": 1}))
        pb >> ("agent", result(Hole("f"), 1)) << ("g", "s", result("f", 1))
        pb >> ("g", "p", result(Hole("q"), {"changed": True}))
        pb << ("client", result(1, {"changed": True}))
        pb >> ("g", "p", result(Hole("q"), 2)) << Noted("warning", "g", "no request is open")


def test_an_error_comes_back_through_a_filter() -> None:
    with begun(guest("filter")) as pb:
        passed(pb, "a", "_q")
        pb >> ("agent", error(Hole("fa"), 1, "no")) << ("g", "s", error("fa", 1, "no"))
        pb >> ("g", "p", error(Hole("qa"), 1, "no")) << ("client", error("a", 1, "no"))


def test_two_filters_that_both_answer_what_they_may_not() -> None:
    text = "may not answer `_q`"
    with begun(guest("filter"), guest("filter", name="h")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("g"), "_q", S))
        pb >> ("g", "p", result(Hole("g"), "forged")) << broken(text, "_q")
        pb << ("h", "p", request(Hole("h"), "_q", S))
        pb >> ("h", "p", result(Hole("h"), "forged too"))
        pb << Violated("h", "verbs", "down", "_q", "", f"proxy `h` {text}", False)
        pb << ("agent", request(Hole("a"), "_q", S))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))


def test_tracing_tells_of_answers_that_were_not_allowed() -> None:
    with begun(guest("filter"), tracing=True) as pb:
        pb >> ("g", "s", notification("_x")) << broken("may not send `_x` of its own", "_x")
        # The agent's ids shall differ from the guest's.
        for id_ in (1, 2):
            pb >> ("client", request(id_, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
            pb << Trace("request", "client", "g", str(id_), "_q", _bytes(S), False, "p", "p")
            if id_ == 1:
                pb.values["first"] = pb.values.pop("q")
        pb >> ("g", "p", result(Hole("q"), 5))
        pb << Trace("response", "g", "client", "2", "_q", b"5", True, "p", "p")
        pb << broken("may not answer `_q`", "_q") << ("agent", request(Hole("a"), "_q", S))
        pb << Trace("request", "client", "agent", "2", "_q", _bytes(S), False, "p", "p")


def test_tracing_tells_of_what_passes_a_guest_by() -> None:
    with begun(guest(), tracing=True) as pb:
        pb >> ("client", notification("_n", S)) << ("agent", notification("_n", S))
        pb << Trace("notification", "client", "agent", None, "_n", _bytes(S), False, "p", "p")


def test_only_the_answer_may_be_changed() -> None:
    with begun(guest(NO_PROFILE, "down:_q:answer", "up:_q:modify")) as pb:
        passed(pb, "a", "_q")
        pb >> ("agent", result(Hole("fa"), 1)) << ("g", "s", result("fa", 1))
        pb >> ("g", "p", result(Hole("qa"), 2)) << ("client", result("a", 2))


def test_a_request_that_may_not_be_changed_goes_on_as_it_was() -> None:
    text = "may not change `_q`"
    with begun(guest(NO_PROFILE, "down:_q:answer")) as pb:
        for id_ in (1, 2):
            params = {**S, "n": id_}
            pb >> ("client", request(id_, "_q", params))
            pb << ("g", "p", request(Hole(f"q{id_}"), "_q", params))
        pb >> ("g", "s", request("f", "_q", {**S, "n": 2, "more": 1})) << broken(text, "_q")
        pb << ("g", "s", refusal("f", text)) << ("agent", request(Hole("a"), "_q", {**S, "n": 2}))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(2, 1))
        # The same in other words is the same.
        pb >> (
            "g",
            "s",
            b'{"jsonrpc":"2.0","id":"g","method":"_q","params":{"n":1,"sessionId":"S"}}',
        )
        pb << ("agent", request(Hole("b"), "_q", {**S, "n": 1}))
        pb >> ("g", "s", request("f", "_q", S)) << ("g", "s", error("f", -32600, OVER.format("_q")))
        pb >> ("g", "s", request("f", "_q", S))
        pb << broken("may not send `_q` of its own", "_q")
        pb << ("g", "s", refusal("f", "may not send `_q` of its own"))


@pytest.mark.parametrize("session", [S, {}])
def test_a_change_of_what_is_shown_only(session: Json) -> None:
    given, forged = prompt("a", session), prompt("forged", session)
    with begun(guest(NO_PROFILE, SHOWN)) as pb:
        pb >> ("client", request(1, PROMPT, given))
        pb << ("g", "p", request(Hole("q"), PROMPT, given))
        pb >> ("g", "s", request("f", PROMPT, forged))
        pb << broken(f"may not change `{PROMPT}`", PROMPT)
        pb << ("g", "s", refusal("f", f"may not change `{PROMPT}`"))
        pb << ("agent", request(Hole("a"), PROMPT, given))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))


def test_requests_of_a_guests_own() -> None:
    with begun(guest("full")) as pb:
        pb >> ("g", "s", request("f", "_q", S)) << ("agent", request(Hole("a"), "_q", S))
        pb >> ("agent", result(Hole("a"), 1)) << ("g", "s", result("f", 1))
        pb >> ("g", "p", request("f", "_q")) << ("client", request(Hole("c"), "_q"))
        pb >> ("g", "p", cancel("f")) << ("client", cancel(Hole("c")))
        pb >> ("client", error(Hole("c"), 1, "no")) << ("g", "p", error("f", 1, "no"))
        # What names no session and is not as it was given may be the guest's own too.
        given = {"n": 1}
        pb >> ("client", request(1, "_q", given)) << ("g", "p", request(Hole("q"), "_q", given))
        (
            pb
            >> ("g", "s", request("g", "_q", {"n": 2}))
            << ("agent", request(Hole("b"), "_q", {"n": 2}))
        )


def test_a_request_that_breaks_a_guard_may_not_be_the_guests_own_either() -> None:
    with begun(guest(NO_PROFILE, "down:session/new:modify+originate")) as pb:
        given: Json = {"cwd": "/a", "mcpServers": []}
        pb >> ("client", request(1, "session/new", given))
        pb << ("g", "p", request(Hole("q"), "session/new", given))
        pb >> ("g", "s", request("f", "session/new", {**given, "cwd": "/b"}))
        text = "'cwd' of `session/new` may not be changed or added"
        pb << broken(text, "session/new", rule="session-setup", pointer="/cwd")
        pb << ("g", "s", refusal("f", text, "session-setup", "/cwd"))
        pb << ("agent", request(Hole("a"), "session/new", given))


def test_declared_servers_and_those_that_were_connected() -> None:
    server = {"type": "acp", "name": "n", "id": "mine"}
    given: Json = {"cwd": "/a", "mcpServers": []}
    mine = {**given, "mcpServers": [server]}
    with begun(guest("tools")) as pb:
        pb >> ("client", request(1, "session/new", given))
        pb << ("g", "p", request(Hole("q"), "session/new", given))
        pb >> ("g", "s", request("f", "session/new", mine)) << Owned("g", ("mine",))
        pb << ("agent", request(Hole("a"), "session/new", mine))
        gate = pb.router.peers["g"].gate
        assert gate is not None
        assert gate.servers
        connect = {"acpId": "mine"}
        pb >> ("agent", request(1, "mcp/connect", connect))
        pb << ("g", "s", request(Hole("c"), "mcp/connect", connect))
        pb >> ("g", "s", result(Hole("c"), {"connectionId": "k"}))
        pb << ("agent", result(1, {"connectionId": "k"})) << Owned("g", ("k",))
        assert pb.router.addresses == {"mine", "k"}


# -- answering -----------------------------------------------------------------------------------


def test_answering_instead_of_the_agent() -> None:
    with begun(guest(NO_PROFILE, "down:_q:answer")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", notification("_n", S))
        pb >> ("g", "p", result(Hole("q"), 1)) << ("client", result(1, 1))
        pb << ("agent", notification("_n", S))
        pb >> ("g", "s", request("f", "_q", S))
        pb << broken("may not send `_q` of its own", "_q")
        pb << ("g", "s", refusal("f", "may not send `_q` of its own"))


def test_answering_without_the_verb() -> None:
    text = "may not answer `_q`"
    with begun(guest("filter")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("g", "p", result(Hole("q"), 1)) << broken(text, "_q")
        pb << ("agent", request(Hole("a"), "_q", S))
        pb >> ("agent", result(Hole("a"), 2)) << ("client", result(1, 2))


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_answer_before_the_agents(cancelled: bool) -> None:
    text = "may not answer `_q`"
    with begun(guest("filter")) as pb:
        passed(pb, "a", "_q")
        if cancelled:
            pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("qa")))
        pb >> ("g", "p", result(Hole("qa"), 1)) << broken(text, "_q")
        if cancelled:
            pb << ("agent", cancel(Hole("fa")))
        pb >> ("agent", result(Hole("fa"), 2)) << ("g", "s", result("fa", 2))
        pb << ("client", result("a", 2))


def test_an_error_for_what_was_cancelled_is_no_violation() -> None:
    with begun(guest("filter")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", cancel(1)) << ("g", "p", cancel(Hole("q")))
        pb >> ("g", "p", error(Hole("q"), -32800, "cancelled"))
        pb << ("client", error(1, -32800, "cancelled"))


def test_an_answer_that_is_shown_only() -> None:
    with begun(guest(NO_PROFILE, SHOWN)) as pb:
        asked_and_forwarded(pb, 1, "a")
        pb >> ("agent", result(Hole("fa"), {"stop": 1})) << ("g", "s", result("fa", {"stop": 1}))
        pb >> ("g", "p", result(Hole("qa"), {"stop": 2}))
        pb << broken(f"may not change `{PROMPT}`", PROMPT) << ("client", result(1, {"stop": 1}))
        asked_and_forwarded(pb, 2, "b")
        pb >> ("g", "p", result(Hole("qb"), 1)) << broken(f"may not answer `{PROMPT}`", PROMPT)
        pb >> ("agent", result(Hole("fb"), 2)) << ("g", "s", result("fb", 2))
        pb << ("client", result(2, 2))
        asked_and_forwarded(pb, 3, "c")
        pb >> ("agent", result(Hole("fc"), {"x": 1})) << ("g", "s", result("fc", {"x": 1}))
        pb >> ("g", "p", b'{"jsonrpc":"2.0","id":%d,"result":{"x":1}}' % pb.values["qc"])
        pb << ("client", result(3, {"x": 1}))


def test_an_answer_that_does_not_go_through_the_guest() -> None:
    with begun(guest(NO_PROFILE, "down:_q:modify", "up:_u:modify")) as pb:
        passed(pb, "a", "_q")
        passed(pb, "b", "_q", T)
        pb >> ("agent", request(1, "_u", S)) << ("g", "s", request(Hole("u"), "_u", S))
        pb >> ("agent", result(Hole("fa"), 1)) << ("g", "s", result("fa", 1))  # waits for `_u`
        pb >> ("agent", result(Hole("fb"), 2)) << ("g", "s", result("fb", 2))
        pb << ("client", result("b", 2))
        pb >> ("g", "p", request("v", "_u", S)) << ("client", request(Hole("v"), "_u", S))
        pb << ("client", result("a", 1))
        pb >> ("client", result(Hole("v"), 3)) << ("g", "p", result("v", 3))
        pb << ("agent", result(1, 3))


def test_an_answer_that_waits_until_it_is_not_wanted() -> None:
    with begun(guest(NO_PROFILE, "down:_q:modify", "up:_u:modify")) as pb:
        passed(pb, "a", "_q")
        pb >> ("agent", request(1, "_u", S)) << ("g", "s", request(Hole("u"), "_u", S))
        pb >> ("agent", result(Hole("fa"), 1)) << ("g", "s", result("fa", 1))
        pb >> (lambda router: router.abandon(GONE))
        pb << ("client", error("a", -32603, GONE_TEXT, GONE.data))
        pb >> ("g", "p", request("v", "_u", S)) << ("client", request(Hole("v"), "_u", S))


def test_an_answer_to_what_is_answered_already() -> None:
    with begun(guest("filter")) as pb:
        passed(pb, "a", "_q")
        pb >> (lambda router: router.abandon(GONE))
        pb << ("client", error("a", -32603, GONE_TEXT, GONE.data))
        pb >> ("agent", result(Hole("fa"), 1)) << ("g", "s", result("fa", 1))
        pb >> ("g", "p", result(Hole("qa"), 1))


def test_an_answer_that_passes_by_does_not_overtake() -> None:
    with begun(guest(NO_PROFILE, "up:_u:modify")) as pb:
        for id_, session in (("a", S), ("b", T)):
            pb >> ("client", request(id_, "_q", session))
            pb << ("agent", request(Hole(id_), "_q", session))
        pb >> ("agent", request(1, "_u", S)) << ("g", "s", request(Hole("u"), "_u", S))
        pb >> ("agent", result(Hole("a"), 1))
        pb >> ("agent", result(Hole("b"), 2)) << ("client", result("b", 2))
        pb >> ("g", "p", request("v", "_u", S)) << ("client", request(Hole("v"), "_u", S))
        pb << ("client", result("a", 1))


def test_a_batch_is_answered_as_one() -> None:
    with begun(guest("filter")) as pb:
        entries = [request(1, "_q", S), notification("_n", S), request(2, "_q", T)]
        pb >> ("client", b"[" + b",".join(_bytes(entry) for entry in entries) + b"]")
        pb << ("g", "p", request(Hole("q1"), "_q", S)) << ("g", "p", notification("_n", S))
        pb << ("g", "p", request(Hole("q2"), "_q", T))
        pb >> ("g", "p", result(Hole("q2"), 1)) << broken("may not answer `_q`", "_q")
        pb << ("agent", request(Hole("a2"), "_q", T))
        pb >> ("g", "s", request("f", "_q", S)) << ("agent", request(Hole("a1"), "_q", S))
        pb >> ("agent", result(Hole("a2"), 2))
        pb >> ("agent", result(Hole("a1"), 1)) << ("g", "s", result("f", 1))
        pb >> ("g", "p", result(Hole("q1"), 1))
        pb << (
            "client",
            b'[{"jsonrpc":"2.0","id":2,"result":2},{"jsonrpc":"2.0","id":1,"result":1}]',
        )


def _bytes(value: Json) -> bytes:
    return json.dumps(value).encode()


# -- copies --------------------------------------------------------------------------------------


def test_an_observers_requests_are_answered_as_the_originals() -> None:
    with begun(guest("observer")) as pb:
        for id_ in ("a", "b"):
            pb >> ("client", request(id_, "_q", {**S, "n": id_}))
            pb << ("g", "p", request(Hole(f"c{id_}"), "_q", {**S, "n": id_}))
            pb << ("agent", request(Hole(id_), "_q", {**S, "n": id_}))
        pb >> ("g", "s", request("fb", "_q", {**S, "n": "b"}))
        pb >> ("agent", result(Hole("b"), 2)) << ("client", result("b", 2))
        pb << ("g", "s", result("fb", 2))
        pb >> ("g", "p", result(Hole("cb"), "nobody reads it"))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result("a", 1))
        pb >> ("g", "s", request("fa", "_q", S)) << ("g", "s", result("fa", 1))
        pb >> ("g", "s", request("fc", "_q", S))
        pb << broken("may not send `_q` of its own", "_q")
        pb << ("g", "s", refusal("fc", "may not send `_q` of its own"))


# -- cancelling ----------------------------------------------------------------------------------


def test_a_guest_may_not_cancel_what_nobody_cancelled() -> None:
    text = "may not send `$/cancel_request` of its own"
    with begun(guest(NO_PROFILE, "down:_q:modify")) as pb:
        passed(pb, "a", "_q")
        pb >> ("g", "s", cancel("fa")) << broken(text, "$/cancel_request")
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("qa")))
        pb << ("agent", cancel(Hole("fa")))
        pb >> ("g", "s", cancel("fa")) >> ("client", cancel("a"))
        # What is cancelled before it goes on is cancelled there too.
        pb >> ("client", request("b", "_q", T)) << ("g", "p", request(Hole("qb"), "_q", T))
        pb >> ("client", cancel("b")) << ("g", "p", cancel(Hole("qb")))
        pb >> ("g", "s", request("fb", "_q", T)) << ("agent", request(Hole("fb"), "_q", T))
        pb << ("agent", cancel(Hole("fb")))


@pytest.mark.parametrize("profile", ["filter", "full"])
def test_cancelling_is_passed_on_by_who_may_change_it(profile: str) -> None:
    with begun(guest(profile)) as pb:
        passed(pb, "a", "_q")
        if profile == "filter":
            pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("qa")))
        pb >> ("g", "s", cancel("fa")) << ("agent", cancel(Hole("fa")))


# -- frames that are not taken ---------------------------------------------------------------------


def test_what_does_not_fit_a_guest() -> None:
    with begun(guest(NO_PROFILE, SHOWN, "down:_q:modify")) as pb:
        pb >> ("client", request(1, PROMPT, prompt("a")))
        pb << ("g", "p", request(Hole("q"), PROMPT, prompt("a")))
        pb >> (lambda r: r.undeliverable("g", _frame(pb, "q", PROMPT, prompt("a")), "too large"))
        pb << Noted("warning", "g", "not delivered: too large")
        pb << ("agent", request(Hole("a"), PROMPT, prompt("a")))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))
        pb >> ("client", request(2, "_q", T)) << ("g", "p", request(Hole("q2"), "_q", T))
        pb >> (lambda r: r.undeliverable("g", _frame(pb, "q2", "_q", T), "too large"))
        pb << Noted("warning", "g", "not delivered: too large")
        pb << (
            "client",
            error(2, -32600, "proxy `g` was not given `_q`: too large", {"component": "g"}),
        )
        pb >> ("client", request(3, "_r")) << ("agent", request(Hole("q3"), "_r"))
        frame = _bytes(request(pb.values["q3"], "_r"))
        pb >> (lambda r: r.undeliverable("agent", frame, "too large"))
        pb << Noted("warning", "agent", "not delivered: too large")
        text = "agent `agent` was not given `_r`: too large"
        pb << ("client", error(3, -32600, text, {"component": "agent"}))


def _frame(pb: Playbook, hole: str, method: str, params: Json) -> bytes:
    return b"p" + _bytes(request(pb.values[hole], method, params)) + b"\n"


# -- guests that end -------------------------------------------------------------------------------


def died(pb: Playbook) -> None:
    """The guest ends."""
    pb >> (lambda router: router.closed("g", GONE))


def test_a_guest_ends_with_requests_it_was_given() -> None:
    with begun(guest(NO_PROFILE, SHOWN, "down:_q:modify", "down:_r:modify", "up:_r:modify")) as pb:
        pb >> ("client", request(1, PROMPT, prompt("a")))
        pb << ("g", "p", request(Hole("q"), PROMPT, prompt("a")))
        pb >> ("client", request(2, "_q", T)) << ("g", "p", request(Hole("q2"), "_q", T))
        passed(pb, "c", "_q", {"sessionId": "U"})
        passed(pb, "d", "_r", {"sessionId": "U"})
        asked_and_forwarded(pb, "e", "e", {"sessionId": "V"})
        asked_and_forwarded(pb, "f", "f", {"sessionId": "W"})
        pb >> ("agent", result(Hole("ff"), 6)) << ("g", "s", result("ff", 6))
        passed(pb, "h", "_r", {"sessionId": "U"})
        pb >> ("agent", result(Hole("fh"), 8)) << ("g", "s", result("fh", 8))
        passed(pb, "k", "_q", {"sessionId": "X"})
        pb >> ("agent", result(Hole("fk"), 9)) << ("g", "s", result("fk", 9))
        pb << ("client", result("k", 9))
        died(pb)
        pb << ("agent", request(Hole("a"), PROMPT, prompt("a")))
        pb << ("client", error(2, -32603, GONE_TEXT, GONE.data))
        pb << ("client", error("d", -32603, GONE_TEXT, GONE.data))
        pb << ("client", result("f", 6))
        pb << ("client", error("h", -32603, GONE_TEXT, GONE.data))
        pb << ("agent", cancel(Hole("fd"))) << Fail("g", GONE)
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))
        pb >> ("agent", result(Hole("fc"), 3)) << ("client", result("c", 3))
        pb >> ("agent", result(Hole("fe"), 5)) << ("client", result("e", 5))
        pb >> ("agent", result(Hole("fd"), 4))


# -- initialize ----------------------------------------------------------------------------------


def chain(component: Component) -> Playbook:
    """A chain that is not initialized yet."""
    return Playbook(Router([component, Component("agent", "agent `agent`")]))


def asked(pb: Playbook) -> Playbook:
    """The client asks the guest to initialize."""
    pb >> ("client", request("i", "initialize", V1))
    pb << ("g", "p", request(Hole("i"), "initialize", V1))
    return pb


INITIALIZE = "initialize"


def test_initialize_passes_through_who_may_change_it() -> None:
    with asked(chain(guest("filter"))) as pb:
        more = {**V1, "clientInfo": {"name": "n", "version": "1"}}
        (
            pb
            >> ("g", "s", request("f", INITIALIZE, V1))
            << ("agent", request(Hole("a"), INITIALIZE, V1))
        )
        pb >> ("g", "s", request("f2", INITIALIZE, more))
        pb << broken("may not send `initialize` of its own", INITIALIZE)
        pb << ("g", "s", refusal("f2", "may not send `initialize` of its own"))
        pb >> ("agent", result(Hole("a"), OK)) << ("g", "s", result("f", OK))
        pb >> ("g", "p", result(Hole("i"), OK)) << ("client", result("i", OK))
        pb >> ("g", "s", request("f3", INITIALIZE, V1))
        pb << broken("may not send `initialize` of its own", INITIALIZE)
        pb << ("g", "s", refusal("f3", "may not send `initialize` of its own"))


def test_initialize_that_may_not_be_changed() -> None:
    with asked(chain(guest(NO_PROFILE, "down:initialize:answer"))) as pb:
        pb >> ("g", "s", request("f", INITIALIZE, {**V1, "more": 1}))
        pb << broken("may not change `initialize`", INITIALIZE)
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("g", "s", result("f", OK))
        pb >> ("g", "p", result(Hole("i"), {**OK, "agentInfo": {"name": "n", "version": "1"}}))
        pb << broken("may not change `initialize`", INITIALIZE) << ("client", result("i", OK))


def test_initialize_said_in_other_words() -> None:
    with asked(chain(guest(NO_PROFILE, "down:initialize:answer"))) as pb:
        (
            pb
            >> ("g", "s", request("f", INITIALIZE, V1))
            << ("agent", request(Hole("a"), INITIALIZE, V1))
        )
        pb >> ("agent", result(Hole("a"), OK)) << ("g", "s", result("f", OK))
        pb >> ("g", "p", result(Hole("i"), dict(reversed(OK.items()))))
        pb << ("client", result("i", OK))


def test_initialize_answered_without_forwarding_it() -> None:
    with asked(chain(guest("filter"))) as pb:
        pb >> ("client", notification("_n", S)) << ("g", "p", notification("_n", S))
        pb >> ("g", "p", result(Hole("i"), OK))
        pb << Noted("warning", "g", "without forwarding it")
        pb << broken("may not answer `initialize`", INITIALIZE)
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("client", result("i", OK))


def test_initialize_answered_before_it_came_back() -> None:
    with asked(chain(guest("filter"))) as pb:
        (
            pb
            >> ("g", "s", request("f", INITIALIZE, V1))
            << ("agent", request(Hole("a"), INITIALIZE, V1))
        )
        pb >> ("g", "p", result(Hole("i"), OK)) << broken("may not answer `initialize`", INITIALIZE)
        pb >> ("agent", result(Hole("a"), OK)) << ("g", "s", result("f", OK))
        pb << ("client", result("i", OK))


def test_initialize_answered_by_who_may() -> None:
    with asked(chain(guest("full"))) as pb:
        pb >> ("g", "p", error(Hole("i"), 1, "no")) << ("client", error("i", 1, "no"))


def test_initialize_goes_past_who_may_not_see_it() -> None:
    with chain(guest()) as pb:
        pb >> ("client", request("i", INITIALIZE, V1))
        pb << ("g", "p", request(Hole("i"), INITIALIZE, V1))
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb >> ("g", "s", request("f", INITIALIZE, V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("client", result("i", OK))
        pb << ("g", "s", result("f", OK))
        pb >> ("g", "p", result(Hole("i"), {**OK, "forged": 1}))
        pb >> ("g", "s", request("f2", INITIALIZE, V1)) << ("g", "s", result("f2", OK))


def test_initialize_goes_past_who_is_gone() -> None:
    with chain(guest()) as pb:
        pb >> (lambda router: router.closed("g", GONE)) << Fail("g", GONE)
        (
            pb
            >> ("client", request("i", INITIALIZE, V1))
            << ("agent", request(Hole("a"), INITIALIZE, V1))
        )


def test_initialize_in_a_dialect_that_offers_the_role() -> None:
    assert DIALECTS["sacp"].offer
    with chain(guest("filter", kind="sacp")) as pb:
        pb >> ("client", request("i", INITIALIZE, V1))
        pb << ("g", request(Hole("i"), INITIALIZE, Hole("params")))
        wrapped = {"method": INITIALIZE, "params": pb.values["params"]}
        pb >> ("g", request("f", "_proxy/successor/request", wrapped))
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("g", result("f", OK))
        (
            pb
            >> ("g", result(Hole("i"), {**OK, "_meta": {"proxy": True}}))
            << ("client", result("i", OK))
        )


def test_initialize_refused_by_a_guest_of_unknown_dialect() -> None:
    with chain(guest("filter", kind=None)) as pb:
        pb >> ("client", request("i", INITIALIZE, V1))
        pb << ("g", ROLE_REQUEST)
        pb >> ("client", request(1, "_q", S))
        pb >> ("g", error(Hole("i"), 1, "no")) << broken("may not answer `initialize`", INITIALIZE)
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb << ("client", error(1, -32600, "proxy `g` has not been initialized"))
        pb >> ("agent", result(Hole("a"), OK)) << ("client", result("i", OK))


def test_initialize_repeated_while_a_guest_has_its_copy() -> None:
    with chain(guest()) as pb:
        pb >> ("client", request("i", INITIALIZE, V1))
        pb << ("g", "p", request(Hole("i"), INITIALIZE, V1))
        pb << ("agent", request(Hole("a"), INITIALIZE, V1))
        (
            pb
            >> ("client", request("j", INITIALIZE, V1))
            << ("agent", request(Hole("b"), INITIALIZE, V1))
        )
        pb >> ("agent", result(Hole("b"), OK)) << ("client", result("j", OK))


def test_a_filter_that_is_not_ready_may_not_answer_what_passed_another_by() -> None:
    text = "may not answer `_q`"
    guests = [guest("filter"), guest("filter", name="h", kind=None)]
    with Playbook(Router([*guests, Component("agent", "agent `agent`")])) as pb:
        asked(pb)
        pb >> ("g", "s", request("f", INITIALIZE, V1))
        pb << ("h", {**request(Hole("j"), INITIALIZE, V1), "method": Hole("role")})
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("g"), "_q", S))
        pb >> ("g", "p", result(Hole("g"), "forged")) << broken(text, "_q")
        pb >> ("h", request("f", "proxy/successor", {"method": INITIALIZE, "params": V1}))
        pb << ("h", request(Hole("h"), "_q", S)) << ("agent", request(Hole("a"), INITIALIZE, V1))
        pb >> ("h", result(Hole("h"), "forged too"))
        pb << Violated("h", "verbs", "down", "_q", "", f"proxy `h` {text}", False)
        pb << ("agent", request(Hole("b"), "_q", S))
