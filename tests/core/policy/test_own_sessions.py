"""Sessions that components open with `sessions=own`: whose they are, and what happens in them."""

from __future__ import annotations

import pytest

from tests.harness.router.policed import (
    DONE,
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
    notification,
    passed,
    permission,
    prompt,
    refused,
    request,
    result,
    skip,
    state,
    tool_call,
    trusted,
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
    """The component prompts the agent there, and hears alone what that says."""
    pb >> ("g", "s", request("own", PROMPT, prompt("mine", session)))
    pb << ("agent", request(Hole("a-own"), PROMPT, prompt("mine", session)))
    for said in (update("hidden", session), tool_call("t", session)):
        pb >> ("agent", said) << ("g", "s", said)


def refuses_own_prompt(pb: Playbook, session: str, name: str = "g") -> None:
    """The session is not the component's: it may not prompt there as it likes."""
    pb >> (name, "s", request("theirs", PROMPT, prompt("mine", session)))
    broke(pb, "turns", "may prompt the agent only within a turn of the user's", name)
    refused(pb, "theirs", name=name)


def test_there_it_prompts_and_nobody_else_hears_of_that() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        prompts(pb)
        pb >> ("agent", result(Hole("a-own"), DONE)) << ("g", "s", result("own", DONE))
        after = update("after", "mine")
        pb >> ("agent", after) << ("g", "s", after)
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        refuses_own_prompt(pb, "S")


def test_in_version_2_the_turn_there_ends_when_it_is_idle() -> None:
    with chain(version=2, **OWN) as pb:
        opened(pb)
        prompts(pb)
        pb >> ("agent", result(Hole("a-own"), {})) << ("g", "s", result("own", {}))
        for what in ("running", "idle"):
            said = state(what, "mine")
            pb >> ("agent", said) << ("g", "s", said)
        pb >> ("g", "s", request("next", PROMPT, prompt("mine", "mine")))
        pb << ("agent", request(Hole("a-next"), PROMPT, prompt("mine", "mine")))


def test_there_the_agent_asks_nobody() -> None:
    """No flood of dialogs comes of it, and nothing is approved unseen."""
    with chain(**OWN) as pb:
        opened(pb)
        prompts(pb)
        pb >> ("agent", request("q", PERMISSION, permission("mine")))
        pb << ("agent", result("q", {"outcome": {"outcome": "cancelled"}}))
        pb >> ("agent", request("f", "fs/read_text_file", {"sessionId": "mine", "path": "/etc"}))
        pb << ("agent", Hole("error"))
        pb >> ("agent", request("q2", PERMISSION, permission()))
        pb << ("client", request(Hole("q2"), PERMISSION, permission()))


@pytest.mark.parametrize("enters", ["session/load", "session/resume", PROMPT])
def test_once_the_user_s_client_enters_it_it_is_the_user_s(enters: str) -> None:
    with chain(**OWN) as pb:
        opened(pb)
        if enters == PROMPT:
            pb >> ("client", request("u", PROMPT, prompt("hi", "mine")))
            pb << ("agent", request(Hole("a-u"), PROMPT, prompt("hi", "mine")))
        else:
            set_up(pb, "l", enters, {"sessionId": "mine", **THERE}, {})
        for said in (update("shown", "mine"), tool_call("t", "mine")):
            pb >> ("agent", said) << ("client", said)
        refuses_own_prompt(pb, "mine")


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
    """Neither the session that the user works in, nor one from another day."""
    with chain(**OWN) as pb:
        opened(pb)
        for session in ("S", "old"):
            for params in ({"sessionId": session, **THERE}, {"sessionId": session}):
                pb >> ("g", "s", request("l", method, params))
                broke(pb, "own-sessions", again=(session, len(params)) != ("S", 3))
                refused(pb, "l")


def test_two_cannot_make_one_of_the_user_s_their_own() -> None:
    """One asks for a session, the other answers with an id that the first would have."""
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


def test_it_is_its_own_behind_others_that_carry_set_ups() -> None:
    near = guest(name="near", **OWN)
    far = guest("down:session/new:carry", name="far")
    with chain_of(near, far) as pb:
        for id_, session in (("n", "S"), ("own", "mine")):
            if id_ == "own":
                pb >> ("near", "s", request(id_, "session/new", THERE))
            else:
                pb >> ("client", request(id_, "session/new", THERE))
                pb << ("near", "p", request(Hole("near"), "session/new", THERE))
                pb >> ("near", "s", request(Hole("near"), "session/new", THERE))
            pb << ("far", "p", request(Hole(f"far-{id_}"), "session/new", THERE))
            pb >> ("far", "s", request(Hole(f"far-{id_}"), "session/new", THERE))
            pb << ("agent", request(Hole(f"a-{id_}"), "session/new", THERE))
            pb >> ("agent", result(Hole(f"a-{id_}"), {"sessionId": session}))
            skip(pb)
            pb >> ("far", "p", result(Hole(f"far-{id_}"), {"sessionId": session}))
            skip(pb)
        said = update("hidden", "mine")
        pb >> ("agent", said) << ("near", "s", said)


def test_a_sub_agent_of_it_is_as_hidden() -> None:
    with chain(**OWN) as pb:
        opened(pb)
        prompts(pb)
        child = {"sessionUpdate": "subagent_update", "sessionId": "mine/1"}
        said = notification("session/update", {"sessionId": "mine", "update": child})
        pb >> ("agent", said) << ("g", "s", said)
        said = update("hidden", "mine/1")
        pb >> ("agent", said) << ("g", "s", said)


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


def test_one_set_up_of_the_users_makes_one_session() -> None:
    """Another that a host of guests opens under the same id is not the user's."""
    both = {"sessions": [{"sessionId": "S", "cwd": "/work"}, {"sessionId": "T", "cwd": "/work"}]}
    with chain_of(trusted("g")) as pb:
        pb >> ("client", request("n", "session/new", THERE))
        pb << ("g", "p", request(Hole("g"), "session/new", THERE))
        for session in ("S", "T"):
            pb >> ("g", "s", request(Hole("g"), "session/new", THERE))
            pb << ("agent", request(Hole(session), "session/new", THERE))
            pb >> ("agent", result(Hole(session), {"sessionId": session}))
            pb << ("g", "s", result(Hole("g"), {"sessionId": session}))
        pb >> ("g", "p", result(Hole("g"), {"sessionId": "S"}))
        pb << ("client", result("n", {"sessionId": "S"}))
        pb >> ("client", request("l", "session/list", {}))
        pb << ("g", "p", request(Hole("l"), "session/list", {}))
        pb >> ("g", "s", request(Hole("l"), "session/list", {}))
        pb << ("agent", request(Hole("la"), "session/list", {}))
        pb >> ("agent", result(Hole("la"), both)) << ("g", "s", result(Hole("l"), both))
        pb >> ("g", "p", result(Hole("l"), both))
        pb << ("client", result("l", {"sessions": both["sessions"][:1]}))


def test_a_session_is_its_own_also_where_the_agent_lists_commands_before_it_answers() -> None:
    listed = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    with chain(profile="full", grants="sessions=own") as pb:
        set_up(pb, "n", "session/new", THERE, {"sessionId": "S"})
        pb >> ("g", "s", request("open", "session/new", THERE))
        pb << ("agent", request(Hole("a-open"), "session/new", THERE))
        pb >> ("agent", notification("session/update", {"sessionId": "mine", "update": listed}))
        skip(pb)
        pb >> ("agent", result(Hole("a-open"), {"sessionId": "mine"}))
        pb << ("g", "s", result("open", {"sessionId": "mine"}))
        prompts(pb)
