"""Peers that end, chains that are given up, and frames that are too long."""

import pytest

from conductor.core import Closure, Component, Fail
from conductor.core.router import Router
from tests.harness.router.playbook import Noted, Playbook
from tests.harness.router.plays import (
    V1,
    agent_mode,
    agent_only,
    begin,
    component,
    error,
    notification,
    proxy_mode,
    request,
)

BARE = Closure("it ended")


def cancel(id_: object) -> dict[str, object]:
    return notification("$/cancel_request", {"requestId": id_})


def test_only_the_first_end_fails_the_chain() -> None:
    with Playbook(Router([component("p", "acp"), Component("z")])) as pb:
        pb >> (lambda r: r.closed("z", BARE)) << Fail("z", BARE)
        pb >> (lambda r: r.closed("p", BARE))


def test_who_waits_for_a_peer_that_is_not_ready_ends() -> None:
    with agent_mode(None) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(8, "_x")) >> ("client", request(9, "initialize", V1))
        pb >> (lambda r: r.closed("client", BARE)) << ("p", cancel(1))
        wrapped = {"method": "_y"}
        pb >> ("p", request("f", "proxy/successor", wrapped))
        pb << ("p", request(2, "proxy/initialize", V1)) << ("p", cancel(2))
        pb << ("agent", request(1, "_y"))


# -- frames that are too long --------------------------------------------------------------------


@pytest.mark.parametrize("member", [b'"result":{"a":"', b'"error" : {'])
def test_an_answer_that_was_skipped_fails_its_request(member: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request("c", "_x")) << ("agent", request(2, "_x"))
        head = b'{"jsonrpc":"2.0","id":2,' + member
        pb >> (lambda r: r.skipped("agent", head, "too long"))
        text = "the answer of agent `agent` to `_x` was lost: too long"
        pb << ("client", error("c", -32603, text, {"component": "agent"}))
        pb >> (lambda r: r.skipped("agent", head, "too long"))


@pytest.mark.parametrize("last", [False, True], ids=["id first", "id last"])
def test_what_nests_too_deeply_is_answered_under_its_id(last: bool) -> None:
    deep, why = b"[" * 600 + b"]" * 600, "message nests deeper than 512 levels"
    hint = f"{why}\nhint: send the deep value as a text, or in fewer levels"

    def line(id_: bytes, member: bytes) -> bytes:
        return b'{%b:%b,"id":%b}' % (member, deep, id_) if last else b'{"id":%b,%b:%b}' % (
            id_, member, deep,
        )  # fmt: skip

    with begin(agent_only()) as pb:
        pb >> ("client", request("c", "_x")) << ("agent", request(2, "_x"))
        pb >> (lambda r: r.receive("agent", line(b"2", b'"result"')))
        text = f"the answer of agent `agent` to `_x` was lost: {hint}"
        pb << ("client", error("c", -32603, text, {"component": "agent"}))
        pb << Noted("warning", "agent", why)
        asked = line(b'"a"', b'"method":"_x","params"')
        pb >> (lambda r: r.receive("agent", asked))
        pb << ("agent", error("a", -32600, hint)) << Noted("warning", "agent", why)
        pb >> (lambda r: r.receive("client", asked))
        pb << ("client", error("a", -32600, hint)) << Noted("warning", "client", why)
        pb >> (lambda r: r.receive("agent", b'{"method":"_x","params":%b}' % deep))
        pb << Noted("warning", "agent", why)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"junk",
        b'{"jsonrpc":"2.0","method":"_n","params":{"id":5',
        b'{"id":1.5,"method":"_x"',
        b'{"id":99999999999999999999,"method":"_x"',
        b'{"params":{',
        b'{"id":"\\ud8',
    ],
)
def test_what_cannot_be_told_is_dropped(head: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> (lambda r: r.skipped("client", head, "too long"))


def test_a_request_that_cannot_be_delivered_is_answered() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("client", "p", request(5, "initialize", V1))
        pb << ("p", "p", request(5, "initialize", V1))
        frame = b'p{"jsonrpc":"2.0","id":5,"method":"initialize"}\n'
        pb >> (lambda r: r.undeliverable("p", frame, "too big"))
        pb << Noted("warning", "p", "not delivered: too big")
        text = "proxy `p` was not given `initialize`: too big"
        pb << ("client", "p", error(5, -32600, text, {"component": "p"}))
        pb >> (lambda r: r.undeliverable("p", frame, "too big")) << Noted("warning", "p", "not")


def test_an_answer_that_cannot_be_delivered_becomes_a_short_error() -> None:
    short = "the answer could not be delivered"
    why = f"{short}: too big"
    with proxy_mode("channel", "channel") as pb:
        pb >> (
            lambda r: r.undeliverable("p", b's{"jsonrpc":"2.0","id":"a","result":1}\n', "too big")
        )
        pb << Noted("warning", "p", "not") << ("p", "s", error("a", -32603, why))
        frame = b's{"jsonrpc":"2.0","id":"a","error":{"data":[[1]]}}\n'
        pb >> (lambda r: r.undeliverable("p", frame, "too deep")) << Noted("warning", "p", "not")
        pb << ("p", "s", error("a", -32603, short))
        last = b's{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"%b"}}\n'
        last %= short.encode()
        pb >> (lambda r: r.undeliverable("p", last, "gone")) << Noted("warning", "p", "not")
    with agent_only() as pb:
        frame = b'[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":2,"error":{}}]\n'
        pb >> (lambda r: r.undeliverable("client", frame, "too big"))
        pb << Noted("warning", "client", "not")
        pb << ("client", [error(1, -32603, why), error(2, -32603, short)])


@pytest.mark.parametrize(
    "frame", [b"", b"junk", b"{}", b"[[]]", b'{"jsonrpc":"2.0","method":"_n"}']
)
def test_undeliverable_never_raises(frame: bytes) -> None:
    with agent_only() as pb:
        pb >> (lambda r: r.undeliverable("client", frame, "full"))
        pb << Noted("warning", "client", "not delivered: full")
        if frame in (b"", b"junk"):
            pb << Noted("error", "client", "not JSON")
    router = Router([component("g", "channel")], "proxy")
    assert router.undeliverable("g", frame, "full")
