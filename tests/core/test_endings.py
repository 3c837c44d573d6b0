"""Peers that end, chains that are given up, and frames that are too long."""

from __future__ import annotations

import pytest

from conductor.core import Closure, Component, Fail
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    V1,
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

GONE = Closure("agent `agent` exited with 1", "look at its log", {"exitCode": 1})
TEXT = "agent `agent` exited with 1\nhint: look at its log"
BARE = Closure("it ended")


def cancel(id_: object) -> dict[str, object]:
    return notification("$/cancel_request", {"requestId": id_})


def test_an_agent_ends_with_requests_both_ways() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("p", request("q", "proxy/successor", {"method": "_x"}))
        pb << ("agent", request(2, "_x"))
        pb >> ("agent", request("a", "_up"))
        pb << ("p", request(3, "proxy/successor", {"method": "_up"}))
        pb >> ("agent", request("b", "_up"))
        pb << ("p", request(4, "proxy/successor", {"method": "_up"}))
        pb >> ("agent", cancel("b")) << ("p", cancel(4))
        pb >> (lambda r: r.closed("agent", GONE))
        pb << ("p", error("q", -32603, TEXT, {"exitCode": 1})) << ("p", cancel(3))
        pb << Fail("agent", GONE)
        assert pb.router.pending("agent") == 0
        pb >> (lambda r: r.closed("agent", BARE))
        pb >> ("agent", notification("_late")) >> ("agent", b"junk")
        # What still lives goes on.
        pb >> ("p", error(2, -32603, "sorry")) << ("client", error("c", -32603, "sorry"))
        pb >> ("p", result(3, 1)) >> ("p", result(4, 1))
        pb >> ("p", notification("_n")) << ("client", notification("_n"))
        pb >> ("p", request("r", "proxy/successor", {"method": "_y"}))
        pb << ("p", error("r", -32603, TEXT, {"exitCode": 1}))
        pb >> ("p", notification("proxy/successor", {"method": "_y"}))
        pb << Noted("debug", "p", "agent `agent` is not there for it")
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(5, "proxy/initialize", V1))
        pb >> ("p", request("f", "proxy/successor", {"method": "initialize"}))
        pb << ("p", error("f", -32603, TEXT, {"exitCode": 1}))
        pb >> (lambda r: r.closed("p", BARE))
        pb << ("client", error("i", -32603, "it ended"))


def test_a_client_ends() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request("c", "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", request("a", "_up")) << ("client", request(1, "_up"))
        pb >> (lambda r: r.closed("client", BARE))
        pb << ("agent", error("a", -32603, "it ended")) << ("agent", cancel(2))
        pb >> ("agent", result(2, 1))
        pb >> ("agent", notification("_n")) << Noted("debug", "agent", "the client is not there")


def test_an_outer_conductor_ends_without_failing_the_chain() -> None:
    with proxy_mode("acp") as pb:
        pb >> ("client", request(1, "proxy/initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        pb >> (lambda r: r.closed("client", BARE)) << ("p", cancel(1))


def test_a_target_ends_before_its_asker() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request("c", "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", request("a", "_up")) << ("client", request(1, "_up"))
        pb >> (lambda r: r.closed("agent", BARE))
        pb << ("client", error("c", -32603, "it ended")) << ("client", cancel(1))
        pb << Fail("agent", BARE)
        pb >> ("client", cancel("c"))
        pb >> ("client", request("d", "_x")) << ("client", error("d", -32603, "it ended"))
        pb >> (lambda r: r.closed("client", BARE))


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


def test_what_waited_is_failed_in_order() -> None:
    with agent_mode(None) as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(8, "_x")) >> ("client", notification("_n"))
        pb >> ("client", request(9, "initialize", V1))
        pb >> (lambda r: r.closed("p", BARE))
        for id_ in (7, 8, 9):
            if id_ == 9:
                pb << Noted("debug", "client", "not there")
            pb << ("client", error(id_, -32603, "it ended"))
        pb << Fail("p", BARE)


def test_a_chain_is_abandoned() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request("c", "_x")) << ("agent", request(2, "_x"))
        pb >> ("client", [request("d", "_x")]) << ("agent", request(3, "_x"))
        assert pb.router.pending() == 2
        pb >> (lambda r: r.abandon(BARE))
        pb << ("client", error("c", -32603, "it ended"))
        pb << ("client", [error("d", -32603, "it ended")])
        pb >> ("agent", result(2, 1)) >> (lambda r: r.abandon(BARE))
        assert pb.router.pending() == 0


# -- frames that are too long --------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"_x","params":{"a":"',
        b' { "method" : "_x" , "jsonrpc":"2.0","id" : 7 ,"params":[',
        b'{"id":7,"params":{"result":"',
    ],
)
def test_a_request_that_was_skipped_is_answered(head: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> ("agent", request(1, "_up")) << ("client", request(1, "_up"))
        pb >> (lambda r: r.skipped("client", head, "too long"))
        pb << ("client", error(7, -32600, "too long"))


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
    hint = f"{why}\nhint: send what is deep as a text, or in fewer levels"

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


def test_skipped_on_sides() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("client", "p", request(5, "initialize", V1))
        pb << ("p", "p", request(5, "initialize", V1))
        pb >> ("p", "s", request(1, "_x")) << ("client", "s", request("c1", "_x"))
        head = b'{"jsonrpc":"2.0","id":"c1","result":"'
        pb >> (lambda r: r.skipped("p", b"s" + head, "long"))
        pb >> (lambda r: r.skipped("client", b"s" + head, "long"))
        pb << ("p", "s", error(1, -32603, Hole("text"), {"component": "client"}))
        head = b'{"jsonrpc":"2.0","id":5,"result":"'
        pb >> (lambda r: r.skipped("p", b"p" + head, "long"))
        pb << ("client", "p", error(5, -32603, Hole("init"), {"component": "p"}))
        pb >> (lambda r: r.skipped("p", b'c{"id":1,"method":"log","params":', "long"))
        pb << ("p", "c", error(1, -32600, "long"))


def test_a_lost_role_answer_ends_the_handshake() -> None:
    with agent_mode("acp") as pb:
        pb >> ("client", request(7, "initialize", V1)) << ("p", request(1, "proxy/initialize", V1))
        pb >> (lambda r: r.skipped("p", b'{"id":1,"result":{', "long"))
        pb << ("client", error(7, -32603, Hole("text"), {"component": "p"}))
        assert pb.router.peers["p"].handshake is None


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
