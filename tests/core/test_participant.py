"""The answers of a conductor that takes part in SCP, before it has a successor."""

import json
from typing import Any

import pytest

from conductor.core.oversize import request_id
from conductor.core.roles.participant import MOST_SERVERS, Launch, Participant, repeated

SECTION: dict[str, Any] = {"symposium": {"version": "1.0", "html_panel": True}}
FLAG: dict[str, Any] = {"symposium": {"version": "1.0", "proxy": True}}
V1: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {"_meta": SECTION}}
V2: dict[str, Any] = {
    "protocolVersion": 2,
    "capabilities": {"_meta": SECTION},
    "info": {"name": "E", "version": "1"},
}
AGENT: dict[str, Any] = {"name": "A", "command": "/bin/agent", "args": ["-x"], "env": []}


def frame(id_: object, method: str, params: object = None) -> bytes:
    asked = {"jsonrpc": "2.0", "id": id_, "method": method}
    return json.dumps(asked if params is None else {**asked, "params": params}).encode()


def answered(participant: Participant, line: bytes) -> Any:
    answer = participant.receive(line)
    assert isinstance(answer, bytes)
    assert answer.endswith(b"\n")
    return json.loads(answer)


def code(participant: Participant, line: bytes, id_: object = 1) -> int:
    answer = answered(participant, line)
    assert answer["id"] == id_
    return int(answer["error"]["code"])


@pytest.fixture
def begun() -> Participant:
    participant = Participant("1.2")
    assert "result" in answered(participant, frame(0, "initialize", V1))
    return participant


def test_version_2() -> None:
    assert answered(Participant("1.2"), frame(1, "initialize", V2))["result"] == {
        "protocolVersion": 2,
        "info": {"name": "conductor", "version": "1.2"},
        "capabilities": {"_meta": FLAG},
        "_meta": {**FLAG, "proxy": True},
    }


@pytest.mark.parametrize("params", [{"protocolVersion": 1}, {"protocolVersion": 1, "_meta": {}}])
def test_who_does_not_take_part_in_scp_is_refused(params: dict[str, Any]) -> None:
    participant = Participant("1")
    answer = answered(participant, frame(1, "initialize", params))
    assert answer["error"]["code"] == -32600
    assert "hint: " in answer["error"]["message"]
    assert "result" in answered(participant, frame(2, "initialize", V1))


def test_before_initialize_each_request_is_an_error() -> None:
    participant = Participant("1")
    assert code(participant, frame(1, "session/new", {})) == -32600
    assert code(participant, frame(1, "_scp/proxy", {"servers": [AGENT]})) == -32600
    assert code(participant, frame(1, "proxy/initialize", V1)) == -32601
    assert code(participant, frame(1, "_proxy/initialize", V1)) == -32601
    assert code(participant, frame(1, "initialize", {"protocolVersion": "x"})) == -32602


def test_before_the_chain_each_other_request_is_an_error(begun: Participant) -> None:
    for method in ("session/new", "initialize", "_vendor/x", "authenticate"):
        assert code(begun, frame(1, method, V1)) == -32600
    assert isinstance(begun.receive(frame(1, "_scp/proxy", {"servers": [AGENT]})), Launch)


def test_the_chain_is_initialized_under_the_id_of_the_launch(begun: Participant) -> None:
    launch = begun.receive(frame("go", "_scp/proxy", {"servers": [AGENT, {"command": "x"}]}))
    assert isinstance(launch, Launch)
    assert launch.id == b'"go"'
    assert json.loads(launch.initialize) == json.loads(frame("go", "initialize", V1))
    first, second = launch.servers
    assert (first.name, first.command, first.args) == ("A", "/bin/agent", ["-x"])
    assert (second.name, second.command, second.args, second.env) == ("", "x", [], [])


def test_a_list_alone_names_successors_too(begun: Participant) -> None:
    launch = begun.receive(frame(1, "_scp/proxy", [{**AGENT, "type": "stdio"}]))
    assert isinstance(launch, Launch)
    assert [each.name for each in launch.servers] == ["A"]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        [],
        5,
        {"servers": []},
        {"servers": {}},
        {"servers": ["/bin/agent"]},
        {"servers": [{"name": "A"}]},
        {"servers": [{**AGENT, "command": ""}]},
        {"servers": [{**AGENT, "command": "/bin/a\0b"}]},
        {"servers": [{**AGENT, "args": ["a\0"]}]},
        {"servers": [{**AGENT, "args": [1]}]},
        {"servers": [{**AGENT, "name": "a\0"}]},
        {"servers": [{**AGENT, "env": {"A": "b"}}]},
        {"servers": [{**AGENT, "env": [{"name": "A", "value": "\0"}]}]},
        {"servers": [{**AGENT, "env": [{"name": "A=B", "value": ""}]}]},
        {"servers": [{**AGENT, "env": [{"name": "", "value": ""}]}]},
        {"servers": [{"type": "http", "name": "A", "url": "http://x"}]},
        {"servers": [{**AGENT, "type": "sse"}]},
        {"servers": [AGENT] * (MOST_SERVERS + 1)},
        {"servers": [AGENT] * 5000},
    ],
)
def test_what_names_no_successors_is_refused(begun: Participant, params: object) -> None:
    assert code(begun, frame(1, "_scp/proxy", params)) == -32602
    assert isinstance(begun.receive(frame(2, "_scp/proxy", {"servers": [AGENT]})), Launch)


@pytest.mark.parametrize(
    ("line", "id_", "expected"),
    [
        (b"{", None, -32700),
        (b'{"id":1', None, -32700),
        (b"[]", None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"initialize"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}', None, -32600),
        (b'{"id":1,"method":"initialize"}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (b"x" * 1025), 1, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
    ],
)
def test_garbage_is_refused(line: bytes, id_: object, expected: int) -> None:
    participant = Participant("1")
    assert code(participant, line, id_) == expected
    assert "result" in answered(participant, frame(2, "initialize", V1))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \t",
        b'{"jsonrpc":"2.0","method":"initialize"}',
        b'{"jsonrpc":"2.0","method":"_scp/proxy","params":{"servers":[]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
    ],
)
def test_what_is_no_request_gets_no_answer(begun: Participant, line: bytes) -> None:
    assert begun.receive(line) is None


def test_a_second_launch_is_refused() -> None:
    refused = repeated(frame(5, "_scp/proxy", {"servers": [AGENT]}))
    assert refused is not None
    assert json.loads(refused)["id"] == 5
    assert json.loads(refused)["error"]["code"] == -32600


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"_scp/proxy {",
        b'["_scp/proxy"]',
        frame(1, "session/prompt", {"text": "_scp/proxy"}),
        frame(1.5, "_scp/proxy"),
        b'{"jsonrpc":"2.0","method":"_scp/proxy"}',
    ],
)
def test_nothing_else_is_a_second_launch(line: bytes) -> None:
    assert repeated(line) is None


@pytest.mark.parametrize(
    ("head", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"x', b"7"),
        (b'{"id":"a","method":"x","params":[', b'"a"'),
        (b'{"jsonrpc":"2.0","id":7,"result":{', None),
        (b'{"jsonrpc":"2.0","method":"initialize","params":{"id":1', None),
        (b"xxxx", None),
    ],
)
def test_the_id_of_a_request_that_is_too_long(head: bytes, id_: bytes | None) -> None:
    assert request_id(head) == id_
