"""Notifications that a component carries: passed on, changed, dropped, delayed, its own."""

from typing import Any

import pytest

from conductor.core import Closure, Component, Fail, Reopen
from conductor.core.policy import entries, notifications
from conductor.core.router import Router
from tests.harness.router.policed import (
    CARRY_TEXT,
    PERMISSION,
    UPDATE,
    V1,
    Hole,
    Json,
    Noted,
    Playbook,
    broke,
    chain,
    chain_of,
    error,
    guest,
    heard,
    lacks,
    notification,
    permission,
    request,
    result,
    settled,
    skip,
    taken,
    tool_call,
    update,
    wrapped,
)

TEXT = "session/update[agent_message_chunk]"
THOUGHT = "session/update[agent_thought_chunk]"
GONE = Closure("proxy `g` died")


def told(pb: Playbook, *texts: str, session: str = "S") -> None:
    """The agent says something, which `g` gets."""
    for text in texts:
        pb >> ("agent", update(text, session)) << ("g", "s", update(text, session))


def thought(text: str) -> Json:
    """A thought of the agent's."""
    return update(text, kind="agent_thought_chunk")


# -- notifications that are passed on --------------------------------------------------------------


def test_equal_bytes_are_the_same_message() -> None:
    with chain(CARRY_TEXT) as pb:
        told(pb, "a", "b", "c", "d")
        for text in ("a", "c", "d"):
            pb >> ("g", "p", update(text)) << ("client", update(text))
        for again in (False, True):
            pb >> ("g", "p", update("b"))  # dropped, when `c` was passed on
            lacks(pb, "originate", TEXT, again=again)
        assert settled(pb.router)


def test_else_the_oldest_of_its_key_and_session() -> None:
    keys = (f"up:{THOUGHT}:carry+drop", CARRY_TEXT)
    with chain(*keys) as pb:
        told(pb, "a", "b")
        told(pb, "t", session="T")
        pb >> ("agent", thought("c")) << ("g", "s", thought("c"))
        pb >> ("g", "p", thought("C")) << ("client", thought("C"))
        pb >> ("g", "p", update("T", "T")) << ("client", update("T", "T"))
        for text in "AB":
            pb >> ("g", "p", update(text)) << ("client", update(text))
        pb >> ("g", "p", update("more"))
        lacks(pb, "originate", TEXT)


def test_updates_of_a_tool_call_are_those_of_that_call() -> None:
    def call(id_: str, title: str) -> Json:
        held = {"sessionUpdate": "tool_call_update", "toolCallId": id_, "title": title}
        return notification(UPDATE, {"sessionId": "S", "update": held})

    with chain(grants="texts") as pb:
        for id_ in "xy":
            pb >> ("agent", call(id_, "t")) << ("g", "s", call(id_, "t"))
        pb >> ("g", "p", call("z", "t"))
        lacks(pb, "originate", "session/update[tool_call_update]")
        # The older one goes before, as it was: it may not be dropped.
        pb >> ("g", "p", call("y", "t"))
        pb << ("client", call("x", "t")) << ("client", call("y", "t"))
        assert settled(pb.router)


def test_its_own_where_it_may() -> None:
    with chain(CARRY_TEXT.replace("drop", "drop+originate")) as pb:
        pb >> ("g", "p", update("first")) << ("client", update("first"))
        told(pb, "a")
        pb >> ("g", "p", update("A")) << ("client", update("A"))
        pb >> ("g", "p", update("more")) << ("client", update("more"))


@pytest.mark.parametrize("fails", ["open", "closed"])
def test_a_change_that_breaks_a_rule_sends_on_what_was_given_unless_it_fails_closed(
    fails: str,
) -> None:
    odd = update("a")
    odd["params"]["update"]["more"] = 1
    with chain(CARRY_TEXT, fails=fails) as pb:
        told(pb, "a", "b")
        pb >> ("g", "p", {**odd, "params": {**odd["params"], "sessionId": "S", "_meta": {"x": 1}}})
        effect = taken(pb)
        assert "proxy `g`" in str(effect)
        if fails == "open":
            pb << ("client", update("a"))
        pb >> ("g", "p", update("b")) << ("client", update("b"))


def test_one_that_fails_for_a_violation() -> None:
    with chain(CARRY_TEXT, on_violation="fail") as pb:
        pb >> ("g", "p", update("mine"))
        assert broke(pb).fatal


def test_passing_a_younger_one_drops_the_older_ones() -> None:
    with chain(CARRY_TEXT) as pb:
        told(pb, "a", "b", "c")
        pb >> ("g", "p", update("c")) << ("client", update("c"))
        pb >> ("g", "p", update("d"))
        lacks(pb, "originate", TEXT)
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        told(pb, "a", "b")
        pb >> heard  # they are late, and may still be passed on, changed or not
        pb >> ("g", "p", update("b")) << ("client", update("b"))
        pb >> ("g", "p", update("A")) << ("client", update("A"))
        told(pb, "c")
        pb >> heard
        told(pb, "d")
        pb >> ("g", "p", update("d")) << ("client", update("d"))
        pb >> ("g", "p", update("c"))
        lacks(pb, "originate", TEXT)


def test_rights_are_of_one_direction_and_key() -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> ("agent", thought("a")) << ("client", thought("a"))
        pb >> ("client", update("odd")) << ("agent", update("odd"))
        pb >> ("g", "s", update("odd"))
        lacks(pb, "originate", TEXT)
        assert pb.router.peers["g"].s.in_flight.queue == pb.router.peers["g"].p.in_flight.queue


def test_without_params_or_with_odd_ones() -> None:
    unknown = "session/update[*]"
    with chain(f"up:{unknown}:copy") as pb:
        for odd in (
            notification(UPDATE),
            notification(UPDATE, []),
            notification(UPDATE, {"sessionId": "S"}),
            notification(UPDATE, {"sessionId": 1}),
            update("new", kind="not_known"),
        ):
            pb >> ("agent", odd) << ("g", "s", odd) << ("client", odd)
            pb >> ("g", "p", odd)
        pb >> ("g", "p", notification(UPDATE, {"sessionId": "T"}))
        lacks(pb, "originate", unknown)


# -- rounds --------------------------------------------------------------------------------------


def test_a_guest_may_pass_on_later_what_it_kept_in_its_round() -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        told(pb, "a", "b")
        pb.router.delivering("g")
        told(pb, "c")
        pb >> (lambda router: router.delivered("g"))
        pb >> ("agent", tool_call("t"))  # waits for `c`, and for nothing else
        pb >> heard << ("client", tool_call("t"))
        assert settled(pb.router)
        pb >> ("g", "p", update("b")) << ("client", update("b"))
        told(pb, "d")
        pb >> ("g", "p", update("d")) << ("client", update("d"))  # those before it are dropped
        pb >> ("g", "p", update("x"))
        lacks(pb, "originate", TEXT)
    with chain(CARRY_TEXT) as pb:
        assert pb.router.delivered("agent") == []
        pb.router.delivering("agent")


def test_a_changed_one_that_is_late_and_breaks_a_rule_is_not_sent_at_all() -> None:
    odd = update("a")
    odd["params"]["more"] = 1
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        told(pb, "a")
        pb >> heard
        pb >> ("g", "p", odd)
        assert "proxy `g`" in str(taken(pb))
        pb >> ("g", "p", update("a"))
        lacks(pb, "originate", TEXT, again=False)


# -- notifications that may not be dropped -------------------------------------------------------


@pytest.mark.parametrize("how", ["round", "bypassed", "leaving"])
def test_what_may_not_be_dropped_goes_on_as_it_was(how: str) -> None:
    with chain(CARRY_TEXT, grants="texts") as pb:
        pb >> heard
        told(pb, "a")
        pb >> ("agent", tool_call("t")) << ("g", "s", tool_call("t"))
        told(pb, "b")
        if how == "round":
            pb >> heard << ("client", tool_call("t"))
            pb >> ("g", "p", update("b")) << ("client", update("b"))
            pb >> ("g", "p", tool_call("t"))
            lacks(pb, "originate", "session/update[tool_call]")
        else:
            pb >> (lambda router: getattr(router, how)("g", GONE)) << ("client", tool_call("t"))
        assert settled(pb.router)


def test_it_goes_before_what_the_component_passes_on_after_it() -> None:
    with chain(CARRY_TEXT, grants="texts") as pb:
        pb >> ("agent", tool_call("t")) << ("g", "s", tool_call("t"))
        told(pb, "a")
        pb >> ("g", "p", update("a")) << ("client", tool_call("t")) << ("client", update("a"))


# -- while it is not there -----------------------------------------------------------------------


def test_what_goes_past_waits_no_longer_than_a_round_for_that() -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> ("agent", update("a")) >> ("agent", tool_call("t")) >> ("agent", tool_call("u"))
        pb.wake(1.0)
        pb << ("client", tool_call("t")) << ("client", tool_call("u"))
        pb >> (lambda router: router.leaving("g", GONE))  # it dies once more, and is still given it
        pb >> (lambda router: router.returned("g"))
        skip(pb)
        pb >> ("g", "p", result(2, {})) << ("g", "s", update("a"))
        pb >> ("g", "p", update("a")) << ("client", update("a"))


@pytest.mark.parametrize("fails", ["open", "closed"])
@pytest.mark.parametrize("how", ["bypassed", "closed"])
def test_what_it_will_never_be_given(how: str, fails: str) -> None:
    """The notification goes on as it was, but past no component that fails closed."""
    with chain(CARRY_TEXT, fails=fails) as pb:
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> ("agent", update("a"))
        pb >> (lambda router: getattr(router, how)("g", GONE))
        if fails == "open":
            pb << ("client", update("a"))
        if how == "closed":
            pb << Fail("g", GONE)
            pb >> ("agent", update("b")) << Noted("debug", "agent", "dropped: proxy `g`")
        assert settled(pb.router)


# -- bounds and reports ----------------------------------------------------------------------------


def test_a_queue_holds_up_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_MOST_QUEUED", 3)
    with chain(CARRY_TEXT) as pb:
        told(pb, "a")
        pb >> ("agent", tool_call("t"))
        told(pb, "b")
        pb >> ("agent", update("c"))
        pb << ("client", tool_call("t")) << ("g", "s", update("c"))
        pb >> ("g", "p", update("A")) << ("client", update("A"))
        assert settled(pb.router) is False


def test_it_may_keep_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST", 2)
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        told(pb, "a", "b", "c")
        pb >> heard
        for text in "bc":
            pb >> ("g", "p", update(text)) << ("client", update(text))
        pb >> ("g", "p", update("a"))
        lacks(pb, "originate", TEXT)


def test_and_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST_BYTES", 300)
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        told(pb, "a" * 100, "b" * 100)
        pb >> heard
        pb >> ("g", "p", update("b" * 100)) << ("client", update("b" * 100))
        pb >> ("g", "p", update("a" * 100))
        lacks(pb, "originate", TEXT)


def test_mcp_of_its_own_servers_is_its_to_carry() -> None:
    server = {"type": "acp", "name": "n", "id": "id"}
    asked = {"cwd": "/", "mcpServers": []}
    with chain(profile="serve:tools") as pb:
        pb >> ("client", request("n", "session/new", asked))
        pb << ("g", "p", request(Hole("g-n"), "session/new", asked))
        pb >> ("g", "s", request(Hole("g-n"), "session/new", {**asked, "mcpServers": [server]}))
        skip(pb)
        connect = request("c", "mcp/connect", {"acpId": "id"})
        pb >> ("agent", connect)
        pb << ("g", "s", request(Hole("g-c"), "mcp/connect", {"acpId": "id"}))
        pb >> ("agent", request("d", "mcp/connect", {"acpId": "other"}))
        pb << ("client", request(Hole("d"), "mcp/connect", {"acpId": "other"}))


# -- before its dialect is known -------------------------------------------------------------------


def unknown(*allow: str, **more: Any) -> Playbook:
    """A component that ended before anybody asked it anything, and is being started again."""
    router = Router([guest(*allow, kind=None, **more), Component("agent", "agent `agent`")])
    pb = Playbook(router)
    pb >> (lambda router: router.leaving("g", GONE))
    return pb


@pytest.mark.parametrize("fails", ["open", "closed"])
def test_until_then_it_is_gone_past_unless_it_fails_closed(fails: str) -> None:
    with unknown(CARRY_TEXT, grants="permission=narrow", fails=fails) as pb:
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb >> (lambda router: router.returned("g"))
        if fails == "open":
            pb << ("client", request(Hole("q"), PERMISSION, permission()))
        else:
            pb << ("agent", error("q", -32600, "proxy `g` has not been initialized"))
        pb >> ("agent", request("r", PERMISSION, permission()))
        if fails == "open":
            pb << ("client", request(Hole("r"), PERMISSION, permission()))
        else:
            pb << ("agent", error("r", -32600, "proxy `g` has not been initialized"))
        pb >> ("agent", update("a"))
        if fails == "open":
            pb << ("client", update("a"))
        else:
            pb << Noted("debug", "agent", "dropped: proxy `g` is not there")
        assert settled(pb.router)


def test_what_waits_for_one_that_is_asked_anew_waits_on() -> None:
    inner = {"method": "initialize", "params": V1}
    ended = Closure("g has ended", "", {"exitCode": 3})
    with Playbook(Router([guest(profile="full", kind=None), Component("agent")])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", request(Hole("role"), "proxy/initialize", V1))
        pb >> (lambda router: router.closed("g", ended)) << Reopen("g")
        pb >> (lambda router: router.reopened("g"))
        pb << ("g", request(Hole("r2"), "_proxy/initialize", V1))
        pb >> ("client", request("a", "session/list", {})) >> ("agent", update("a"))
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> (lambda router: router.returned("g"))
        pb << ("g", request(Hole("r3"), "proxy/initialize", V1))
        pb >> ("g", request("f", "proxy/successor", inner))
        pb << ("g", request(Hole("a"), "session/list", {}))
        pb << ("g", wrapped("acp", update("a")))
        pb << ("agent", request(Hole("i"), "initialize", V1))


def test_what_is_too_much_for_one_that_is_away_goes_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_MOST_QUEUED", 1)
    with chain(grants="texts") as pb:
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> ("agent", tool_call("t"))
        pb >> ("agent", tool_call("u")) << ("client", tool_call("t"))
        pb >> (lambda router: router.returned("g"))
        skip(pb)
        pb >> ("g", "p", result(2, {})) << ("g", "s", tool_call("u"))


def test_keys_are_remembered_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.core.state._MOST_KEYS", 1)
    monkeypatch.setattr("conductor.core.policy.policy_state._MOST_KEYS", 1)
    with chain(CARRY_TEXT) as pb:
        for _ in range(2):
            pb >> ("agent", thought("a")) << ("client", thought("a"))
            told(pb, "a")
            pb >> ("g", "p", update("a")) << ("client", update("a"))


def test_what_passes_unchanged_through_two_that_carry_it_is_bounded_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "_MOST_QUEUED", 2)
    with chain_of(guest(CARRY_TEXT, name="f"), guest(CARRY_TEXT)) as pb:
        for text in "abcd":
            pb >> ("agent", update(text)) << ("g", "s", update(text))
            pb >> ("g", "p", update(text)) << ("f", "s", update(text))
        for text in "abcd":
            pb >> ("f", "p", update(text)) << ("client", update(text))
