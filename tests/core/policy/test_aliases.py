"""Aliases (`rebind`) and the end of sub-sessions: messages through the side of a component."""

import json

import msgspec
import pytest
from msgspec import Raw

from conductor.core import CHANNEL, Closure, Component, Effect, LogLine, Send, Serve
from conductor.core.accounts import Allowance
from conductor.core.aliases import Aliases, to_json
from conductor.core.component import newcomer
from conductor.core.router import Router, RouterOptions
from conductor.core.session_names import SessionNames
from tests.core.policy.test_own_sessions import OWN, THERE, opened, set_up
from tests.harness.router.policed import (
    DONE,
    PERMISSION,
    PROMPT,
    Hole,
    Json,
    Noted,
    Playbook,
    broke,
    chain,
    chain_of,
    guest,
    notification,
    permission,
    prompt,
    refused,
    request,
    result,
    skip,
    state,
    stop,
    trusted,
    update,
)

GONE = Closure("`g` ended", "", {"component": "g"})


def sent(out: list[Effect], name: str) -> list[Json]:
    """The messages that effects send a peer."""
    frames = [one.frame for one in out if isinstance(one, Send) and one.peer == name]
    return [json.loads(frame[frame.index(b"{") :]) for frame in frames]


def asks(pb: Playbook, method: str, params: object, name: str = "g") -> Json:
    """The component asks for a service of the router's; the answer."""
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    (answer,) = sent(pb.router.receive(name, b"c" + ask), name)
    return answer


def rebinds(pb: Playbook, session: str, to: str, name: str = "g") -> Json:
    """The component asks for an alias; the answer."""
    return asks(pb, "rebind", {"sessionId": session, "to": to}, name)


def bound(pb: Playbook) -> None:
    """The user works in S, which is the component's session `mine` for the agent."""
    opened(pb)
    assert rebinds(pb, "S", "mine")["result"] == {}


def says(pb: Playbook, below: str, above: str) -> None:
    """The client hears in the session `above` what the agent says in `below`."""
    pb >> ("agent", update("shown", below)) << ("client", update("shown", above))


@pytest.mark.parametrize("through", [False, True], ids=["policed", "trusted"])
def test_all_that_names_a_session_goes_on_in_the_other_and_comes_back(through: bool) -> None:
    with chain_of(trusted("g") if through else guest(**OWN)) as pb:
        if through:
            assert rebinds(pb, "S", "mine")["result"] == {}
        else:
            bound(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        if through:
            pb << ("g", "p", request(Hole("g"), PROMPT, prompt("hi")))
            pb >> ("g", "s", request("x", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi", "mine")))
        said = update("shown", "mine")
        pb >> ("agent", said)
        if through:
            pb << ("g", "s", update("shown"))
            pb >> ("g", "p", update("shown"))
        pb << ("client", update("shown"))
        pb >> ("agent", request("q", PERMISSION, permission("mine")))
        if through:
            pb << ("g", "s", request(Hole("gq"), PERMISSION, permission()))
            pb >> ("g", "p", request("y", PERMISSION, permission()))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        pb >> ("client", stop())
        if through:
            pb << ("g", "p", stop())
            pb >> ("g", "s", stop())
        pb << ("agent", stop("mine"))
        pb >> ("agent", result(Hole("a"), {**DONE, "sessionId": "mine"}))
        if through:
            pb << ("g", "s", result("x", {**DONE, "sessionId": "S"}))
            pb >> ("g", "p", result(Hole("g"), {**DONE, "sessionId": "S"}))
        pb << ("client", result("u", {**DONE, "sessionId": "S"}))


def test_what_the_component_itself_notifies_of_goes_on_there() -> None:
    with chain(grants=f"{OWN['grants']} methods=_x/y") as pb:
        bound(pb)
        pb >> ("g", "s", notification("_x/y", {"sessionId": "S"}))
        pb << ("agent", notification("_x/y", {"sessionId": "mine"}))


MODE: Json = {"modeId": "bypassPermissions"}
ASIDE = "the id names nothing while the user's session goes on as this one"


@pytest.mark.parametrize(
    ("method", "more"),
    [
        (PROMPT, {"prompt": []}),
        ("session/set_mode", MODE),
        ("session/set_config_option", {"configId": [], "value": True}),
        ("session/close", {}),
        ("session/delete", {}),
        ("session/load", THERE),
        ("session/fork", THERE),
    ],
)
def test_under_the_other_id_the_component_reaches_nothing(method: str, more: Json) -> None:
    """The session that the user's was before is the user's: a policed component sends nothing
    there."""
    with chain(**OWN) as pb:
        bound(pb)
        named: list[Json] = [{"sessionId": "mine"}, {"session_id": "mine"}]
        named.append({"sessionId": "S", "_meta": {"sessionId": "mine"}})
        for session in named:
            pb >> ("g", "s", request("x", method, {**session, **more}))
            broke(pb, "own-sessions", ASIDE, again=session != named[0])
            refused(pb, "x", ASIDE)


def test_nor_by_a_cancellation_or_a_turn() -> None:
    with chain(**OWN) as pb:
        bound(pb)
        pb >> ("g", "s", stop("mine"))
        broke(pb, "own-sessions", ASIDE)
        answer = asks(pb, "turn/begin", {"sessionId": "mine"})
        assert "may not begin a turn" in answer["error"]["message"]
        assert "names nothing" in rebinds(pb, "mine", "mine")["error"]["message"]


def test_what_the_agent_says_there_reaches_nobody() -> None:
    with chain(**OWN) as pb:
        bound(pb)
        pb >> ("agent", update("late", "S"))
        pb << Noted("debug", "g", "`session/update` dropped")
        pb >> ("agent", request("q", PERMISSION, permission("S")))
        pb << ("agent", result("q", {"outcome": {"outcome": "cancelled"}}))
        assert rebinds(pb, "S", "S")["result"] == {}
        says(pb, "S", "S")


def test_there_the_component_may_repeat_what_the_client_did_and_no_more() -> None:
    """The end of one session holds in both sessions."""
    with chain(**OWN) as pb:
        bound(pb)
        method, own = "session/close", {"sessionId": "mine"}
        pb >> ("client", request("c", method, {"sessionId": "S"}))
        pb << ("agent", request(Hole("c"), method, own))
        pb >> ("agent", result(Hole("c"), {})) << ("client", result("c", {}))
        pb >> ("g", "s", request("x", method, own))
        pb << ("agent", request(Hole("x"), method, {"sessionId": "S"}))
        pb >> ("agent", result(Hole("x"), {})) << ("g", "s", result("x", {}))
        pb >> ("g", "s", request("y", "session/delete", own))
        broke(pb, "own-sessions")
        refused(pb, "y")
        pb >> ("client", request("u", PROMPT, prompt("hi")))  # it has opened it again
        skip(pb)
        pb >> ("g", "s", request("z", "session/close", {"sessionId": "mine"}))
        broke(pb, "own-sessions")
        refused(pb, "z")


# -- while something runs --------------------------------------------------------------------------

OPEN = "is open in one of the two sessions\nhint: wait until both are idle"


def stays(pb: Playbook, *sessions: str, name: str = "g", what: str = "`session/prompt`") -> None:
    """The component may not bind these now."""
    session, to = sessions or ("S", "mine")
    assert f"{what} {OPEN}" in rebinds(pb, session, to, name)["error"]["message"]


@pytest.mark.parametrize("rule", ["", "down:session/prompt:copy", "down:session/prompt:carry"])
def test_no_session_is_bound_while_the_agent_has_a_prompt_of_it(rule: str) -> None:
    """The cancellation of that prompt would go to the other session; a prompt that the component
    holds may go to either session."""
    with chain(*[rule] * bool(rule), **OWN) as pb:
        opened(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        if "carry" in rule:
            pb << ("g", "p", request(Hole("g"), PROMPT, prompt("hi")))
            for to in ("mine", "S"):
                assert rebinds(pb, "S", to)["result"] == {}
            pb >> ("g", "s", request(Hole("g"), PROMPT, prompt("hi")))
        skip(pb)
        stays(pb)
        pb >> ("client", stop())
        skip(pb)
        (id_,) = pb.router.peers["agent"].p.requests.sent
        pb >> ("agent", result(int(id_), DONE))
        skip(pb)
        assert rebinds(pb, "S", "mine")["result"] == {}


def test_no_session_is_bound_while_the_component_s_own_prompt_runs_there() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        pb >> ("g", "s", request("own", PROMPT, prompt("x", "mine")))
        pb << ("agent", request(Hole("a-own"), PROMPT, prompt("x", "mine")))
        stays(pb, what="a turn")
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("g", "s", result("own", DONE))
        assert rebinds(pb, "S", "mine")["result"] == {}
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        skip(pb)
        stays(pb, "S", "S")
        assert rebinds(pb, "S", "mine")["result"] == {}  # nothing changes


def test_nor_while_the_agent_asks_there() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        stays(pb, what=f"`{PERMISSION}`")
        pb >> ("client", result(Hole("q"), {}))
        skip(pb)
        assert rebinds(pb, "S", "mine")["result"] == {}


def test_nor_while_a_component_has_a_turn_there() -> None:
    with chain(grants="sessions=own turns=unprompted") as pb:
        opened(pb)
        turn = asks(pb, "turn/begin", {"sessionId": "S"})["result"]["turn"]
        stays(pb, what="a turn")
        asks(pb, "turn/end", {"turn": turn})
        assert rebinds(pb, "S", "mine")["result"] == {}


def test_nor_in_version_2_until_the_agent_is_idle() -> None:
    with chain(version=2, **OWN) as pb:
        opened(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a"), {"messageId": "m"}))
        skip(pb)
        stays(pb, what="a turn")
        pb >> ("agent", state("idle"))
        skip(pb)
        assert rebinds(pb, "S", "mine")["result"] == {}


def test_a_prompt_that_only_waits_for_a_turn_counts_for_nothing() -> None:
    """Otherwise a component that speaks up now and then would end each attempt."""
    free, near = (
        guest(name="f", grants="turns=unprompted"),
        guest("down:session/prompt:carry", **OWN),
    )
    with chain_of(free, near) as pb:
        opened(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g"), PROMPT, prompt("hi")))
        pb >> ("f", "s", request("own", PROMPT, prompt("x")))
        assert rebinds(pb, "S", "mine")["result"] == {}


def test_a_request_of_no_session_hides_no_open_prompt() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        pb >> ("client", request("x", "_mine/all", {}))
        skip(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        skip(pb)
        stays(pb)


def test_what_runs_beside_a_host_the_conductor_above_judges() -> None:
    with chain_of(guest(name="f", grants="turns=unprompted"), trusted("h")) as pb:

        def judged(params: bytes) -> Json:
            ask = json.dumps(request(7, "clock")).encode()
            (served,) = pb.router.receive("h", b"c" + ask)
            assert isinstance(served, Serve)
            (answer,) = sent(pb.router.relayed("h", "g", "rebind", params, served.token), "h")
            return answer

        both = b'{"sessionId":"S","to":"mine"}'
        pb.router.aliased("h", [to_json(Aliases().bind("S2", "T2"))])

        def let_go(answer: Json) -> list[Effect]:
            ended = (json.dumps(turn).encode() for turn in answer["result"]["turns"])
            outs = [pb.router.relayed("h", "g", "turn/end", turn, None) for turn in ended]
            return [effect for out in outs for effect in out]

        kept = judged(both)
        assert OPEN in judged(both)["error"]["message"]
        begin = request(1, "turn/begin", {"sessionId": "mine"})
        assert sent(pb.router.receive("f", b"c" + json.dumps(begin).encode()), "f") == []
        (begun,) = sent(let_go(kept), "f")
        assert begun["result"] == {"turn": "turn-3"}
        assert asks(pb, "turn/end", {"turn": "turn-3"}, "f")["result"] == {}
        assert "takes two ids" in judged(b"[]")["error"]["message"]
        assert pb.router.relayed("h", "g", "rebind", both, None) == []
        pb >> ("h", "s", request("own", PROMPT, prompt("x", "T2")))
        skip(pb)
        let_go(judged(both))
        asks(pb, "turn/begin", {"sessionId": "S"}, "f")
        assert OPEN in judged(both)["error"]["message"]


def test_a_host_binds_once_the_conductor_above_agrees() -> None:
    router = Router([trusted("g")], "proxy", options=RouterOptions(upstream=CHANNEL))
    params = {"sessionId": "S", "to": "T"}
    for id_, ask in ((1, request(1, "rebind", params)), (None, notification("rebind", params))):
        (asked,) = router.receive("g", b"c" + json.dumps(ask).encode())
        assert isinstance(asked, Serve)
        assert asked.token is not None
        assert json.loads(asked.params or b"") == params
        out = router.served(asked.token, None, b'{"code":1,"message":"busy"}')
        assert [one["error"]["message"] for one in sent(out, "g")] == ["busy"] * (id_ == 1)
    (asked,) = router.receive("g", b"c" + json.dumps(request(1, "rebind", params)).encode())
    assert isinstance(asked, Serve)
    assert asked.token is not None
    out = router.served(asked.token, b'{"turns":[{"turn":"turn-1"}]}')
    assert sent(out, "g")[0]["result"] == {}
    ended = out[-1]  # behind the report that the conductor above gets of the alias
    assert isinstance(ended, Serve)
    assert (ended.service, ended.params) == ("turn/end", b'{"turn":"turn-1"}')
    (again,) = sent(
        router.receive("g", b"c" + json.dumps(request(2, "rebind", params)).encode()), "g"
    )
    assert again["result"] == {}


def test_who_only_notifies_learns_nothing_and_before_the_chain_nothing_is_open() -> None:
    def notified(to: str) -> list[Effect]:
        told = notification("rebind", {"sessionId": "S", "to": to})
        return pb.router.receive("g", b"c" + json.dumps(told).encode())

    with chain(**OWN) as pb:
        opened(pb)
        assert sent(notified("old"), "g") == []
        assert sent(notified("mine"), "g") == []
        says(pb, "mine", "S")
        half = (
            b's{"jsonrpc":"2.0","id":"h","method":"session/close","params":{"sessionId":"\\ud800"}}'
        )
        assert "sealed" in str(pb.router.receive("g", half))
        pb >> ("client", request("u", PROMPT, {"prompt": []}))
        skip(pb)
        pb >> ("client", request("c", "session/close", {}))
        skip(pb)
        pb >> ("g", "s", request("n", "session/new"))
        skip(pb)
    router = Router([trusted("g"), Component("agent", "agent")], "auto")
    ask = request(1, "rebind", {"sessionId": "S", "to": "T"})
    (answer,) = sent(router.receive("g", b"c" + json.dumps(ask).encode()), "g")
    assert answer["result"] == {}


def test_lists_have_the_session_once() -> None:
    with chain(**OWN) as pb:
        bound(pb)
        pb >> ("client", request("l", "session/list", {}))
        pb << ("agent", request(Hole("a"), "session/list", {}))
        entries = [{"sessionId": one, "cwd": "/work"} for one in ("S", "mine", "old")]
        pb >> ("agent", result(Hole("a"), {"sessions": entries}))
        kept = [{"sessionId": one, "cwd": "/work"} for one in ("S", "old")]
        pb << ("client", result("l", {"sessions": kept}))


def test_a_component_behind_an_alias_may_prompt_and_takes_nothing_away() -> None:
    near, far = guest(name="near", **OWN), guest(name="far", grants="turns=unprompted")
    with chain_of(near, far) as pb:
        pb >> ("client", request("n", "session/new", THERE))
        pb << ("near", "p", request(Hole("n"), "session/new", THERE))
        pb >> ("near", "s", request(Hole("n"), "session/new", THERE))
        pb << ("agent", request(Hole("a"), "session/new", THERE))
        pb >> ("agent", result(Hole("a"), {"sessionId": "S"}))
        skip(pb)
        pb >> ("near", "s", request("own", "session/new", THERE))
        pb << ("agent", request(Hole("a-own"), "session/new", THERE))
        pb >> ("agent", result(Hole("a-own"), {"sessionId": "mine"}))
        skip(pb)
        assert rebinds(pb, "S", "mine", "near")["result"] == {}
        pb >> ("far", "s", request("p", PROMPT, prompt("x", "mine")))
        skip(pb)
        assert pb.router.sessions.client("mine") == "near"


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"sessionId": "S", "to": "old"}, "is no session that proxy `g` has opened itself"),
        ({"sessionId": "S", "to": "S2"}, "is no session that proxy `g` has opened itself"),
        ({"sessionId": "theirs", "to": "mine"}, "is a session that a component has opened"),
        ({"sessionId": "S9", "to": "mine"}, "is no session that the client works in"),
        ({"sessionId": "mine", "to": "mine2"}, "is no session that proxy `g` has opened itself"),
        ({"sessionId": "S"}, "takes two ids of sessions"),
        ([], "takes two ids of sessions"),
    ],
)
def test_what_it_may_not_bind_is_refused_by_name(params: object, why: str) -> None:
    with chain(**OWN) as pb:
        opened(pb)
        set_up(pb, "n2", "session/new", THERE, {"sessionId": "S2"})
        body = b'{"sessionId":"theirs"}'
        pb.router.sessions.set_up("session/new", Raw(b"{}"), body, client="other")
        assert why in asks(pb, "rebind", params)["error"]["message"]
        pb >> ("client", stop()) << ("agent", stop())


def test_two_sessions_of_the_user_never_share_one_of_the_agent_s() -> None:
    with chain(**OWN) as pb:
        bound(pb)
        answer = rebinds(pb, "S2", "mine")
        assert "`S` goes on as `mine` already" in answer["error"]["message"]
        says(pb, "mine", "S")


def test_without_the_grant_there_are_no_aliases() -> None:
    with chain("down:session/prompt:carry") as pb:
        answer = rebinds(pb, "S", "S2")
        assert "`rebind` is not granted to proxy `g`" in answer["error"]["message"]
        assert "prompt:unseen" in answer["error"]["message"]


def test_the_number_of_aliases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.core.rebinding.MOST", 1)
    with chain_of(trusted("g")) as pb:
        assert rebinds(pb, "S", "T")["result"] == {}
        assert rebinds(pb, "S", "U")["result"] == {}
        assert "at most 1 sessions" in rebinds(pb, "S2", "V")["error"]["message"]


def test_a_component_that_is_started_again_has_its_aliases() -> None:
    with chain(**OWN) as pb:
        bound(pb)
        pb.router.leaving("g", GONE)
        says(pb, "mine", "S")
    again = guest(**OWN)
    kept = pb.router.peers["g"].kept.to_json()
    with chain_of(msgspec.structs.replace(again, kept=kept, instance="2")) as pb:
        says(pb, "mine", "S")
        assert pb.router.sessions.client("mine") == "g"


def test_the_member_that_keeps_them_is_the_conductor_s() -> None:
    with chain(**OWN) as pb:
        answer = asks(pb, "keep", {"conductor.aliases": {}})
        assert "is the conductor's own" in answer["error"]["message"]


# -- the end of a sub-session ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    ["session/close", "session/delete"],
)
def test_a_component_is_the_client_of_its_own_session_alone(method: str) -> None:
    with chain(**OWN) as pb:
        opened(pb)
        own: Json = {"sessionId": "mine"}
        pb >> ("g", "s", request("x", method, own)) << ("agent", request(Hole("x"), method, own))
        pb >> ("agent", result(Hole("x"), {})) << ("g", "s", result("x", {}))
        pb >> ("g", "s", request("y", method, {**own, "sessionId": "S"}))
        broke(pb, "sealed")
        refused(pb, "y")


def test_it_may_open_so_many_and_more_when_it_has_closed_some() -> None:
    few = msgspec.structs.replace(guest(**OWN), allowance=Allowance(own_sessions=1))
    with chain_of(few) as pb:
        opened(pb)
        pb >> ("g", "s", request("more", "session/new", THERE))
        broke(pb, "own-sessions", "may have at most 1 sessions of its own open")
        refused(pb, "more")
        closing: Json = {"sessionId": "mine"}
        pb >> ("g", "s", request("c", "session/close", closing))
        pb << ("agent", request(Hole("c"), "session/close", closing))
        pb >> ("agent", result(Hole("c"), {})) << ("g", "s", result("c", {}))
        late = update("late", "mine")
        pb >> ("agent", late) << ("g", "s", late)
        pb >> ("g", "s", request("next", "session/new", THERE))
        pb << ("agent", request(Hole("next"), "session/new", THERE))


CLOSES = b'{"agentCapabilities":{"sessionCapabilities":{"close":{}}}}'


def opened_by_guests(pb: Playbook, host: str, *sessions: str) -> None:
    """Guests of a host open sessions with the agent; the host passes a session of the user's on."""
    for id_, session in [("u", "S"), *((f"c-{one}", one) for one in sessions)]:
        asked, said = request(id_, "session/new", THERE), {"sessionId": session}
        if id_ == "u":
            pb >> ("client", asked)
            skip(pb)
            (given,) = pb.router.peers[host].p.requests.sent
            asked = {**asked, "id": int(given)}
        pb >> (host, "s", asked) << ("agent", {**asked, "id": Hole(f"a-{session}")})
        pb >> ("agent", result(Hole(f"a-{session}"), said))
        pb << (host, "s", result(asked["id"], said))
    pb >> (host, "p", result(int(given), {"sessionId": "S"}))
    pb << ("client", result("u", {"sessionId": "S"}))


@pytest.mark.parametrize("how", ["dies", "again", "renewed", "in another host"])
def test_sessions_of_the_guests_of_a_host_that_goes_end(how: str) -> None:
    """All their sessions end, but for the user's alias where the guest is started again."""
    with chain_of(trusted("h"), version=2) as pb:
        opened_by_guests(pb, "h", "bound", "left", "closed")
        pb.router.aliased("h", [b"{}", to_json(Aliases().bind("S", "bound"))])
        close = request("c9", "session/close", {"sessionId": "closed"})
        pb >> ("h", "s", close) << ("agent", {**close, "id": Hole("close")})
        pb >> ("agent", result(Hole("close"), {})) << ("h", "s", result("c9", {}))
        if how in ("dies", "again"):
            gone = (pb.router.leaving if how == "again" else pb.router.bypassed)("h", GONE)
        else:
            new = trusted("h" if how == "renewed" else "h+f")
            pb.router.prepare([new, Component("agent", "agent `agent`")], [new.name])
            pb.router.aliased(newcomer(new.name), [to_json(Aliases().bind("S", "bound")), b"{}"])
            gone = pb.router.rearrange(GONE)
        ended = [(one["method"], one["params"]["sessionId"]) for one in sent(gone, "agent")]
        assert ended == [("session/close", one) for one in ("bound", "left")[how != "dies" :]]


def test_one_that_joins_in_the_place_of_another_has_what_that_has_bound_until_then() -> None:
    with chain_of(trusted("g")) as pb:
        pb.router.prepare([trusted("g"), Component("agent", "agent `agent`")], ["g"])
        asked = request("f", "initialize", {"protocolVersion": 1})
        pb.router.receive(newcomer("g"), b"s" + json.dumps(asked).encode())
        pb.router.receive(newcomer("g"), b"p" + json.dumps(result(1, {})).encode())
        assert pb.router.prepared()
        assert rebinds(pb, "S", "T")["result"] == {}
        pb.router.rearrange(GONE)
        pb >> ("agent", update("shown", "T")) << ("g", "s", update("shown"))


def test_whose_a_session_is_shows_through_all_that_pass_the_request_on() -> None:
    with chain_of(guest(name="g", **OWN), trusted("h")) as pb:
        pb.router.sessions.set_up(
            "session/new", Raw(json.dumps(THERE).encode()), b'{"sessionId":"S"}'
        )
        pb >> ("g", "s", request("own", "session/new", THERE))
        pb << ("h", "p", request(Hole("h"), "session/new", THERE))
        pb >> ("h", "s", request(Hole("h"), "session/new", THERE))
        pb << ("agent", request(Hole("a"), "session/new", THERE))
        pb >> ("agent", result(Hole("a"), {"sessionId": "mine"}))
        skip(pb)
        assert pb.router.sessions.client("mine") == "g"


def test_a_session_that_the_client_is_answered_with_is_the_client_s() -> None:
    with chain_of(trusted("h")) as pb:
        pb >> ("client", request("u", "session/new", THERE))
        pb << ("h", "p", request(Hole("h"), "session/new", THERE))
        pb >> ("h", "s", request("own", "session/new", THERE))
        pb << ("agent", request(Hole("a"), "session/new", THERE))
        pb >> ("agent", result(Hole("a"), {"sessionId": "mine"}))
        skip(pb)
        assert pb.router.sessions.client("mine") == "h"
        pb >> ("h", "p", result(Hole("h"), {"sessionId": "mine"}))
        skip(pb)
        assert pb.router.sessions.client("mine") == ""


def test_where_the_agent_is_gone_first_nothing_is_closed() -> None:
    with chain(version=2, **OWN) as pb:
        opened(pb)
        pb.router.closed("agent", Closure("gone"))
        assert sent(pb.router.closed("g", GONE), "agent") == []


def test_in_version_2_a_turn_in_a_session_with_an_alias_ends_with_the_agent_s() -> None:
    """Also where a host of guests has the alias: the conductor above knows it by its report."""
    free = guest(name="f", grants="turns=unprompted")
    for component in (trusted("g"), trusted("host")):
        with chain_of(free, component, version=2) as pb:
            if component.name == "g":
                rebinds(pb, "S", "T", "g")
            else:
                pb.router.aliased("host", [b"{}", to_json(Aliases().bind("S", "T"))])
            asked = request(1, PROMPT, prompt("hi", "S"))
            pb >> ("client", asked)
            skip(pb)
            (id_,) = pb.router.peers[component.name].p.requests.sent
            name = component.name
            pb >> (name, "s", request(int(id_), PROMPT, prompt("hi", "S" if name == "g" else "T")))
            skip(pb)
            (id_,) = pb.router.peers["agent"].p.requests.sent
            pb >> ("agent", result(int(id_), {"messageId": "m"}))
            skip(pb)
            assert (
                pb.router.receive(
                    "f",
                    b'c{"jsonrpc":"2.0","id":1,"method":"turn/begin","params":{"sessionId":"S"}}',
                )
                == []
            )
            for word in ("running", "idle"):
                pb.router.receive("agent", json.dumps(state(word, "T")).encode())
                out = pb.router.receive(name, b"p" + json.dumps(state(word, "S")).encode())
            (begun,) = sent(out, "f")
            assert begun["result"]["turn"]


def test_one_that_is_bound_goes_on_while_its_component_is_started_again() -> None:
    with chain(version=2, **OWN) as pb:
        bound(pb)
        out = pb.router.leaving("g", GONE)
        assert sent(out, "agent") == []  # the session that the user's was before, neither


def test_without_its_component_the_session_is_itself_again_and_the_log_says_so() -> None:
    with chain(version=2, **OWN) as pb:
        bound(pb)
        out = pb.router.bypassed("g", GONE)
        (warned,) = [one.text for one in out if isinstance(one, LogLine) and one.level == "warning"]
        assert "the agent goes on without its work in `S`" in warned
        says(pb, "S", "S")


def test_what_nobody_knows_stays_what_it_is() -> None:
    with chain_of(trusted("g")) as pb:
        pb.router.sessions.ended("nobody's", "g")
        assert SessionNames.outermost(pb.router.peers["g"].c, "S") == "S"
        assert SessionNames.outermost(pb.router.peers["agent"].p, "S") == "S"


def test_a_host_closes_them_under_an_id_of_its_own() -> None:
    """Otherwise the conductor above would take `session/close` for a request that passes the
    host."""
    router = Router([guest(**OWN)], "proxy", options=RouterOptions(upstream=CHANNEL))
    router.sessions.set_up("session/new", Raw(b"{}"), b'{"sessionId":"mine"}', client="g")
    router.peers["g"].recorded_answer = (b"result", CLOSES)
    (ended,) = sent(router.bypassed("g", GONE), "client")
    assert ended == request("c1", "session/close", {"sessionId": "mine"})
