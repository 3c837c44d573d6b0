"""One chain, its ids, its sessions, its order."""

import json

import pytest

from tests.harness.process.processes import SUPPORTED
from tests.harness.process.rig import PROXIES, Rig

THREE = ("acp", "sacp", "pacp")


@pytest.mark.parametrize("dialect", PROXIES)
def test_a_proxy_before_an_agent(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("P", dialect=dialect), rig.demo())
    session = chain.begin()
    if SUPPORTED:
        assert len(rig.kin(chain).pids) >= 2
    assert chain.prompt(session, "hi") == "hi"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
    assert chain.stderr == ""


def test_by_names_and_sandboxed(rig: Rig) -> None:
    chain = rig.agent("passthrough", "demo")
    assert chain.prompt(chain.begin(), "hi") == "hi"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
    assert chain.stderr == ""


@pytest.mark.proves("between two proxies")
def test_every_answer_returns_with_its_own_id(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.demo())
    chain.initialize()
    ids: list[object] = ["I0", 1, "1", -(2**63), 2**63 - 1, "\u00e9\n", ""]
    for id_ in ids:
        chain.start("session/new", {"cwd": f"/{id_!r}", "mcpServers": []}, id=id_)
    sessions = [chain.answer(id_)["result"]["sessionId"] for id_ in ids]
    assert sessions == [f"demo-{at}" for at in range(1, len(ids) + 1)]
    asked = [e.frame for e in rig.log("A", "in") if e.frame["method"] == "session/new"]
    assert [f["params"]["cwd"] for f in asked] == [f"/{id_!r}" for id_ in ids]
    assert not any(f["id"] in ids[3:] or f["id"] == "I0" for f in asked)
    assert len({json.dumps(f["id"]) for f in asked}) == len(ids)


def test_two_prompts_in_flight(rig: Rig) -> None:
    chain = rig.agent(rig.x("X", dialect="sdk"), "passthrough", rig.demo())
    one, two = chain.begin(), chain.new_session()
    first = chain.start_prompt(one, "/hang")
    second = chain.start_prompt(two, "/echo two")
    assert chain.answer(second)["result"]["stopReason"] == "end_turn"
    assert chain.answers(first) == []
    chain.notify("session/cancel", {"sessionId": one})
    assert chain.answer(first)["result"]["stopReason"] == "cancelled"
    assert (chain.texts(one), chain.texts(two)) == ([], ["two"])


def test_an_id_still_in_use_is_refused_and_the_first_unharmed(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.demo())
    session = chain.begin()
    chain.start_prompt(session, "/hang")
    twice = chain.start("_x/same", id="same")
    chain.answer(twice)
    hang = chain.start("session/prompt", {"sessionId": chain.new_session(), "prompt": []}, id="h")
    chain.answer(hang)
    open_id = chain.start_prompt(chain.new_session(), "/hang")
    chain.start("_x/again", id=open_id)
    chain.until(lambda: chain.answers(None), "a refusal")
    (refusal,) = chain.answers(None)
    assert refusal["error"]["code"] == -32600
    chain.settled()
    assert chain.answers(open_id) == []


def test_a_proxy_that_sends_a_request_twice(rig: Rig) -> None:
    chain = rig.agent(rig.x("X", "--dup-on", "twin"), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/echo twin") == "twin"
    chain.settled()
    assert len([m for m in rig.methods("A") if m == "session/prompt"]) == 1
    refused = [e.frame for e in rig.log("X", "in") if "error" in e.frame]
    assert -32600 in [f["error"]["code"] for f in refused if f["id"] is None]


@pytest.mark.parametrize("dialect", PROXIES)
def test_session_ids_are_the_agents(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("X1", dialect=dialect), rig.x("X2", dialect=dialect), rig.demo())
    session = chain.begin()
    assert session == "demo-1"
    chain.prompt(session, "hi")
    for name in ("X1", "X2", "A"):
        said = b"\n".join(entry.raw for entry in rig.log(name))
        assert said.count(b'"sessionId":"demo-1"') + said.count(b'"sessionId": "demo-1"') >= 3


def test_a_thousand_updates_then_the_answer(rig: Rig) -> None:
    proxies = [rig.x(f"X{at}", dialect=d, log=False) for at, d in enumerate(THREE)]
    chain = rig.agent(*proxies, rig.demo())
    session = chain.begin()
    turn = chain.start_prompt(session, "/updates 1000")
    chain.answer(turn)
    assert chain.texts(session) == [f"update {at}\n" for at in range(1000)]
    assert chain.frames[-1]["id"] == turn


def test_large_and_small_mixed_both_ways(rig: Rig) -> None:
    proxies = [rig.x(f"X{at}", dialect=d, log=False) for at, d in enumerate(THREE)]
    chain = rig.agent(proxies[0], "passthrough", *proxies[1:], rig.demo())
    session = chain.begin()
    sizes = [(300_000 if at % 7 == 3 else at) for at in range(60)]
    for at, size in enumerate(sizes):
        chain.notify("_x/down", {"at": at, "filler": "x" * size})
        if at % 10 == 0:
            chain.start_prompt(session, f"/size {size + 1}")
    chain.settled()
    arrived = [e.frame for e in rig.log("A", "in") if e.frame["method"] == "_x/down"]
    assert [(f["params"]["at"], len(f["params"]["filler"])) for f in arrived] == [*enumerate(sizes)]
    chain.until(lambda: len(chain.texts(session)) == 6, "six updates")
    assert [len(text) for text in chain.texts(session)] == [s + 1 for s in sizes[::10]]


def test_an_update_does_not_overtake_the_answer_before_it(rig: Rig) -> None:
    """The agent answers `session/new` and tells its commands in one write."""
    chain = rig.agent("passthrough", rig.x("X", dialect="sdk"), rig.demo("--commands"))
    chain.initialize()
    made = chain.start("session/new", {"cwd": "/", "mcpServers": []})
    chain.expect("session/update")
    kinds = [f.get("id", f.get("method")) for f in chain.frames]
    assert kinds[-2:] == [made, "session/update"]


def test_proxies_are_initialized_from_the_head_and_answer_from_the_tail(rig: Rig) -> None:
    """All logs are one file, so its order is that of the events."""
    shared = ["--log", str(rig.folder / "all")]
    proxies = [rig.x(f"X{at}", *shared) for at in (1, 2, 3)]
    chain = rig.agent(*proxies, rig.demo(*shared))
    chain.initialize()
    seen = [(e.name or "A", e.dir, e.frame.get("method", "answer")) for e in rig.log("all")]
    asked = [(who, method) for who, way, method in seen if way == "in" and method != "answer"]
    assert asked == [*((f"X{at}", "proxy/initialize") for at in (1, 2, 3)), ("A", "initialize")]
    answered = [who for who, way, method in seen if (way, method) == ("out", "answer")]
    assert answered == ["A", "X3", "X2", "X1"]
