"""Hosts of guests, below a conductor: ids are kept on the way through, own ones are strings."""

import json
from collections import deque
from functools import partial
from typing import Final

import pytest

from conductor.core import CHANNEL, Component, Send, Serve
from conductor.core.policy import ordering
from conductor.core.policy.rules import Grants
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import Guest, dump
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    V1,
    Hole,
    Playbook,
    broke,
    cancel,
    guest,
    heard,
    lacks,
    prompt,
    refused,
    request,
    result,
    settled,
    taken,
    tool_call,
    trusted,
    update,
)
from tests.harness.router.rules import policy_of

ABOVE: Final = "client"
"""The conductor above, which is the host's predecessor and successor."""
OK: Final = {"protocolVersion": 1}


def host(*guests: Component) -> Playbook:
    """A host of these guests, initialized."""
    router = Router(list(guests), "proxy", options=RouterOptions(upstream=CHANNEL))
    actors = {one.name: Guest(one.name) for one in guests}
    queue = deque([(ABOVE, b"p" + dump(request(1, "initialize", V1)))])
    told = []
    while queue:
        name, line = queue.popleft()
        for effect in router.receive(name, line):
            if not isinstance(effect, Send):
                continue
            if effect.peer != ABOVE:
                queue += actors[effect.peer].hear(effect.peer, effect.frame[:-1])
            elif effect.frame[:1] == b"s":
                queue.append((ABOVE, b"s" + dump(result(json.loads(effect.frame[1:])["id"], OK))))
            else:
                told.append(json.loads(effect.frame[1:]))
    assert told == [result(1, OK)]
    return Playbook(router)


def test_an_id_that_is_used_again_is_not_forgotten_with_its_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordering, "_MOST_CLOSED", 1)
    with host(guest(profile="full")) as pb:
        for _ in range(3):
            pb >> (ABOVE, "p", request(7, PROMPT, prompt("hi")))
            pb << ("g", "p", request(7, PROMPT, prompt("hi")))
            pb >> ("g", "s", request(7, PROMPT, prompt("hi")))
            pb << (ABOVE, "s", request(7, PROMPT, prompt("hi")))
            pb >> (ABOVE, "s", result(7, DONE)) << ("g", "s", result(7, DONE))
            pb >> ("g", "p", result(7, DONE)) << (ABOVE, "p", result(7, DONE))
        pb >> ("g", "s", request(7, PROMPT, prompt("hi")))
        broke(pb, "identity", "too late")
        refused(pb, 7, "once more, or too late")


def turn_given(pb: Playbook, name: str, session: str = "S", *, within: bool = False) -> None:
    """The conductor above is asked for a turn of a guest's, and gives it."""
    serve = pb.effects[0]
    assert isinstance(serve, Serve)
    wanted = {"sessionId": session, "show": False, "within": within}
    pb << Serve(name, "turn/begin", serve.token, dump(wanted))
    assert serve.token is not None
    token = serve.token
    pb >> (lambda router: router.served(token, dump({"turn": f"of {session}"})))


def test_own_requests_are_strings_for_the_conductor_above_whatever_they_were() -> None:
    own = "turns=unprompted"
    with host(guest(name="f", grants=own), guest(grants=own)) as pb:
        for name, id_ in (("f", 5), ("g", "x"), ("f", "c1")):
            session = f"{name}{id_}"
            pb >> (name, "s", request(id_, PROMPT, prompt("mine", session)))
            turn_given(pb, name, session)
            pb << (ABOVE, "s", request(Hole(session), PROMPT, prompt("mine", session)))
            assert type(pb.values[session]) is str
            pb >> (name, "s", cancel(id_)) << (ABOVE, "s", cancel(Hole(session)))
        assert len({pb.values[one] for one in ("f5", "gx", "fc1")}) == 3
        for name, id_ in (("f", 5), ("g", "x"), ("f", "c1")):
            pb >> (ABOVE, "s", result(Hole(f"{name}{id_}"), DONE)) << (name, "s", result(id_, DONE))
            pb << Serve(name, "turn/end", None, dump({"turn": f"of {name}{id_}"}))


def test_one_s_own_request_has_an_id_of_the_host_s_at_the_next() -> None:
    with host(guest(name="f", grants="turns=unprompted"), guest(profile="full")) as pb:
        pb >> ("f", "s", request(3, PROMPT, prompt("mine")))
        turn_given(pb, "f")
        pb << ("g", "p", request(Hole("g"), PROMPT, prompt("mine")))
        assert pb.values["g"] >= 10**12
        pb >> ("g", "s", request(Hole("g"), PROMPT, prompt("mine")))
        pb << (ABOVE, "s", request(Hole("above"), PROMPT, prompt("mine")))
        pb >> (ABOVE, "s", result(Hole("above"), DONE)) << ("g", "s", result(Hole("g"), DONE))
        pb >> ("g", "p", result(Hole("g"), DONE)) << ("f", "s", result(3, DONE))
        pb << Serve("f", "turn/end", None, dump({"turn": "of S"}))


def test_an_id_that_is_open_already_is_not_given_twice() -> None:
    """A trusted guest may do as it likes with ids; the conductor above has its own answers."""
    with host(trusted("f"), trusted("g")) as pb:
        pb >> ("f", "s", request(5, "_own", {})) << ("g", "p", request(10**12, "_own", {}))
        pb >> (ABOVE, "p", request(5, "_q", {})) << ("f", "p", request(5, "_q", {}))
        pb >> ("f", "p", result(5, 0)) << (ABOVE, "p", result(5, 0))
        pb >> (ABOVE, "p", request(6, "_q", {})) << ("f", "p", request(6, "_q", {}))
        pb >> ("f", "s", request(6, "_q", {})) << ("g", "p", request(6, "_q", {}))
        pb >> ("g", "s", request(6, "_q", {})) << (ABOVE, "s", request(6, "_q", {}))
        pb >> (ABOVE, "s", request(6, "_up", {})) << ("g", "s", request(6, "_up", {}))
        pb >> ("g", "p", request(6, "_up", {})) << ("f", "s", request(6, "_up", {}))
        pb >> (ABOVE, "p", request(7, "_q", {})) << ("f", "p", request(7, "_q", {}))
        pb >> ("f", "s", request("x", "_q", {})) << ("g", "p", request(Hole("x"), "_q", {}))
        assert pb.values["x"] >= 10**12


def test_an_id_of_the_host_s_own_is_not_given_twice() -> None:
    with host(trusted("f"), trusted("g")) as pb:
        pb >> ("f", "s", request("x", "_q", {})) << ("g", "p", request(10**12, "_q", {}))
        kept = request(10**12 + 1, "_q", {})
        pb >> (ABOVE, "p", kept) << ("f", "p", kept) >> ("f", "s", kept) << ("g", "p", kept)
        pb >> ("f", "s", request("y", "_q", {})) << ("g", "p", request(10**12 + 2, "_q", {}))


def test_it_polices_its_guests_by_rounds() -> None:
    with host(guest(CARRY_TEXT, name="f"), guest("down:session/prompt:carry")) as pb:
        for name in "fg":
            pb >> partial(heard, name=name)
        pb >> (ABOVE, "s", update("a")) << ("f", "s", update("a"))
        pb >> (ABOVE, "s", tool_call("t"))
        pb >> (lambda router: heard(router, "f")) << (ABOVE, "p", tool_call("t"))
        pb >> (ABOVE, "p", request(7, PROMPT, prompt("hi")))
        copy = taken(pb)
        assert isinstance(copy, Send)
        assert copy.peer == "f"
        pb << ("g", "p", request(7, PROMPT, prompt("hi")))
        pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "m", "(7)")
        pb >> ("g", "s", request(7, PROMPT, prompt("hi")))
        pb << (ABOVE, "s", request(7, PROMPT, prompt("hi")))
        pb >> (ABOVE, "s", result(7, DONE)) << ("g", "s", result(7, DONE))
        pb << (ABOVE, "p", result(7, DONE))
        assert settled(pb.router)


def test_a_host_s_policy_is_the_guests_own() -> None:
    """A guest may do what its neighbour may not."""
    full = Component(
        "f", "proxy `f`", CHANNEL, policy=policy_of("none", grants=Grants(sessions="own"))
    )
    with host(full, guest()) as pb:
        pb >> ("g", "s", request("m", "session/close", {"sessionId": "S"}))
        lacks(pb, "originate", "session/close")
        refused(pb, "m", "`,allow=prompt:unseen` lets it")
