"""When a host's router need not see messages that all guests pass on as they came."""

from msgspec import Raw

from conductor.core import Closure, Component
from conductor.core.policy.headings import read_message
from conductor.core.router import Router
from tests.harness.router.actors import dump
from tests.harness.router.policed import (
    CARRY_TEXT,
    Hole,
    chain,
    chain_of,
    given,
    guest,
    heard,
    passed,
    prompt,
    request,
    trusted,
    update,
)

ALL = ("down:session/prompt:carry+amend", CARRY_TEXT)


def test_at_rest_while_the_agent_works() -> None:
    with chain(*ALL) as pb:
        assert pb.router.at_rest()
        given(pb)
        assert not pb.router.at_rest()
        passed(pb)
        assert pb.router.at_rest()


def test_not_before_the_chain_is_initialized() -> None:
    assert not Router([trusted("g"), Component("agent")]).at_rest()


def test_not_while_a_guest_has_text_or_has_swallowed_some() -> None:
    with chain(*ALL) as pb:
        heard(pb.router)
        pb >> ("agent", update("hi"))
        pb << ("g", "s", update("hi"))
        assert not pb.router.at_rest()
        heard(pb.router)
        assert not pb.router.at_rest()
        pb >> ("g", "p", update("hi"))
        pb << ("client", update("hi"))
        assert pb.router.at_rest()


def test_not_while_a_component_is_gone_or_paused() -> None:
    with chain_of(guest(*ALL), trusted("h")) as pb:
        pb.router.pause("g", paused=True)
        assert not pb.router.at_rest()
        pb.router.pause("g", paused=False)
        assert pb.router.at_rest()
        pb.router.bypassed("h", Closure("gone"))
        assert not pb.router.at_rest()


def test_all_is_known_about_where_the_client_works() -> None:
    with chain(*ALL) as pb:
        router = pb.router
        assert not router.knows_all_about(None, b"7")
        assert not router.knows_all_about("S", b"7")
        given(pb)
        assert router.knows_all_about("S", b"77")
        used = next(iter(router.peers["g"].p.requests.sent))
        assert not router.knows_all_about("S", used)
        passed(pb)
        pb >> ("client", request("z", "session/close", {"sessionId": "S"}))
        pb << ("agent", request(Hole("z"), "session/close", {"sessionId": "S"}))
        assert not router.knows_all_about("S", b"77")


def test_a_guest_may_change_a_prompt_within_its_rules() -> None:
    with chain_of(guest(*ALL), trusted("h")) as pb:
        hi = read_message("session/prompt", Raw(dump(prompt("hi"))))
        added = Raw(dump(prompt("hi there")))
        command = Raw(dump(prompt("/delete")))
        assert pb.router.allows_prompt("g", hi, added)
        assert not pb.router.allows_prompt("g", hi, command)
        assert not pb.router.allows_prompt("h", hi, added)
