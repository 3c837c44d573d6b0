"""What proxies may ask of the conductor itself."""

from __future__ import annotations

import pytest

from conductor.core import Closure, Component, Fail, Router, Serve
from conductor.core.router import LAST_WORDS
from tests.core.plays import (
    V1,
    agent_mode,
    agent_only,
    begin_acp,
    component,
    error,
    notification,
    proxy_mode,
    request,
    result,
)
from tests.playbook import Hole, Noted, Playbook


def test_a_guest_asks_on_side_c() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("p", "c", request(1, "clock", {"a": 1.5})) << Serve("p", "clock", 1, b'{"a": 1.5}')
        pb >> ("p", "c", request(1, "clock")) << Noted("warning", "p", "still in use")
        pb << ("p", "c", error(None, -32600, "request id 1 is still in use"))
        pb >> ("p", "c", notification("log", {})) << Serve("p", "log", None, b"{}")
        pb >> (lambda r: r.served(1, b'{"iso": 1.10}'))
        pb << ("p", b'c{"jsonrpc":"2.0","id":1,"result":{"iso": 1.10}}')
        pb >> ("p", "c", request(1, "random")) << Serve("p", "random", 2, None)
        pb >> (lambda r: r.served(2, None, b'{"code":1,"message":"x"}'))
        pb << ("p", "c", error(1, 1, "x"))
        pb >> ("p", "c", request(1.5, "clock")) << Noted("warning", "p", "request id")
        pb << ("p", "c", error(None, -32600, Hole("text")))


def test_others_ask_by_method_and_the_answer_keeps_to_their_side() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("p", "s", request(1, "_conductor/clock")) << Serve("p", "clock", 1, None)
        assert pb.router.pending("p") == 1
        pb >> (lambda r: r.served(1, b"5")) << ("p", "s", result(1, 5))
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "_conductor/clock")) << Serve("p", "clock", 1, None)
        pb >> ("p", request(2, "proxy/successor", {"method": "_conductor/log"}))
        pb << Serve("p", "log", 2, None)
        pb >> (lambda r: r.served(2, b"null")) << ("p", result(2, None))
        pb >> (lambda r: r.served(1, None)) << ("p", error(1, -32603, Hole("text")))
        assert pb.values["text"] == "service `_conductor/clock` had no answer"
        pb >> ("p", notification("_conductor/log", [])) << Serve("p", "log", None, b"[]")


def test_a_service_within_a_batch() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", [request(1, "_conductor/clock"), request(2, "_conductor/nothing")])
        pb << Serve("p", "clock", 1, None) << Noted("info", "p", "no service `nothing`")
        pb >> (lambda r: r.served(1, b"5"))
        pb << ("p", [error(2, -32601, Hole("text"), {"service": "nothing"}), result(1, 5)])


def test_who_asked_is_gone() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "_conductor/clock")) << Serve("p", "clock", 1, None)
        pb >> (lambda r: r.closed("p", Closure("gone"))) << Fail("p", Closure("gone"))
        pb >> (lambda r: r.served(1, b"5"))


def granted(*names: str) -> Router:
    one = component("p", "channel", services=frozenset(names))
    return Router([one, Component("agent")])


@pytest.mark.parametrize(
    ("services", "name", "text"),
    [
        ((), "clock", "is not granted to proxy `p`\nhint: grant it with `p,grant=clock`"),
        (("random",), "clock", "is not granted"),
        (("clock",), "fetch", "no service `fetch`"),
        ((), LAST_WORDS, "no service `failed`"),
        ((), "$/cancel_request", "no service"),
    ],
)
def test_ungranted_services_are_refused_by_name(
    services: tuple[str, ...], name: str, text: str
) -> None:
    with Playbook(granted(*services)) as pb:
        pb >> ("p", "c", request(1, name)) << Noted("info", "p", text)
        pb << ("p", "c", error(1, -32601, Hole("text"), {"service": name}))
        assert text in pb.values["text"]
        pb >> ("p", "c", notification(name)) << Noted("info", "p", text)


@pytest.mark.parametrize(
    ("services", "name"), [((), "log"), (("clock",), "clock"), ((LAST_WORDS,), LAST_WORDS)]
)
def test_granted_services_are_served(services: tuple[str, ...], name: str) -> None:
    with Playbook(granted(*services)) as pb:
        pb >> ("p", "c", notification(name)) << Serve("p", name, None, None)


def test_all_is_granted_where_nothing_is_said_except_last_words() -> None:
    with agent_mode("acp") as pb:
        pb >> ("p", notification("_conductor/random")) << Serve("p", "random", None, None)
        pb >> ("p", notification("_conductor/failed")) << Noted("info", "p", "no service")


@pytest.mark.parametrize("peer", ["client", "agent"])
def test_the_ends_may_not_ask(peer: str) -> None:
    with agent_only() as pb:
        text = "Method not found: `_conductor/clock` is for proxies only"
        pb >> (peer, request(1, "_conductor/clock", {})) << Noted("info", peer, text)
        pb << (peer, error(1, -32601, text, {"service": "clock"}))
        pb >> (peer, notification("_conductor/clock")) << Noted("info", peer, text)


def test_configuration_comes_first() -> None:
    told = b'{"a":1.10}'
    router = Router(
        [component("g", "channel", configure=told), component("p", None, configure=told)], "proxy"
    )
    with Playbook(router) as pb:
        pb >> (lambda r: r.start())
        pb << ("g", b'c{"jsonrpc":"2.0","method":"configure","params":{"a":1.10}}')
        pb << ("p", b'{"jsonrpc":"2.0","method":"_conductor/configure","params":{"a":1.10}}')
        (
            pb
            >> ("client", request(1, "proxy/initialize", V1))
            << ("g", "p", request(1, "initialize", V1))
        )
