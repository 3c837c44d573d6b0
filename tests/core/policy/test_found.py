"""Faults that properties have found: each was wrong once."""

import json

import pytest
from msgspec import Raw

from conductor.core import Changed, Component, Send
from conductor.core.policy.headings import heading
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import Agent, Launching, Stage
from tests.harness.router.plays import component
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    V1,
    Hole,
    Playbook,
    broke,
    chain,
    chain_of,
    given,
    guest,
    lacks,
    mode,
    notification,
    passed,
    prompt,
    refused,
    request,
    result,
    skip,
    stop,
    trusted,
    update,
)


def test_an_answer_that_has_waited_for_another_does_not_overtake_it() -> None:
    with chain("down:session/prompt:carry+amend") as pb:
        pb.router.delivering("g")
        given(pb)
        passed(pb)
        pb >> ("client", request("l", "session/list", {"sessionId": "S"}))
        pb << ("agent", request(Hole("l"), "session/list", {"sessionId": "S"}))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("agent", result(Hole("l"), {}))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        pb << ("client", result("a", DONE)) << ("client", result("l", {}))


def test_a_request_that_goes_past_after_all_is_not_overtaken_by_what_waited_behind_it() -> None:
    with chain("down:session/prompt:carry") as pb:
        given(pb)
        pb >> ("client", request("m", "session/set_mode", mode()))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        lacks(pb, "answer", PROMPT)
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))


def test_who_is_trusted_uses_an_id_again_though_it_is_watched() -> None:
    with chain_of(trusted("g"), audited=["g"]) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        skip(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("once more")))
        (changed, sent) = skip(pb)
        assert isinstance(changed, Changed)
        assert changed.change == "originated"
        assert isinstance(sent, Send)
        assert sent.peer == "agent"


def test_what_a_program_with_two_connections_drops_is_on_record() -> None:
    router = Router(
        [component("p", "scp"), Component("agent")], options=RouterOptions(audited=["p"])
    )
    stage = Stage(router, [Launching("p"), Agent("agent")])
    stage.say(request(0, "initialize", V1))
    router.receive("client", json.dumps(notification("_x", {"a": 1})).encode())
    (dropped,) = router.settled("p")
    assert isinstance(dropped, Changed)
    assert (dropped.change, dropped.before) == ("dropped", b'{"a": 1}')


def test_answers_that_go_past_one_component_wait_for_those_outside_of_it() -> None:
    outer, inner = guest(CARRY_TEXT, name="o"), guest("down:session/list:carry", name="i")
    with chain_of(outer, inner) as pb:
        asked = {"sessionId": "S"}
        pb >> ("client", request("l", "session/list", asked))
        pb << ("i", "p", request(Hole("i"), "session/list", asked))
        pb >> ("i", "s", request(Hole("i"), "session/list", asked))
        pb << ("agent", request(Hole("a"), "session/list", asked))
        pb.router.delivering("o")
        pb >> ("agent", update("first")) << ("o", "s", update("first"))
        pb >> ("agent", result(Hole("a"), {})) << ("i", "s", result(Hole("i"), {}))
        pb >> ("o", "p", update("first")) << ("client", update("first"))
        pb << ("client", result("l", {}))


def test_what_may_not_be_dropped_waits_for_no_program_for_ever() -> None:
    with chain(profile="filter", grants="texts", kind="acp") as pb:
        told = update("run", kind="notice")
        pb >> ("agent", told)
        skip(pb)
        pb.wake() << ("client", told)


def test_a_cancellation_that_comes_back_after_the_next_prompt_is_still_a_copy() -> None:
    with chain("down:session/cancel:copy+originate") as pb:
        pb.router.delivering("g")
        pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb.router.delivering("g")
        pb >> ("g", "s", stop())


def test_initialize_is_on_record_like_all_else() -> None:
    router = Router([trusted("g"), Component("agent")], options=RouterOptions(audited=["g"]))
    with Playbook(router) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", "p", request(Hole("g"), "initialize", V1))
        claims = {**V1, "clientCapabilities": {"terminal": True}}
        pb >> ("g", "s", request(Hole("g"), "initialize", claims))
        (changed, sent) = skip(pb)
        assert isinstance(changed, Changed)
        assert (changed.change, changed.kind, changed.source_id) == ("modified", "request", '"i"')
        assert isinstance(sent, Send)
        pb >> ("agent", result(1, V1)) << ("g", "s", result(Hole("g"), V1))
        pb >> ("g", "p", result(Hole("g"), {**V1, "agentCapabilities": {}}))
        (changed, sent) = skip(pb)
        assert isinstance(changed, Changed)
        assert (changed.change, changed.kind, changed.target_id) == ("modified", "response", '"i"')
        pb >> ("g", "s", request("own", "initialize", V1))
        assert [one.change for one in skip(pb) if isinstance(one, Changed)] == ["originated"]


def test_who_is_trusted_may_answer_what_it_has_passed_on_and_that_is_on_record() -> None:
    with chain_of(trusted("g"), audited=["g"]) as pb:
        given(pb)
        passed(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        (changed, sent) = skip(pb)
        assert isinstance(changed, Changed)
        assert changed.change == "answered"
        assert isinstance(sent, Send)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (b'{"sessionId": ""}', ""),
        (b'{"session_id": ""}', ""),
        (b'{"sessionId": "", "session_id": "S"}', ""),
        (b'{"sessionId": null, "session_id": "S"}', "S"),
        (b"{}", None),
    ],
)
@pytest.mark.parametrize("method", ["session/update", "session/prompt", "mcp/connect"])
def test_an_empty_session_id_is_a_name(method: str, params: bytes, named: str | None) -> None:
    assert heading(method, Raw(params)).session == named


def test_what_went_on_without_a_component_is_not_its_any_more() -> None:
    """`g` answered without the right, so `h` has the prompt: the prompt from `g` is refused."""
    with chain_of(guest(profile="full"), guest(profile="full", name="h")) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), {"early": 1}))
        broke(pb, "agent-state", "early")
        pb << ("h", "p", request(Hole("h"), PROMPT, prompt("hi")))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("other words")))
        broke(pb, "identity", "once more, or too late")
        refused(pb, Hole("g-a"), "once more, or too late")
        pb >> ("h", "s", request(Hole("h"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a"), DONE)) << ("h", "s", result(Hole("h"), DONE))
        pb >> ("h", "p", result(Hole("h"), DONE)) << ("client", result("a", DONE))
