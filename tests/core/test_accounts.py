"""The limits of a component where its messages pass: accounts, and requests that stay open."""

import msgspec
import pytest

from conductor.core import DIALECTS, Closure, Component
from conductor.core.accounts import BURST, FAR, FLOOD, Account, Allowance
from conductor.core.policy.rules import Grants, Policy
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    V1,
    agent_mode,
    agent_only,
    begin,
    begin_acp,
    error,
    notification,
    request,
    result,
)
from tests.harness.router.rules import held, policy_of


def test_what_is_own_waits_for_time_and_for_messages() -> None:
    account = Account("p", Allowance(own_share=10, own_messages=100))
    account.spend_time(10 * BURST / 100 + 1, 0)
    assert account.due(0) == pytest.approx(10)
    assert account.due(10) == pytest.approx(0)
    account.spend_messages(int(100 * BURST) + 20, 30 << 10, 10)  # each KiB counts as one more
    assert account.due(10) == pytest.approx(0.5)
    assert not account.floods(10)
    account.spend_messages(100 * FLOOD, 0, 10)
    assert account.floods(10)


def test_a_component_that_is_started_again_owes_nothing_and_has_nothing_in_reserve() -> None:
    account = Account("p", Allowance(own_share=10, own_messages=100))
    account.spend_time(1000, 0)
    account.spend_messages(1_000_000, 0, 0)
    account.begin_anew(1)
    assert account.due(1) == 0
    assert not account.floods(1)
    account.spend_messages(101, 0, 1)
    assert account.due(1) == pytest.approx(1.01)


def test_a_message_from_outside_causes_so_many_deliveries_and_then_it_is_ones_own() -> None:
    outside, p, q = Account(""), Account("p"), Account("q")
    cause = outside.caused[FAR]
    for left in range(FAR - 1, 0, -1):
        cause = cause.passed(p if left % 2 else q, more=False)
        assert cause.left == left
    own = cause.passed(p, more=False)
    assert (own.left, own.account) == (0, p)
    assert own.passed(q, more=False) is own
    assert own.passed(q, more=True) is q.caused[0]
    assert own.answered(q) is own


def test_who_answers_itself_is_on_its_own_sooner() -> None:
    outside, p = Account(""), Account("p")
    cause, rounds = outside.caused[FAR], 0
    while cause.left:
        cause = cause.answered(p)
        rounds += 1
    assert rounds == FAR.bit_length()
    assert cause.account is p


def test_a_full_account() -> None:
    account = Account("p", Allowance(waiting_bytes=10))
    account.waiting = 10
    assert not account.full
    account.waiting = 11
    assert account.full


# -- requests that stay open ---------------------------------------------------------------------


def _limited(**limits: int) -> Playbook:
    with agent_mode("acp") as pb:
        peer = pb.router.peers["p"]
        allowed = Allowance(**limits)
        peer.component = msgspec.structs.replace(peer.component, allowance=allowed)
    return pb


def _asked(pb: Playbook, number: int, params: object = None) -> None:
    pb >> ("p", request(number, "fs/read", params or {}))
    pb << ("client", request(Hole(f"c{number}"), "fs/read", params or {}))


def test_a_component_has_so_many_requests_open() -> None:
    with begin_acp(_limited(open_requests=2)) as pb:
        _asked(pb, 1)
        _asked(pb, 2)
        pb >> ("p", request(3, "fs/read", {})) << Noted("warning", "p", "open_requests")
        pb << ("p", error(3, -32600, Hole("text")))
        assert "2 of its requests have no answer yet\nhint: " in pb.values["text"]
        pb >> ("client", result(Hole("c1"), 1)) << ("p", result(1, 1))
        _asked(pb, 4)


def test_and_so_many_bytes_of_them() -> None:
    with begin_acp(_limited(open_bytes=100)) as pb:
        _asked(pb, 1, {"a": "x" * 1000})  # one alone may always be sent
        pb >> ("p", request(2, "fs/read", {"a": 1})) << Noted("warning", "p", "open_bytes")
        pb << ("p", error(2, -32600, Hole("text")))
        size = pb.router.peers["p"].p.requests.size
        assert size > 1000
        assert f"{size:,} bytes of its requests" in pb.values["text"]
        pb >> ("client", error(Hole("c1"), 1, "no")) << ("p", error(1, 1, "no"))
        _asked(pb, 3, {"a": 1})


def test_what_it_carries_it_may_always_pass_on() -> None:
    full = policy_of("full", grants=Grants(methods=("_x",)))
    with begin_acp(_judged(full, open_requests=1)) as pb:
        pb >> ("p", request(99, "_x", {})) << ("client", request(Hole("x"), "_x", {}))
        pb >> ("p", request(98, "_x", {})) << Noted("warning", "p", "open_requests")
        pb << ("p", error(98, -32600, Hole("text")))
        pb >> ("client", request(1, "session/list", {}))
        pb << ("p", request(Hole("l"), "session/list", {}))
        passed = {"method": "session/list", "params": {}}
        pb >> ("p", request(Hole("l"), "proxy/successor", passed))
        pb << ("agent", request(Hole("a"), "session/list", {}))


def test_what_a_guest_without_a_policy_was_given_it_may_always_pass_on() -> None:
    allowed = Allowance(open_requests=1)
    guest = Component("p", dialect=DIALECTS["channel"], allowance=allowed)
    with Playbook(Router([guest, Component("agent")], "agent")) as pb:
        pb >> ("client", request(0, "initialize", V1)) << ("p", "p", request(1, "initialize", V1))
        pb >> ("p", "s", request(1, "initialize", V1)) << ("agent", request(1, "initialize", V1))
        for number in (2, 3):
            pb >> ("client", request(number, "_x", {})) << ("p", "p", request(number, "_x", {}))
        for number in (2, 3):
            pb >> ("p", "s", request(number, "_x", {})) << ("agent", request(number, "_x", {}))
        pb >> ("p", "s", request(9, "_x", {})) << Noted("warning", "p", "open_requests")
        pb << ("p", "s", error(9, -32600, Hole("text")))


def test_the_client_may_ask_as_much_as_it_likes() -> None:
    with begin(agent_only()) as pb:
        peer = pb.router.upstream if hasattr(pb.router, "upstream") else pb.router.peers["client"]
        none = Allowance(open_requests=1, open_bytes=1)
        peer.component = msgspec.structs.replace(peer.component, allowance=none)
        for number in range(5):
            pb >> ("client", request(number, "session/list", {"a": 1}))
            pb << ("agent", request(Hole(f"a{number}"), "session/list", {"a": 1}))


def test_what_was_open_is_forgotten_with_its_component() -> None:
    with begin_acp(_limited(open_bytes=100)) as pb:
        _asked(pb, 1, {"a": "x" * 1000})
        link = pb.router.peers["p"].p.requests
        assert link.size > 1000
        pb.router.leaving("p", Closure("gone"))
        assert link.size == 0


def test_ids_and_methods_are_short() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request("x" * 1030, "fs/read", {})) << Noted("warning", "p", "1024 bytes")
        pb << ("p", error(None, -32600, Hole("text")))
        pb >> ("p", notification("_" + "x" * 1030, {})) << Noted("warning", "p", "1024 characters")
        pb >> ("p", request(7, "_" + "x" * 1030, {})) << Noted("warning", "p", "1024 characters")
        pb << ("p", error(7, -32600, Hole("method")))
        pb >> ("client", request("x" * 1030, "session/list", {}))
        pb << Noted("warning", "client", "1024 bytes") << ("client", error(None, -32600, Hole("c")))


def test_an_array_holds_so_many_messages() -> None:
    with begin(agent_only()) as pb:
        few = [notification("session/cancel", {})] * 1000
        pb >> ("client", few)
        for _ in few:
            pb << ("agent", notification("session/cancel", {}))
        pb >> ("client", [*few, few[0]]) << Noted("warning", "client", "1000 messages")
        pb << ("client", error(None, -32600, Hole("text")))
        assert pb.values["text"] == "an array has at most 1000 messages, this one has 1001"


# -- messages too costly to judge ----------------------------------------------------------------


def _judged(policy: Policy | None, **limits: int) -> Playbook:
    allowed = Allowance(json_values=50, **limits)
    p = Component("p", dialect=DIALECTS["acp"], policy=policy, allowance=allowed)
    return Playbook(Router([p, Component("agent")], "agent"))


def test_a_line_with_too_many_values_is_skipped_before_it_is_judged() -> None:
    many = {"list": [1] * 100}
    with begin_acp(_judged(held("full"))) as pb:
        pb >> ("p", request(1, "fs/read", many)) << Noted("warning", "p", "limit json_values")
        pb << ("p", error(1, -32600, Hole("text")))
        assert "\nhint: raise the component's json_values" in pb.values["text"]
        pb >> ("p", notification("_x", many)) << Noted("warning", "p", "50 JSON values")


def test_an_answer_with_too_many_values_is_none() -> None:
    with begin_acp(_judged(held("full"))) as pb:
        pb >> ("client", request(1, "session/list", V1))
        pb << ("p", request(Hole("l"), "session/list", V1))
        pb >> ("p", result(Hole("l"), {"list": [1] * 100})) << Noted("warning", "p", "json_values")
        pb << Noted("warning", "p", "it failed at `session/list`")
        pb << ("agent", request(Hole("a"), "session/list", V1))
        pb >> ("agent", result(Hole("a"), {})) << ("client", result(1, {}))


# -- messages that wait for a component that is not ready ----------------------------------------


def test_so_much_waits_for_a_component_that_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.core.state._MOST_WAITING_BYTES", 20)
    router = Router([Component("p"), Component("agent")], "agent")
    with Playbook(router) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(Hole("i"), "proxy/initialize", V1))
        pb >> ("client", notification("_a", {"a": 1}))
        pb >> ("client", notification("_b", {"b": 1}))
        pb >> ("client", notification("_c", {"c": 1}))
        pb << Noted("warning", "client", "`_c` dropped: `p` is not ready, and too much waits")
        assert 0 < router.peers["p"].backlog_bytes <= 20
