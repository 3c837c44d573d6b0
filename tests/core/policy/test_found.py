"""What properties have found: each was wrong once."""

from __future__ import annotations

import json

from conductor.core import Changed, Component, Router, Send
from tests.core.actors import Agent, Launching, Stage
from tests.core.plays import component
from tests.core.policy.plays import (
    DONE,
    PROMPT,
    V1,
    Hole,
    chain,
    chain_of,
    given,
    lacks,
    mode,
    notification,
    passed,
    prompt,
    request,
    result,
    skip,
    trusted,
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


def test_who_is_trusted_asks_again_as_often_as_it_likes_though_it_is_watched() -> None:
    with chain_of(trusted("g"), audited=["g"]) as pb:
        given(pb)
        for _ in range(9):
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
            sent = skip(pb)[-1]
            assert isinstance(sent, Send)
            pb >> ("agent", result(json.loads(sent.frame)["id"], DONE))
            pb << ("g", "s", result(Hole("g-a"), DONE))


def test_what_a_program_with_two_connections_drops_is_on_record() -> None:
    router = Router([component("p", "scp"), Component("agent")], audited=["p"])
    stage = Stage(router, [Launching("p"), Agent("agent")])
    stage.say(request(0, "initialize", V1))
    router.receive("client", json.dumps(notification("_x", {"a": 1})).encode())
    (dropped,) = router.settled("p")
    assert isinstance(dropped, Changed)
    assert (dropped.change, dropped.before) == ("dropped", b'{"a": 1}')
