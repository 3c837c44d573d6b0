"""A chain of proxies that do nothing cannot be told from none."""

import sys
from typing import Final

import pytest

from tests.harness.process.client import Json, Refusal
from tests.harness.process.rig import DEMO, PROXIES, Chain, Rig, member

ODD: Final = (
    '{ "_meta" : {"claudeCode":{"toolName":"Read"},"terminal_output":null,"\\u0061":1,"a":2},'
    '"big":123456789012345678901234567890,"decimal":1.10, "huge":1e400,"minus":-0,"exp":1E+2,'
    '"escapes":"\\u0041\\/\\u00e9\\ud83d\\ude00 \\u007f","lone":"\\ud800","low":"\\udc00x",'
    '"twice":1,"twice":2,"deep":[[[[{}]]]],"é":"😀","requestId":7,"method":"initialize"}'
)
"""Legal JSON that decoding and encoding would change."""

NEVER: Final = (b"proxy", b"successor", b"symposium")
"""The words that an agent must never be shown."""


def _chain(rig: Rig, kind: str) -> Chain:
    """The agent alone, or behind what `kind` names; options of the conductor follow a colon."""
    if kind == "alone":
        return rig.start([sys.executable, str(DEMO), "--log", str(rig.folder / "A")])
    if kind == "none":
        return rig.agent(rig.demo())
    if kind == "mixed":
        return rig.agent(*(rig.x(f"X-{d}", dialect=d) for d in PROXIES[:4]), rig.demo())
    if kind in PROXIES:
        return rig.agent(rig.x("X", dialect=kind), rig.demo())
    return rig.agent("passthrough", "passthrough", rig.demo(), options=("-c", f"isolation={kind}"))


KINDS = ("none", *PROXIES, "mixed", "process", "inline")


def _conversation(chain: Chain, folder: str) -> list[Json]:
    """Every kind of traffic; what C saw, in order."""
    chain.serves["session/request_permission"] = lambda _: {
        "outcome": {"outcome": "selected", "optionId": "allow-once"}
    }
    chain.serves["fs/read_text_file"] = lambda params: {"content": f"read {params['path']}"}
    capabilities = {"fs": {"readTextFile": True}, "_meta": {"odd": [1, 2]}}
    chain.initialize(clientCapabilities=capabilities, _meta={"traceparent": "00-1-2-3"})
    session = chain.new_session(cwd=folder, _meta={"k": {"v": None}})
    for text in ("hello world", "/permission do it", "/read notes.txt", "/plan", "/toolcall t",
                 "/meta", "/context", "/commands", "/updates 5"):  # fmt: skip
        chain.answer(chain.start_prompt(session, text))
    chain.request("session/load", {"sessionId": session, "cwd": folder, "mcpServers": []})
    chain.request("session/set_mode", {"sessionId": session, "modeId": "code"})
    chain.request("session/prompt", {"sessionId": "nobody", "prompt": []})
    chain.request("_no/such", {"a": 1})
    hang = chain.start_prompt(session, "/hang")
    chain.notify("session/cancel", {"sessionId": session})
    chain.answer(hang)
    assert chain.finish() == 0
    return _apart_from_ids(chain.frames)


def _apart_from_ids(frames: list[Json]) -> list[Json]:
    """The frames with the ids of the agent's own requests numbered anew."""
    count = 0
    plain = []
    for frame in frames:
        if "method" in frame and "id" in frame:
            count += 1
            frame = {**frame, "id": f"agent's {count}"}  # noqa: PLW2901
        plain.append(frame)
    return plain


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """The messages that C gets from the agent alone."""
    made = Rig.create(tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("none"))
    try:
        return _conversation(_chain(made, "alone"), "/project")
    finally:
        made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_client_sees_the_agent_alone(rig: Rig, alone: list[Json], kind: str) -> None:
    chain = _chain(rig, kind)
    seen = _conversation(chain, "/project")
    if kind != "none":  # with proxies the conductor takes MCP servers for the agent
        assert seen[0]["result"]["agentCapabilities"]["mcpCapabilities"].pop("acp") is True
    assert len(seen) == len(alone)
    for ours, theirs in zip(seen, alone, strict=True):
        assert ours == theirs
    assert chain.stderr == ""


@pytest.mark.parametrize("kind", KINDS)
def test_the_agent_sees_the_client_alone(rig: Rig, kind: str) -> None:
    chain = _chain(rig, kind)
    params = '{"protocolVersion":1, "clientCapabilities":{"terminal" : true},"_meta":{"a":1.0}}'
    chain.send_bytes(b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":%b}\n'
                     % params.encode())  # fmt: skip
    assert "result" in chain.answer("i")
    assert chain.prompt(chain.new_session(), "hi") == "hi"
    received = rig.log("A", "in")
    assert [entry.frame["method"] for entry in received] == [
        "initialize", "session/new", "session/prompt",
    ]  # fmt: skip
    for entry in received:
        assert not [word for word in NEVER if word in entry.raw]
    if kind not in ("sacp", "pacp", "scp", "mixed"):  # else the flag had to be put in and out
        assert member(received[0].raw, "params") == params.encode()


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_methods_and_odd_payloads_downwards(rig: Rig, kind: str) -> None:
    chain = _chain(rig, kind)
    chain.initialize()
    odd = ODD.encode()
    chain.send_bytes(b'{"jsonrpc":"2.0","method":"_x/y","params":%b}\n' % odd)
    chain.send_bytes(b'{"jsonrpc":"2.0","id":"r","method":"_x/y","params":%b}\n' % odd)
    assert chain.answer("r")["error"]["code"] == -32601
    received = [e for e in rig.log("A", "in") if e.frame["method"] == "_x/y"]
    assert ["id" in e.frame for e in received] == [False, True]
    assert [member(e.raw, "params") for e in received] == [odd, odd]


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_methods_and_odd_payloads_upwards(rig: Rig, kind: str) -> None:
    chain = _chain(rig, kind)
    session = chain.begin()
    odd = ODD.encode()
    chain.serves["_x/y"] = None
    chain.start_prompt(session, f"/notify _x/n {ODD}")
    turn = chain.start_prompt(session, f"/ext _x/y {ODD}")
    request = chain.expect("_x/y")
    lines = [line for line in chain.lines if b'"method":"_x/' in line]
    assert [member(line, "params") for line in lines] == [odd, odd]
    head = b'{"jsonrpc":"2.0","id":%d,' % request["id"]
    chain.send_bytes(head + b'"result":%b}\n' % odd)
    chain.answer(turn)
    answers = [e for e in rig.log("A", "in") if "method" not in e.frame]
    assert [member(e.raw, "result") for e in answers] == [odd]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_errors_upwards_and_downwards(rig: Rig, kind: str) -> None:
    """Extra members, codes beyond 32 bits, odd data: an error object is its maker's."""
    chain = _chain(rig, kind)
    session = chain.begin()
    error = f'{{"code":-123456789012345,"message":"\\u0041","more":[1.10],"data":{ODD}}}'

    def refuse(params: Json) -> Json:
        raise Refusal(error)

    chain.serves["_x/y"] = refuse
    chain.answer(chain.start_prompt(session, "/ext _x/y {}"))
    answers = [e for e in rig.log("A", "in") if "method" not in e.frame]
    assert [member(e.raw, "error") for e in answers] == [error.encode()]
    refused = chain.start("session/prompt", {"sessionId": "\ud800", "prompt": []})
    chain.answer(refused)
    said = [e.raw for e in rig.log("A", "out") if "error" in e.frame]
    mine = [line for line in chain.lines if b'"error"' in line]
    assert [member(line, "error") for line in mine] == [member(raw, "error") for raw in said]
