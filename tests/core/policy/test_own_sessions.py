"""Sessions that components open with `sessions=own`: their owners, and the turns in them."""

import pytest

from tests.harness.router.policed import (
    PERMISSION,
    PROMPT,
    Hole,
    Json,
    Playbook,
    broke,
    chain,
    chain_of,
    given,
    guest,
    passed,
    permission,
    prompt,
    refused,
    request,
    result,
    skip,
    tool_call,
    update,
)

THERE: Json = {"cwd": "/work", "mcpServers": []}
OWN: Json = {"grants": "sessions=own"}


def set_up(pb: Playbook, id_: str, method: str, params: Json, said: Json) -> None:
    """The user's client sets a session up, through the component."""
    pb >> ("client", request(id_, method, params)) << ("g", "p", request(Hole("g"), method, params))
    pb >> ("g", "s", request(Hole("g"), method, params))
    pb << ("agent", request(Hole("a"), method, params))
    pb >> ("agent", result(Hole("a"), said)) << ("g", "s", result(Hole("g"), said))
    pb >> ("g", "p", result(Hole("g"), said)) << ("client", result(id_, said))
    del pb.values["g"], pb.values["a"]


def opened(pb: Playbook, session: str = "mine") -> None:
    """The user has a session, and the component has opened one in its folder."""
    set_up(pb, "n", "session/new", THERE, {"sessionId": "S"})
    pb >> ("g", "s", request("open", "session/new", THERE))
    pb << ("agent", request(Hole("a-open"), "session/new", THERE))
    pb >> ("agent", result(Hole("a-open"), {"sessionId": session}))
    pb << ("g", "s", result("open", {"sessionId": session}))


def prompts(pb: Playbook, session: str = "mine") -> None:
    """The component prompts the agent there, and alone hears its answer."""
    pb >> ("g", "s", request("own", PROMPT, prompt("mine", session)))
    pb << ("agent", request(Hole("a-own"), PROMPT, prompt("mine", session)))
    for said in (update("hidden", session), tool_call("t", session)):
        pb >> ("agent", said) << ("g", "s", said)


def refuses_own_prompt(pb: Playbook, session: str, name: str = "g") -> None:
    """The session is not the component's: it may not prompt there as it likes."""
    pb >> (name, "s", request("theirs", PROMPT, prompt("mine", session)))
    broke(pb, "turns", "may prompt the agent only within a turn of the user's", name)
    refused(pb, "theirs", name=name)


def test_there_the_agent_asks_nobody() -> None:
    """So the user gets no flood of dialogs, and nothing is approved unseen."""
    with chain(**OWN) as pb:
        opened(pb)
        prompts(pb)
        pb >> ("agent", request("q", PERMISSION, permission("mine")))
        pb << ("agent", result("q", {"outcome": {"outcome": "cancelled"}}))
        pb >> ("agent", request("f", "fs/read_text_file", {"sessionId": "mine", "path": "/etc"}))
        pb << ("agent", Hole("error"))
        pb >> ("agent", request("q2", PERMISSION, permission()))
        pb << ("client", request(Hole("q2"), PERMISSION, permission()))


def test_an_answer_of_its_own_to_the_user_s_load_makes_it_no_less_the_user_s() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        load = {"sessionId": "mine", **THERE}
        pb >> ("client", request("l", "session/load", load))
        pb << ("g", "p", request(Hole("g-l"), "session/load", load))
        pb >> ("g", "p", result(Hole("g-l"), {})) << ("client", result("l", {}))
        pb >> ("agent", update("shown", "mine")) << ("client", update("shown", "mine"))


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_what_it_loads_is_not_its_own(method: str) -> None:
    """Neither the session that the user works in, nor a session from another day."""
    with chain(**OWN) as pb:
        opened(pb)
        for session in ("S", "old"):
            for params in ({"sessionId": session, **THERE}, {"sessionId": session}):
                pb >> ("g", "s", request("l", method, params))
                broke(pb, "own-sessions", again=(session, len(params)) != ("S", 3))
                refused(pb, "l")


def test_two_cannot_make_one_of_the_user_s_their_own() -> None:
    """`near` asks for a session, and `far` answers with the id that `near` wants to own."""
    near, far = guest(name="near", **OWN), guest(name="far", **OWN)
    with chain_of(near, far) as pb:
        pb >> ("client", request("n", "session/new", THERE))
        pb << ("near", "p", request(Hole("n"), "session/new", THERE))
        pb >> ("near", "s", request(Hole("n"), "session/new", THERE))
        pb << ("far", "p", request(Hole("f"), "session/new", THERE))
        pb >> ("far", "s", request(Hole("f"), "session/new", THERE))
        pb << ("agent", request(Hole("a"), "session/new", THERE))
        pb >> ("agent", result(Hole("a"), {"sessionId": "S"}))
        skip(pb)
        pb >> ("near", "s", request("own", "session/new", THERE))
        pb << ("far", "p", request(Hole("own"), "session/new", THERE))
        pb >> ("far", "p", result(Hole("own"), {"sessionId": "old"}))
        pb << ("near", "s", result("own", {"sessionId": "old"}))
        said = update("shown", "old")
        pb >> ("agent", said)  # to the client it may be of the session that it asks for
        pb >> ("far", "p", result(Hole("f"), {"sessionId": "S"}))
        pb << ("near", "s", result(Hole("n"), {"sessionId": "S"}))
        pb >> ("near", "p", result(Hole("n"), {"sessionId": "S"}))
        pb << ("client", result("n", {"sessionId": "S"})) << ("client", said)
        refuses_own_prompt(pb, "old", "near")


def test_what_the_user_s_agent_knows_of_is_never_forgotten_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conductor.core.policy.sessions._MOST", 3)
    with chain(**OWN) as pb:
        opened(pb)
        for number in range(4):
            pb >> ("client", request(f"n{number}", "session/new", THERE))
            skip(pb)
            (id_,) = [
                key
                for key, one in pb.router.peers["g"].p.requests.sent.items()
                if one.method == "session/new" and one.wanted
            ]
            pb >> ("g", "p", result(int(id_), {"sessionId": f"fake-{number}"}))
            skip(pb)
        assert "S" in pb.router.sessions


def test_a_component_forks_its_own_session_and_that_whose_prompt_it_holds() -> None:
    def fork(session: str) -> Json:
        return {**THERE, "sessionId": session}

    with chain(profile="full", grants="sessions=own") as pb:
        set_up(pb, "n", "session/new", THERE, {"sessionId": "S"})
        set_up(pb, "m", "session/new", THERE, {"sessionId": "other"})
        pb >> ("g", "s", request("f", "session/fork", fork("S")))
        broke(pb, "own-sessions", "that it has opened itself")
        refused(pb, "f")
        given(pb, session="S")
        pb >> ("g", "s", request("o", "session/fork", fork("other")))
        broke(pb, "own-sessions", again=True)
        refused(pb, "o")
        pb >> ("g", "s", request("h", "session/fork", fork("S")))
        pb << ("agent", request(Hole("h"), "session/fork", fork("S")))
        pb >> ("agent", result(Hole("h"), {"sessionId": "mine"}))
        pb << ("g", "s", result("h", {"sessionId": "mine"}))
        passed(pb, session="S")  # from now on the agent has the prompt
        pb >> ("g", "s", request("l", "session/fork", fork("S")))
        broke(pb, "own-sessions", again=True)
        refused(pb, "l")
        pb >> ("g", "s", request("i", "session/fork", fork("mine")))
        pb << ("agent", request(Hole("i"), "session/fork", fork("mine")))
