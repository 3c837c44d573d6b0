"""The example proxies and the example agent of the Python SDK, in each form, behind one
conductor."""

import json
import sys
from typing import Final

import pytest

from tests.guest_sdk.python.support import EXAMPLES
from tests.harness.process.rig import Chain, Rig

pytestmark = pytest.mark.timeout(600)

PROXIES: Final = ("pass_through", "inject", "background", "add_tool")
MODULE: Final = "guest_sdk.python.examples"


def _chain(rig: Rig, form: str) -> Chain:
    program = rig.program(sys.executable, str(EXAMPLES / "agents" / "assistant.py"), name="A")
    match form:
        case "sandboxed":
            more = {"inject": ",only=full"}
            proxies = [f"{EXAMPLES / name}.py{more.get(name, '')}" for name in PROXIES]
            return rig.run("agent", *proxies, program)
        case "programs":
            files = [(name, str(EXAMPLES / f"{name}.py")) for name in PROXIES]
            named = [rig.program(sys.executable, file, name=name) for name, file in files]
            return rig.run("agent", *named, program)
    within = [f"py:{MODULE}.{name}:proxy" for name in PROXIES]
    return rig.run("agent", *within, f"py:{MODULE}.agents.assistant:agent")


@pytest.mark.parametrize(
    ("form", "version"),
    [("sandboxed", 1), ("sandboxed", 2), ("programs", 2), ("in process", 1)],
)
def test_a_chain_of_examples(rig: Rig, form: str, version: int) -> None:
    chain = _chain(rig, form)
    info = {"name": "test", "version": "1"}
    more = {"info": info, "capabilities": {}} if version == 2 else {}
    assert chain.initialize(protocolVersion=version, **more)["protocolVersion"] == version
    session = chain.new_session()

    def ask(text: str) -> str:
        """The agent's answer to a prompt, in either version."""
        mark = len(chain.seen("session/update"))
        answer = chain.answer(chain.start_prompt(session, text))["result"]
        if version == 2:
            chain.until(lambda: _idle(chain, mark), "the turn's end")
            assert "messageId" in answer
        else:
            assert answer == {"stopReason": "end_turn"}
        updates = [one["params"]["update"] for one in chain.seen("session/update")[mark:]]
        said = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        return "".join(one["content"]["text"] for one in said)

    assert json.loads(ask("client"))["_meta"] == {"example.com/my_feature": True}
    assert ask("hi") == "You said: The project is a conductor of proxies.\nhi"
    name, _, tools = ask("tools").partition(": ")
    assert tools == "add, area, count, divide\n"
    assert ask(f'call {name} add {{"a": 1, "b": 2}}') == "3"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def _idle(chain: Chain, mark: int) -> bool:
    updates = [one["params"]["update"] for one in chain.seen("session/update")[mark:]]
    return any(one.get("state") == "idle" for one in updates)


def test_bad_input_gets_errors_and_the_next_message_works(rig: Rig) -> None:
    """An agent by itself, as an editor starts it: malformed lines, and the end of its input."""
    agent = rig.start([sys.executable, str(EXAMPLES / "agents" / "echo.py")])
    for line, code in (
        (b"no json\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":1}\n', -32600),
        (b"\xff\xfe\n", -32700),
    ):
        before = len(agent.answers(None))
        agent.send_bytes(line)
        agent.until(lambda: len(agent.answers(None)) > before, "an answer")  # noqa: B023 - at once
        assert agent.answers(None)[-1]["error"]["code"] == code, line
    for method, params, code in (
        ("initialize", {}, -32602),
        ("initialize", [], -32602),
        ("session/new", {}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": 3}, -32602),
        ("session/prompt", {"sessionId": 5, "prompt": []}, -32002),
        ("session/prompt", {"sessionId": "none", "prompt": []}, -32002),
        ("session/load", {"sessionId": "none", "cwd": "/"}, -32601),
        ("nothing", {}, -32601),
    ):
        assert agent.request(method, params)["error"]["code"] == code, method
    agent.notify("session/cancel", {"sessionId": "none"})
    agent.notify("session/cancel", [])
    session = agent.begin()
    assert (
        agent.request("session/prompt", {"sessionId": session, "prompt": "x"})["error"]["code"]
        == -32602
    )
    agent.notify("session/cancel", {"sessionId": session})  # before any prompt
    long = "x" * 300_000
    assert agent.prompt(session, long) == long
    assert agent.finish() == 0
