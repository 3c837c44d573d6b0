"""What components change, as the router finds it out (`Changed` effects)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from tests.core.policed import component, initialize, prompt, update

from conductor.core import CHANNEL, Changed, Closure, Component, Effect, Router, Send, book
from conductor.core.policy import NO_PROFILE, Policy, parse_rule
from tests.core.actors import FORMS, Actor, Agent, Guest, Launching, PassThrough, Stage, dump
from tests.core.plays import V1, error, notification, request, result

Json = dict[str, Any]
WHERE: Final = ("change", "kind", "direction", "method", "session", "matched")
OWN: Final = "session/list"


class Chain:
    """A client, a component `g`, and an agent, initialized, with an audit."""

    def __init__(self, *rules: str, kind: str = "channel", ready: bool = True) -> None:
        held = Policy(NO_PROFILE, tuple(map(parse_rule, rules))) if rules else None
        components = [component(held, kind), Component("agent", "agent `agent`")]
        self.router = Router(components, audited=["g", "agent"])
        self.sent: list[tuple[str, Json]] = []
        if ready:
            actor = Guest("g") if kind == "channel" else PassThrough("g", FORMS[kind])
            initialize(self.router, {"g": actor})

    def hears(self, effects: list[Effect]) -> list[Changed]:
        """Takes note of what is sent; what is changed."""
        for one in effects:
            if isinstance(one, Send):
                self.sent.append((one.peer, json.loads(one.frame.lstrip(b"psc"))))
        return [one for one in effects if isinstance(one, Changed)]

    def says(self, peer: str, *messages: Json, side: str = "") -> list[Changed]:
        """A peer says these; what is changed."""
        found: list[Changed] = []
        for one in messages:
            found += self.hears(self.router.receive(peer, side.encode() + dump(one)))
        return found

    def last(self, peer: str) -> object:
        """The id of what this peer was sent last."""
        return [message for name, message in self.sent if name == peer][-1]["id"]

    def asked(
        self, method: str = "session/prompt", params: object = None, id_: object = "c"
    ) -> Any:
        """The client asks; the id under which `g` is asked."""
        held = prompt("hi") if params is None else params
        assert self.says("client", request(id_, method, held)) == []
        return self.last("g")


def where(changed: Changed) -> tuple[object, ...]:
    """What, which way, and how it is known."""
    return tuple(getattr(changed, name) for name in WHERE)


def ends(changed: Changed) -> tuple[str | None, ...]:
    """Whence and whither, with ids."""
    return changed.source, changed.source_id, changed.target, changed.target_id


def texts(changed: Changed) -> tuple[object, object]:
    """The payloads, read."""
    before, after = changed.before, changed.after
    return before and json.loads(before), after and json.loads(after)


# -- requests and answers ------------------------------------------------------------------------


def test_nothing_is_found_where_nothing_is_changed() -> None:
    chain = Chain()
    asked = chain.asked()
    assert chain.says("g", request(1, "session/prompt", prompt("hi")), side="s") == []
    assert chain.says("agent", update("a"), result(chain.last("agent"), {"stopReason": "x"})) == []
    assert chain.says("g", update("a"), result(asked, {"stopReason": "x"}), side="p") == []
    assert chain.says("agent", request(5, "session/request_permission", {})) == []
    asked = chain.last("g")
    assert chain.says("g", request(2, "session/request_permission", {}), side="p") == []
    assert chain.says("client", result(chain.last("client"))) == []
    assert chain.says("g", result(asked), side="s") == []
    assert chain.hears(chain.router.settled("g")) == []


def test_nothing_is_looked_for_unless_it_is_asked_for() -> None:
    router = Router([Component("p", dialect=CHANNEL), Component("agent")])
    assert router._exchange.ledger is None
    assert not router._exchange.tracing
    assert router.settled("p") == []
    router.delivering("p")
    assert router.delivered("p") == []


def test_a_changed_request_and_a_changed_answer() -> None:
    chain = Chain()
    asked = chain.asked()
    (changed,) = chain.says("g", request(7, "session/prompt", prompt("HI")), side="s")
    assert where(changed) == ("modified", "request", "down", "session/prompt", "S", "request")
    assert ends(changed) == ("client", '"c"', "agent", "7")
    assert texts(changed) == (prompt("hi"), prompt("HI"))
    chain.says("agent", result(chain.last("agent"), {"stopReason": "end_turn"}))
    (changed,) = chain.says("g", result(asked, {"stopReason": "refusal"}), side="p")
    assert where(changed) == ("modified", "response", "up", "session/prompt", "S", "request")
    assert ends(changed) == (None, None, "client", '"c"')
    assert texts(changed) == (
        {"result": {"stopReason": "end_turn"}},
        {"result": {"stopReason": "refusal"}},
    )


def test_a_request_without_params_may_get_some() -> None:
    chain = Chain()
    chain.says("client", request("c", "x/y"))
    (changed,) = chain.says("g", request(7, "x/y", {"a": 1}), side="s")
    assert texts(changed) == (None, {"a": 1})


def test_an_answer_and_a_request_of_its_own() -> None:
    chain = Chain()
    asked = chain.asked("session/list", {})
    (changed,) = chain.says("g", result(asked, {"sessions": []}), side="p")
    assert where(changed) == ("answered", "response", "up", "session/list", None, "request")
    assert texts(changed) == (None, {"result": {"sessions": []}})
    (changed,) = chain.says("g", request(3, "session/list", {}), side="s")
    assert where(changed) == ("originated", "request", "down", "session/list", None, "request")
    assert ends(changed) == (None, None, "agent", "3")
    assert chain.says("agent", result(chain.last("agent"))) == []


def test_of_several_open_requests_the_one_that_fits() -> None:
    chain = Chain()
    for at, text in enumerate(("one", "two", "three")):
        chain.asked(params=prompt(text), id_=at)
    assert chain.says("g", request(1, "session/prompt", prompt("two")), side="s") == []
    (changed,) = chain.says("g", request(2, "session/prompt", prompt("four")), side="s")
    assert (changed.matched, texts(changed)) == ("order", (prompt("one"), prompt("four")))
    (changed,) = chain.says("g", request(3, "session/prompt", prompt("new", "other")), side="s")
    assert changed.change == "originated"


@pytest.mark.parametrize("kind", ["acp", "sdk", "sacp", "pacp"])
def test_envelopes_are_looked_into(kind: str) -> None:
    chain = Chain(kind=kind)
    form = FORMS[kind]
    asked = chain.asked()
    inner = notification("session/prompt", prompt("HI"))
    envelope = {"message": inner} if form.nested else inner
    (changed,) = chain.says("g", request(9, form.down_request, envelope))
    assert where(changed) == ("modified", "request", "down", "session/prompt", "S", "request")
    assert ends(changed) == ("client", '"c"', "agent", "9")
    chain.says("agent", result(chain.last("agent"), {}))
    assert chain.says("g", result(asked, {})) == []


def test_a_token_tells_which_request_it_was() -> None:
    chain = Chain("down:session/prompt:modify")
    chain.asked()
    (changed,) = chain.says("g", request(1, "session/prompt", prompt("HI")), side="s")
    assert (changed.matched, texts(changed)) == ("token", (prompt("hi"), prompt("HI")))
    # Its answer does not go through the component, which may say what it likes.
    chain.says("agent", result(chain.last("agent"), {"stopReason": "end_turn"}))
    assert chain.sent[-1] == ("client", result("c", {"stopReason": "end_turn"}))


def test_what_a_policy_undoes_is_no_change() -> None:
    chain = Chain("down:session/prompt:modify", f"down:{OWN}:originate")
    asked = chain.asked()
    assert chain.says("g", result(asked, {"stopReason": "refusal"}), side="p") == []
    assert chain.sent[-1][0] == "agent"  # it has gone on without the component
    chain.says("agent", result(chain.last("agent"), {"stopReason": "end_turn"}))
    assert chain.sent[-1] == ("client", result("c", {"stopReason": "end_turn"}))
    assert chain.says("g", request(2, "session/load", {}), side="s") == []  # refused
    (changed,) = chain.says("g", request(3, OWN, {}), side="s")
    assert where(changed) == ("originated", "request", "down", OWN, None, "token")


def test_the_conductors_errors_are_no_ones_doing() -> None:
    chain = Chain()
    asked = chain.asked()
    chain.says("g", request(1, "session/prompt", prompt("hi")), side="s")
    effects = chain.router.closed("agent", Closure("it died"))
    assert chain.hears(effects) == []
    told = chain.sent[-1][1]["error"]
    assert chain.says("g", error(asked, **_body(told)), side="p") == []
    asked = chain.asked(id_="d")
    chain.says("g", request(2, "session/prompt", prompt("hi")), side="s")  # refused at once
    told = chain.sent[-1][1]["error"]
    assert chain.says("g", error(asked, **_body(told)), side="p") == []
    asked = chain.asked(id_="e")
    assert chain.says("g", {"jsonrpc": "2.0", "id": asked}, side="p") == []  # no answer at all
    asked = chain.asked(id_="f")
    (changed,) = chain.says("g", error(asked, -1, "own"), side="p")
    assert changed.change == "answered"


def _body(told: Json) -> Json:
    return {"code": told["code"], "text": told["message"], "data": told.get("data")}


def test_who_has_asked_may_be_gone() -> None:
    chain = Chain()
    asked = chain.asked()
    chain.hears(chain.router.closed("client", Closure("gone")))
    assert chain.says("g", result(asked), side="p") == []
    assert chain.router._exchange.ledger is not None
    assert not chain.router._exchange.ledger._asked


# -- notifications -------------------------------------------------------------------------------


def test_a_changed_update_is_told_at_the_end_of_its_turn() -> None:
    chain = Chain()
    asked = chain.asked()
    chain.says("g", request(1, "session/prompt", prompt("hi")), side="s")
    assert chain.says("agent", update("a"), update("b"), update("c")) == []
    assert chain.says("g", update("a"), update("B"), side="p") == []
    chain.says("agent", result(chain.last("agent"), {}), update("of the next turn"))
    changed, dropped = chain.says("g", result(asked, {}), side="p")
    assert where(changed) == ("modified", "notification", "up", "session/update", "S", "order")
    assert ends(changed) == ("agent", None, "client", None)
    assert texts(changed) == (update("b")["params"], update("B")["params"])
    assert where(dropped) == ("dropped", "notification", "up", "session/update", "S", "order")
    assert (ends(dropped), dropped.after) == (("agent", None, None, None), None)
    (late,) = chain.says("g", update("c"), side="p")
    assert (late.change, late.matched) == ("delayed", "value")
    assert chain.says("g", update("of the next turn"), side="p") == []


def test_what_is_swallowed_on_the_way_down_is_told_by_the_next_request() -> None:
    chain = Chain()
    chain.says("client", notification("session/cancel", {"sessionId": "S"}))
    chain.asked()
    (changed,) = chain.says("g", request(1, "session/prompt", prompt("hi")), side="s")
    assert where(changed) == ("dropped", "notification", "down", "session/cancel", "S", "order")


def test_a_guest_has_had_its_say_when_its_round_is_over() -> None:
    chain = Chain()
    chain.says("agent", update("a"))
    chain.router.delivering("g")
    chain.says("g", update("b"), side="p")
    chain.says("agent", update("not heard yet"))
    (changed,) = chain.hears(chain.router.delivered("g"))
    assert texts(changed) == (update("a")["params"], update("b")["params"])
    policed = Chain("up:session/update:modify")
    policed.says("agent", update("a"))
    policed.router.delivering("g")
    (changed,) = policed.hears(policed.router.delivered("g"))
    assert changed.change == "dropped"


def test_at_the_end_what_is_left_is_told() -> None:
    chain = Chain()
    chain.says("agent", update("a"))
    (changed,) = chain.hears(chain.router.settled("g"))
    assert (changed.change, changed.matched) == ("dropped", "end")
    assert chain.hears(chain.router.settled("somebody else")) == []


def test_who_is_gone_is_blamed_for_what_it_said_only() -> None:
    chain = Chain()
    asked = chain.asked()
    chain.says("g", request(1, "session/prompt", prompt("hi")), side="s")
    chain.asked(id_="d")
    chain.says("agent", update("a"), update("b"))
    chain.says("g", update("c"), side="p")
    (changed,) = chain.hears(chain.router.closed("g", Closure("gone")))
    assert texts(changed) == (update("a")["params"], update("c")["params"])
    assert chain.router._exchange.ledger is not None
    assert not chain.router._exchange.ledger._asked
    assert not chain.router._exchange.ledger._onward
    assert asked


def test_others_requests_outlive_who_is_gone() -> None:
    components = [component(None), component(None, name="h"), Component("agent")]
    router = Router(components, audited=["g", "h"])
    initialize(router, {"g": Guest("g"), "h": Guest("h")})
    router.receive("client", dump(request("c", "x/y", {})))
    router.receive("g", b"s" + dump(request(1, "x/y", {})))
    router.receive("h", b"s" + dump(request(1, "x/y", {})))
    router.closed("g", Closure("gone"))
    assert router._exchange.ledger is not None
    assert [one.book.name for one in router._exchange.ledger._asked.values()] == ["h"]
    assert len(router._exchange.ledger._onward) == 1


def test_who_is_not_there_for_it_did_not_miss_it_by_anybodys_doing() -> None:
    chain = Chain()
    chain.says("client", notification("x/y", {"a": 1}))
    chain.hears(chain.router.closed("agent", Closure("gone")))
    assert chain.says("g", notification("x/y", {"a": 1}), side="s") == []
    assert chain.hears(chain.router.settled("g")) == []
    assert chain.says("agent", notification("x/y")) == []


def test_endless_sessions_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "_MOST_FLOWS", 2)
    chain = Chain()
    assert chain.says("agent", update("a", "1"), update("a", "2")) == []
    (changed,) = chain.says("agent", update("a", "3"))
    assert (changed.change, changed.session) == ("dropped", "1")


# -- initialize, ids -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["acp", "sdk", "sacp", "pacp", "channel", "scp", None])
def test_what_a_dialect_adds_to_initialize_is_no_change(kind: str | None) -> None:
    parts = [component(None, kind), Component("agent", "agent `agent`")]
    router = Router(parts, audited=["g"])
    actor: Actor = Launching("g") if kind == "scp" else Guest("g")
    if kind not in ("scp", "channel"):
        actor = PassThrough("g", FORMS[kind or "pacp"])
    stage = Stage(router, [actor, Agent("agent")])
    assert stage.say(request(0, "initialize", V1))
    assert [one for one in stage.effects if isinstance(one, Changed)] == []


def test_a_changed_initialize() -> None:
    chain = Chain(ready=False)
    asked = chain.asked("initialize", V1)
    claims = {**V1, "clientCapabilities": {"terminal": True}}
    (changed,) = chain.says("g", request(1, "initialize", claims), side="s")
    assert where(changed) == ("modified", "request", "down", "initialize", None, "request")
    assert texts(changed) == (V1, claims)
    chain.says("agent", result(chain.last("agent"), {**V1, "agentCapabilities": {}}))
    claims = {**V1, "agentCapabilities": {"loadSession": True}}
    (changed,) = chain.says("g", result(asked, claims), side="p")
    assert where(changed) == ("modified", "response", "up", "initialize", None, "request")


def test_guests_of_a_conductor_are_told_by_its_ids() -> None:
    router = Router([component(None)], "proxy", upstream=CHANNEL, audited=["g"])

    def heard(name: str, line: bytes) -> tuple[list[Changed], list[bytes]]:
        effects = router.receive(name, line)
        sent = [one.frame for one in effects if isinstance(one, Send)]
        return [one for one in effects if isinstance(one, Changed)], sent

    heard("client", b"p" + dump(request(10, "initialize", V1)))
    heard("g", b"s" + dump(request(1, "initialize", V1)))
    heard("client", b"s" + dump(result(1, V1)))
    heard("g", b"p" + dump(result(1, V1)))
    heard("client", b"p" + dump(request(11, "session/prompt", prompt("hi"))))
    (changed,), (sent,) = heard("g", b"s" + dump(request(5, "session/prompt", prompt("HI"))))
    assert json.loads(sent[1:])["id"] == 2
    assert ends(changed) == ("client", "11", "client", "2")


def test_who_asked_is_known_while_it_waits() -> None:
    chain = Chain()
    asked = chain.asked()
    key = dump(asked)
    assert chain.router.asker("g", "p", key) == ("client", '"c"')
    assert chain.router.asker("g", "s", b"99") is None
    chain.hears(chain.router.closed("client", Closure("gone")))
    assert chain.router.asker("g", "p", key) is None


def test_neighbours_are_named_unless_messages_pass_them_by() -> None:
    router = Chain("down:session/prompt:modify").router
    assert router.neighbour("g", "p") == "client"
    assert router.neighbour("g", "s") == "agent"
    assert router.neighbour("agent", "p") is None
    assert router.neighbour("agent", "s") is None
