"""A chain: its ids, its sessions, its order."""

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


def test_a_proxy_that_sends_a_request_twice(rig: Rig) -> None:
    chain = rig.agent(rig.x("X", "--dup-on", "twin"), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/echo twin") == "twin"
    chain.settled()
    assert len([m for m in rig.methods("A") if m == "session/prompt"]) == 1
    refused = [e.frame for e in rig.log("X", "in") if "error" in e.frame]
    assert -32600 in [f["error"]["code"] for f in refused if f["id"] is None]


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
