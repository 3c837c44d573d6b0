"""The changes of components, as an audit is told: read off the identities the engine has."""

import json

import pytest

from conductor.core import Changed, Closure
from conductor.core.policy.ordering import InFlight
from conductor.core.state import Visit
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    Hole,
    Playbook,
    broke,
    chain_of,
    given,
    guest,
    heard,
    lacks,
    passed,
    prompt,
    request,
    result,
    skip,
    trusted,
    update,
)

FULL = {"profile": "full", "grants": "turns=unprompted"}


def changed(pb: Playbook) -> list[tuple[str, str, str, object, object]]:
    """Change, kind, direction, before and after of all that follows; the rest is passed over."""
    return [told(one) for one in skip(pb) if isinstance(one, Changed)]


def told(one: Changed) -> tuple[str, str, str, object, object]:
    """A change, as a tuple to compare."""
    before, after = (None if v is None else json.loads(v) for v in (one.before, one.after))
    return one.change, one.kind, one.direction, before, after


def audited(*, tracing: bool = False) -> Playbook:
    """A guest of which an audit wants to know."""
    return chain_of(guest(**FULL), audited={"g"}, tracing=tracing)


def test_what_passes_unchanged_is_nothing_to_speak_of() -> None:
    with audited() as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", update("a")) << ("g", "s", update("a"))
        pb >> ("g", "p", update("a")) << ("client", update("a"))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def test_a_change_that_takes_too_much_memory_to_be_recorded_is_lost_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("conductor.core.policy.changes.shown", full)
    with audited() as pb:
        pb >> ("agent", update("a")) << ("g", "s", update("a"))
        pb >> ("g", "p", update("b")) << ("client", update("b"))


def test_changes_of_requests_and_answers() -> None:
    with audited() as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi!")))
        (one,) = [each for each in pb.effects if isinstance(each, Changed)]
        assert (one.source, one.source_id, one.target) == ("client", '"a"', "agent")
        assert one.target_id == str(pb.values["g-a"])
        assert one.session == "S"
        assert changed(pb) == [("modified", "request", "down", prompt("hi"), prompt("hi!"))]
        pb >> ("agent", result(2, DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        said = {"stopReason": "end_turn", "_meta": {"example.com/x": 1}}
        pb >> ("g", "p", result(Hole("g-a"), said))
        for answer in changed(pb):  # if it may
            assert answer == ("modified", "response", "up", {"result": DONE}, {"result": said})


def test_answers_of_its_own() -> None:
    with audited() as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        (one,) = [each for each in pb.effects if isinstance(each, Changed)]
        assert (one.target, one.target_id, one.source) == ("client", '"a"', None)
        assert changed(pb) == [("answered", "response", "up", None, {"result": DONE})]


@pytest.mark.proves("a change that a policy undid")
def test_what_a_policy_undid_is_no_change() -> None:
    with audited() as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("/yolo")))
        broke(pb, "commands")
        assert changed(pb) == []


def test_its_own_messages() -> None:
    with audited() as pb:
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        assert changed(pb) == [("originated", "request", "down", None, prompt("mine"))]
        pb >> ("agent", result(2, DONE))
        skip(pb)
        pb >> ("g", "p", update("mine"))
        assert changed(pb) == [("originated", "notification", "up", None, update("mine")["params"])]
        pb >> ("g", "p", request("no", "fs/read_text_file", {}))
        lacks(pb, "originate", "fs/read_text_file")  # a violation is no change
        skip(pb)


def test_notifications_changed_and_dropped() -> None:
    one, two, three = (update(text)["params"] for text in ("1", "2", "3"))
    with audited() as pb:
        pb >> heard
        for text in "12":
            pb >> ("agent", update(text)) << ("g", "s", update(text))
        pb >> heard
        pb >> ("g", "p", update("3"))
        assert changed(pb) == [("modified", "notification", "up", one, three)]
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> ("g", "p", update("1"))
        assert changed(pb) == [("dropped", "notification", "up", two, None)]
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> (lambda router: router.settled("g"))
        assert changed(pb) == [("dropped", "notification", "up", one, None)]
        pb >> (lambda router: router.settled("agent"))


def test_one_that_is_trusted_is_told_of_as_well() -> None:
    with chain_of(trusted("g"), audited={"g"}) as pb:
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> ("g", "p", update("2"))
        params = (update("1")["params"], update("2")["params"])
        assert changed(pb) == [("modified", "notification", "up", *params)]
        pb >> ("g", "p", update("3"))
        assert changed(pb) == [("originated", "notification", "up", None, update("3")["params"])]
        given(pb)
        passed(pb)
        pb >> ("g", "p", result(Hole("g-a"), 7))  # before the agent has
        assert changed(pb) in ([], [("answered", "response", "up", None, {"result": 7})])
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))


def test_without_params() -> None:
    with chain_of(guest(grants="methods=_*"), audited={"g"}) as pb:
        pb >> ("client", {"jsonrpc": "2.0", "method": "_n"})
        pb << ("g", "p", {"jsonrpc": "2.0", "method": "_n"})
        pb >> ("g", "s", {"jsonrpc": "2.0", "method": "_n", "params": {}})
        for one in changed(pb):  # if it may
            assert one == ("modified", "notification", "down", None, {})


def test_requests_and_answers_that_leave_after_what_came_later() -> None:
    with audited() as pb:
        given(pb, "one", asked="a")
        given(pb, "two", asked="b")
        passed(pb, "two", asked="b")
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("one!")))
        one, more = prompt("one"), prompt("one!")
        assert changed(pb) == [
            ("reordered", "request", "down", one, one),
            ("modified", "request", "down", one, more),
        ]
    with audited() as pb:
        for asked in "ab":
            given(pb, asked=asked)
            passed(pb, asked=asked)
        pb.router.delivering("g")
        for asked in "ab":
            pb >> ("agent", result(Hole(f"a-{asked}"), DONE))
            pb << ("g", "s", result(Hole(f"g-{asked}"), DONE))
        pb >> ("g", "p", result(Hole("g-b"), DONE)) << ("client", result("b", DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        answer = {"result": DONE}
        assert changed(pb) == [("reordered", "response", "up", answer, answer)]


def test_what_goes_past_is_overtaken_by_what_is_kept() -> None:
    with chain_of(guest(CARRY_TEXT), audited={"g"}) as pb:
        pb >> ("agent", update("a")) << ("g", "s", update("a"))
        heard(pb.router)
        heard(pb.router)
        call = update("c", kind="notice")
        pb >> ("agent", call) << ("client", call)
        pb >> ("g", "p", update("a"))
        assert [one[0] for one in changed(pb)] == ["reordered"]


def test_the_order_of_the_oldest_sessions_is_forgotten() -> None:
    given: InFlight[Visit] = InFlight()
    assert given.in_order(None, 1)
    for number in range(2000):
        assert given.in_order(f"S{number}", given.comes() + 1)
    assert given.in_order("S0", 1)
    assert not given.in_order("S1999", 1)


def test_asking_once_more_is_a_request_of_its_own() -> None:
    with audited() as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        ((change, kind, _, _, after),) = changed(pb)
        assert (change, kind, after) == ("originated", "request", prompt("hi"))


def test_words_that_it_kept_when_it_failed_are_dropped() -> None:
    with chain_of(guest(CARRY_TEXT), audited={"g"}) as pb:
        for text in ("a", "b"):
            pb >> ("agent", update(text)) << ("g", "s", update(text))
        pb >> heard
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        assert [one[0] for one in changed(pb)] == ["dropped", "dropped"]


def test_what_a_component_drops_that_is_not_audited_is_not_recorded() -> None:
    with chain_of(guest(**FULL), audited={"f"}) as pb:
        pb >> heard
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> (lambda router: router.settled("g"))
        assert changed(pb) == []
