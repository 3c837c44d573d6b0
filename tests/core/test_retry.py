"""A proxy that ends before it has taken its role is started again, and gets the same request."""

import pytest

from conductor.core import DIALECTS, Closure, Component, Reopen
from conductor.core.policy.rules import Policy
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Playbook
from tests.harness.router.plays import OK, V1, error, notification, request, result

GONE = Closure("p has ended", "look", {"exitCode": 3})
DOWN = "proxy/successor"


def before(kind: str | None = "acp", policy: Policy | None = None) -> Playbook:
    """A client, one proxy `p`, an agent; nobody has said a word."""
    dialect = DIALECTS[kind] if kind else None
    proxy = Component("p", "proxy `p`", dialect, policy=policy)
    return Playbook(Router([proxy, Component("agent", "agent `agent`")]))


def initialized(pb: Playbook, asked: str = "p") -> None:
    """The proxy, asked to take its role, takes it, and the client is answered."""
    pb >> ("p", request("f", DOWN, {"method": "initialize", "params": V1}))
    pb << ("agent", request(Hole("a"), "initialize", V1))
    pb >> ("agent", result(Hole("a"), OK)) << ("p", result("f", OK))
    pb >> ("p", result(Hole(asked), OK)) << ("client", result(1, OK))


def test_it_is_asked_again() -> None:
    with before() as pb:
        pb >> ("client", request(1, "initialize", V1))
        pb << ("p", request(Hole("first"), "proxy/initialize", V1))
        pb >> ("client", notification("_n"))  # meanwhile
        pb << ("p", notification("_n"))
        assert pb.router.may_retry("p")
        pb >> (lambda router: router.leaving("p", GONE))
        pb >> ("client", notification("_m"))
        pb >> (lambda router: router.returned("p"))
        pb << ("p", request(Hole("p"), "proxy/initialize", V1)) << ("p", notification("_m"))
        initialized(pb)
        assert not pb.router.may_retry("p")
        assert pb.router.has_role("p")


def test_it_ends_before_anybody_asks() -> None:
    with before() as pb:
        assert pb.router.may_retry("p")
        pb >> (lambda router: router.leaving("p", GONE))
        pb >> ("client", request(1, "initialize", V1))
        pb >> (lambda router: router.leaving("p", GONE))  # and once more
        pb >> (lambda router: router.returned("p"))
        pb << ("p", request(Hole("p"), "proxy/initialize", V1))
        initialized(pb)


def test_whoever_asked_has_left_meanwhile() -> None:
    with before() as pb:
        pb >> ("client", request(1, "initialize", V1))
        pb << ("p", request(Hole("first"), "proxy/initialize", V1))
        pb >> (lambda router: router.leaving("p", GONE))
        pb >> (lambda router: router.closed("client", Closure("it left")))
        pb >> (lambda router: router.returned("p"))


@pytest.mark.parametrize("retried", [False, True])
def test_one_whose_dialect_is_not_known_is_reopened_first(retried: bool) -> None:
    """The proxy may have ended over the request itself: its next instance gets another request
    first, and then this request again."""
    with before(None) as pb:
        pb >> ("client", request(1, "initialize", V1))
        pb << ("p", request(Hole("first"), "proxy/initialize", V1))
        assert not pb.router.may_retry("p")
        pb >> (lambda router: router.closed("p", GONE)) << Reopen("p")
        pb >> (lambda router: router.reopened("p"))
        pb << ("p", request(Hole("p"), "_proxy/initialize", V1))
        assert pb.router.may_retry("p")
        if retried:
            pb >> (lambda router: router.leaving("p", GONE))
            pb >> (lambda router: router.returned("p"))
            pb << ("p", request(Hole("p2"), "proxy/initialize", V1))
            initialized(pb, "p2")
        else:
            # Its dialect is that of the request over which it ended: it passes on a role it does
            # not know.
            role = {"method": "_proxy/initialize", "params": V1}
            pb >> ("p", request("u", DOWN, role))
            text = "Method not found: `_proxy/initialize`"
            pb << ("p", error("u", -32601, Hole("why")))
            pb >> ("p", error(Hole("p"), -32601, text))
            pb << ("p", request(Hole("p3"), "proxy/initialize", V1))
            initialized(pb, "p3")
