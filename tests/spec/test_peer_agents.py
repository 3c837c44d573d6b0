"""Peer agents as a user writes them: each of one component, and judged as agents are."""

import json
import sys

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog, peer_agents
from conductor.spec.config.model import Config, WrittenOption
from conductor.spec.managed import chain, file
from conductor.spec.model import Spec
from conductor.spec.option_layers import value
from conductor.spec.options import Options
from conductor.spec.plan import Plan

AGENTS = "contact = 'a@example.com'\n[[agents]]\nsource = 'bundled:demo'\n"


def specs(*components: str, peers: tuple[str, ...] = ("a=demo",)) -> list[Spec]:
    """A chain with its peer agents."""
    found = catalog.resolve_all([*components, "demo"])
    return peer_agents.resolved(found, Options(peer=peers), agent_last=True)


def of(components: list[Spec]) -> Plan:
    return Plan(components=tuple(components), options=Options(set_by={"peer": "file, line 7"}))


@pytest.mark.parametrize(
    ("config", "isolated"), [(None, True), (Config(alone=True), True), (Config(), False)]
)
def test_a_branch_reads_no_configuration_where_its_chain_reads_no_other(
    config: Config | None, isolated: bool
) -> None:
    found = catalog.resolve_all(["router,allow=peer:a", "demo"])
    options = Options(branch=("a=cat",))
    _, branch, _ = peer_agents.resolved(found, options, agent_last=True, config=config)
    assert ("--isolated" in (branch.command or [])) is isolated


def test_a_branch_ends_in_an_agent_like_the_chains() -> None:
    options = Options(branch=("a=datetime 'x.wasm,name=y'",), require_sandbox=True)
    mine = {"command": sys.executable, "args": ["my agent.py"], "env": {"KEY": "v"}}
    found = catalog.resolve_all(["router,allow=peer:a", json.dumps(mine)])
    _, branch, agent = peer_agents.resolved(found, options, agent_last=True)
    *_, first, second, last = branch.command or []
    assert (first, second) == ("datetime", "x.wasm,name=y")
    assert catalog.resolve(last).command == agent.command == [sys.executable, "my agent.py"]
    assert catalog.resolve(last).variables == {"KEY": "v"}
    assert "require-sandbox=true" in (branch.command or [])
    far = "wss://a.example.org,token=env:KEY,ca=a.pem"
    _, branch, agent = peer_agents.resolved(
        catalog.resolve_all(["router,allow=peer:a", far]), options, agent_last=True
    )
    there = catalog.resolve((branch.command or [])[-1])
    assert (there.address, there.token, there.ca) == (agent.address, "env:KEY", agent.ca)
    with pytest.raises(UsageError, match="cannot read the branch `a`: No closing quotation"):
        peer_agents.resolved(found, Options(branch=('a="',)), agent_last=True)
    for written, agent_last in ((["py:a:b"], True), (["datetime"], False)):
        found = catalog.resolve_all(written, agent_last=agent_last)
        with pytest.raises(UsageError, match="ends in an agent like the chain's"):
            peer_agents.resolved(found, options, agent_last=agent_last)


def test_peer_agents_stand_before_the_agent() -> None:
    chain = specs("datetime,allow=peer:a+peer:b", peers=("b=demo", 'a=["datetime","demo"]'))
    assert [spec.name for spec in chain] == ["datetime", "b", "a", "demo"]
    assert [spec.peer_agent for spec in chain] == [False, True, True, False]
    assert (chain[2].command or [])[-3:] == ["control=off", "datetime", "demo"]
    peer_agents.check(of(chain))
    assert chain[0].ports == {"a": True, "b": True}
    assert catalog.resolve("datetime,only=trusted+peer:a").ports == {"a": False}


@pytest.mark.parametrize(
    ("components", "why"),
    [
        (["datetime"], r"no component reaches `a` \(file, line 7\)"),
        (
            ["datetime,allow=peer:a", "passthrough,allow=peer:a"],
            r"`datetime` \(command line\) and `passthrough` \(command line\) reach `a`",
        ),
        (
            ["datetime,allow=peer:a+peer:b"],
            r"there is no peer agent `b` for `datetime` \(command line\)",
        ),
        (["datetime,allow=peer:a", "demo,allow=peer:a"], "reach `a`"),
    ],
)
def test_each_belongs_to_one_component(components: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        peer_agents.check(of(specs(*components)))
    assert refused.value.hint


def test_an_agent_reaches_none() -> None:
    found = catalog.resolve_all(["datetime", "demo,allow=peer:a"])
    with pytest.raises(UsageError, match="`peer:NAME` is a right of proxies"):
        peer_agents.check(of(found))


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (("client=demo",), "needs a name that nothing else"),
        (("datetime=demo",), "needs a name that nothing else"),
        (("a=demo", "a=demo"), "needs a name that nothing else"),
        (("a=passthrough",), "is a sandboxed proxy"),
        (("a=[1]",), "a JSON list of components"),
    ],
)
def test_what_is_no_peer_agent(written: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        specs("datetime,allow=peer:a", peers=written)
    assert refused.value.hint


def test_the_managed_policy_judges_them_as_agents() -> None:
    managed = file.parse(AGENTS.encode(), "/etc/conductor/policy.toml")
    assert [
        spec.name for spec in chain.held(managed, specs("datetime,allow=peer:a"), agent_last=True)
    ]
    with pytest.raises(UsageError, match="agent `a`"):
        chain.held(managed, specs("datetime,allow=peer:a", peers=("a=cat",)), agent_last=True)


def test_in_a_file_they_are_a_table() -> None:
    table = {"a": "demo", "b": ["datetime", "demo"]}
    assert value("peer", WrittenOption(table, "x, line 1")) == (
        "a=demo",
        'b=["datetime","demo"]',
    )
    for wrong in ("a=demo", {"a": 5}, {"a b": "demo"}):
        with pytest.raises(UsageError, match="x, line 1"):
            value("peer", WrittenOption(wrong, "x, line 1"))
