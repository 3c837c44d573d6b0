"""Roles, versions, dialect detection, repeated `initialize`, proxy mode."""

from typing import Any

import pytest
from msgspec.structs import replace

from conductor.core import DIALECTS, Closure, Component, Fail, Listen, Reopen
from conductor.core.router import Router, RouterOptions
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    OK,
    V1,
    Json,
    agent_mode,
    agent_only,
    begin,
    begin_acp,
    component,
    error,
    notification,
    proxy_mode,
    request,
    result,
)

FLAG: dict[str, Any] = {"symposium": {"version": "1.0", "proxy": True}}
CANNOT_SHOW: dict[str, Any] = {"html_panel": False, "file_comment": False}
OFFER: dict[str, Any] = {
    "protocolVersion": 1,
    "_meta": {**FLAG, "proxy": True},
    "clientCapabilities": {"_meta": {"symposium": {**FLAG["symposium"], **CANNOT_SHOW}}},
}
ECHO: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"_meta": FLAG}}
OF_P = {"component": "p"}
NO_VERSION = "initialize.protocolVersion must be a valid ACP protocol version"
ONLY = "`{}` requests are only sent by the conductor"


def wrapped(id_: object, method: str, params: object, form: str = "proxy/successor") -> Json:
    return request(id_, form, {"method": method, "params": params})


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version", [b"-1", b"65536", b"1e400", b'"1"', b"1.0", b"1e0", b"null", b"true", b"[]", None]
)
def test_what_is_no_version_may_be_asked_again(version: bytes | None) -> None:
    member = b'"protocolVersion":%b' % version if version is not None else b""
    frame = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{%b}}' % member
    with agent_only() as pb:
        pb >> ("client", frame) << ("client", error(1, -32602, NO_VERSION))
        pb >> ("client", request(2, "_x"))
        pb << ("client", error(2, -32600, "expected `initialize` request"))
        begin(pb)


@pytest.mark.parametrize("params", [b"", b',"params":null', b',"params":[]', b',"params":[1]'])
def test_initialize_needs_params(params: bytes) -> None:
    with agent_only() as pb:
        pb >> ("client", b'{"jsonrpc":"2.0","id":1,"method":"initialize"%b}' % params)
        pb << ("client", error(1, -32602, NO_VERSION))


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        (b'{"protocolVersion":1, "_x" :1.10}', b'{"protocolVersion":1, "_x" :1.10}'),
        (b'{"protocolVersion":0,"_x":1.10}', b'{"protocolVersion":1,"_x":1.10}'),
        (
            b'{"protocolVersion":2,"info":{"name":"\\ud800","version":""}}',
            b'{"protocolVersion":2,"info":{"name":"\\ud800","version":""}}',
        ),
        (
            b'{"protocolVersion":3,"info":{"name":"n","version":"1"}}',
            b'{"protocolVersion":2,"info":{"name":"n","version":"1"}}',
        ),
        (
            b'{"protocolVersion":65535,"info":{"name":1}}',
            b'{"protocolVersion":2,"info":{"name":"unknown","version":"unknown"}}',
        ),
    ],
)
def test_the_version_is_an_upper_bound(asked: bytes, offered: bytes) -> None:
    with agent_only() as pb:
        pb >> ("client", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % asked)
        pb << ("agent", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % offered)


@pytest.mark.parametrize("info", [None, {}, {"name": "n"}, {"name": "n", "version": 1}, 5])
def test_version_2_needs_info(info: object) -> None:
    params = {"protocolVersion": 2, **({} if info is None else {"info": info})}
    with agent_only() as pb:
        pb >> ("client", request(1, "initialize", params))
        text = "initialize.info with `name` and `version` is required in ACP v2"
        pb << ("client", error(1, -32602, text))


# -- repeated ------------------------------------------------------------------------------------


def test_v2_may_be_initialized_again_before_anything_else() -> None:
    params = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}}
    with begin(agent_only(), 2) as pb:
        pb >> ("client", request(1, "initialize", params))
        pb << ("agent", request(2, "initialize", params))
        pb >> ("client", request(2, "_x")) << ("agent", request(3, "_x"))
        pb >> ("client", request(3, "initialize", params))
        text = (
            "ACP initialization cannot be repeated after any other request; "
            "reconnect to initialize again"
        )
        pb << ("client", error(3, -32600, text))


def test_two_at_once_where_the_dialect_is_known() -> None:
    with agent_mode("acp") as pb:
        pb >> ("client", request(1, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(2, "initialize", V1)) << ("p", request(2, "proxy/initialize", V1))
        pb >> ("p", error(1, -32603, "busy")) << ("client", error(1, -32603, "p: busy", OF_P))
        pb >> ("p", error(2, -32601, "no")) << ("client", error(2, -32601, "p: no", OF_P))


def test_two_at_once_while_the_dialect_is_unknown() -> None:
    with agent_mode(None) as pb:
        pb >> ("client", request(1, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(2, "initialize", V1)) >> ("client", request(3, "_x"))
        pb >> ("p", error(1, -32601, "no")) << ("p", request(2, "_proxy/initialize", V1))
        pb >> ("p", error(2, -32603, "broken")) << ("client", error(1, -32603, "p: broken", OF_P))
        pb << ("p", request(3, "proxy/initialize", V1))
        pb >> ("p", result(3, OK)) << ("p", request(4, "_x"))
        pb << Noted("warning", "p", "without forwarding it") << ("client", result(2, OK))


# -- who may ask ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["proxy/initialize", "_proxy/initialize"])
def test_role_requests_are_the_conductors(method: str) -> None:
    with begin_acp(agent_mode("acp")) as pb:
        for peer in ("client", "p", "agent"):
            pb >> (peer, request(1, method, V1)) << (peer, error(1, -32600, ONLY.format(method)))
        pb >> ("p", wrapped(2, method, V1)) << ("p", error(2, -32600, ONLY.format(method)))


def test_initialize_before_the_chain_is_joined() -> None:
    router = Router([component("g", "channel"), Component("agent")], "auto")
    with Playbook(router) as pb:
        pb >> ("g", "s", request(1, "initialize", V1))
        pb << ("g", "s", error(1, -32600, "expected `initialize` request"))


# -- detection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-32601, -32600])
def test_the_order_of_asking(code: int) -> None:
    with agent_mode(None) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("p", error(1, code, "no")) << ("p", request(2, "_proxy/initialize", V1))
        pb >> ("p", error(2, code, "no")) << ("p", request(3, "initialize", OFFER))
        pb >> ("p", error(3, code, "never heard of it"))
        pb << ("client", error(7, -32603, Hole("text"), {"component": "p"}))
        pb << Fail("p", NOT_A_PROXY)
        assert "hint: " in pb.values["text"]
        pb >> ("client", request(8, "_x"))
        pb << ("client", error(8, -32600, "proxy `p` has not been initialized"))
        pb >> ("client", notification("_x")) << Noted("debug", "client", "not there for it")


NOT_A_PROXY = Closure(
    "component proxy `p` is not a proxy (it answered: never heard of it)",
    "only the last component of a chain may be an agent; "
    "if this is a proxy, name its dialect: `p,dialect=acp`",
    {"component": "p"},
)


@pytest.mark.parametrize("code", [-32601, -32600])
def test_a_last_component_that_knows_no_initialize_is_no_agent(code: int) -> None:
    text = "the last component, `agent`, is not an agent (it answered `initialize`: a proxy)"
    with begin_proxy() as pb:
        pb >> ("agent", error(1, code, "a proxy"))
        pb << ("p", error("f", -32603, Hole("text"), {"component": "agent"}))
        said, _, hint = pb.values["text"].partition("\nhint: ")
        assert said == text
        assert "put one behind it" in hint
        pb << Fail("agent", Closure(text, hint, {"component": "agent"}))


def test_other_errors_of_an_agent_go_back_and_so_do_all_once_it_was_initialized() -> None:
    with begin_proxy() as pb:
        pb >> ("agent", error(1, -32000, "no")) << ("p", error("f", -32000, "no"))
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "initialize", V1)) << ("agent", request(2, "initialize", V1))
        pb >> ("agent", error(2, -32600, "again?")) << ("client", error(1, -32600, "again?"))


def begin_proxy() -> Playbook:
    """A chain of a proxy and of a component that may be an agent, which got `initialize`."""
    pb = agent_mode("acp")
    pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
    pb >> ("p", wrapped("f", "initialize", V1)) << ("agent", request(1, "initialize", V1))
    return pb


def test_a_proxy_that_always_forwards_is_asked_each_way_once() -> None:
    with agent_mode(None) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        for number, method in ((1, "_proxy/initialize"), (2, None)):
            form = "proxy/successor"
            asked = "proxy/initialize" if number == 1 else "_proxy/initialize"
            pb >> ("p", wrapped("u", asked, V1, form))
            pb << ("p", error("u", -32601, f"Method not found: `{asked}`"))
            pb >> ("p", error(number, -32601, "no"))
            pb << ("p", request(number + 1, method or "initialize", V1 if method else OFFER))


def test_a_known_dialect_is_not_guessed() -> None:
    with agent_mode("sdk") as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "_proxy/initialize", V1))
        pb >> ("p", error(1, -32601, "no")) << ("client", error(7, -32601, "p: no", OF_P))


SET_BY = {
    "p": {
        "speed": "a.toml, line 3",
        "colour": "a.toml, line 4",
        "limits.cpu_ms": "a.toml, line 5",
        "": "b.toml",
    }
}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("`speed` is no number", "`speed` is no number (a.toml, line 3)"),
        ("'speed' and \"colour\"", "'speed' and \"colour\" (a.toml, line 3) (a.toml, line 4)"),
        ("no key", "no key (a.toml, line 3) (a.toml, line 4) (b.toml)"),
        ("not ''", "not '' (a.toml, line 3) (a.toml, line 4) (b.toml)"),
        ("it exceeded cpu_ms", "it exceeded cpu_ms (a.toml, line 5)"),
    ],
)
def test_a_component_that_refuses_names_who_set_it(said: str, told: str) -> None:
    p = replace(component("p", "acp"), set_by=SET_BY)
    with Playbook(Router([p, Component("agent")])) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("p", error(1, -1, said)) << ("client", error(7, -1, f"p: {told}", OF_P))


def test_what_a_component_was_started_with_may_move_to_another_line() -> None:
    p = replace(component("p", "acp"), set_by=SET_BY)
    router = Router([p, Component("agent")])
    router.written("p", {"p": {"speed": "a.toml, line 9"}})
    with Playbook(router) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        told = error(7, -1, "p: no (a.toml, line 9)", OF_P)
        pb >> ("p", error(1, -1, "no")) << ("client", told)


def test_an_error_that_came_from_behind_a_component_is_passed_on_as_it_is() -> None:
    p = replace(component("p", "acp"), set_by=SET_BY)
    with Playbook(Router([p, Component("agent")])) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("p", wrapped(1, "initialize", V1)) << ("agent", request(1, "initialize", V1))
        pb >> ("agent", error(1, -1, "no")) << ("p", error(1, -1, "no"))
        pb >> ("p", error(1, -1, "no")) << ("client", error(7, -1, "no"))


def test_what_an_unasked_proxy_says_settles_nothing() -> None:
    with agent_mode(None) as pb:
        pb >> ("p", notification("_proxy/successor", {"method": "_n"}))
        pb << ("agent", notification("_n"))
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))


def gone(code: int | None) -> Closure:
    return Closure("it exited", "look", {} if code is None else {"exitCode": code})


def test_a_component_that_exits_is_started_once_more() -> None:
    router = Router([component("p", None, configure=b"{}"), Component("agent")])
    with Playbook(router) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(8, "_x"))
        pb >> ("p", request("a", "_up")) << ("client", request(1, "_up"))
        pb >> (lambda r: r.closed("p", gone(2)))
        pb << ("client", notification("$/cancel_request", {"requestId": 1})) << Reopen("p")
        pb >> ("client", notification("$/cancel_request", {"requestId": 7}))
        pb >> (lambda r: r.reopened("p"))
        pb << ("p", notification("_conductor/configure", {}))
        cancelled = notification("$/cancel_request", {"requestId": 2})
        pb << ("p", request(2, "_proxy/initialize", V1)) << ("p", cancelled)
        pb >> ("client", result(1, "late"))
        pb >> ("p", request("a", "_up")) << ("client", request(2, "_up"))
        pb >> (lambda r: r.closed("p", gone(3)))
        pb << ("client", error(7, -32603, "it exited\nhint: look", {"exitCode": 3}))
        pb << ("client", error(8, -32603, "it exited\nhint: look", {"exitCode": 3}))
        pb << ("client", notification("$/cancel_request", {"requestId": 2})) << Fail("p", gone(3))
        pb >> (lambda r: r.reopened("p"))


# -- sacp and pacp --------------------------------------------------------------------------------

PLACES: list[dict[str, Any]] = [
    {"protocolVersion": 1, "_meta": {"proxy": True}},
    {"protocolVersion": 1, "_meta": FLAG},
    {"protocolVersion": 1, "agentCapabilities": {"_meta": FLAG}},
    {"protocolVersion": 1, "capabilities": {"_meta": FLAG}},
]


@pytest.mark.parametrize("echo", PLACES)
@pytest.mark.parametrize("kind", ["sacp", "pacp"])
def test_the_echo_counts_in_each_place_and_stays_there(kind: str, echo: dict[str, Any]) -> None:
    with agent_mode(kind) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "initialize", OFFER))
        pb >> ("p", wrapped("f", "initialize", OFFER, "_proxy/successor/request"))
        pb << ("agent", request(1, "initialize", V1))
        pb >> ("agent", result(1, V1)) << ("p", result("f", V1))
        pb >> ("p", result(1, echo)) << ("client", result(7, Hole("answer")))
        assert "proxy" not in str(pb.values["answer"])
        assert pb.values["answer"]["protocolVersion"] == 1


@pytest.mark.parametrize(
    "answer",
    [{}, {"_meta": {"proxy": False}}, {"_meta": {"symposium": {"proxy": 1}}}, {"proxy": True}],
)
def test_no_echo_is_no_proxy(answer: object) -> None:
    with agent_mode("sacp") as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "initialize", OFFER))
        pb >> ("p", result(1, answer))
        pb << ("client", error(7, -32603, Hole("text"), {"component": "p"}))
        pb << Fail("p", Closure(NO_ECHO, NOT_A_PROXY.hint, {"component": "p"}))


NO_ECHO = "component proxy `p` is not a proxy (its answer lacks the proxy echo)"


SECTIONS: list[dict[str, Any]] = [
    {"clientCapabilities": {"_meta": {"symposium": {"html_panel": True, "version": "2.0"}}}},
    {"clientCapabilities": {"_meta": {"symposium": {"version": "1.0"}}}},
    {"clientCapabilities": {"_meta": {"other": 1}, "fs": {}}, "_meta": {"t": 1}},
    {"_meta": {"symposium": {"version": "1.0", "file_comment": False}}},
    {"_meta": {}, "clientCapabilities": {}},
    {"clientCapabilities": {"_meta": {}}},
]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("strips", [True, False])
def test_the_clients_own_section_passes_and_the_offer_does_not(
    section: dict[str, Any], strips: bool
) -> None:
    params = {"protocolVersion": 1, **section}
    with agent_mode("sacp") as pb:
        pb >> ("client", request(7, "initialize", params))
        pb << ("p", request(1, "initialize", Hole("offer")))
        offer = pb.values["offer"]
        assert offer["_meta"]["proxy"] is True
        assert offer["clientCapabilities"]["_meta"]["symposium"]["proxy"] is True
        if strips:
            del offer["_meta"]["proxy"]
            del offer["_meta"]["symposium"]["proxy"]
            del offer["clientCapabilities"]["_meta"]["symposium"]["proxy"]
        pb >> ("p", wrapped("f", "initialize", offer, "_proxy/successor/request"))
        pb << ("agent", request(1, "initialize", params))


def test_the_agents_section_passes_back_through_an_echo() -> None:
    said = {"agentCapabilities": {"_meta": {"symposium": {"version": "1.0", "proxy": False}}}}
    with agent_mode("sacp") as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "initialize", OFFER))
        pb >> ("p", wrapped("f", "initialize", V1, "_proxy/successor/request"))
        pb << ("agent", request(1, "initialize", V1))
        pb >> ("agent", result(1, said)) << ("p", result("f", said))
        pb >> ("p", result(1, {"agentCapabilities": {"_meta": FLAG}}))
        left = {"agentCapabilities": {"_meta": {"symposium": {"version": "1.0"}}}}
        pb << ("client", result(7, left))


def test_a_client_that_offers_is_not_heard_and_keeps_its_section() -> None:
    with agent_only() as pb:
        pb >> ("client", request(7, "initialize", {"protocolVersion": 1, "_meta": FLAG}))
        kept = {"protocolVersion": 1, "_meta": {"symposium": {"version": "1.0"}}}
        pb << ("agent", request(1, "initialize", kept))
        pb >> ("agent", result(1, ECHO))
        pb << ("client", result(7, V1))


AGENT: dict[str, Any] = {"symposium": {"version": "1.0", "proxy": False}}


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        ({"protocolVersion": 1}, {"protocolVersion": 1, "agentCapabilities": {"_meta": AGENT}}),
        (
            {"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "_meta": {"a": 1}}},
            {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True, "_meta": {"a": 1, **AGENT}},
            },
        ),
        (
            {"protocolVersion": 2, "capabilities": {"session": {}}},
            {"protocolVersion": 2, "capabilities": {"session": {}, "_meta": AGENT}},
        ),
        *(
            (same, same)
            for same in (
                5,
                {"protocolVersion": 1, "agentCapabilities": 5},
                {"protocolVersion": 1, "agentCapabilities": {"_meta": 5}},
                {"protocolVersion": 1, "_meta": {"symposium": {"version": "2"}}},
            )
        ),
    ],
)
def test_an_editor_of_scp_is_told_that_this_is_an_agent_of_scp(answered: Any, told: Any) -> None:
    """`ToAgent`: also where the agent does not know SCP. An agent's own section stays."""
    said = {"symposium": {"version": "1.0", "html_panel": True}}
    params = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}, "_meta": said}
    with agent_only() as pb:
        pb >> ("client", request(7, "initialize", params))
        pb << ("agent", request(1, "initialize", params))
        pb >> ("agent", result(1, answered)) << ("client", result(7, told))


def test_what_cannot_carry_the_offer_is_left_alone() -> None:
    params = b'{"protocolVersion":1,"_meta":5,"clientCapabilities":[1e400]}'
    with agent_mode("sacp") as pb:
        pb >> ("client", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % params)
        pb << ("p", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}' % params)
        pb >> ("p", request(1, "_proxy/successor/request", {"method": "initialize"}))
        pb << ("agent", request(1, "initialize"))
        pb >> ("agent", result(1, 5)) << ("p", result(1, 5))


def test_a_successor_gets_the_offer_even_without_params() -> None:
    chain = [component("a", "acp"), component("b", "sacp"), Component("z")]
    with Playbook(Router(chain)) as pb:
        pb >> ("client", request(1, "initialize", V1)) << ("a", request(1, "proxy/initialize", V1))
        pb >> ("a", request(1, "proxy/successor", {"method": "initialize"}))
        pb << ("b", request(1, "initialize", Hole("offer")))
        pb >> ("a", request(2, "proxy/successor", {"method": "initialize", "params": [1]}))
        pb << ("b", request(2, "initialize", [1]))
    assert pb.values["offer"] == {k: v for k, v in OFFER.items() if k != "protocolVersion"}


# -- scp -----------------------------------------------------------------------------------------


def held(kind: str | None) -> Playbook:
    """An `scp`-like proxy that has taken the role and is to launch its successor."""
    pb = agent_mode(kind)
    pb >> ("client", request(7, "initialize", V1))
    last = 1
    if kind is None:
        pb << ("p", request(1, "proxy/initialize", V1))
        pb >> ("p", error(1, -32601, "")) << ("p", request(2, "_proxy/initialize", V1))
        pb >> ("p", error(2, -32601, ""))
        last = 3
    pb << ("p", request(last, "initialize", OFFER))
    pb >> ("client", request(8, "_x"))
    return pb >> ("p", result(last, ECHO)) << Listen("p")


ANSWER = {"protocolVersion": 1, "agentCapabilities": {}}


def test_a_proxy_that_does_not_know_scp_is_sacp_or_pacp() -> None:
    with held(None) as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(4, "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", error(4, -32601, ""))
        pb << ("p", request(5, "_x"))
        pb << ("client", result(7, ANSWER))
        nested = {"message": {"method": "_x"}}
        pb >> ("p", request("q", "_proxy/successor/send/request", nested))
        pb << ("agent", request(1, "_x"))
        pb >> ("agent", notification("_n"))
        inside = {"message": {"method": "_n"}}
        pb << ("p", notification("_proxy/successor/receive/notification", inside))
        pb >> (lambda r: r.closed("p/successor", gone(None)))  # nobody needs it


def test_it_stays_sacp_if_its_first_envelope_is_flat() -> None:
    with held(None) as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(4, "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", error(4, -32601, ""))
        pb << ("p", request(5, "_x"))
        pb << ("client", result(7, ANSWER))
        pb >> ("p", notification("_proxy/successor/notification", {"method": "_x"}))
        pb << ("agent", notification("_x")) >> ("agent", notification("_n"))
        pb << ("p", notification("_proxy/successor/notification", {"method": "_n"}))


@pytest.mark.parametrize("launched", [True, False])
def test_an_envelope_tells_that_it_is_not_scp(launched: bool) -> None:
    with held(None) as pb:
        if launched:
            pb >> (lambda r: r.listening("p", b"{}"))
            pb << ("p", request(4, "_scp/proxy", {"servers": [{}]}))
        flat = {"method": "_scp/proxy", "params": {}}
        pb >> ("p", request("u", "_proxy/successor/request", flat))
        pb << ("p", request(Hole("x"), "_x")) << ("client", result(7, ANSWER))
        pb << ("p", error("u", -32601, "Method not found: `_scp/proxy`"))
        if launched:
            pb >> ("p", error(4, -32601, "no"))
        else:
            pb >> (lambda r: r.listening("p", b"{}"))
        pb >> ("p", request("v", "_proxy/successor/request", {"method": "_x"}))
        pb << ("agent", request(1, "_x"))


@pytest.mark.parametrize(("kind", "code"), [("scp", -32601), (None, -32000)])
def test_an_scp_proxy_that_refuses_ends_the_chain(kind: str | None, code: int) -> None:
    with held(kind) as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", error(Hole("l"), code, "no shims"))
        pb << ("client", error(7, -32603, Hole("text"), {"component": "p"}))
        why = "proxy `p` has not launched its successor (`_scp/proxy`): no shims"
        hint = "if it speaks another dialect, name that: `p,dialect=acp`"
        pb << Fail("p", Closure(why, hint, {"component": "p"}))
        pb << ("client", error(8, -32600, "proxy `p` has not been initialized"))
        assert pb.values["text"].startswith(why)


def test_the_hint_of_an_scp_proxy_that_refuses_is_the_hint() -> None:
    with held("scp") as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", error(Hole("l"), -32602, "it is locked\nhint: look"))
        pb << ("client", error(7, -32603, Hole("text"), {"component": "p"}))
        why = "proxy `p` has not launched its successor (`_scp/proxy`): it is locked"
        pb << Fail("p", Closure(why, "look", {"component": "p"}))
        pb << ("client", error(8, -32600, "proxy `p` has not been initialized"))


@pytest.mark.parametrize("kind", ["scp", None])
@pytest.mark.parametrize("launched", [True, False])
def test_it_ends_while_its_answer_is_held(kind: str | None, launched: bool) -> None:
    with held(kind) as pb:
        if launched:
            pb >> (lambda r: r.listening("p", b"{}"))
            pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> (lambda r: r.closed("p", gone(1)))
        pb << ("client", error(7, -32603, "it exited\nhint: look", {"exitCode": 1}))
        pb << ("client", error(8, -32603, "it exited\nhint: look", {"exitCode": 1}))
        pb << Fail("p", gone(1))
        if not launched:
            pb >> (lambda r: r.listening("p", b"{}"))
            pb >> (lambda r: r.closed("p/successor", gone(None)))


@pytest.mark.parametrize("late", [result(4, {}), error(4, -32000, "no shims")])
def test_one_that_passes_over_scp_is_sacp_or_pacp(late: Json) -> None:
    with held(None) as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(4, "_scp/proxy", {"servers": [{}]}))
        pb >> (lambda r: r.not_launching("p"))
        pb << Noted("warning", "p", "did not answer `_scp/proxy`")
        pb << ("p", request(5, "_x")) << ("client", result(7, ANSWER))
        pb >> (lambda r: r.not_launching("p")) >> ("p", late)
        nested = {"message": {"method": "_x"}}
        pb >> ("p", request("q", "_proxy/successor/send/request", nested))
        pb << ("agent", request(1, "_x"))


@pytest.mark.parametrize("kind", ["scp", None])
def test_an_scp_proxy_may_take_its_time(kind: str | None) -> None:
    with held(kind) as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        if kind is None:
            pb >> ("p/successor", request(1, "initialize", OFFER))
            pb << ("agent", request(1, "initialize", V1))
        pb >> (lambda r: r.not_launching("p"))
        pb >> ("p", result(Hole("l"), {}))
        if kind is None:
            pb >> ("agent", result(1, OK)) << ("p/successor", result(1, OK))
        else:
            pb << Noted("warning", "p", "without forwarding it")
        pb << ("p", request(Hole("x"), "_x"))
        pb << ("client", result(7, OK if kind is None else ANSWER))
        pb >> (lambda r: r.not_launching("p"))


def test_an_scp_proxy_that_initializes_no_successor_answers_for_itself() -> None:
    with held("scp") as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", result(Hole("l"), 5))
        pb >> (lambda r: r.not_launching("p")) << Noted("warning", "p", "without forwarding it")
        pb << ("p", request(Hole("x"), "_x")) << ("client", result(7, ANSWER))


@pytest.mark.parametrize("how", ["result", "error"])
def test_the_agents_refusal_goes_back_through_an_scp_proxy(how: str) -> None:
    with held("scp") as pb:
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> ("p/successor", request(1, "initialize", OFFER))
        pb << ("agent", request(1, "initialize", V1))
        pb >> ("agent", error(1, -32000, "no")) << ("p/successor", error(1, -32000, "no"))
        pb >> ("p", result(Hole("l"), {}) if how == "result" else error(Hole("l"), -32603, "sorry"))
        pb << ("p", request(Hole("x"), "_x")) << ("client", error(7, -32000, "no"))


AGENTS: dict[str, Any] = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True, "fork": False, "audio": {"in": True}},
    "agentInfo": {"name": "a"},
}
OWN: dict[str, Any] = {
    "protocolVersion": 2,
    "agentCapabilities": {"_meta": FLAG, "loadSession": False, "fork": {}, "audio": {"out": 1}},
    "agentInfo": {"title": "p"},
    "capabilities": {"of": "version 2"},
    "info": {"name": "p", "version": "2"},
    "_meta": {"p": 1},
    "_p": 1,
}
COMPOSED: dict[str, Any] = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "fork": {},
        "audio": {"in": True, "out": 1},
    },
    "agentInfo": {"name": "a"},
    "_meta": {"p": 1},
    "_p": 1,
}


@pytest.mark.parametrize(
    ("own", "launched", "whole"),
    [
        (ECHO, {}, AGENTS),
        (ECHO, [AGENTS], AGENTS),
        (OWN, None, COMPOSED),
        (ECHO, {"protocolVersion": 1, "agentCapabilities": {"more": 1}, "_p": 2},
         {"protocolVersion": 1, "agentCapabilities": {"more": 1}, "_p": 2}),
        ({**ECHO, "_meta": {"a": {"b": {"c": {"d": {"e": 1}}}}, "z": 1}},
         {"protocolVersion": 1, "_meta": {"a": {"b": {"c": {"d": {"f": 1}}}}, "z": [1]}},
         {"protocolVersion": 1, "_meta": {"a": {"b": {"c": {"d": {"f": 1}}}}, "z": [1]},}),
    ],
)  # fmt: skip
def test_an_scp_proxy_adds_to_what_its_successor_can(own: Json, launched: Any, whole: Json) -> None:
    """The proxy's report on its successor after the launch counts; else the successor's answer."""
    with agent_mode("scp") as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "initialize", OFFER))
        pb >> ("p", result(1, own)) << Listen("p")
        pb >> (lambda r: r.listening("p", b"{}"))
        pb << ("p", request(Hole("l"), "_scp/proxy", {"servers": [{}]}))
        pb >> ("p", result(Hole("l"), launched))  # before it has initialized the successor
        pb >> ("p/successor", request(1, "initialize", OFFER))
        pb << ("agent", request(1, "initialize", V1))
        pb >> ("agent", result(1, AGENTS)) << ("p/successor", result(1, AGENTS))
        pb << ("client", result(7, whole))


# -- proxy mode ----------------------------------------------------------------------------------

ENVELOPES = {
    "acp": ("proxy/initialize", "proxy/successor", "proxy/successor"),
    "sdk": ("_proxy/initialize", "_proxy/successor", "_proxy/successor"),
    "sacp": ("initialize", "_proxy/successor/request", "_proxy/successor/request"),
    "pacp": ("initialize", "_proxy/successor/send/request", "_proxy/successor/receive/request"),
}


@pytest.mark.parametrize("kind", ENVELOPES)
@pytest.mark.parametrize("mode", ["proxy", "auto"])
@pytest.mark.parametrize("told", [True, False])
def test_proxy_mode_for_every_outer_dialect(kind: str, mode: str, told: bool) -> None:
    role, down, up = ENVELOPES[kind]
    offers = role == "initialize"

    def env(params: dict[str, Any]) -> dict[str, Any]:
        return {"message": params} if kind == "pacp" else params

    router = Router(
        [component("p", "acp")],
        mode,
        options=RouterOptions(upstream=DIALECTS[kind] if told else None),
    )
    with Playbook(router) as pb:
        pb >> ("client", request(7, role, OFFER if offers else V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        pb >> ("p", wrapped("f", "initialize", V1))
        if kind == "pacp" and not told:
            pb << ("client", wrapped(1, "initialize", V1, "_proxy/successor/request"))
            pb >> ("client", error(1, -32601, "no such method"))
            pb << ("client", request(2, down, env({"method": "initialize", "params": V1})))
            pb >> ("client", result(2, OK)) << ("p", result("f", OK))
        else:
            pb << ("client", request(1, down, env({"method": "initialize", "params": V1})))
            pb >> ("client", result(1, OK)) << ("p", result("f", OK))
        pb >> ("p", result(1, OK)) << ("client", result(7, Hole("answer")))
        assert ("proxy" in str(pb.values["answer"])) is offers
        pb >> ("client", request(8, up, env({"method": "_up", "params": [1]})))
        pb << ("p", wrapped(2, "_up", [1]))
        pb >> ("p", result(2, 5)) << ("client", result(8, 5))
        pb >> ("p", request("u", "_plain")) << ("client", request(Hole("plain"), "_plain"))


def test_proxy_mode_over_sides() -> None:
    with proxy_mode("acp", "channel") as pb:
        pb >> ("client", "p", request(7, "initialize", V1))
        pb << ("p", request(7, "proxy/initialize", V1))
        pb >> ("p", wrapped("f", "initialize", V1))
        pb << ("client", "s", request(Hole("i"), "initialize", V1))
        pb >> ("client", "s", result(Hole("i"), OK)) << ("p", result("f", OK))
        pb >> ("p", result(7, OK)) << ("client", "p", result(7, OK))
        pb >> ("client", "p", request(8, "proxy/initialize", V1))
        pb << ("client", "p", error(8, -32600, "on side p it is plain `initialize`"))
        pb >> ("client", "s", request(8, "initialize", V1))
        pb << ("client", "s", error(8, -32600, "`initialize` comes from the predecessor only"))


def test_a_proxy_is_not_initialized_like_an_agent() -> None:
    with proxy_mode("acp") as pb:
        pb >> ("client", request(1, "initialize", V1))
        pb << ("client", error(1, -32600, "proxies must be initialized with `proxy/initialize`"))
        pb >> ("client", request(2, "_x"))
        pb << ("client", error(2, -32600, "expected `proxy/initialize` request"))
        pb >> ("p", wrapped(1, "_x", [])) << ("p", error(1, -32600, Hole("text")))
        assert pb.values["text"] == "the outer conductor has not been initialized"


def test_an_empty_chain_of_proxies_joins_the_outer_sides() -> None:
    with Playbook(Router([], "proxy")) as pb:
        pb >> ("client", request(7, "proxy/initialize", V1))
        pb << ("client", wrapped(1, "initialize", V1))
        pb >> ("client", result(1, OK)) << ("client", result(7, OK))
        pb >> ("client", wrapped(8, "_up", {})) << ("client", request(2, "_up", {}))


def test_the_first_request_settles_the_mode() -> None:
    with Playbook(Router([component("p", "acp"), Component("z")], "auto")) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        assert pb.router.mode == "agent"
        pb >> ("client", request(8, "proxy/initialize", V1))
        pb << ("client", error(8, -32600, ONLY.format("proxy/initialize")))
