"""The demo agent's ACP: negotiation, sessions, cancellation, errors; the real process."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.process.demo import DemoProcess


@pytest.fixture
def demo() -> Iterator[DemoProcess]:
    """A demo agent that was not initialized yet."""
    with DemoProcess() as process:
        yield process


@pytest.mark.parametrize(("asked", "selected"), [(0, 1), (1, 1), (2, 2), (3, 2), (65535, 2)])
def test_version_negotiation(demo: DemoProcess, asked: int, selected: int) -> None:
    params = {"protocolVersion": asked, "info": {"name": "t", "version": "1"}}
    demo.version = selected
    assert demo.call("initialize", params)["result"]["protocolVersion"] == selected


def test_no_v2_selects_1() -> None:
    with DemoProcess("--no-v2") as demo:
        assert demo.call("initialize", {"protocolVersion": 2})["result"]["protocolVersion"] == 1


@pytest.mark.parametrize("version", [None, -1, 65536, 1.5, "1", True])
def test_bad_version_is_refused_and_may_be_tried_again(demo: DemoProcess, version: object) -> None:
    error = demo.call("initialize", {"protocolVersion": version})["error"]
    assert error["code"] == -32602
    assert "protocolVersion" in error["message"]
    assert demo.initialize()["protocolVersion"] == 1


def test_v2_requires_info(demo: DemoProcess) -> None:
    assert demo.call("initialize", {"protocolVersion": 2})["error"]["code"] == -32602


def test_v1_capabilities(demo: DemoProcess) -> None:
    result = demo.initialize()
    assert result["agentInfo"]["name"] == "demo"
    assert result["authMethods"] == []
    capabilities = result["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["promptCapabilities"] == {
        "image": True,
        "audio": True,
        "embeddedContext": True,
    }
    assert capabilities["mcpCapabilities"] == {"http": True}


def test_v2_capabilities(demo: DemoProcess) -> None:
    result = demo.initialize(2)
    assert result["info"]["name"] == "demo"
    assert result["capabilities"]["session"]["mcp"] == {"stdio": {}, "http": {}}
    assert result["capabilities"]["session"]["prompt"] == {
        "image": {},
        "audio": {},
        "embeddedContext": {},
    }


@pytest.mark.parametrize(
    ("flags", "v1", "v2"),
    [
        (["--acp"], {"http": True, "acp": True}, {"stdio": {}, "http": {}, "acp": {}}),
        (["--no-http"], {"http": False}, {"stdio": {}}),
        (["--no-http", "--http"], {"http": True}, {"stdio": {}, "http": {}}),
    ],
)
def test_mcp_capability_flags(flags: list[str], v1: dict[str, Any], v2: dict[str, Any]) -> None:
    with DemoProcess(*flags) as demo:
        assert demo.initialize()["agentCapabilities"]["mcpCapabilities"] == v1
        assert demo.initialize(2)["capabilities"]["session"]["mcp"] == v2


def test_session_ids_are_deterministic_and_listed(demo: DemoProcess) -> None:
    demo.initialize()
    assert demo.new_session(cwd="/a") == "demo-1"
    assert demo.new_session(cwd="/b") == "demo-2"
    assert demo.call("session/list", {})["result"] == {
        "sessions": [{"sessionId": "demo-1", "cwd": "/a"}, {"sessionId": "demo-2", "cwd": "/b"}]
    }
    listed = demo.call("session/list", {"cwd": "/b"})["result"]["sessions"]
    assert [each["sessionId"] for each in listed] == ["demo-2"]


@pytest.mark.parametrize("method", ["session/prompt", "session/load", "session/close"])
def test_unknown_session(demo: DemoProcess, method: str) -> None:
    demo.initialize()
    params = {"sessionId": "nope", "cwd": "/", "mcpServers": [], "prompt": []}
    error = demo.call(method, params)["error"]
    assert error["code"] == -32002
    assert error["data"] == {"sessionId": "nope"}


def test_load_replays_a_closed_session(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    blocks = [
        {"type": "text", "text": "one two"},
        {"type": "resource_link", "name": "n", "uri": "u"},
    ]
    first = demo.prompt(session, blocks)
    second = demo.prompt(session, "/toolcall Fix it")
    assert "result" in demo.call("session/close", {"sessionId": session})
    assert (
        demo.call("session/prompt", {"sessionId": session, "prompt": []})["error"]["code"] == -32002
    )

    params = {"sessionId": session, "cwd": "/elsewhere", "mcpServers": []}
    replay = demo.outcome(demo.start("session/load", params))
    user = [each["content"] for each in replay.kind("user_message_chunk")]
    assert user == [*blocks, {"type": "text", "text": "/toolcall Fix it"}]
    others = [each for each in replay.updates if each["sessionUpdate"] != "user_message_chunk"]
    assert others == first.updates + second.updates
    assert replay.response["result"] == {}
    assert json.loads(demo.prompt(session, "/context").text)["cwd"] == "/elsewhere"


def test_v2_resume_replays_from_start_and_tells_the_state(demo: DemoProcess) -> None:
    demo.initialize(2)
    session = demo.new_session()
    turn = demo.prompt(session, "hello")
    params = {"sessionId": session, "cwd": "/", "replayFrom": {"type": "start"}}
    replay = demo.outcome(demo.start("session/resume", params))
    assert [each["sessionUpdate"] for each in replay.updates] == [
        "user_message",
        "agent_message_chunk",
        "replay_complete",
        "state_update",
    ]
    assert replay.updates[0] == turn.kind("user_message")[0]
    assert replay.updates[-1]["state"] == "idle"
    bare = demo.outcome(demo.start("session/resume", {"sessionId": session, "cwd": "/"}))
    assert [each["sessionUpdate"] for each in bare.updates] == ["state_update"]


def test_v1_modes() -> None:
    with DemoProcess("--modes") as demo:
        demo.initialize()
        result = demo.call("session/new", {"cwd": "/", "mcpServers": []})["result"]
        assert result["modes"]["currentModeId"] == "ask"
        assert [mode["id"] for mode in result["modes"]["availableModes"]] == ["ask", "code"]
        assert (
            demo.call("session/set_mode", {"sessionId": "demo-1", "modeId": "code"})["result"] == {}
        )
        assert json.loads(demo.prompt("demo-1", "/context").text)["mode"] == "code"
        bad = demo.call("session/set_mode", {"sessionId": "demo-1", "modeId": "fly"})
        assert bad["error"]["code"] == -32602


def test_v2_modes_are_a_config_option() -> None:
    with DemoProcess("--modes") as demo:
        demo.initialize(2)
        result = demo.call("session/new", {"cwd": "/"})["result"]
        assert result["configOptions"][0]["currentValue"] == "ask"
        params = {"sessionId": "demo-1", "configId": "mode", "type": "id", "value": "code"}
        changed = demo.call("session/set_config_option", params)["result"]
        assert changed["configOptions"][0]["currentValue"] == "code"


def test_commands_flag_sends_the_update_right_behind_the_answer() -> None:
    with DemoProcess("--commands") as demo:
        demo.initialize()
        assert demo.new_session() == "demo-1"
        update = demo.frame()["params"]["update"]
        assert update["sessionUpdate"] == "available_commands_update"
        assert "echo" in [command["name"] for command in update["availableCommands"]]


def test_authentication_is_accepted(demo: DemoProcess) -> None:
    demo.initialize()
    assert demo.call("authenticate", {"methodId": "any"})["result"] == {}
    demo.initialize(2)
    assert demo.call("auth/login", {"methodId": "any"})["result"] == {}
    assert demo.call("auth/status", {})["result"] == {"state": "not_required"}
    assert demo.call("authenticate", {"methodId": "any"})["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["nope", "_ext/thing", "session/fork", "proxy/initialize"])
def test_unknown_requests_are_refused_and_notifications_ignored(
    demo: DemoProcess, method: str
) -> None:
    demo.initialize()
    demo.notify(method, {})
    error = demo.call(method, {})["error"]
    assert error["code"] == -32601
    assert error["data"] == {"method": method}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}', -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"42", -32600),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1e2,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":-0,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"session/list"}', -32600),
    ],
)
def test_malformed_lines_get_one_error_with_id_null(
    demo: DemoProcess, line: bytes, code: int
) -> None:
    demo.send_bytes(line + b"\n")
    answer = demo.frame()
    assert answer["id"] is None
    assert answer["error"]["code"] == code
    assert demo.initialize()["protocolVersion"] == 1


@pytest.mark.parametrize("request_id", ["null", "0", "-9223372036854775808", '"a\\ud800"', '""'])
def test_valid_ids_come_back(demo: DemoProcess, request_id: str) -> None:
    demo.send_bytes(f'{{"jsonrpc":"2.0","id":{request_id},"method":"session/list"}}\r\n'.encode())
    line = demo.line()
    assert line is not None
    assert f'"id":{request_id},'.encode() in line
    assert b'"sessions":[]' in line


def test_v2_refuses_null_ids(demo: DemoProcess) -> None:
    demo.initialize(2)
    demo.send_bytes(b'{"jsonrpc":"2.0","id":null,"method":"session/list"}\n')
    assert demo.frame()["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('"method":"session/list"', -32600),
        ('"jsonrpc":"2.0"', -32600),
        ('"jsonrpc":"2.0","method":7', -32600),
        ('"jsonrpc":"2.0","method":"session/list","params":[]', -32602),
        ('"jsonrpc":"2.0","method":"session/new","params":{}', -32602),
        ('"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/","mcpServers":3}', -32602),
    ],
)
def test_malformed_requests_are_answered_by_their_id(
    demo: DemoProcess, body: str, code: int
) -> None:
    demo.send_bytes(f'{{"id":7,{body}}}\n'.encode())
    answer = demo.frame()
    assert (answer["id"], answer["error"]["code"]) == (7, code)


def test_answers_nobody_waits_for_are_ignored(demo: DemoProcess) -> None:
    for answer in ('"id":99,"result":{}', '"id":null,"error":{}', '"id":"x","result":1'):
        demo.send_bytes(f'{{"jsonrpc":"2.0",{answer}}}\n'.encode())
    demo.notify("$/cancel_request", {"requestId": 99})
    demo.notify("session/cancel", {"sessionId": "nope"})
    assert demo.initialize()["protocolVersion"] == 1


def test_a_frame_may_come_in_any_pieces(demo: DemoProcess) -> None:
    line = b'{"jsonrpc":"2.0","id":"p","method":"initialize","params":{"protocolVersion":1}}\n'
    for byte in line:
        demo.send_bytes(bytes([byte]))
    assert demo.frame()["id"] == "p"
    demo.send_bytes(b"\r\n  \n" + line + line[:10])
    assert demo.frame()["id"] == "p"
    demo.send_bytes(line[10:])
    assert demo.frame()["id"] == "p"


def test_echo_loses_nothing(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    text = "a few  words\n with\tspaces é 😀 \u0000 and an end "
    turn = demo.prompt(session, text)
    assert turn.text == text
    assert len(turn.chunks) == 4
    assert turn.stop_reason == "end_turn"
    assert demo.prompt(session, text).lines[:-1] == turn.lines[:-1]


def test_echo_shows_other_blocks_byte_for_byte(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    image = '{ "type":"image","data":"\\u0041=","mimeType":"image/png","_meta":{"n":1.10}}'
    demo.send_bytes(
        b'{"jsonrpc":"2.0","id":"e","method":"session/prompt","params":{"sessionId":"demo-1",'
        b'"prompt":[{"type":"text","text":"look"},%s,{"type":"text","text":"ok"}]}}\n'
        % image.encode()
    )
    updates = []
    while (frame := demo.frame()).get("id") != "e":
        updates.append(frame["params"]["update"]["content"]["text"])
    assert "".join(updates) == f"look\n{image}\nok"
    assert session == "demo-1"


def test_large_prompts_echo(demo: DemoProcess) -> None:
    demo.initialize()
    text = "0123456 " * 400_000
    assert demo.prompt(demo.new_session(), text).text == text


def test_a_path_is_echoed_and_an_unknown_directive_told(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    assert demo.prompt(session, "/home/me is my home").text == "/home/me is my home"
    assert "no directive /nope" in demo.prompt(session, "/nope at all").text


def test_the_last_slash_block_is_the_directive(demo: DemoProcess) -> None:
    demo.initialize()
    texts = ["It is Monday.", "/echo no", "/echo yes", "a footer"]
    blocks = [{"type": "text", "text": text} for text in texts]
    assert demo.prompt(demo.new_session(), blocks).chunks == ["yes"]


def test_v2_turn_in_order(demo: DemoProcess) -> None:
    demo.initialize(2)
    session = demo.new_session()
    request = demo.start_prompt(session, "hi")
    turn = demo.outcome(request)
    assert [update["sessionUpdate"] for update in turn.updates] == [
        "state_update",
        "user_message",
        "agent_message_chunk",
        "state_update",
    ]
    assert turn.updates[0]["state"] == "running"
    assert turn.updates[1]["content"] == [{"type": "text", "text": "hi"}]
    assert turn.response["result"] == {"messageId": turn.updates[1]["messageId"]}
    assert turn.updates[2]["messageId"]
    assert turn.updates[3] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "end_turn",
    }
    again = demo.prompt(session, "hi")
    assert again.response["result"] != turn.response["result"]


@pytest.mark.parametrize("directive", ["/hang", "/sleep 1000"])
@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
def test_v1_cancel(demo: DemoProcess, directive: str, how: str) -> None:
    demo.initialize()
    session = demo.new_session()
    request = demo.start_prompt(session, directive)
    params = {"sessionId": session} if how == "session/cancel" else {"requestId": request}
    demo.notify(how, params)
    assert demo.outcome(request).response["result"] == {"stopReason": "cancelled"}
    assert demo.prompt(session, "alive").text == "alive"


def test_v2_cancel_is_a_success_once_inserted(demo: DemoProcess) -> None:
    demo.initialize(2)
    session = demo.new_session()
    running = demo.start_prompt(session, "/hang")
    assert demo.frame()["params"]["update"]["state"] == "running"
    assert demo.frame()["params"]["update"]["sessionUpdate"] == "user_message"
    assert demo.frame()["result"] == {"messageId": "user-1"}
    queued = demo.start_prompt(session, "/hang")
    demo.notify("$/cancel_request", {"requestId": queued})  # not inserted yet: an error
    demo.notify("$/cancel_request", {"requestId": running})  # answered already: ignored
    demo.notify("session/cancel", {"sessionId": session})
    idle = demo.frame()["params"]["update"]
    assert (idle["state"], idle["stopReason"]) == ("idle", "cancelled")
    answer = demo.frame()
    assert (answer["id"], answer["error"]["code"]) == (queued, -32800)


def test_turns_of_a_session_queue_and_of_two_sessions_do_not(demo: DemoProcess) -> None:
    demo.initialize()
    one, two = demo.new_session(), demo.new_session()
    hanging = demo.start_prompt(one, "/hang")
    queued = demo.start_prompt(one, "second")
    assert demo.prompt(two, "meanwhile").text == "meanwhile"
    demo.notify("$/cancel_request", {"requestId": hanging})
    assert demo.frame() == {"jsonrpc": "2.0", "id": hanging, "result": {"stopReason": "cancelled"}}
    assert demo.outcome(queued).text == "second"


def test_closing_a_session_cancels_its_turns(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    hanging = demo.start_prompt(session, "/hang")
    closing = demo.start("session/close", {"sessionId": session})
    answers = {frame["id"]: frame for frame in (demo.frame(), demo.frame())}
    assert answers[hanging]["result"] == {"stopReason": "cancelled"}
    assert answers[closing]["result"] == {}


def test_an_id_in_use_is_refused_and_free_after_the_answer(demo: DemoProcess) -> None:
    demo.initialize()
    session = demo.new_session()
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "/hang"}]}
    frame = {"jsonrpc": "2.0", "id": "same", "method": "session/prompt", "params": params}
    demo.send(frame)
    demo.send(frame)
    refused = demo.frame()
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    demo.notify("$/cancel_request", {"requestId": "same"})
    assert demo.frame()["result"] == {"stopReason": "cancelled"}
    demo.send(frame)
    demo.notify("$/cancel_request", {"requestId": "same"})
    assert demo.frame()["result"] == {"stopReason": "cancelled"}


@pytest.mark.parametrize("prompt", ["text", [1], None])
def test_a_prompt_that_is_no_list_of_blocks(demo: DemoProcess, prompt: object) -> None:
    demo.initialize()
    params = {"sessionId": demo.new_session(), "prompt": prompt}
    assert demo.call("session/prompt", params)["error"]["code"] == -32602
