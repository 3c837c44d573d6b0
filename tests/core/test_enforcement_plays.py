"""What a policed guest does with what it is given, message by message, and what becomes of it."""

from __future__ import annotations

import json
from collections import deque
from typing import Final

import pytest

from conductor.core import DIALECTS, Closure, Component, Effect, Fail, Router, Send, Trace, Violated
from conductor.core.policy import NO_PROFILE, Policy, parse_rule
from tests.core.plays import OK, V1, Json, error, notification, request, result
from tests.playbook import Hole, Noted, Playbook

S: Final[Json] = {"sessionId": "S"}
T: Final[Json] = {"sessionId": "T"}
GONE: Final = Closure("proxy `g` died", "start it again", {"component": "g"})
GONE_TEXT: Final = "proxy `g` died\nhint: start it again"
ROLE_REQUEST: Final = {**request(Hole("i"), "initialize", V1), "method": Hole("role")}
"""What a guest of unknown dialect is asked first."""
OVER: Final = "`{}` has been answered, or has gone on, without this"


def guest(
    profile: str = NO_PROFILE,
    *allow: str,
    name: str = "g",
    kind: str | None = "channel",
    on_violation: str = "pass",
) -> Component:
    """A policed component."""
    policy = Policy(profile, tuple(map(parse_rule, allow)), on_violation=on_violation)
    return Component(name, f"proxy `{name}`", DIALECTS[kind] if kind else None, policy=policy)


def begun(*guests: Component, tracing: bool = False) -> Playbook:
    """A chain of guests (dialect `channel`) and an agent, initialized and ready."""
    router = Router([*guests, Component("agent", "agent `agent`")], tracing=tracing)
    asked: dict[str, object] = {}
    work = deque(router.receive("client", json.dumps(request("i", "initialize", V1)).encode()))
    answered = False
    while work:
        effect = work.popleft()
        if isinstance(effect, Trace):
            continue
        assert isinstance(effect, Send), effect
        if effect.peer == "client":
            answered = True
            continue
        message = json.loads(effect.frame.lstrip(b"ps"))
        if effect.peer == "agent":
            said = [(b"", result(message["id"], OK))]
        elif "method" in message:
            asked[effect.peer] = message["id"]
            said = [(b"s", request("f", "initialize", V1))]
        else:
            said = [(b"p", result(asked[effect.peer], OK))]
        for tag, value in said:
            work.extend(router.receive(effect.peer, tag + json.dumps(value).encode()))
    assert answered
    return Playbook(router)


def broken(
    text: str,
    method: str,
    direction: str = "down",
    *,
    rule: str = "verbs",
    pointer: str = "",
    fatal: bool = False,
) -> Violated:
    """The report of a rule that guest `g` broke."""
    joint = " " if rule == "verbs" else ": "
    return Violated("g", rule, direction, method, pointer, f"proxy `g`{joint}{text}", fatal)


def refusal(id_: object, text: str, rule: str = "verbs", pointer: str = "") -> Json:
    """What the guest is told of that, if it was a request."""
    data = {"rule": rule, "pointer": pointer, "component": "g"}
    joint = " " if rule == "verbs" else ": "
    return error(id_, -32600, f"proxy `g`{joint}{text}", data)


def delivering(router: Router) -> list[Effect]:
    """The guest is given what was written to it so far."""
    router.delivering("g")
    return []


def cancel(id_: object) -> Json:
    """A `$/cancel_request`."""
    return notification("$/cancel_request", {"requestId": id_})


# -- notifications -------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["filter", "full"])
def test_notifications_pass_through_a_filter(profile: str) -> None:
    with begun(guest(profile)) as pb:
        for text in ("a", "b", "c"):
            pb >> ("client", notification("_n", {**S, "t": text}))
            pb << ("g", "p", notification("_n", {**S, "t": text}))
        # The oldest, one out of turn, the one that was skipped, and nothing is left.
        for text in ("a", "c", "b"):
            pb >> ("g", "s", notification("_n", {**S, "t": text}))
            pb << ("agent", notification("_n", {**S, "t": text}))
        pb >> ("agent", notification("_u", S)) << ("g", "s", notification("_u", S))
        pb >> ("g", "p", notification("_u", {**S, "more": 1}))
        pb << ("client", notification("_u", {**S, "more": 1}))


def test_a_filter_changes_but_makes_up_nothing() -> None:
    text = "may not send `_n` of its own"
    with begun(guest("filter")) as pb:
        pb >> ("g", "s", notification("_n", S)) << broken(text, "_n")
        pb >> ("g", "s", notification("_n")) << broken(text, "_n")
        pb >> ("g", "p", notification("_n", S)) << broken(text, "_n", "up")
        pb >> ("client", notification("_n", S)) << ("g", "p", notification("_n", S))
        pb >> ("g", "s", notification("_n", {**T, "more": 1})) << broken(text, "_n")


def test_a_change_no_guard_lets_pass_is_undone() -> None:
    def update(title: str) -> Json:
        call = {"sessionUpdate": "tool_call", "toolCallId": title, "title": title}
        return notification("session/update", {**S, "update": call})

    with begun(guest("filter")) as pb:
        for title in ("a", "b"):
            pb >> ("agent", update(title)) << ("g", "s", update(title))
        pb >> ("g", "p", update("forged"))
        violated = pb._effects[0]
        assert isinstance(violated, Violated)
        assert (violated.rule, violated.direction) == ("tool-calls", "up")
        pb << violated << ("client", update("a"))
        pb >> ("g", "p", update("b")) << ("client", update("b"))


def test_what_is_not_as_it_was_may_be_the_guests_own() -> None:
    def update(title: str) -> Json:
        call = {"sessionUpdate": "tool_call", "toolCallId": title, "title": title}
        return notification("session/update", {**S, "update": call})

    said = {**S, "update": {"sessionUpdate": "plan", "entries": []}}
    with begun(guest(NO_PROFILE, "up:session/update:modify+originate")) as pb:
        pb >> ("agent", update("a")) << ("g", "s", update("a"))
        pb >> ("g", "p", notification("session/update", said))
        pb << ("client", notification("session/update", said))
        pb >> ("g", "p", update("a")) << ("client", update("a"))


def test_many_and_large_notifications() -> None:
    large = {"t": "x" * 3000}
    with begun(guest("filter")) as pb:
        pb >> ("client", notification("_n", large)) << ("g", "p", notification("_n", large))
        for _ in range(4097):
            pb >> ("client", notification("_m")) << ("g", "p", notification("_m"))
        pb >> ("g", "s", notification("_n", large)) << ("agent", notification("_n", large))
        pb >> ("g", "s", notification("_m")) << ("agent", notification("_m"))


def test_more_methods_than_are_remembered() -> None:
    with begun(guest("filter")) as pb:
        for n in range(1100):
            pb >> ("client", notification(f"_{n}")) << ("g", "p", notification(f"_{n}"))
        pb >> ("g", "s", notification("_1099")) << ("agent", notification("_1099"))
        pb >> ("g", "s", notification("_0")) << broken("may not send `_0` of its own", "_0")


def test_an_observer_gets_copies() -> None:
    text = "may not send `_n` of its own"
    with begun(guest("observer")) as pb:
        pb >> ("client", notification("_n", S))
        pb << ("g", "p", notification("_n", S)) << ("agent", notification("_n", S))
        pb >> ("g", "s", notification("_n", S))  # a copy coming back
        pb >> ("g", "s", notification("_n", S)) << broken(text, "_n")


def test_an_observer_that_may_speak_too() -> None:
    with begun(guest("observer", "down:*:originate")) as pb:
        pb >> ("client", notification("_n", S))
        pb << ("g", "p", notification("_n", S)) << ("agent", notification("_n", S))
        pb >> ("g", "s", notification("_n", S))
        pb >> ("g", "s", notification("_n", S)) << ("agent", notification("_n", S))


def test_who_holds_no_verb_hears_nothing_and_says_nothing() -> None:
    with begun(guest()) as pb:
        pb >> ("client", notification("_n", S)) << ("agent", notification("_n", S))
        pb >> ("agent", notification("_n", S)) << ("client", notification("_n", S))
        pb >> ("client", request(1, "_q", S)) << ("agent", request(Hole("q"), "_q", S))
        pb >> ("agent", result(Hole("q"), 1)) << ("client", result(1, 1))
        pb >> ("g", "s", notification("_n")) << broken("may not send `_n` of its own", "_n")
        pb >> ("g", "s", request("a", "_q")) << broken("may not send `_q` of its own", "_q")
        pb << ("g", "s", refusal("a", "may not send `_q` of its own"))


def test_a_violation_that_is_not_tolerated() -> None:
    text = "may not send `_n` of its own"
    with begun(guest(on_violation="fail")) as pb:
        pb >> ("g", "p", notification("_n")) << broken(text, "_n", "up", fatal=True)
        pb >> ("g", "p", request(1, "_n")) << broken(text, "_n", "up", fatal=True)
        pb << ("g", "p", refusal(1, text))


def test_what_passes_by_does_not_overtake_what_was_given() -> None:
    with begun(guest(NO_PROFILE, "down:_q:modify")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", notification("_n", S))  # waits
        pb >> ("client", notification("_n", {**S, "t": 2}))
        pb >> ("client", request(2, "_r", S))
        pb >> ("client", notification("_n", T)) << ("agent", notification("_n", T))
        pb >> ("g", "s", request("f", "_q", S)) << ("agent", request(Hole("f"), "_q", S))
        pb << ("agent", notification("_n", S)) << ("agent", notification("_n", {**S, "t": 2}))
        pb << ("agent", request(Hole("r"), "_r", S))
        pb >> ("agent", result(Hole("r"), 2)) << ("client", result(2, 2))
        pb >> ("agent", result(Hole("f"), 1)) << ("g", "s", result("f", 1))
        pb << ("client", result(1, 1))
        # Its own answer counts no more.
        pb >> ("g", "p", result(Hole("q"), 3))


def test_a_held_request_whose_asker_was_answered_goes_nowhere() -> None:
    gone = Closure("the client left")
    with begun(guest(NO_PROFILE, "down:_q:modify+answer")) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", request(2, "_r", S))
        pb >> (lambda router: router.closed("client", gone))
        pb << ("g", "p", cancel(Hole("q")))
        pb >> ("g", "p", result(Hole("q"), 1))


def test_notifications_for_a_guest_that_is_gone() -> None:
    with begun(guest("filter")) as pb:
        pb >> (lambda router: router.closed("g", GONE)) << Fail("g", GONE)
        pb >> ("client", notification("_n", S))
        pb << Noted("debug", "client", "`_n` dropped: proxy `g` is not there")
        pb >> ("client", request(1, "_q", S)) << ("client", error(1, -32603, GONE_TEXT, GONE.data))


def test_tracing_tells_what_a_guest_was_given() -> None:
    with begun(guest("filter"), tracing=True) as pb:
        pb >> ("client", notification("_n", S)) << ("g", "p", notification("_n", S))
        params = json.dumps(S).encode()
        pb << Trace("notification", "client", "g", None, "_n", params, False, "p", "p")


# -- before a guest is ready ---------------------------------------------------------------------


def guessed(*components: Component) -> Playbook:
    """A chain whose guests' dialects are still to be found out."""
    return Playbook(Router([*components, Component("agent", "agent `agent`")]))


def test_what_comes_before_a_filter_is_ready_waits() -> None:
    wrapped = {"method": "initialize", "params": V1}
    with guessed(guest("filter", kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb >> ("client", notification("_n", S))
        pb >> ("client", request(1, "_q", S))
        pb >> ("g", request("f", "proxy/successor", wrapped))
        pb << ("g", notification("_n", S)) << ("g", request(Hole("q"), "_q", S))
        pb << ("agent", request(Hole("ai"), "initialize", V1))
        pb >> (lambda router: router.delivered("g"))  # it has not heard of `_n` yet
        pb >> delivering
        pb >> ("g", notification("proxy/successor", notification("_n", S)))
        pb << ("agent", notification("_n", S))
        pb >> (lambda router: router.delivered("g"))


def test_what_waits_for_a_filter_that_dies_is_told_so() -> None:
    with guessed(guest("filter", kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb >> ("client", notification("_n", S))
        pb >> ("client", request(1, "_q", S))
        pb >> ("client", request(2, "session/prompt", S))
        pb >> (lambda router: router.closed("g", GONE))
        pb << ("client", error("i", -32603, GONE_TEXT, GONE.data))
        pb << Noted("debug", "client", "`_n` dropped")
        pb << ("client", error(1, -32603, GONE_TEXT, GONE.data))
        pb << ("client", error(2, -32603, GONE_TEXT, GONE.data)) << Fail("g", GONE)


def test_what_a_guest_is_only_shown_goes_on_when_it_dies_unready() -> None:
    rules = ("up:session/update:modify",)
    with guessed(guest(NO_PROFILE, *rules, kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb << ("agent", request(Hole("ai"), "initialize", V1))
        pb >> ("client", request(1, "session/prompt", S))
        pb >> (lambda router: router.closed("g", GONE))
        pb << ("agent", request(Hole("q"), "session/prompt", S)) << Fail("g", GONE)
        pb >> ("agent", result(Hole("q"), 1)) << ("client", result(1, 1))
        # From now on it goes past at once.
        pb >> ("client", request(2, "session/prompt", S))
        pb << ("agent", request(Hole("q2"), "session/prompt", S))


def test_a_request_answered_before_its_guest_is_ready() -> None:
    with guessed(guest("filter", kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb >> ("client", request(1, "_q", S))
        pb >> (lambda router: router.abandon(GONE))
        pb << ("client", error("i", -32603, GONE_TEXT, GONE.data))
        pb << ("client", error(1, -32603, GONE_TEXT, GONE.data))
        wrapped = {"method": "initialize", "params": V1}
        pb >> ("g", request("f", "proxy/successor", wrapped))
        pb << ("agent", request(Hole("ai"), "initialize", V1))


def test_copies_wait_for_an_observer() -> None:
    wrapped = {"method": "initialize", "params": V1}
    with guessed(guest("observer", kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb << ("agent", request(Hole("ai"), "initialize", V1))
        pb >> ("client", notification("_n", S)) << ("agent", notification("_n", S))
        pb >> ("client", request(1, "_q", S)) << ("agent", request(Hole("q"), "_q", S))
        pb >> ("client", request(2, "_q", S)) << ("agent", request(Hole("q2"), "_q", S))
        pb >> ("client", cancel(1)) << ("agent", cancel(Hole("q")))
        pb >> ("agent", result(Hole("ai"), OK)) << ("client", result("i", OK))
        pb >> ("g", request("f", "proxy/successor", wrapped))
        pb << ("g", notification("_n", S))
        pb << ("g", request(Hole("c"), "_q", S)) << ("g", cancel(Hole("c")))
        pb << ("g", request(Hole("c2"), "_q", S)) << ("g", result("f", OK))
        pb >> ("g", result(Hole("i"), OK))
        pb >> ("client", cancel(2)) << ("agent", cancel(Hole("q2"))) << ("g", cancel(Hole("c2")))


def test_an_observer_that_never_takes_its_role_misses_copies() -> None:
    with guessed(guest("observer", kind=None)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", ROLE_REQUEST)
        pb << ("agent", request(Hole("ai"), "initialize", V1))
        for _ in range(4097):
            pb >> ("client", notification("_n")) << ("agent", notification("_n"))
        pb >> ("client", request(1, "_q")) << ("agent", request(Hole("q"), "_q"))
        assert pb.router.forget_lost("g") == 2
        assert pb.router.forget_lost("g") == 0
        assert pb.router.forget_lost("client") == pb.router.forget_lost("nobody") == 0
        pb >> (lambda router: router.closed("g", GONE)) << Fail("g", GONE)
        pb >> ("client", notification("_n")) << ("agent", notification("_n"))
        pb >> ("client", request(2, "_q")) << ("agent", request(Hole("q2"), "_q"))


# -- rounds --------------------------------------------------------------------------------------


def test_a_guest_keeps_what_it_has_not_passed_on_in_its_round() -> None:
    with begun(guest("filter")) as pb:
        assert pb.router.delivered("agent") == []
        pb.router.delivering("agent")
        for text in ("a", "b"):
            pb >> ("client", notification("_n", {**S, "t": text}))
            pb << ("g", "p", notification("_n", {**S, "t": text}))
        pb >> delivering
        pb >> ("g", "s", notification("_n", {**S, "t": "b"}))
        pb << ("agent", notification("_n", {**S, "t": "b"}))
        pb >> (lambda router: router.delivered("g")) >> (lambda router: router.delivered("g"))
        pb >> ("g", "s", notification("_n", {**S, "t": "a"}))
        pb << broken("may not send `_n` of its own", "_n")


def test_an_observers_copies_are_forgotten_with_its_round() -> None:
    with begun(guest("observer")) as pb:
        pb >> ("client", notification("_n"))
        pb << ("g", "p", notification("_n")) << ("agent", notification("_n"))
        pb >> delivering
        pb >> (lambda router: router.delivered("g"))
        pb >> ("g", "s", notification("_n")) << broken("may not send `_n` of its own", "_n")


def prompt(text: str, session: Json = S) -> Json:
    """The params of a prompt."""
    return {**session, "prompt": [{"type": "text", "text": text}]}


def test_what_a_guest_is_shown_and_keeps_goes_on_after_its_round() -> None:
    with begun(guest(NO_PROFILE, "up:session/update:modify")) as pb:
        pb >> ("client", request(1, "session/prompt", prompt("a")))
        pb << ("g", "p", request(Hole("q"), "session/prompt", prompt("a")))
        pb >> delivering
        pb >> (lambda router: router.delivered("g"))
        pb << ("agent", request(Hole("r"), "session/prompt", prompt("a")))
        pb >> ("agent", result(Hole("r"), 1)) << ("client", result(1, 1))
        # What it says to it now concerns nobody.
        pb >> ("g", "p", result(Hole("q"), 2))
        pb >> ("g", "s", request("late", "session/prompt", prompt("a")))
        pb << ("g", "s", error("late", -32600, OVER.format("session/prompt")))


def test_an_answer_a_guest_is_shown_and_keeps_goes_on_after_its_round() -> None:
    with begun(guest(NO_PROFILE, "up:session/update:modify")) as pb:
        asked_and_forwarded(pb, 1, "a")
        pb >> ("agent", result(Hole("fa"), 1)) << ("g", "s", result("fa", 1))
        pb >> (lambda router: router.delivered("g"))  # what began before the answer came
        pb >> delivering
        pb >> (lambda router: router.delivered("g")) << ("client", result(1, 1))
        pb >> ("g", "p", result(Hole("qa"), 2))


def asked_and_forwarded(pb: Playbook, id_: object, text: str, session: Json = S) -> None:
    """A prompt goes through the guest to the agent; holes `q…`, `f…` and `s…` are its ids."""
    pb >> ("client", request(id_, "session/prompt", prompt(text, session)))
    pb << ("g", "p", request(Hole(f"q{text}"), "session/prompt", prompt(text, session)))
    pb >> ("g", "s", request(f"f{text}", "session/prompt", prompt(text, session)))
    pb << ("agent", request(Hole(f"f{text}"), "session/prompt", prompt(text, session)))


def test_what_a_guest_passes_on_pushes_on_what_came_before() -> None:
    with begun(guest(NO_PROFILE, "up:session/update:modify")) as pb:
        for text in ("a", "b"):
            asked_and_forwarded(pb, text, text)
        ask = ("session/request_permission", {**S, "options": []})
        pb >> ("agent", request(1, *ask)) << ("g", "s", request(Hole("p"), *ask))
        for text in ("a", "b"):
            pb >> ("agent", result(Hole(f"f{text}"), text))
            pb << ("g", "s", result(f"f{text}", text))
        # The answer of the last pushes on the permission, and the answer before it.
        pb >> ("g", "p", result(Hole("qb"), "b"))
        pb << ("client", request(Hole("ask"), *ask))
        pb << ("client", result("a", "a")) << ("client", result("b", "b"))
        pb >> ("g", "p", result(Hole("qa"), "a"))
        pb >> ("client", result(Hole("ask"), 1)) << ("agent", result(1, 1))


def test_what_a_guest_is_shown_waits_behind_what_passes_it_by() -> None:
    rules = ("up:session/update:modify", "down:_q:modify")
    with begun(guest(NO_PROFILE, *rules)) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", request(2, "session/prompt", prompt("a")))  # held, to be shown in order
        pb >> ("client", request(3, "session/prompt", prompt("b")))
        pb >> ("g", "s", request("f", "_q", S)) << ("agent", request(Hole("f"), "_q", S))
        pb << ("g", "p", request(Hole("qa"), "session/prompt", prompt("a")))
        pb >> ("g", "s", request("fa", "session/prompt", prompt("a")))
        pb << ("agent", request(Hole("fa"), "session/prompt", prompt("a")))
        pb << ("g", "p", request(Hole("qb"), "session/prompt", prompt("b")))


def test_what_waits_to_be_shown_is_dropped_with_its_asker() -> None:
    rules = ("up:session/update:modify", "down:_q:modify")
    with begun(guest(NO_PROFILE, *rules)) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", request(2, "session/prompt", prompt("a")))
        pb >> ("client", request(3, "_r", S))
        pb >> (lambda router: router.abandon(GONE))
        pb << ("client", error(1, -32603, GONE_TEXT, GONE.data))
        pb << ("g", "p", request(Hole("qa"), "session/prompt", prompt("a")))
        pb << ("client", error(2, -32603, GONE_TEXT, GONE.data))
        pb << ("agent", request(Hole("r"), "_r", S))
        pb << ("client", error(3, -32603, GONE_TEXT, GONE.data))
        pb >> ("agent", result(Hole("r"), 1))


def test_what_waits_is_dropped_when_its_asker_is_gone() -> None:
    rules = ("up:session/update:modify", "down:_q:modify")
    with begun(guest(NO_PROFILE, *rules)) as pb:
        pb >> ("client", request(1, "_q", S)) << ("g", "p", request(Hole("q"), "_q", S))
        pb >> ("client", request(2, "session/prompt", prompt("a")))
        pb >> ("client", request(3, "_r", S))
        pb >> (lambda router: router.closed("client", GONE)) << ("g", "p", cancel(Hole("q")))
        pb >> ("g", "s", request("f", "_q", S)) << ("agent", request(Hole("f"), "_q", S))
        pb << ("agent", cancel(Hole("f")))
