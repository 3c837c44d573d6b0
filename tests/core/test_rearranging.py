"""A running chain gets other components: added, removed, moved, replaced."""

from collections.abc import Sequence
from typing import Any

import pytest

from conductor.core import DIALECTS, Closure, Component, Entry, Fail, Send
from conductor.core.component import newcomer
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import (
    FORMS,
    NEW,
    PROMPT,
    Agent,
    Stage,
    chain,
    conversation,
    proxy,
)
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    OK,
    V1,
    agent_mode,
    begin_acp,
    component,
    error,
    notification,
    proxy_mode,
    request,
    result,
)
from tests.harness.router.policed import CARRY_TEXT, chain_of, guest, prompt, skip, trusted, update

KINDS = (*FORMS, "scp", "channel")
AGENT = Component("agent", "agent `agent`")
OTHERS = Closure("the chain has been given other components")
ERROR = (-32603, OTHERS.text)


def initialized(pb: Playbook, name: str, answer: object = OK, params: object = V1) -> None:
    """A component of dialect `acp` takes its role beside the chain."""
    there = newcomer(name)
    pb << (there, request(Hole(f"i-{name}"), "proxy/initialize", params))
    inner = {"method": "initialize", "params": params}
    pb >> (there, request("f", "proxy/successor", inner)) << (there, result("f", answer))
    assert not pb.router.prepared()
    pb >> (there, result(Hole(f"i-{name}"), answer))
    assert pb.router.prepared()


def rearranged(router: Router) -> list[Any]:
    """The step."""
    return router.rearrange(OTHERS)


def envelope(id_: object, method: str) -> dict[str, Any]:
    """A request of a proxy to its successor, or of its successor to it."""
    return request(id_, "proxy/successor", {"method": method})


# -- where they come, and in which order ---------------------------------------------------------


def test_a_component_comes_last() -> None:
    """The newcomer gets the `initialize` that its predecessor passed on, and the agent's answer to
    its own `initialize`."""
    with agent_mode("acp") as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        more = {"protocolVersion": 1, "clientCapabilities": {"fs": {}}}
        inner = {"method": "initialize", "params": more}
        pb >> ("p", request("f", "proxy/successor", inner))
        pb << ("agent", request(1, "initialize", more))
        pb >> ("agent", result(1, {"protocolVersion": 1, "own": 1}))
        pb << ("p", result("f", {"protocolVersion": 1, "own": 1}))
        pb >> ("p", result(1, {"protocolVersion": 1, "own": 2}))
        pb << ("client", result("i", {"protocolVersion": 1, "own": 2}))
        new = [component("p", "acp"), component("q", "acp"), component("r", "acp"), AGENT]
        pb >> (lambda r: r.prepare(new))
        for name in ("q", "r"):
            there = newcomer(name)
            assert pb.router.peers[there].label == f"proxy `{name}`"
            pb << (there, request(1, "proxy/initialize", more))
        for name in ("q", "r"):
            there = newcomer(name)
            pb >> (there, request("f", "proxy/successor", inner))
            pb << (there, result("f", {"protocolVersion": 1, "own": 1}))
            pb >> (there, result(1, OK))
        pb >> rearranged
        pb >> ("client", notification("_n")) << ("p", notification("_n"))
        pb >> ("p", notification("proxy/successor", {"method": "_n"}))
        pb << ("q", notification("_n"))


@pytest.mark.parametrize("told", [True, False], ids=["told", "found-out"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [(), ("acp",), ("scp", "channel")])
def test_proxies_of_every_dialect_join(before: tuple[str, ...], kind: str, told: bool) -> None:
    """Each takes its role beside the chain, and the conversation goes on through it."""
    stage = chain(before)
    reference = chain(())
    assert conversation(stage) == conversation(reference)
    actor = proxy(kind, newcomer("n"))
    stage.actors[actor.name] = actor
    known = told or kind == "channel"
    router = stage.router
    old = [router.peers[f"p{n + 1}"].component for n in range(len(before))]
    new = Component("n", dialect=DIALECTS[kind] if known else None)
    stage.apply(router.prepare([*old[:1], new, *old[1:], AGENT]))
    assert router.prepared(), stage.log
    actor.name = "n"
    stage.actors["n"] = actor
    assert stage.apply(router.rearrange(OTHERS)) == []
    stage.log.clear()
    reference.client.clear()
    asked = stage.say(PROMPT)
    assert [m["method"] for m in asked] == ["session/update", "session/request_permission"]
    assert any(line.startswith("n<") for line in stage.log)
    answer = {"jsonrpc": "2.0", "id": asked[-1]["id"], "result": {"outcome": "allow"}}
    assert stage.say(answer)[-1]["result"] == {"stopReason": "end_turn"}
    assert stage.effects == []
    assert sum("initialize" in line[:60] for line in stage.log) == 0
    assert router.quiet()


def test_who_comes_under_a_name_hears_nothing_of_who_went() -> None:
    """A component that goes withdraws its requests to another that goes, and the other component
    answers them."""
    stage = chain(("channel", "channel"))
    conversation(stage)
    router = stage.router
    old = [router.peers[name].component for name in ("p1", "p2", "agent")]
    router.receive("p1", b's{"jsonrpc":"2.0","id":"down","method":"_x"}')
    router.receive("p2", b'p{"jsonrpc":"2.0","id":"up","method":"_y"}')
    fresh = {name: proxy("channel", newcomer(name)) for name in ("p1", "p2")}
    stage.actors |= {actor.name: actor for actor in fresh.values()}
    stage.apply(router.prepare(old, [*fresh]))
    assert router.prepared()
    assert not [one for one in router.rearrange(OTHERS) if isinstance(one, Send)]


def test_in_proxy_mode_the_outer_conductor_notices_nothing() -> None:
    with proxy_mode("acp", "acp") as pb:
        pb >> ("client", request("i", "proxy/initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        inner = {"method": "initialize", "params": V1}
        pb >> ("p", request("f", "proxy/successor", inner))
        pb << ("client", request(1, "proxy/successor", inner))
        pb >> ("client", result(1, OK)) << ("p", result("f", OK))
        pb >> ("p", result(1, OK)) << ("client", result("i", OK))
        pb >> (lambda r: r.prepare([component("p", "acp"), component("q", "acp")]))
        initialized(pb, "q")
        pb >> rearranged
        pb >> ("client", notification("_n")) << ("p", notification("_n"))
        pb >> ("client", notification("proxy/successor", {"method": "_n"}))
        pb << ("q", notification("proxy/successor", {"method": "_n"}))
        # No component at all: everything passes.
        pb >> (lambda r: r.prepare([])) >> rearranged
        pb >> ("client", notification("_n"))
        pb << ("client", notification("proxy/successor", {"method": "_n"}))


# -- before the client has come ------------------------------------------------------------------


def test_a_chain_that_is_not_initialized_is_simply_another() -> None:
    with agent_mode("acp") as pb:
        pb >> (lambda r: r.prepare([component("q", "acp"), AGENT]))
        assert pb.router.prepared()
        pb >> rearranged
        pb >> ("client", request("i", "initialize", V1))
        pb << ("q", request(1, "proxy/initialize", V1))


def test_a_chain_of_a_mode_that_is_not_settled() -> None:
    with Playbook(Router([component("p", "acp"), component("last", "acp")], "auto")) as pb:
        pb >> (lambda r: r.prepare([component("last", "acp")])) >> rearranged
        pb >> ("client", request("i", "proxy/initialize", V1))
        pb << ("last", request(1, "proxy/initialize", V1))


def test_the_client_comes_while_a_component_waits_to_join() -> None:
    with agent_mode("acp") as pb:
        pb >> (lambda r: r.prepare([component("p", "acp"), component("q", "acp"), AGENT]))
        begin_acp(pb)
        pb >> rearranged
        pb << ("q", request(1, "proxy/initialize", V1))
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        pb >> ("p", envelope("n", "_x"))  # it waits
        inner = {"method": "initialize", "params": V1}
        pb >> ("q", request("f", "proxy/successor", inner)) << ("q", result("f", OK))
        pb >> ("q", result(1, OK)) << ("q", request(2, "_x"))


# -- open requests -------------------------------------------------------------------------------


def test_one_is_replaced_by_another_of_its_name() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request("k", "_conductor/keep", {"a": 1}))
        skip(pb)
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        configured = component("p", "sdk", configure=b"{}")
        pb >> (lambda r: r.prepare([configured, AGENT], ["p"]))
        told = {"instance": "1.2", "kept": {"a": 1}}
        pb << (newcomer("p"), notification("_conductor/configure", told))
        there = newcomer("p")
        pb << (there, request(1, "_proxy/initialize", V1))
        inner = {"method": "initialize", "params": V1}
        pb >> (there, request("f", "_proxy/successor", inner)) << (there, result("f", OK))
        pb >> (there, result(1, OK))
        pb >> ("client", request("d", "_y")) << ("p", request(3, "_y"))
        pb >> rearranged
        pb << ("client", error("c", *ERROR)) << ("client", error("d", *ERROR))
        pb >> ("client", request("e", "_z")) << ("p", request(2, "_z"))
        pb >> ("p", request("n", "_proxy/successor", {"method": "_z"}))
        pb << ("agent", request(2, "_z"))


def test_held_prompts_go_the_new_way() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb.router.hold()
        pb >> ("client", request("c", "session/prompt", prompt("hi")))
        assert pb.router.quiet()
        pb >> (lambda r: r.prepare([AGENT])) >> rearranged
        pb >> (lambda r: r.release())
        pb << ("agent", request(2, "session/prompt", prompt("hi")))


def test_when_a_chain_is_quiet() -> None:
    with agent_mode("acp") as pb:
        assert pb.router.quiet()
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        assert not pb.router.quiet()
        pb >> (lambda r: r.leaving("p", OTHERS))
        assert not pb.router.quiet()
    with begin_acp(agent_mode("acp")) as pb:
        before = pb.router.received
        pb >> (lambda r: r.ask("_ask", b"{}", 1))
        skip(pb)
        assert pb.router.quiet()  # the conductor asks for itself
        pb >> ("agent", request("a", "_up"))
        skip(pb)
        assert not pb.router.quiet()
        assert pb.router.received > before
    with chain_of(guest(CARRY_TEXT)) as pb:
        assert pb.router.quiet()
        pb >> ("agent", update("hi"))
        skip(pb)
        assert not pb.router.quiet()  # the guest has not passed it on
        pb >> ("g", "p", update("hi"))
        skip(pb)
        assert pb.router.quiet()


def test_one_that_is_left_out_stays_left_out() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.bypassed("p", OTHERS))
        pb >> (lambda r: r.prepare([component("q", "acp"), component("p", "acp"), AGENT]))
        initialized(pb, "q")
        pb >> rearranged
        pb >> ("client", notification("_n")) << ("q", notification("_n"))
        pb >> ("q", notification("proxy/successor", {"method": "_n"}))
        pb << ("agent", notification("_n"))
        pb >> (lambda r: r.prepare([AGENT])) >> rearranged
        pb >> ("client", notification("_n")) << ("agent", notification("_n"))


# -- orders that cannot be -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["no proxy", "ends"])
def test_one_that_cannot_take_its_role_does_not_join(how: str) -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.prepare([component("q", None), component("p", "acp"), AGENT]))
        there = newcomer("q")
        if how == "no proxy":
            for method in ("proxy/initialize", "_proxy/initialize", "initialize"):
                pb << (there, request(Hole(method), method, Hole(f"{method}!")))
                pb >> (there, error(Hole(method), -32601, "Method not found"))
            (failed,) = skip(pb)
        else:
            skip(pb)
            pb >> (lambda r: r.closed(there, OTHERS))
            (failed,) = skip(pb)
        assert isinstance(failed, Fail)
        assert failed.peer == there
        pb.router.dismiss()
        assert there not in pb.router.peers
        pb >> ("client", notification("_n")) << ("p", notification("_n"))
        # A failure of the chain itself is reported still.
        pb >> (lambda r: r.closed("p", OTHERS)) << Fail("p", OTHERS)


def test_what_a_component_sends_before_it_joins_is_refused() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.prepare([component("q", "acp"), component("p", "acp"), AGENT]))
        initialized(pb, "q")
        there = newcomer("q")
        pb >> (there, request(1, "_x")) << (there, error(1, -32600, "`_x` before `initialize`"))
        pb >> (there, envelope(2, "_x")) << (there, error(2, -32600, "`_x` before `initialize`"))
        pb >> (there, notification("_n"))
        pb << Noted("debug", there, "before `initialize` dropped")


def test_the_agent_cannot_change() -> None:
    router = Router([component("p", "acp"), AGENT])
    for components, fresh in (
        ([component("p", "acp"), Component("other")], []),
        ([component("p", "acp"), AGENT], ["agent"]),
        ([], []),
    ):
        with pytest.raises(ValueError, match="the agent cannot change"):
            router.prepare(components, fresh)
    with pytest.raises(ValueError, match="the same name"):
        router.prepare([component("p", "acp"), component("p", "acp"), AGENT])


def test_a_proxy_that_launched_its_successor_stays() -> None:
    """The proxy may move, but neither go nor be replaced: the successor that it launched would end
    with it."""
    stage = chain(("scp", "acp"))
    conversation(stage)
    router = stage.router
    scp, acp = (router.peers[name].component for name in ("p1", "p2"))
    for order, fresh in (([acp], []), ([scp, acp], ["p1"])):
        with pytest.raises(ValueError, match="`p1` has launched its successor itself"):
            router.prepare([*order, AGENT], fresh)
    stage.apply(router.prepare([acp, scp, AGENT]))
    stage.apply(router.rearrange(OTHERS))
    stage.log.clear()
    stage.say(NEW)
    met = [line.partition("<")[0] for line in stage.log if "session/new" in line and "<" in line]
    assert met[:3] == ["p2", "p1", "agent"]


def test_what_is_prepared_anew_replaces_what_was() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.prepare([component("q", "sacp"), component("p", "acp"), AGENT]))
        skip(pb)
        pb >> (newcomer("q"), request(1, "_conductor/clock"))
        skip(pb)
        pb >> (lambda r: r.prepare([component("r", "acp"), component("p", "acp"), AGENT]))
        initialized(pb, "r")
        assert newcomer("q") not in pb.router.peers
        pb >> rearranged
        assert list(pb.router.peers) == ["client", "p", "agent", "r"]


# -- policies, audits, traces --------------------------------------------------------------------


def test_addresses_of_mcp_servers_stay_with_their_owner() -> None:
    first = guest(profile="full", name="g")
    with chain_of(first, trusted("t")) as pb:
        pb >> ("client", request("n", "session/new", {"cwd": "/", "mcpServers": []}))
        pb << ("g", "p", request(Hole("n"), "session/new", {"cwd": "/", "mcpServers": []}))
        server = {"type": "acp", "name": "g", "id": "mine"}
        own = {"cwd": "/", "mcpServers": [server]}
        pb >> ("g", "s", request(Hole("n"), "session/new", own))
        skip(pb)
        peers = pb.router.peers
        before = peers["g"].policed
        mine = {"mine", "acp:mine"}
        assert before.servers == mine
        other = guest(profile="full", name="h")
        pb >> (lambda r: r.prepare([other, first, trusted("t"), AGENT], ["g"]))
        skip(pb)
        assert pb.router.prepared() is False
        pb >> (lambda r: r.rearrange(OTHERS, {"h": ["late"]}))
        skip(pb)
        now = peers["g"].policed
        assert now is not before
        assert (now.servers, now.foreign) == (mine, {"late"})
        assert (peers["h"].policed.servers, peers["h"].policed.foreign) == ({"late"}, mine)
        assert "h" in now.names_of_others
        # An owner that goes leaves its addresses to nobody: no other can take them.
        pb >> (lambda r: r.prepare([other, trusted("t"), AGENT])) >> (lambda r: r.rearrange(OTHERS))
        skip(pb)
        assert "mine" in pb.router.addresses
        assert peers["h"].policed.foreign == mine


def test_audited_components_are_watched_from_the_start() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        new = [component("q", "acp"), component("p", "acp"), AGENT]
        pb >> (lambda r: r.prepare(new, audited=["q"]))
        initialized(pb, "q")
        pb >> rearranged
        assert pb.router.peers["q"].policy_state is not None
        assert pb.router.peers["q"].policed.name == "q"
        assert pb.router.peers["p"].policy_state is None


def test_a_trace_shows_a_component_once_it_has_joined() -> None:
    pb = Playbook(Router([component("p", "acp"), AGENT], options=RouterOptions(tracing=True)))
    stage = Stage(pb.router, [proxy("acp", "p"), Agent("agent")])
    conversation(stage)
    traces: Sequence[Any] = [e for e in stage.effects if isinstance(e, Entry)]
    assert traces
    stage.effects.clear()
    actor = proxy("sacp", newcomer("q"))
    stage.actors[actor.name] = actor
    stage.apply(pb.router.prepare([Component("q"), component("p", "acp"), AGENT]))
    refused = stage.router.receive(actor.name, b'{"jsonrpc":"2.0","id":77,"method":"_x"}')
    asked = stage.router.receive(
        actor.name, b'{"jsonrpc":"2.0","id":78,"method":"_conductor/config"}'
    )
    assert [type(effect) for effect in (*refused, *asked)] == [Send, Send]
    assert stage.effects == []
    actor.name = "q"
    stage.actors["q"] = actor
    stage.apply(pb.router.rearrange(OTHERS))
    stage.say(NEW)
    assert {e.target for e in stage.effects if isinstance(e, Entry)} >= {"q", "p", "agent"}
