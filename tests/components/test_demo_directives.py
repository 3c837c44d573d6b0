"""Every directive of the demo agent that needs no MCP server, against a client that serves it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.process.client import Json
from tests.harness.process.demo import DemoProcess

CAPABILITIES: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}},
}


@pytest.fixture(params=[1, 2])
def demo(request: pytest.FixtureRequest) -> Iterator[DemoProcess]:
    """An agent with one session, demo-1, in either version of ACP."""
    with DemoProcess() as process:
        process.initialize(request.param, CAPABILITIES)
        process.new_session()
        yield process


@pytest.fixture
def demo1() -> Iterator[DemoProcess]:
    """An agent with one session, demo-1, in ACP v1."""
    with DemoProcess() as process:
        process.initialize(1, CAPABILITIES)
        process.new_session(cwd="/project")
        yield process


def ask(demo: DemoProcess, text: str) -> str:
    """The text a prompt is answered with, in a turn that ends well."""
    turn = demo.prompt("demo-1", text)
    assert turn.stop_reason == "end_turn"
    return turn.text


def test_echo_is_one_exact_chunk(demo: DemoProcess) -> None:
    assert demo.prompt("demo-1", "/echo  two  words\nand a line").chunks == [
        " two  words\nand a line"
    ]


def test_stream_is_numbered_and_exact(demo: DemoProcess) -> None:
    turn = demo.prompt("demo-1", "/stream 3000 20")
    assert turn.chunks == [f"{at:08}............" for at in range(3000)]
    assert turn.stop_reason == "end_turn"
    assert demo.prompt("demo-1", "/stream 12 1").chunks == [str(at % 10) for at in range(12)]
    assert demo.prompt("demo-1", "/stream 2 0").chunks == ["", ""]
    assert demo.prompt("demo-1", "/stream 0 5").chunks == []


def test_stream_is_cancelled_while_the_client_does_not_read() -> None:
    with DemoProcess() as demo:
        demo.initialize()
        session = demo.new_session()
        request = demo.start_prompt(session, "/stream 1000000000 1000")
        demo.notify("session/cancel", {"sessionId": session})
        assert demo.outcome(request).stop_reason == "cancelled"


def test_updates_and_size(demo: DemoProcess) -> None:
    assert demo.prompt("demo-1", "/updates 2000").chunks == [f"update {at}\n" for at in range(2000)]
    assert demo.prompt("demo-1", "/size 200000").chunks == ["x" * 200_000]


def test_sleep(demo: DemoProcess) -> None:
    assert ask(demo, "/sleep 0.01") == "slept 0.01 s"


@pytest.mark.parametrize("option", ["allow-once", "allow-always", "reject-once", "reject-always"])
def test_permission(demo: DemoProcess, option: str) -> None:
    seen: list[Json] = []

    def serve(params: Json) -> Json:
        seen.append(params)
        return {"outcome": {"outcome": "selected", "optionId": option}}

    demo.serves["session/request_permission"] = serve
    assert ask(demo, "/permission Delete it all") == f"permission: {option}"
    call = seen[0]["toolCall"] if demo.version == 1 else seen[0]["subject"]["toolCall"]
    assert call["title"] == "Delete it all"
    assert [each["kind"] for each in seen[0]["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]


def test_permission_cancelled_or_refused(demo: DemoProcess) -> None:
    assert "-32601" in ask(demo, "/permission")
    demo.serves["session/request_permission"] = lambda params: {"outcome": {"outcome": "cancelled"}}
    assert ask(demo, "/permission") == "permission: cancelled"


def test_v2_permission_tells_it_requires_action() -> None:
    with DemoProcess() as demo:
        demo.initialize(2)
        demo.new_session()
        demo.serves["session/request_permission"] = lambda params: {
            "outcome": {"outcome": "selected", "optionId": "allow-once"}
        }
        states = [
            each["state"] for each in demo.prompt("demo-1", "/permission").kind("state_update")
        ]
        assert states == ["running", "requires_action", "running", "idle"]


def test_cancelling_a_turn_cancels_its_request(demo: DemoProcess) -> None:
    prompt = demo.start_prompt("demo-1", "/permission")
    while (asked := demo.frame()).get("method") != "session/request_permission":
        pass
    demo.notify("session/cancel", {"sessionId": "demo-1"})
    cancel = demo.frame()
    assert cancel["method"] == "$/cancel_request"
    assert cancel["params"] == {"requestId": asked["id"]}
    late = {"outcome": {"outcome": "cancelled"}}
    demo.send({"jsonrpc": "2.0", "id": asked["id"], "result": late})
    if demo.version == 1:
        assert demo.outcome(prompt).stop_reason == "cancelled"
    else:
        assert demo.frame()["params"]["update"]["stopReason"] == "cancelled"


def test_files(demo1: DemoProcess) -> None:
    files: dict[str, str] = {}
    reads: list[Json] = []

    def write(params: Json) -> Json:
        files[params["path"]] = params["content"]
        return {}

    def read(params: Json) -> Json:
        reads.append(params)
        return {"content": files[params["path"]]}

    demo1.serves |= {"fs/write_text_file": write, "fs/read_text_file": read}
    assert ask(demo1, "/write notes.txt  two\nlines") == "wrote 10 characters"
    assert files == {"/project/notes.txt": " two\nlines"}
    assert ask(demo1, "/read /project/notes.txt 2 7") == " two\nlines"
    assert reads == [{"sessionId": "demo-1", "path": "/project/notes.txt", "line": 2, "limit": 7}]
    demo1.serves.clear()
    assert ask(demo1, "/read x").startswith("read: error ")
    assert ask(demo1, "/write x y").startswith("write: error ")


def test_terminal(demo1: DemoProcess) -> None:
    calls: list[tuple[str, Json]] = []

    def serving(method: str, result: Json) -> None:
        def serve(params: Json) -> Json:
            calls.append((method, params))
            return result

        demo1.serves[method] = serve

    serving("terminal/create", {"terminalId": "t1"})
    serving("terminal/wait_for_exit", {"exitCode": 3, "signal": None})
    serving("terminal/output", {"output": "hello\n", "truncated": False})
    serving("terminal/release", {})
    assert ask(demo1, "/terminal sh -c 'echo hello; exit 3'") == "hello\n\nexit code 3"
    assert [method for method, _ in calls] == [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
    ]
    created = calls[0][1]
    assert (created["command"], created["args"]) == ("sh", ["-c", "echo hello; exit 3"])
    assert created["cwd"] == "/project"
    demo1.serves.clear()
    assert ask(demo1, "/terminal ls").startswith("terminal: error ")


def test_a_cancelled_terminal_is_released(demo1: DemoProcess) -> None:
    prompt = demo1.start_prompt("demo-1", "/terminal sleep 9")
    create = demo1.frame()
    demo1.send({"jsonrpc": "2.0", "id": create["id"], "result": {"terminalId": "t1"}})
    assert demo1.frame()["method"] == "terminal/wait_for_exit"
    demo1.notify("session/cancel", {"sessionId": "demo-1"})
    assert demo1.frame()["method"] == "$/cancel_request"
    release = demo1.frame()
    assert release["method"] == "terminal/release"
    assert release["params"]["terminalId"] == "t1"
    assert demo1.outcome(prompt).stop_reason == "cancelled"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("directive", "capability"),
    [
        ("/read x", "fs.readTextFile"),
        ("/write x y", "fs.writeTextFile"),
        ("/terminal ls", "terminal"),
        ("/ask", "elicitation.form"),
    ],
)
def test_a_capability_the_client_lacks(version: int, directive: str, capability: str) -> None:
    with DemoProcess() as demo:
        demo.initialize(version, {"fs": {"readTextFile": False}})
        demo.new_session()
        assert ask(demo, directive) == f"the client lacks the capability {capability}"


def test_v2_has_no_files_whatever_the_client_says() -> None:
    with DemoProcess() as demo:
        demo.initialize(2, CAPABILITIES)
        demo.new_session()
        assert "lacks" in ask(demo, "/read x")
        assert "lacks" in ask(demo, "/terminal ls")


def test_ask(demo: DemoProcess) -> None:
    seen: list[Json] = []

    def serve(params: Json) -> Json:
        seen.append(params)
        return {"action": "accept", "content": {"answer": "42"}}

    demo.serves["elicitation/create"] = serve
    assert ask(demo, "/ask Well?") == 'elicitation: accept {"answer":"42"}'
    assert (seen[0]["mode"], seen[0]["message"], seen[0]["sessionId"]) == (
        "form",
        "Well?",
        "demo-1",
    )
    demo.serves["elicitation/create"] = lambda params: {"action": "decline"}
    assert ask(demo, "/ask") == "elicitation: decline"


def test_context_tells_everything_as_it_was_sent() -> None:
    with DemoProcess() as demo:
        demo.initialize(1, {"terminal": True})
        servers = '[ {"name":"s","command":"/bin/s","args":[],"env":[],"_meta":{"n":1.10}}]'
        demo.send_bytes(
            b'{"jsonrpc":"2.0","id":"n","method":"session/new","params":'
            b'{"cwd":"/w","mcpServers":%s}}\n' % servers.encode()
        )
        assert demo.frame()["id"] == "n"
        text = ask(demo, "/context")
        context: Any = json.loads(text)
        assert context["protocolVersion"] == 1
        assert context["initialize"]["clientCapabilities"] == {"terminal": True}
        assert (context["sessionId"], context["cwd"]) == ("demo-1", "/w")
        assert context["prompt"] == [{"type": "text", "text": "/context"}]
        assert servers in text
        assert ask(demo, "/servers") == servers


def test_history(demo: DemoProcess) -> None:
    ask(demo, "first")
    history = json.loads(ask(demo, "/history"))
    texts = [turn["prompt"][0]["text"] for turn in history["turns"]]
    assert texts == ["first", "/history"]
    assert history["dropped"] == 0


def test_plan_progresses(demo: DemoProcess) -> None:
    turn = demo.prompt("demo-1", "/plan")
    kind = "plan" if demo.version == 1 else "plan_update"
    plans = [each if demo.version == 1 else each["plan"] for each in turn.kind(kind)]
    done = [[entry["status"] for entry in plan["entries"]].count("completed") for plan in plans]
    assert done == [0, 1, 2, 3]
    assert all(len(plan["entries"]) == 3 for plan in plans)


def test_thought_toolcall_usage_commands(demo: DemoProcess) -> None:
    thought = demo.prompt("demo-1", "/thought hm, well").kind("agent_thought_chunk")
    assert [each["content"]["text"] for each in thought] == ["hm, well"]

    turn = demo.prompt("demo-1", "/toolcall Fix it")
    calls = turn.kind("tool_call") + turn.kind("tool_call_update")
    assert [call["status"] for call in calls] == ["in_progress", "completed"]
    assert calls[0]["title"] == "Fix it"
    assert calls[0]["toolCallId"] == calls[1]["toolCallId"]

    usage = demo.prompt("demo-1", "/usage").kind("usage_update")[0]
    assert (usage["used"], usage["size"]) == (1000, 200000)

    commands = demo.prompt("demo-1", "/commands").kind("available_commands_update")[0]
    names = [each["name"] for each in commands["availableCommands"]]
    lines = ask(demo, "/help").splitlines()[1:]
    assert names == [line.split(":")[0].split()[0].removeprefix("/") for line in lines]
    assert {"echo", "tool", "permission"} <= set(names)


def test_meta_is_odd_and_raw(demo: DemoProcess) -> None:
    line = next(x for x in demo.prompt("demo-1", "/meta").lines if b"odd metadata" in x)
    for odd in (
        b"1.10",
        b"123456789012345678901234567890",
        b"1e400",
        b"\\u0041\\/",
        b"traceparent",
    ):
        assert odd in line
    given = '{"s":"\\ud800", "n":1.00}'
    turn = demo.prompt("demo-1", f"/meta {given}")
    assert any(f'"_meta":{given}'.encode() in x for x in turn.lines)


def test_junk_does_not_disturb_the_turn(demo: DemoProcess) -> None:
    turn = demo.prompt("demo-1", "/junk npm WARN banner")
    assert b"npm WARN banner\n" in turn.lines
    assert turn.text == "before the junk\nafter the junk"
    turn = demo.prompt("demo-1", "/junkbytes")
    bad = [line for line in turn.lines if b"\xff\xfe" in line]
    assert len(bad) == 1
    with pytest.raises(UnicodeDecodeError):
        bad[0].decode()
    assert turn.text == "before the junk\nafter the junk"


def test_stderr(demo: DemoProcess) -> None:
    assert ask(demo, "/stderr oops happened") == "written to stderr"
    demo.eof()
    assert demo.exit_code() == 0
    assert demo.stderr == "oops happened\n"


def test_exit_leaves_the_request_unanswered(demo: DemoProcess) -> None:
    demo.start_prompt("demo-1", "/exit 7")
    assert demo.line() is None
    assert demo.exit_code() == 7
    assert demo.stderr == "demo: exiting with code 7 as asked\n"


def test_exit_with_a_last_word(demo1: DemoProcess) -> None:
    demo1.start_prompt("demo-1", "/exit 0 bye now")
    assert demo1.frame()["params"]["update"]["content"]["text"] == "bye now"
    assert demo1.line() is None
    assert demo1.exit_code() == 0


def test_ext_and_notify(demo: DemoProcess) -> None:
    demo.serves["_my/thing"] = lambda params: {"got": params}
    assert json.loads(ask(demo, '/ext _my/thing {"n":1.10}')) == {"got": {"n": 1.1}}
    assert ask(demo, "/ext _other {}").startswith('error {"code":-32601')
    turn = demo.prompt("demo-1", '/notify _my/news {"n":1.10}')
    assert b'{"jsonrpc":"2.0","method":"_my/news","params":{"n":1.10}}\n' in turn.lines


@pytest.mark.parametrize(
    "wrong",
    [
        "/stream",
        "/stream x 3",
        "/sleep soon",
        "/sleep -1",
        "/sleep nan",
        "/size -3",
        "/exit now",
        "/ext",
        "/ext _x {",
        "/notify _x 5",
        "/meta {",
        "/read",
        "/terminal 'unclosed",
        "/tool",
        "/call only",
        "/call nobody tool {}",
    ],
)
def test_wrong_arguments_are_told_with_a_hint(demo1: DemoProcess, wrong: str) -> None:
    text = ask(demo1, wrong)
    assert text.startswith("demo: ")
    assert f"(hint: {wrong.split(maxsplit=1)[0]}" in text
