"""Copies: the original has gone past, and no act on the copy changes anything."""

import json
from typing import Any

import msgspec
import pytest

from conductor.core import Closure, Fail, Send
from conductor.core.policy import entries, observers, ordering
from conductor.core.policy.headings import Heading, Message
from conductor.core.router import Router
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    KINDS,
    PERMISSION,
    PROMPT,
    V1,
    Hole,
    Noted,
    Playbook,
    broke,
    cancel,
    chain,
    chain_of,
    error,
    guest,
    lacks,
    mode,
    notification,
    permission,
    prompt,
    refused,
    request,
    result,
    settled,
    skip,
    taken,
    tool_call,
    update,
    wrapped,
)

GONE = Closure("gone", "", {"component": "g"})
OK = {"protocolVersion": 1}


def copied(pb: Playbook, asked: object = "a", text: str = "hi") -> None:
    """A prompt goes past `g`, which gets a copy."""
    pb >> ("client", request(asked, PROMPT, prompt(text)))
    pb << ("g", "p", request(Hole(f"g-{asked}"), PROMPT, prompt(text)))
    pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(text)))


# -- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [True, False])
def test_passing_it_on_gets_the_answer_of_the_original(early: bool) -> None:
    with chain(profile="observer") as pb:
        copied(pb)
        if early:
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        if not early:
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        told = taken(pb)
        assert isinstance(told, Send)
        assert (json.loads(told.frame[1:]), told.copy) == (result(pb.values["g-a"], DONE), True)
        pb >> ("g", "p", result(Hole("g-a"), {"stopReason": "refusal"}))  # nobody reads it


@pytest.mark.parametrize("answers", [True, False])
def test_it_is_known_whether_it_has_taken_them(answers: bool) -> None:
    """Nobody else waits for the copies: a chain does not end before."""
    with chain(profile="observer") as pb:
        assert [peer.name for peer in pb.router.observers()] == ["g"]
        copied(pb)
        assert pb.router.observed()
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        assert pb.router.observed() is False
        if answers:
            pb >> ("g", "p", result(Hole("g-a"), DONE))
        else:
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
            pb << ("g", "s", result(Hole("g-a"), DONE))
        assert pb.router.observed()


def test_one_that_is_gone_is_not_waited_for() -> None:
    with chain(profile="observer") as pb:
        copied(pb)
        pb.router.closed("g", GONE)
        assert pb.router.observers() == []
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


@pytest.mark.parametrize("answer", [result(Hole("g-a"), 1), error(Hole("g-a"), 1, "no")])
def test_whatever_it_answers_to_a_copy_is_ignored(answer: object) -> None:
    with chain(profile="observer") as pb:
        copied(pb)
        pb >> ("g", "p", answer)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


@pytest.mark.proves("conductor never mistakes a returned")
def test_a_changed_copy_is_a_violation_and_changes_nothing() -> None:
    with chain(profile="observer") as pb:
        copied(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("changed")))
        lacks(pb, "carry", PROMPT)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        pb << ("g", "s", result(Hole("g-a"), DONE))


def test_one_under_an_id_of_its_own_is_its_own() -> None:
    with chain(profile="observer") as pb:
        copied(pb)
        pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "m", "`,allow=prompt:within`")
        pb >> ("g", "s", request(Hole("g-a"), "session/set_mode", mode()))
        lacks(pb, "originate", "session/set_mode")
        refused(pb, Hole("g-a"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_passes_copies_on_under_ids_of_its_library(kind: str) -> None:
    """Equal params, else the oldest of the same key and session; respelled is not changed."""
    with chain(profile="observer", kind=kind) as pb:
        for asked, text in (("a", "hi"), ("b", "again"), ("c", "hi")):
            pb >> ("client", request(asked, PROMPT, prompt(text)))
            pb << ("g", request(Hole(f"g-{asked}"), PROMPT, prompt(text)))
            pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(text)))
        pb >> ("g", wrapped(kind, request("m-b", PROMPT, prompt("again"))))
        pb >> ("g", wrapped(kind, request("m-a", PROMPT, prompt("hi"))))
        pb >> ("agent", result(Hole("a-b"), 2)) << ("client", result("b", 2))
        pb << ("g", result("m-b", 2))
        pb >> ("agent", result(Hole("a-a"), 1)) << ("client", result("a", 1))
        pb << ("g", result("m-a", 1))
        # A copy that was answered is not meant any more, though its params are equal.
        spelled = {"prompt": prompt("hi")["prompt"], "sessionId": "S"}
        pb >> ("g", wrapped(kind, request("m-c", PROMPT, spelled)))
        pb >> ("agent", result(Hole("a-c"), 3)) << ("client", result("c", 3))
        pb << ("g", result("m-c", 3))
        pb >> ("g", wrapped(kind, request("m-d", PROMPT, prompt("hi"))))
        lacks(pb, "originate", PROMPT)
        skip(pb)


def test_a_program_that_may_prompt_by_itself_is_understood_by_ids_alone() -> None:
    with chain(profile="observer", grants="turns=unprompted", kind="acp", ids="kept") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a-a"), 1)) << ("client", result("a", 1))
        pb >> ("g", wrapped("acp", request("own", PROMPT, prompt("hi"))))
        pb << ("agent", request(Hole("a-own"), PROMPT, prompt("hi")))
        pb >> ("g", wrapped("acp", request(Hole("g-a"), PROMPT, prompt("hi"))))
        pb << ("g", result(Hole("g-a"), 1))
        pb >> ("agent", result(Hole("a-own"), 2)) << ("g", result("own", 2))


# -- notifications -------------------------------------------------------------------------------


@pytest.mark.proves("conductor never mistakes a returned")
def test_copies_of_notifications_come_back_and_stop_there() -> None:
    with chain(profile="observer") as pb:
        for told in (update("a"), tool_call("t")):
            pb >> ("agent", told) << ("g", "s", told) << ("client", told)
        for told in (tool_call("t"), update("a")):
            pb >> ("g", "p", told)
        pb >> ("g", "p", update("a"))
        lacks(pb, "originate", "session/update[agent_message_chunk]")


def test_one_that_is_respelled_is_the_same_and_one_that_is_changed_is_a_violation() -> None:
    key = "session/update[agent_message_chunk]"
    spelled = json.dumps(update("a"), separators=(",", ":")).encode()
    with chain(profile="observer") as pb:
        for text in ("a", "b"):
            told = update(text)
            pb >> ("agent", told) << ("g", "s", told) << ("client", told)
        pb >> (lambda router: router.receive("g", b"p" + spelled))
        pb >> ("g", "p", update("changed"))
        lacks(pb, "carry", key)
        pb >> ("g", "p", update("b"))
        lacks(pb, "originate", key, again=True)


def test_what_is_granted_nothing_is_no_copy() -> None:
    with chain() as pb:
        pb >> ("agent", update("a")) << ("client", update("a"))
        pb >> ("client", notification("_n", {"sessionId": "S"}))
        pb << ("agent", notification("_n", {"sessionId": "S"}))
        pb >> ("g", "s", notification("_n", {"sessionId": "S"}))
        lacks(pb, "originate", "_n")


# -- before it is ready --------------------------------------------------------------------------


def starting(profile: str = "observer") -> Playbook:
    """A chain whose component is asked to take its role; the agent has taken its own."""
    router = Router([guest(profile=profile, kind=None), guest(name="agent")])
    pb = Playbook(router)
    pb >> ("client", request("i", "initialize", V1))
    pb << ("g", request(Hole("role"), "proxy/initialize", V1))
    pb << ("agent", request(Hole("ai"), "initialize", V1))
    pb >> ("agent", result(Hole("ai"), OK)) << ("client", result("i", OK))
    return pb


def test_copies_wait_for_one_that_is_being_initialized() -> None:
    inner = {"method": "initialize", "params": V1}
    with starting() as pb:
        pb >> ("agent", update("a")) << ("client", update("a"))
        for asked in ("a", "b"):
            pb >> ("client", request(asked, PROMPT, prompt(asked)))
            pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(asked)))
        pb >> ("client", cancel("a")) << ("agent", cancel(Hole("a-a")))
        pb >> ("g", request("f", "proxy/successor", inner))
        pb << ("g", wrapped("acp", update("a")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("a"))) << ("g", cancel(Hole("g-a")))
        pb << ("g", request(Hole("g-b"), PROMPT, prompt("b"))) << ("g", result("f", OK))
        pb >> ("client", cancel("b")) << ("agent", cancel(Hole("a-b")))
        pb << ("g", cancel(Hole("g-b")))
        pb >> ("g", result(Hole("role"), OK))


def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_MOST_WAITING", 3)
    with starting() as pb:
        for number in range(4):
            pb >> ("agent", update(str(number))) << ("client", update(str(number)))
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        assert pb.router.forget_lost("g") == 2
        assert pb.router.forget_lost("g") == 0
        assert pb.router.forget_lost("client") == pb.router.forget_lost("nobody") == 0
        pb >> (lambda router: router.closed("g", GONE)) << Fail("g", GONE)
        pb >> ("agent", update("late")) << ("client", update("late"))
        pb >> ("client", request("b", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("b"), PROMPT, prompt("hi")))


@pytest.mark.proves("copies that an observer drops")
def test_only_so_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_MOST_BYTES_WAITING", 250)
    with starting() as pb:
        for number in range(2):
            pb >> ("agent", update("x" * 100)) << ("client", update("x" * 100))
            assert pb.router.forget_lost("g") == number
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> (lambda router: router.returned("g"))
        skip(pb)
        pb >> ("agent", update("y" * 20)) << ("client", update("y" * 20))


def test_a_copy_that_had_a_place_does_not_wait_for_one_that_is_not_there() -> None:
    """A component that carries text holds the state of a session of version 2 for a round at most,
    and not at all where its copy has to wait."""
    with chain(CARRY_TEXT) as pb:
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        told = notification(
            "session/update",
            {"sessionId": "S", "update": {"sessionUpdate": "state_update", "state": "idle"}},
        )
        pb >> ("agent", told) << ("client", told)
        assert settled(pb.router)


# -- bounds --------------------------------------------------------------------------------------


def test_copies_of_requests_are_remembered_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_MOST_COPIES", 2)
    with chain(profile="observer") as pb:
        for asked in "abc":
            copied(pb, asked)
        pb >> ("g", "s", request(Hole("g-b"), PROMPT, prompt("hi")))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, Hole("g-a"))


@pytest.mark.proves("copies that an observer drops")
def test_so_much_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_MOST_COPIED_BYTES", 300)
    with chain(profile="observer") as pb:
        for asked in "abcd":
            copied(pb, asked, "x" * 40)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("x" * 40)))
        broke(pb)
        skip(pb)
        pb >> ("g", "s", request(Hole("g-d"), PROMPT, prompt("x" * 40)))


def test_their_answers_are_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.core.state._MOST_IGNORED", 2)
    with chain(profile="observer") as pb:
        for asked in "abc":
            copied(pb, asked)
        pb >> ("g", "p", result(Hole("g-b"), 1))
        pb >> ("g", "p", result(Hole("g-a"), 1)) << Noted("debug", "g", "answer dropped")
        copied(pb, "d")
        copied(pb, "e")
        assert len(pb.router.peers["g"].p.requests.sent) == 2


def test_answers_to_nothing_are_its_fault_if_it_has_answered_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conductor.core.state._MOST_IGNORED", 2)
    with chain(profile="observer") as pb:
        for asked in "abcd":
            copied(pb, asked)
            pb >> ("g", "p", result(Hole(f"g-{asked}"), 1))
        pb >> ("g", "p", result(Hole("g-a"), 1)) << Noted("warning", "g", "answer dropped")


@pytest.mark.proves("copies that an observer drops")
def test_copies_of_notifications_are_remembered_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST", 2)
    with chain(profile="observer") as pb:
        for text in "abc":
            pb >> ("agent", update(text)) << ("g", "s", update(text)) << ("client", update(text))
        for text in "bc":
            pb >> ("g", "p", update(text))
        pb >> ("g", "p", update("a"))
        lacks(pb, "originate", "session/update[agent_message_chunk]")


class Counting(bytes):
    """Params that count how often they are compared."""

    compared = 0
    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return bytes.__eq__(self, other)


def test_what_it_keeps_to_itself_is_found_at_once() -> None:
    """After 20,000 swallowed updates each update took 1.3 ms: it was compared to all of them."""

    def params(number: int) -> Any:
        return Counting(b"%d" % number)

    notes = entries.Notifications()
    for number in range(1000):
        message = Message("m", params(number), Heading("k", str(number)))
        notes.add(entries.Notification(*message, "", 0, 0))
    Counting.compared = 0
    found = notes.same("m", params(999))
    assert found is not None
    assert notes.oldest(found.heading) is found
    assert notes.of(found.heading) == [found]
    notes.remove(found)
    assert notes.same("m", params(999)) is None
    assert notes.oldest(found.heading) is None
    assert Counting.compared < 10
    assert len(notes.items) == 999
    notes.clear()
    assert notes.first() is None


@pytest.mark.parametrize("host", [False, True])
def test_the_copy_of_a_component_s_prompt_says_whose_it_is(host: bool) -> None:
    """The agent gets it as the component has sent it; nothing is added to the client's."""
    asks = guest(name="f", grants="turns=unprompted")
    if host:
        asks = msgspec.structs.replace(asks, hosts=True)
    with chain_of(asks, guest(profile="observer")) as pb:
        given = {**prompt("hi"), "_meta": {"a.dev/x": 1}}
        pb >> ("f", "s", request("c1 tidy" if host else "own", PROMPT, given))
        named = {"a.dev/x": 1, "conductor.component": "tidy" if host else "f"}
        pb << ("g", "p", request(Hole("g"), PROMPT, {**given, "_meta": named}))
        pb << ("agent", request(Hole("a"), PROMPT, given))
        pb >> ("g", "s", request(Hole("g"), PROMPT, {**given, "_meta": named}))  # it is the copy
        pb >> ("agent", result(Hole("a"), DONE))
        pb.effects.clear()
        pb >> ("client", request("u", PROMPT, prompt("mine")))
        pb << ("g", "p", request(Hole("u"), PROMPT, prompt("mine")))
        pb << ("agent", request(Hole("ua"), PROMPT, prompt("mine")))
