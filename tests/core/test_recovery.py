"""Proxies that leave and return, that are bypassed, and requests that nobody answers."""

from conductor.core import Closure, Component, Fail
from conductor.core.router import Router
from tests.harness.router.playbook import Playbook
from tests.harness.router.plays import (
    OK,
    V1,
    agent_mode,
    begin_acp,
    error,
    notification,
    request,
    result,
)

GONE = Closure("proxy `p` died", "start it again", {"component": "p"})
TEXT = "proxy `p` died\nhint: start it again"
DATA = {"component": "p"}


def envelope(id_: object, method: str) -> dict[str, object]:
    """A request in an envelope, as the conductor writes it."""
    return request(id_, "proxy/successor", {"method": method})


def test_a_proxy_leaves_and_returns_while_its_neighbours_go_on() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        assert pb.router.has_role("p")
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("p", request("q", "proxy/successor", {"method": "_x"}))
        pb << ("agent", request(2, "_x"))
        assert pb.router.waiting_on("p")
        pb >> (lambda r: r.leaving("p", GONE))
        pb << ("client", error("c", -32603, TEXT, DATA))
        pb << ("agent", notification("$/cancel_request", {"requestId": 2}))
        pb >> ("agent", result(2, "too late"))
        # New messages wait, from both sides.
        pb >> ("client", request("d", "_y"))
        pb >> ("agent", notification("_n"))
        pb >> (lambda r: r.leaving("p", GONE))
        assert pb.router.has_role("p")
        pb >> (lambda r: r.returned("p")) << ("p", request(3, "proxy/initialize", V1))
        pb >> ("p", request("r", "proxy/successor", {"method": "initialize", "params": V1}))
        pb << ("p", result("r", OK))
        pb >> ("p", result(3, OK))
        pb << ("p", request(4, "_y"))
        pb << ("p", notification("proxy/successor", {"method": "_n"}))
        pb >> ("p", result(4, 1)) << ("client", result("d", 1))
        assert not pb.router.waiting_on("p")
        # A repeated `initialize` is the real one again.
        pb >> ("client", request("i2", "initialize", V1))
        pb << ("p", request(5, "proxy/initialize", V1))
        pb >> ("p", request("s", "proxy/successor", {"method": "initialize", "params": V1}))
        pb << ("agent", request(3, "initialize", V1))


def test_a_proxy_that_had_no_role_yet_returns_as_it_was() -> None:
    with agent_mode("acp") as pb:
        assert not pb.router.has_role("p")
        pb >> (lambda r: r.leaving("p", GONE))
        pb >> (lambda r: r.returned("p"))
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        # The proxy ends amid its handshake: the client waits, and the proxy is asked again.
        pb >> (lambda r: r.leaving("p", GONE))
        pb >> (lambda r: r.returned("p")) << ("p", request(2, "proxy/initialize", V1))


def test_a_proxy_is_bypassed() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> (lambda r: r.bypassed("p", GONE)) << ("client", error("c", -32603, TEXT, DATA))
        pb >> (lambda r: r.bypassed("p", GONE))
        pb >> (lambda r: r.leaving("p", GONE))
        pb >> ("client", request("d", "_y")) << ("agent", request(2, "_y"))
        pb >> ("agent", notification("_n")) << ("client", notification("_n"))
        pb >> ("agent", result(2, 1)) << ("client", result("d", 1))
        pb >> ("p", notification("_late"))


def test_a_chain_does_not_do_without_a_proxy_that_failed_before_its_client_came() -> None:
    components = [Component("p", "proxy `p`"), Component("agent")]
    with Playbook(Router(components, "auto")) as pb:
        pb >> (lambda r: r.closed("p", GONE)) << Fail("p", GONE)
        pb >> ("client", request("i", "initialize", V1))
        pb << ("client", error("i", -32603, TEXT, DATA))


def overdue(pb: Playbook) -> Closure | None:
    """Fails open requests; returns the first reason."""
    reason, effects = pb.router.overdue("in time", "wait longer")
    pb >> (lambda _: effects)
    return reason


def test_overdue_requests_name_who_holds_them() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        assert overdue(pb) is None
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("client", request("d", "_y")) << ("p", request(3, "_y"))
        pb >> ("p", request("q", "proxy/successor", {"method": "_y"}))
        pb << ("agent", request(2, "_y"))
        reason = overdue(pb)
        assert reason is not None
        assert reason.text == "proxy `p` did not answer `_x` in time"
        text = "proxy `p` did not answer `_x` in time\nhint: wait longer"
        pb << ("client", error("c", -32603, text, {"component": "p"}))
        text = "agent `agent` did not answer `_y` in time\nhint: wait longer"
        pb << ("client", error("d", -32603, text, {"component": "agent"}))


def test_overdue_requests_that_went_nowhere_or_round_in_circles() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("p", request("q", "proxy/successor", {"method": "_x"}))
        pb << ("agent", request(2, "_x"))
        # The agent asks the same thing back, and the proxy is asked again.
        pb >> ("agent", request("a", "_x"))
        pb << ("p", request(3, "proxy/successor", {"method": "_x"}))
        reason = overdue(pb)
        assert reason is not None
        text = "proxy `p` did not answer `_x` in time\nhint: wait longer"
        pb << ("client", error("c", -32603, text, {"component": "p"}))
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.leaving("p", GONE))
        pb >> ("client", request("c", "_x"))
        reason = overdue(pb)
        text = "the chain did not answer `_x` in time\nhint: wait longer"
        pb << ("client", error("c", -32603, text))


def test_what_the_agent_asks_the_client_is_the_clients_to_answer() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("p", request("u", "_x")) << ("client", request(1, "_x"))
        reason = overdue(pb)
        assert reason is not None
        text = "proxy `p` did not answer `_x` in time\nhint: wait longer"
        pb << ("client", error("c", -32603, text, {"component": "p"}))
