"""Conductors as proxies of conductors."""

import json
import shlex
import sys

import pytest

from tests.harness.process.client import Json
from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Chain, Rig


def _marked(rig: Rig, name: str, dialect: str = "acp", *flags: str) -> str:
    return rig.x(name, "--mark", name, *flags, dialect=dialect)


def _marks(chain: Chain, session: str) -> list[str]:
    """The marks an echoed prompt wears, from the head of the chain to its tail."""
    return chain.prompt(session, "end").split("\n")[:-1][::-1]


def _conductor(spelling: str, *components: str, **more: object) -> str:
    """A conductor as a component, told by a JSON object."""
    args = [*COMMAND[1:], *spelling.split(), *components]
    return json.dumps({"command": COMMAND[0], "args": args, "name": "inner", **more})


@pytest.mark.parametrize("spelling", ["proxy", "agent"])
def test_proxy_mode(rig: Rig, spelling: str) -> None:
    """`agent` without a flag finds out from the first request that it is a proxy."""
    inner = _conductor(spelling, _marked(rig, "P1"), _marked(rig, "P2", "sdk"))
    chain = rig.agent(_marked(rig, "X1"), inner, rig.demo())
    session = chain.begin()
    assert _marks(chain, session) == ["X1", "P1", "P2"]
    assert rig.methods("A") == ["initialize", "session/new", "session/prompt"]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("inside", ["acp", "pacp"])
@pytest.mark.parametrize("dialect", ["acp", "sdk", "sacp", "pacp"])
def test_a_conductor_is_a_proxy_in_any_dialect(rig: Rig, dialect: str, inside: str) -> None:
    inner = _conductor("agent", "passthrough", _marked(rig, "P", inside), dialect=dialect)
    chain = rig.agent(inner, rig.demo())
    chain.serves["_x/up"] = lambda params: {"got": params}
    session = chain.begin()
    assert _marks(chain, session) == ["P"]
    assert chain.prompt(session, '/ext _x/up {"a":1}').endswith('{"got":{"a":1}}')
    assert chain.prompt(session, "/notify _x/up {}").endswith("sent _x/up")
    hang = chain.start_prompt(session, "/hang")
    rig.until_heard("A", b'"/hang"')  # else a proxy may still hold it, and it never begins
    chain.notify("$/cancel_request", {"requestId": hang})
    assert chain.answer(hang)["result"]["stopReason"] == "cancelled"
    for entry in rig.log("A", "in"):
        assert not [w for w in (b"proxy", b"successor", b"symposium") if w in entry.raw]
    assert b"symposium" not in chain.lines[0]
    assert chain.finish() == 0


def _first_tree(rig: Rig) -> Chain:
    """client -> proxy1 -> conductor {p1 -> p2 -> p3} -> final agent."""
    p = [_marked(rig, f"p{at}", d) for at, d in enumerate(("acp", "sacp", "pacp"), 1)]
    return rig.agent(_marked(rig, "proxy1"), rig.nested(*p), rig.demo())


def _second_tree(rig: Rig) -> Chain:
    """client -> conductor1 {proxy-a -> conductor2 {proxy-b -> proxy-c} -> proxy-d} -> agent,
    one level deeper: conductor1 is a proxy itself."""
    two = rig.nested(_marked(rig, "proxy-b", "sdk"), _marked(rig, "proxy-c", "sacp"))
    one = rig.nested(_marked(rig, "proxy-a"), two, _marked(rig, "proxy-d", "pacp"))
    return rig.agent(one, rig.demo())


TREES = {
    "first": (_first_tree, ["proxy1", "p1", "p2", "p3"]),
    "second": (_second_tree, ["proxy-a", "proxy-b", "proxy-c", "proxy-d"]),
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_the_flat_chain(rig: Rig, name: str) -> None:
    make, marks = TREES[name]
    tree = make(rig)
    flat = rig.agent(*(rig.x(f"f-{m}", "--mark", m, log=False) for m in marks), rig.demo(name="B"))
    logs = []
    for chain, agent in ((tree, "A"), (flat, "B")):
        chain.serves["_x/up"] = lambda params: {"got": params}
        session = chain.begin()
        assert _marks(chain, session) == marks
        for text in ('/ext _x/up {"a":1}', "/updates 100", "/permission p"):
            chain.answer(chain.start_prompt(session, text))
        hang = chain.start_prompt(session, "/hang")
        rig.until_heard(agent, b'"/hang"')
        chain.notify("$/cancel_request", {"requestId": hang})
        assert chain.answer(hang)["result"]["stopReason"] == "cancelled"
        assert chain.finish() == 0
        logs.append([{**f, "id": 0} if "method" in f else f for f in chain.frames])
    assert logs[0] == logs[1]
    assert rig.leftovers(tree) == []


def test_sandboxed_proxies_in_a_tree(rig: Rig) -> None:
    inner = rig.nested("passthrough", _marked(rig, "P"), "passthrough")
    outer = rig.nested("passthrough", inner, "passthrough")
    chain = rig.agent("passthrough", outer, rig.demo())
    session = chain.begin()
    assert _marks(chain, session) == ["P"]
    chain.answer(chain.start_prompt(session, "/updates 500"))
    assert chain.texts(session)[-500:] == [f"update {at}\n" for at in range(500)]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_a_leaf_that_dies_is_named(rig: Rig) -> None:
    two = rig.nested(rig.x("b"), rig.x("leaf", "--die-on", "poison"))
    one = rig.nested(rig.x("a"), two, rig.x("d"))
    chain = rig.agent(one, rig.demo())
    session = chain.begin()
    error = chain.answer(chain.start_prompt(session, "poison"))["error"]
    for part in ("`leaf`", "recording_proxy", "exited with code 7", "leaf: dying of poison"):
        assert part in error["message"]
    assert chain.exit_code() == 1
    assert "`leaf`" in chain.stderr
    assert rig.leftovers(chain) == []


def _as_outer(chain: Chain, result: Json) -> Json:
    """Plays the outer conductor with the successor's answer; the result for proxy/initialize."""
    asked = chain.start("proxy/initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    chain.serves["proxy/successor"] = None
    inner = chain.expect("proxy/successor")
    assert inner["params"]["method"] == "initialize"
    assert inner["params"]["params"] == {"protocolVersion": 1, "clientCapabilities": {}}
    assert chain.answers(asked) == []
    chain.send({"jsonrpc": "2.0", "id": inner["id"], "result": result})
    answer: Json = chain.answer(asked)["result"]
    return answer


def test_a_conductor_of_proxies_only_initializes(rig: Rig) -> None:
    chain = rig.proxy(rig.x("X1"), "passthrough", rig.x("X2", dialect="pacp"))
    result = {"protocolVersion": 1, "agentCapabilities": {"odd": [1]}}
    assert _as_outer(chain, result) == result
    # The two ends of it: down from us comes out wrapped, wrapped from us comes out plain.
    chain.notify("_x/down", {"a": 1})
    chain.until(lambda: len(chain.seen("proxy/successor")) == 2, "the notification")
    assert chain.seen("proxy/successor")[1]["params"] == {"method": "_x/down", "params": {"a": 1}}
    chain.notify("proxy/successor", {"method": "_x/up", "params": {"b": 2}})
    assert chain.expect("_x/up")["params"] == {"b": 2}
    assert chain.finish() == 0


@pytest.mark.parametrize("options", [(), ("--dialect", "acp")])
def test_a_conductor_of_nothing_is_the_identity(rig: Rig, options: tuple[str, ...]) -> None:
    chain = rig.run("proxy", *options)
    result = {"protocolVersion": 1, "agentCapabilities": {"odd": [1]}}
    assert _as_outer(chain, result) == result
    chain.notify("_x/down", {"a": 1})
    chain.until(lambda: len(chain.seen("proxy/successor")) == 2, "the notification")
    assert chain.seen("proxy/successor")[1]["params"] == {"method": "_x/down", "params": {"a": 1}}
    chain.notify("proxy/successor", {"method": "_x/up", "params": {"b": 2}})
    assert chain.expect("_x/up")["params"] == {"b": 2}
    assert chain.finish() == 0


def test_an_empty_chain_within_a_chain(rig: Rig) -> None:
    empty = shlex.join([sys.executable, "-m", "conductor", "proxy"])
    chain = rig.agent(rig.x("X1"), empty, rig.demo())
    assert chain.request("initialize", {"protocolVersion": 1})["result"]["protocolVersion"] == 1
    assert chain.request("session/new", {"cwd": "/", "mcpServers": []})["result"]["sessionId"]
    assert chain.finish() == 0


def test_a_proxy_without_an_outer_conductor_says_so(rig: Rig) -> None:
    chain = rig.proxy(rig.x("X1"), rig.x("X2"))
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert error["code"] == -32600
    assert "proxy/initialize" in error["message"]
    assert chain.finish() == 0


def test_a_chain_that_ends_with_a_proxy_program(rig: Rig) -> None:
    """Nobody can know before it is asked; what it answers says what it is."""
    chain = rig.agent(rig.x("X1"), rig.x("X2"))
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert "the last component, `X2` (" in error["message"]
    assert "X2 does not take initialize now" in error["message"]
    assert "\nhint: a chain ends with an agent" in error["message"]
    assert error["data"] == {"component": "X2"}
    assert chain.exit_code() == 1
    assert "error: the last component, `X2`" in chain.stderr
    assert "\nhint: a chain ends with an agent" in chain.stderr


def test_a_chain_that_ends_with_a_conductor_of_proxies(rig: Rig) -> None:
    chain = rig.agent(rig.x("X1"), shlex.join([sys.executable, "-m", "conductor", "proxy"]))
    error = chain.request("initialize", {"protocolVersion": 1})["error"]
    assert "is not an agent" in error["message"]
    assert chain.exit_code() == 1


def test_no_component_at_all(rig: Rig) -> None:
    chain = rig.run("agent")
    assert chain.finish() == 2
    assert chain.lines == []
    assert "component" in chain.stderr.lower()
