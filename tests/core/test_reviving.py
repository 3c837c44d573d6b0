"""An agent that is started again: its requests, sessions and settings, step by step."""

from typing import Any

import pytest

from conductor.core import Closure, Component, Entry, Fail, agent_sessions
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import dump
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import component, error, notification, request, result
from tests.harness.router.policed import (
    PROMPT,
    UPDATE,
    mode,
    permission,
    prompt,
    state,
    update,
)

Json = dict[str, Any]

V1: Json = {"protocolVersion": 1, "clientCapabilities": {}}
V2: Json = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}}
OK1: Json = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
OK2: Json = {"protocolVersion": 2, "capabilities": {"session": {}}}
SETUP: Json = {"cwd": "/", "mcpServers": [], "additionalDirectories": ["/a"]}
GONE = Closure("agent `agent` died", "send it again", {"component": "agent"})
TEXT = "agent `agent` died\nhint: send it again"
DATA: Json = {"component": "agent"}
BACK = Noted("info", "agent", "is back where it was")


def begun(*names: str, version: int = 1) -> Playbook:
    """A client, trusted guests, and an agent that can load, with the session `S`."""
    agent = Component("agent", "agent `agent`", revived=True)
    pb = Playbook(Router([*(component(name, "channel") for name in names), agent]))
    asked, answered = (V1, OK1) if version == 1 else (V2, OK2)
    down(pb, names, request("i", "initialize", asked))
    up(pb, names, "i", answered)
    open_session(pb, "S", *names)
    return pb


def down(pb: Playbook, names: tuple[str, ...], asked: Json) -> None:
    """The client asks, and it reaches the agent."""
    pb >> ("client", asked)
    for name in names:
        id_ = Hole(f"{name}-{asked['id']}")
        pb << (name, "p", {**asked, "id": id_})
        pb >> (name, "s", {**asked, "id": id_})
    pb << ("agent", {**asked, "id": Hole(f"agent-{asked['id']}")})


def up(pb: Playbook, names: tuple[str, ...], id_: str, value: object) -> None:
    """The agent answers, and it reaches the client."""
    pb >> ("agent", result(Hole(f"agent-{id_}"), value))
    for name in reversed(names):
        pb << (name, "s", result(Hole(f"{name}-{id_}"), value))
        pb >> (name, "p", result(Hole(f"{name}-{id_}"), value))
    pb << ("client", result(id_, value))


def open_session(pb: Playbook, session: str, *names: str) -> None:
    """The client opens a session."""
    down(pb, names, request(f"new-{session}", "session/new", SETUP))
    up(pb, names, f"new-{session}", {"sessionId": session})


def leaves(pb: Playbook) -> Playbook:
    """The agent ends."""
    return pb >> (lambda router: router.leaving("agent", GONE))


def returns(pb: Playbook, version: int = 1, id_: str = "again") -> Playbook:
    """The agent's new process is there, and is asked to initialize."""
    pb >> (lambda router: router.returned("agent"))
    return pb << ("agent", request(Hole(id_), "initialize", V1 if version == 1 else V2))


def loads(pb: Playbook, session: str, method: str = "session/load", id_: str = "load") -> Playbook:
    """The agent is asked to take a session up again."""
    return pb << ("agent", request(Hole(id_), method, {"sessionId": session, **SETUP}))


def test_an_agent_dies_in_a_turn() -> None:
    with begun() as pb:
        pb >> ("client", request("p", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("p"), PROMPT, prompt("hi")))
        pb >> ("client", request("x", "_x")) << ("agent", request(Hole("x"), "_x"))
        leaves(pb) << ("client", error("p", -32603, TEXT, DATA))
        pb << ("client", error("x", -32603, TEXT, DATA))
        # New requests wait, and a cancellation answers a prompt.
        pb >> ("client", request("q", PROMPT, prompt("again")))
        pb >> ("client", request("r", PROMPT, prompt("other", "T")))
        pb >> ("client", notification("session/cancel", {"sessionId": "T"}))
        pb << ("client", result("r", {"stopReason": "cancelled"}))
        pb >> ("client", request("m", "session/list"))
        pb >> ("client", request("j", "initialize", V1))
        returns(pb)
        pb >> ("agent", update("said before it has answered"))
        pb >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S")
        pb >> ("agent", update("said so far"))
        pb >> ("agent", update("of another session", "T"))
        pb << ("client", update("of another session", "T"))
        pb >> ("agent", notification("_other", {"sessionId": "S"}))
        pb << ("client", notification("_other", {"sessionId": "S"}))
        pb >> ("agent", request("a", "fs/read_text_file", {"sessionId": "S"}))
        pb << ("client", request(Hole("fs"), "fs/read_text_file", {"sessionId": "S"}))
        pb >> ("client", result(Hole("fs"), {})) << ("agent", result("a", {}))
        pb >> ("agent", result(Hole("load"), {}))
        pb << BACK << ("agent", notification("session/cancel", {"sessionId": "T"}))
        pb << ("agent", request(Hole("m"), "session/list"))
        pb << ("agent", request(Hole("j"), "initialize", V1))
        pb << ("agent", request(Hole("q"), PROMPT, prompt("again")))
        pb >> ("agent", update("new")) << ("client", update("new"))
        pb >> ("agent", result(Hole("q"), {"stopReason": "end_turn"}))
        pb << ("client", result("q", {"stopReason": "end_turn"}))


def test_a_question_of_the_dead_agent_is_withdrawn_through_the_guests() -> None:
    with begun("g") as pb:
        pb >> ("agent", request("a", "session/request_permission", permission()))
        pb << ("g", "s", request(Hole("a1"), "session/request_permission", permission()))
        pb >> ("g", "p", request(Hole("a1"), "session/request_permission", permission()))
        pb << ("client", request(Hole("a2"), "session/request_permission", permission()))
        leaves(pb) << ("g", "s", notification("$/cancel_request", {"requestId": Hole("a1")}))
        pb >> ("client", result(Hole("a2"), {"outcome": "too late"}))
        pb << ("g", "p", result(Hole("a1"), {"outcome": "too late"}))
        pb >> ("g", "s", result(Hole("a1"), {"outcome": "too late"}))
        returns(pb) >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S") >> ("agent", result(Hole("load"), {}))
        pb << BACK


def test_sessions_are_taken_up_one_after_the_other_and_what_was_set_is_set() -> None:
    with begun() as pb:
        open_session(pb, "T")
        pb >> ("client", request("m", "session/set_mode", mode()))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))
        pb >> ("agent", result(Hole("m"), {})) << ("client", result("m", {}))
        plan: Json = {"sessionId": "T", "update": {"sessionUpdate": "current_mode_update"}}
        plan["update"]["currentModeId"] = "plan"
        pb >> ("agent", notification(UPDATE, plan)) << ("client", notification(UPDATE, plan))
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S")
        pb >> ("agent", result(Hole("load"), {"modes": {"currentModeId": "ask"}}))
        pb << ("agent", request(Hole("set"), "session/set_mode", mode()))
        pb >> ("agent", notification(UPDATE, {**plan, "sessionId": "S"}))  # it is being set
        pb >> ("agent", result(Hole("set"), {}))
        loads(pb, "T", id_="load-T") >> ("agent", result(Hole("load-T"), {}))
        pb << ("agent", request(Hole("set-T"), "session/set_mode", mode("T", "plan")))
        pb >> ("agent", error(Hole("set-T"), -1, "no modes today"))
        pb << Noted("error", "agent", "`session/set_mode` in session `T` again: no modes today")
        pb << BACK


def test_a_session_that_is_refused_is_lost_until_it_is_loaded() -> None:
    with begun() as pb:
        leaves(pb)
        pb >> ("client", request("p", PROMPT, prompt("hi")))
        returns(pb) >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S") >> ("agent", error(Hole("load"), -32002, "its file is damaged"))
        pb << Noted("error", "agent", "did not take session `S` up: its file is damaged") << BACK
        text = (
            "agent `agent` was started again and did not take this session up again: its file is "
            "damaged\nhint: load the session again, or begin a new one; other sessions go on"
        )
        pb << ("client", error("p", -32603, text, DATA))
        pb >> ("client", request("l", "session/load", {"sessionId": "S", **SETUP}))
        loads(pb, "S", id_="l") >> ("agent", result(Hole("l"), {})) << ("client", result("l", {}))
        pb >> ("client", request("q", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("q"), PROMPT, prompt("hi")))


def test_sessions_that_are_closed_or_that_a_component_has_ended_stay_so() -> None:
    with begun("g") as pb:
        pb >> ("g", "s", request("g1", "session/new", SETUP))
        pb << ("agent", request(Hole("g1"), "session/new", SETUP))
        pb >> ("agent", result(Hole("g1"), {"sessionId": "sub"}))
        pb << ("g", "s", result("g1", {"sessionId": "sub"}))
        pb.router.sessions.ended("sub", "g")
        open_session(pb, "T", "g")
        down(pb, ("g",), request("c", "session/close", {"sessionId": "T"}))
        up(pb, ("g",), "c", {})
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S") >> ("agent", result(Hole("load"), {}))
        pb << BACK


@pytest.mark.parametrize("again", [True, False])
def test_an_agent_that_wants_a_login_gets_the_one_of_the_client(again: bool) -> None:
    login = {"methodId": "key"}
    with begun() as pb:
        pb >> ("client", request("a", "authenticate", login))
        pb << ("agent", request(Hole("a"), "authenticate", login))
        pb >> ("agent", result(Hole("a"), {})) << ("client", result("a", {}))
        for number in (1, 2):  # each process is asked once
            leaves(pb)
            returns(pb, id_=f"again-{number}") >> ("agent", result(Hole(f"again-{number}"), OK1))
            loads(pb, "S", id_=f"load-{number}")
            pb >> ("agent", error(Hole(f"load-{number}"), -32000, "log in"))
            pb << ("agent", request(Hole(f"login-{number}"), "authenticate", login))
        pb >> ("agent", result(Hole("login-2"), {}))
        loads(pb, "S", id_="load-3")
        if again:
            pb >> ("agent", result(Hole("load-3"), {}))
        else:
            pb >> ("agent", error(Hole("load-3"), -32000, "log in"))
            pb << Noted("error", "agent", "did not take session `S` up: log in")
        pb << BACK


def test_the_agent_dies_again_while_it_gets_its_sessions_back() -> None:
    with begun() as pb:
        leaves(pb)
        pb >> ("client", request("p", PROMPT, prompt("hi")))
        assert not pb.router.quiet()  # no other components meanwhile
        returns(pb, id_="first")
        leaves(pb)
        returns(pb, id_="second") >> ("agent", result(Hole("second"), OK1))
        loads(pb, "S", id_="load-2")
        leaves(pb)
        returns(pb, id_="third") >> ("agent", result(Hole("third"), OK1))
        loads(pb, "S", id_="load-3") >> ("agent", result(Hole("load-3"), {}))
        pb << BACK << ("agent", request(Hole("p"), PROMPT, prompt("hi")))


def test_the_agent_dies_for_good_meanwhile() -> None:
    with begun() as pb:
        leaves(pb)
        pb >> ("client", request("m", "session/list"))
        returns(pb)
        pb >> (lambda router: router.closed("agent", GONE))
        pb << ("client", error("m", -32603, TEXT, DATA)) << Fail("agent", GONE)
        leaves(pb)
        pb >> (lambda router: router.returned("agent"))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (error(Hole("again"), -1, "not today"), "it refused `initialize`: not today"),
        (
            result(Hole("again"), {**OK1, "protocolVersion": 2}),
            "it now speaks ACP 2, and this chain version 1",
        ),
        (
            result(Hole("again"), {"protocolVersion": 1}),
            "it cannot take its sessions up again",
        ),
    ],
)
def test_another_agent_than_before_ends_the_chain(answer: Json, why: str) -> None:
    with begun() as pb:
        leaves(pb)
        pb >> ("client", request("p", "_x"))
        returns(pb) >> ("agent", answer)
        text = f"agent `agent` was started again, and the chain cannot go on with it: {why}"
        hint = "see whether its program was changed meanwhile, and start the chain anew"
        pb << ("client", error("p", -32603, f"{text}\nhint: {hint}", DATA))
        pb << Fail("agent", Closure(text, hint, DATA))


def test_a_load_that_takes_too_long_loses_its_session() -> None:
    with begun() as pb:
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), OK1))
        loads(pb, "S")
        ((key, method),) = pb.router.waiting_on("agent")
        assert method == "session/load"
        pb >> (lambda router: router.expire("agent", key, Closure("it took too long")))
        pb << ("agent", notification("$/cancel_request", {"requestId": Hole("load")}))
        pb << Noted("error", "agent", "it took too long") << BACK


@pytest.mark.parametrize("said", ["running", "requires_action"])
def test_in_version_2_the_client_sees_the_end_of_a_turn(said: str) -> None:
    with begun(version=2) as pb:
        pb >> ("client", request("p", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("p"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("p"), {"messageId": "m"}))
        pb << ("client", result("p", {"messageId": "m"}))
        pb >> ("agent", state(said)) << ("client", state(said))
        leaves(pb)
        notice = {"sessionUpdate": "notice", "severity": "error", "title": GONE.text}
        notice["description"] = GONE.hint
        pb << ("client", notification(UPDATE, {"sessionId": "S", "update": notice}))
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
        pb << ("client", notification(UPDATE, {"sessionId": "S", "update": idle}))
        assert pb.router.turns("agent") == []
        returns(pb, version=2) >> ("agent", result(Hole("again"), OK2))
        loads(pb, "S", "session/resume")
        pb >> ("agent", state("idle"))
        pb >> ("agent", result(Hole("load"), {})) << BACK


def test_an_agent_without_the_option_is_no_such_agent() -> None:
    with Playbook(Router([Component("agent", "agent `agent`")])) as pb:
        assert pb.router.refuses_return("agent") is None
    with Playbook(Router([Component("agent", "agent `agent`", revived=True)])) as pb:
        assert pb.router.refuses_return("agent") == "it has not answered `initialize` yet"
    with Playbook(Router([Component("agent", "agent `agent`", revived=True)], "auto")) as pb:
        assert pb.router.refuses_return("agent") == "it has not answered `initialize` yet"
    with begun() as pb:
        assert pb.router.refuses_return("agent") is None


def terminal(id_: object, method: str, terminal: str | None = None) -> Json:
    """A request about a terminal."""
    named = {} if terminal is None else {"terminalId": terminal}
    return request(id_, f"terminal/{method}", {"sessionId": "S", **named})


def opens(pb: Playbook, id_: str, answer: Json) -> Playbook:
    """The agent opens a terminal; the client answers."""
    pb >> ("agent", terminal(id_, "create")) << ("client", terminal(Hole(id_), "create"))
    return pb >> ("client", {**answer, "id": Hole(id_)})


def test_terminals_of_the_dead_agent_are_released_once() -> None:
    with begun("g") as pb:
        for id_ in ("a", "b"):
            pb >> ("agent", terminal(id_, "create"))
            pb << ("g", "s", terminal(Hole(f"{id_}1"), "create"))
            pb >> ("g", "p", terminal(Hole(f"{id_}1"), "create"))
            pb << ("client", terminal(Hole(f"{id_}2"), "create"))
            pb >> ("client", result(Hole(f"{id_}2"), {"terminalId": f"t-{id_}"}))
            pb << ("g", "p", result(Hole(f"{id_}1"), {"terminalId": f"t-{id_}"}))
            pb >> ("g", "s", result(Hole(f"{id_}1"), {"terminalId": f"t-{id_}"}))
            pb << ("agent", result(id_, {"terminalId": f"t-{id_}"}))
        leaves(pb) << ("g", "s", terminal(Hole("r"), "release", "t-a"))
        pb << ("g", "s", terminal(Hole("q"), "release", "t-b"))
        pb >> ("g", "p", terminal(Hole("r"), "release", "t-a"))
        pb << ("client", terminal(Hole("r2"), "release", "t-a"))
        pb >> ("client", result(Hole("r2"), {})) << ("g", "p", result(Hole("r"), {}))
        pb >> ("g", "s", result(Hole("r"), {}))
        leaves(pb)


def test_terminals_that_the_agent_has_released_or_never_got_are_not() -> None:
    with begun() as pb:
        opens(pb, "a", result("", {"terminalId": "t"}))
        pb << ("agent", result("a", {"terminalId": "t"}))
        opens(pb, "b", error("", -1, "no")) << ("agent", error("b", -1, "no"))
        opens(pb, "c", result("", {})) << ("agent", result("c", {}))
        pb >> ("agent", terminal("o", "output", "t"))
        pb << ("client", terminal(Hole("o"), "output", "t"))
        pb >> ("client", result(Hole("o"), {})) << ("agent", result("o", {}))
        pb >> ("agent", terminal("r", "release", "t"))
        pb << ("client", terminal(Hole("r"), "release", "t"))
        pb >> ("client", result(Hole("r"), {})) << ("agent", result("r", {}))
        leaves(pb)


def test_a_terminal_that_comes_too_late_is_released() -> None:
    with begun() as pb:
        pb >> ("agent", terminal("a", "create")) << ("client", terminal(Hole("a"), "create"))
        leaves(pb) << ("client", notification("$/cancel_request", {"requestId": Hole("a")}))
        pb >> ("client", result(Hole("a"), {"terminalId": "t"}))
        pb << ("client", terminal(Hole("r"), "release", "t")) >> ("client", result(Hole("r"), {}))


def test_as_many_terminals_as_any_agent_needs_are_known() -> None:
    with begun() as pb:
        for number in range(1025):
            opens(pb, f"{number}", result("", {"terminalId": f"t{number}"}))
            pb << ("agent", result(f"{number}", {"terminalId": f"t{number}"}))
        leaves(pb)
        for number in range(1, 1025):
            pb << ("client", terminal(Hole(f"r{number}"), "release", f"t{number}"))


def test_a_trace_has_each_request_with_its_answer() -> None:
    agent = Component("agent", "agent `agent`", revived=True)
    router = Router([agent], options=RouterOptions(tracing=True))
    effects = [
        *router.receive("client", dump(request("i", "initialize", V1))),
        *router.receive("agent", dump(result(1, OK1))),
        *router.receive("client", dump(request("n", "session/new", SETUP))),
        *router.receive("agent", dump(result(2, {"sessionId": "S"}))),
        *router.leaving("agent", GONE),
        *router.returned("agent"),
        *router.receive("agent", dump(result(3, OK1))),
        *router.receive("agent", dump(result(4, {}))),
    ]
    traces = [one for one in effects if isinstance(one, Entry)]
    asked = [one.method for one in traces if one.kind == "request"]
    assert asked == ["initialize", "session/new", "initialize", "session/load"]
    assert len([one for one in traces if one.kind == "response"]) == len(asked)


SHARED1: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "sessionCapabilities": {"attach": {}, "resume": {}},
    },
}
SHARED2: Json = {"protocolVersion": 2, "capabilities": {"session": {"attach": {}}}}


def said(text: str, kind: str = "agent_message_chunk", session: str = "S") -> Json:
    """An update of a session that several clients may have."""
    content = {"type": "text", "text": text}
    shown = {"sessionUpdate": kind, "content": content}
    return notification(UPDATE, {"sessionId": session, "update": shown})


def shared(version: int = 1) -> Playbook:
    """A client, and an agent whose sessions several clients may have; it has said `one`."""
    pb = Playbook(Router([Component("agent", "agent `agent`", revived=True)]))
    asked, answered = (V1, SHARED1) if version == 1 else (V2, SHARED2)
    down(pb, (), request("i", "initialize", asked))
    up(pb, (), "i", answered)
    open_session(pb, "S")
    return shows(pb, "one")


def shows(pb: Playbook, *texts: str) -> Playbook:
    """The agent says something, and the client gets it."""
    for text in texts:
        pb >> ("agent", said(text)) << ("client", said(text))
    return pb


def repeats(pb: Playbook, *texts: str, id_: str, gets: tuple[str, ...] = ()) -> Playbook:
    """The agent shows the session `S` again; the client gets the updates that it has missed."""
    pb >> ("agent", said("the prompt", "user_message_chunk"))
    for text in texts:
        pb >> ("agent", said(text))
    pb >> ("agent", result(Hole(id_), {}))
    for text in gets:
        pb << ("client", said(text))
    return pb


def test_what_was_missed_of_a_session_that_went_on_follows() -> None:
    with shared() as pb:
        shows(pb, "two")
        for id_, texts, gets in (
            ("a", ("one", "two", "three", "four"), ("three", "four")),
            ("b", ("one", "two", "three", "four", "five"), ("five",)),
            ("c", ("one", "two", "three", "four", "five"), ()),
            ("d", ("one", "two"), ()),  # it has forgotten some
            ("e", ("one", "two", "three", "and", "five!", "six"), ()),  # it is another one
        ):
            leaves(pb)
            returns(pb, id_=f"again-{id_}") >> ("agent", result(Hole(f"again-{id_}"), SHARED1))
            repeats(loads(pb, "S", id_=id_), *texts, id_=id_, gets=gets) << BACK
        shows(pb, "seven")


def test_what_was_missed_follows_also_where_the_client_has_loaded_the_session() -> None:
    with shared() as pb:
        open_session(pb, "T")
        pb >> ("client", request("l", "session/load", {"sessionId": "S", **SETUP}))
        loads(pb, "S", id_="l")
        prompted = said("the prompt", "user_message_chunk")
        pb >> ("agent", prompted) << ("client", prompted)
        shows(pb, "one", "two")
        pb >> ("agent", result(Hole("l"), {})) << ("client", result("l", {}))
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), SHARED1))
        loads(pb, "T", id_="T") >> ("agent", said("two"))  # of a session that comes later
        pb >> ("agent", result(Hole("T"), {}))
        repeats(loads(pb, "S", id_="S"), "one", "two", id_="S")
        pb << BACK
        down(pb, (), request("c", "session/close", {"sessionId": "S"}))
        up(pb, (), "c", {})


def test_what_others_have_asked_meanwhile_was_missed_too() -> None:
    with shared() as pb:
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), SHARED1))
        loads(pb, "S")
        asked = said("by another", "user_message_chunk")
        for frame in (said("one"), said("two"), asked, said("three")):
            pb >> ("agent", frame)
        pb >> ("agent", result(Hole("load"), {}))
        pb << ("client", said("two")) << ("client", asked) << ("client", said("three")) << BACK


def test_in_version_2_the_agent_is_asked_to_show_the_session_again() -> None:
    with shared(2) as pb:
        leaves(pb)
        returns(pb, 2) >> ("agent", result(Hole("again"), SHARED2))
        asked = {"sessionId": "S", **SETUP, "replayFrom": {"type": "start"}}
        pb << ("agent", request(Hole("load"), "session/resume", asked))
        pb >> ("agent", state("running"))
        repeats(pb, "one", "two", id_="load", gets=("two",)) << BACK


def test_much_that_was_missed_follows_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_sessions, "_MOST_MISSED", 200)
    monkeypatch.setattr(agent_sessions, "_MOST", 1)
    with shared() as pb:
        leaves(pb)
        returns(pb) >> ("agent", result(Hole("again"), SHARED1))
        loads(pb, "S")
        repeats(pb, "one", "two", "x" * 200, id_="load", gets=("two",)) << BACK
        open_session(pb, "T")  # of `S` nobody knows any more what it has shown
        leaves(pb)
        returns(pb, id_="b") >> ("agent", result(Hole("b"), SHARED1))
        loads(pb, "T", id_="T") >> ("agent", result(Hole("T"), {}))
        pb << BACK
