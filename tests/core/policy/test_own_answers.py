"""Errors and refusals of a component's own say whose they are, and never have the user log in."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from conductor.core import CHANNEL, Component
from tests.harness.router.policed import (
    DONE,
    PROMPT,
    Hole,
    Json,
    broke,
    chain,
    chain_of,
    given,
    guest,
    notification,
    policy,
    prompt,
    request,
    result,
)

ANSWERS: Final = "down:session/prompt:carry+answer+amend"
REFUSED: Final = -31900


def signed(id_: object, message: str, code: int = REFUSED, name: str = "g", **data: object) -> Json:
    """An error as the client gets it."""
    held = {"code": code, "message": message, "data": {**data, "component": name}}
    return {"jsonrpc": "2.0", "id": id_, "error": held}


@pytest.mark.proves("an error of a component names", "error texts, last words")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"code": REFUSED, "message": "no"}, signed("a", "g: no")),
        ({"code": REFUSED, "message": "g: no"}, signed("a", "g: no")),
        ({"code": -32603, "message": "proxy `g` failed"}, signed("a", "proxy `g` failed", -32603)),
        (
            {"code": REFUSED, "message": "no", "data": {"component": "agent", "x": 1}},
            signed("a", "g: no", x=1),
        ),
        ({"code": REFUSED, "message": "no", "data": [1]}, signed("a", "g: no", said=[1])),
        ({"code": REFUSED, "message": "no", "data": None}, signed("a", "g: no")),
        (
            {"code": 5, "message": "conductor: \x1b]0;x\u202e"},
            signed("a", "g: conductor: \\u{1b}]0;x\\u{202e}", 5),
        ),
        ({"code": 5}, signed("a", "g: ", 5)),
        ({"code": 5, "message": "\ud800"}, signed("a", "g: \\u{d800}", 5)),
        ({"code": 5, "message": {"a": 1}}, signed("a", "g: ", 5)),
    ],
)
def test_an_error_names_its_component(body: Any, wanted: Json, version: int) -> None:
    with chain(ANSWERS, version=version) as pb:
        given(pb)
        said = {"jsonrpc": "2.0", "id": Hole("g-a"), "error": body}
        pb >> ("g", "p", said) << ("client", wanted)


@pytest.mark.parametrize("words", ["`speed` is no number", "it exceeded cpu_ms"])
def test_an_error_of_a_running_component_names_no_file_of_the_user(words: str) -> None:
    set_by = {"g": {"speed": "/home/me/a.toml, line 3", "limits.cpu_ms": "/home/me/a.toml"}}
    with chain_of(replace(guest(ANSWERS), set_by=set_by)) as pb:
        given(pb)
        said = {"jsonrpc": "2.0", "id": Hole("g-a"), "error": {"code": 5, "message": words}}
        pb >> ("g", "p", said) << ("client", signed("a", f"g: {words}", 5))


@pytest.mark.proves("no error of a component shows")
@pytest.mark.parametrize(
    "body",
    [
        {"code": -32000, "message": "log in"},
        {"code": REFUSED, "message": "no", "data": {"authMethods": []}},
        {"code": REFUSED, "message": "no", "data": "auth_required"},
    ],
)
def test_an_error_shows_no_login(body: Json) -> None:
    with chain(ANSWERS) as pb:
        given(pb)
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": body})
        broke(pb, "handshake")
        pb << ("agent", request(Hole("x"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("x"), DONE)) << ("client", result("a", DONE))


@pytest.mark.proves("no error of a component shows")
def test_the_login_of_the_agent_s_stays_as_it_is() -> None:
    login = {"code": -32000, "message": "log in", "data": {"authMethods": [{"id": "x"}]}}
    with chain(ANSWERS) as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("go")))
        pb << ("agent", request(Hole("x"), PROMPT, prompt("go")))
        pb >> ("agent", {"jsonrpc": "2.0", "id": Hole("x"), "error": login})
        pb << ("g", "s", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": login})
        other = {**login, "message": "log in at https://x.example"}
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": other})
        broke(pb, "handshake")
        pb << ("client", {"jsonrpc": "2.0", "id": "a", "error": login})


@pytest.mark.parametrize("meta", [{}, {"_meta": {"x.example/y": 1}}])
def test_a_refusal_names_its_component(meta: Json) -> None:
    held = {"stopReason": "refusal", **meta}
    named = {**held, "_meta": {**meta.get("_meta", {}), "conductor.component": "g"}}
    with chain(ANSWERS) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), held)) << ("client", result("a", named))


def test_a_refusal_of_the_agent_s_names_nobody() -> None:
    refusal = {"stopReason": "refusal", "usage": {"x": 1}}
    with chain(ANSWERS) as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("go")))
        pb << ("agent", request(Hole("x"), PROMPT, prompt("go")))
        pb >> ("agent", result(Hole("x"), refusal)) << ("g", "s", result(Hole("g-a"), refusal))
        changed = {**refusal, "_meta": {"x.example/y": 1}}
        pb >> ("g", "p", result(Hole("g-a"), changed)) << ("client", result("a", changed))


@pytest.mark.proves("an error of a component names")
@pytest.mark.parametrize(
    ("said", "named"),
    [("f", "f"), ("g", "g"), ("agent", "f+g"), ("", "f+g"), (["f"], "f+g")],
)
def test_a_host_names_its_guests_and_nobody_else(said: object, named: str) -> None:
    host = Component(
        "f+g", "", CHANNEL, policy=policy(ANSWERS), hosts=True, known_as=frozenset(("f", "g"))
    )
    data = {"data": {"component": said}} if said else {}
    meta = {"_meta": {"x.example/y": 1, "conductor.component": said}} if said else {}
    with chain_of(host) as pb:
        pb >> ("client", request("a", PROMPT, prompt("go")))
        pb << ("f+g", "p", request(Hole("g-a"), PROMPT, prompt("go")))
        body = {"code": REFUSED, "message": f"{named}: no", **data}
        pb >> ("f+g", "p", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": body})
        pb << ("client", signed("a", f"{named}: no", name=named))
        pb >> ("client", request("b", PROMPT, prompt("go")))
        pb << ("f+g", "p", request(Hole("g-b"), PROMPT, prompt("go")))
        pb >> ("f+g", "p", result(Hole("g-b"), {"stopReason": "refusal", **meta}))
        held = {**meta.get("_meta", {}), "conductor.component": named}
        pb << ("client", result("b", {"stopReason": "refusal", "_meta": held}))
        # An answer that is no refusal has no name.
        pb >> ("client", request("c", PROMPT, prompt("go")))
        pb << ("f+g", "p", request(Hole("g-c"), PROMPT, prompt("go")))
        pb >> ("f+g", "p", result(Hole("g-c"), {**DONE, "_meta": {"conductor.component": "g"}}))
        pb << ("client", result("c", DONE))
        pb >> ("client", request("d", PROMPT, prompt("go")))
        pb << ("f+g", "p", request(Hole("g-d"), PROMPT, prompt("go")))
        strange = {**DONE, "_meta": {"x.example/y": "conductor.component"}}
        pb >> ("f+g", "p", result(Hole("g-d"), strange)) << ("client", result("d", strange))


@pytest.mark.proves("error texts, last words")
@pytest.mark.parametrize(
    "body",
    [
        {"code": -32000, "message": "log in \x1b[2J"},
        {"code": 5, "message": "log in \x1b[2J", "data": {"x": [{"authMethods": []}]}},
    ],
)
@pytest.mark.parametrize("road", ["failed guest", "panel"])
def test_an_error_that_no_rule_has_judged_is_named_and_no_login(road: str, body: Json) -> None:
    """Such an error answers the editor, or comes from a host for a guest that has failed."""
    event = {"sessionId": "S", "id": "w", "_meta": {"conductor.component": "g"}}
    with chain(ANSWERS, fails="closed", grants="editor=panel") as pb:
        if road == "panel":
            pb >> ("client", request("a", "_scp/html_panel/event", event))
            pb << ("g", "p", request(Hole("g-a"), "_scp/html_panel/event", Hole("event")))
        else:
            given(pb)
            pb.router.faltered("g", goes_on=False)
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-a"), "error": body})
        pb << ("client", signed("a", "g: log in \\u{1b}[2J", -32603))


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({}, {"conductor.component": "g"}),
        ({"_meta": {"x.example/y": 1}}, {"conductor.component": "g"}),
    ],
)
def test_version_2_says_by_whom_a_turn_is_refused(meta: Json, named: Json) -> None:
    with chain(ANSWERS, version=2) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), {"stopReason": "refusal", **meta}))
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal"}
        pb << ("client", result("a", {"messageId": Hole("m")}))
        told = {"sessionId": "S", "update": {**idle, "_meta": named}}
        pb << ("client", notification("session/update", told))


@pytest.mark.parametrize("member", ["result", "error"])
def test_who_refuses_to_load_a_session_has_not_opened_that(member: str) -> None:
    opens = "down:session/load:carry+amend+answer"
    setup = {"sessionId": "L", "cwd": "/work", "mcpServers": []}
    with chain_of(guest(opens, grants="sessions")) as pb:
        pb >> ("client", request("l", "session/load", setup))
        pb << ("g", "p", request(Hole("g-l"), "session/load", setup))
        said = {"result": {}} if member == "result" else {"error": {"code": 5, "message": "no"}}
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-l"), **said})
        wanted = result("l", {}) if member == "result" else signed("l", "g: no", 5)
        pb << ("client", wanted)
        owner = pb.router.sessions.find("L").opened_by
        assert owner == ("g" if member == "result" else "")
