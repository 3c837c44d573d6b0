"""`decide`: an endpoint refuses or narrows, and never allows; one that fails is closed or open."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import V2, Json, agent, component, play
from tests.harness.process.rig import Rig

URL = "http://127.0.0.1:8181/v1/data/agents/decision"
OPTIONS = [
    {"optionId": "a1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "a2", "name": "Always", "kind": "allow_always"},
    {"optionId": "r1", "name": "No", "kind": "reject_once"},
]
NO = {"outcome": "selected", "optionId": "r1"}
YES = {"outcome": "selected", "optionId": "a2"}
"""The client's answer to every question here."""


def deciding(answer: Any, asked: list[Json] | None = None, **more: Any) -> Playground:
    """A playground whose endpoint gives this answer to everything."""

    def fetch(params: Json) -> Any:
        if asked is not None:
            asked.append(params)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, dict) and "status" in answer else json.dumps(answer)

    config = {"url": URL, **more}
    return play("decide", config=config, fetch=fetch, client=lambda _: {"outcome": YES})


def ask(p: Playground, call: Json | None = None, **more: Any) -> tuple[Any, list[str] | None]:
    """The outcome of a permission request, and the options that the user saw (None: nobody)."""
    before = len(p.heard)
    params = {"sessionId": p.session, "options": OPTIONS, **more}
    if "subject" not in more:
        params["toolCall"] = {"toolCallId": "t", "title": "rm -rf /", **(call or {})}
    outcome = p.result("s", p.agent.request("session/request_permission", params))["outcome"]
    seen = [
        [option["kind"] for option in one.raw["params"]["options"]]
        for one in p.heard[before:]
        if one.method == "session/request_permission"
    ]
    return outcome, seen[0] if seen else None


ALL = ["allow_once", "allow_always", "reject_once"]
ANSWERS: list[tuple[Any, Any, list[str] | None]] = [
    (True, YES, ALL),
    ({"result": True}, YES, ALL),
    ({"result": {"decision": "allow", "reason": "x"}}, YES, ALL),
    ({"result": {"allow": True}}, YES, ALL),
    ({"decision": "Allow", "diagnostics": {}}, YES, ALL),
    ({"result": False}, NO, None),
    ("deny", NO, None),
    ({"decision": "Deny"}, NO, None),
    ({"result": {"decision": "narrow"}}, YES, ["allow_once", "reject_once"]),
]
WRONG: list[Any] = [
    {}, {"result": {}}, {"result": None}, [], 1, "yes", {"result": {"decision": ["allow"]}},
    {"allow": "true"}, {"status": 500, "text": "true"}, {"status": 200, "text": "not json"},
    {"status": 200, "text": "true", "truncated": True}, {"status": 200, "text": "[" * 9000},
    ProxyError("no answer within 2000 ms", -31901), {"status": 200, "base64": "/w=="},
]  # fmt: skip


@pytest.mark.parametrize(("answer", "outcome", "options"), ANSWERS)
async def test_what_the_endpoint_decides_holds(answer: Any, outcome: Any, options: Any) -> None:
    async with deciding(answer) as p:
        await p.prompt("x")
        assert ask(p) == (outcome, options)


@pytest.mark.proves("`decide` refuses or narrows")
@pytest.mark.parametrize("answer", WRONG)
@pytest.mark.parametrize("failure", ["closed", "open"])
async def test_an_endpoint_that_fails_is_closed_or_open_as_set(answer: Any, failure: str) -> None:
    async with deciding(answer, failure=failure) as p:
        await p.prompt("x")
        assert ask(p) == ((NO, None) if failure == "closed" else (YES, ALL))
        assert p.services.log[0].startswith("warn: the endpoint has not decided: ")


async def test_the_user_is_told_why_and_the_words_are_harmless() -> None:
    reason = "not on a\x1b[31m Friday\n" + "x" * 500
    async with deciding({"result": {"decision": "deny", "reason": reason}}) as p:
        await p.prompt("x")
        ask(p, {"title": "rm\n-rf"})
        said = p.heard[-1].raw["params"]["update"]["content"]["text"]
        assert said.startswith("\n[decide: refused `rm -rf`: not on a [31m Friday xxx")
        assert said.endswith("x…]\n")
        assert len(said) < 260


async def test_the_question_holds_what_was_told_of_the_call() -> None:
    asked: list[Json] = []
    async with deciding(True, asked, deadline=0.5) as p:
        p.agent.answer = lambda one: (
            {"protocolVersion": 1, "agentInfo": {"name": "ag", "version": "2"}}
            if one.method == "initialize"
            else None
        )
        await p.initialize()
        await p.prompt("x")
        content = [{"type": "diff", "path": "/project/a.py", "oldText": "", "newText": "x"}]
        call = {"toolCallId": "t", "kind": "edit", "rawInput": {"n": 1.5}, "content": content}
        meta = {"claudeCode": {"toolName": "Edit"}}
        update = {"sessionUpdate": "tool_call", "title": "Edit a.py", "_meta": meta, **call}
        p.agent.notify("session/update", {"sessionId": p.session, "update": update})
        p.agent.request(
            "session/request_permission",
            {"sessionId": p.session, "options": OPTIONS, "toolCall": {"toolCallId": "t"}},
        )
        assert (asked[0]["url"], asked[0]["method"]) == (URL, "POST")
        assert (asked[0]["timeoutMs"], asked[0]["maxBytes"]) == (500, 65536)
        assert json.loads(asked[0]["text"])["input"] == {
            "principal": {"type": "Agent", "id": "ag"},
            "action": {"type": "Action", "id": "permission"},
            "resource": {"type": "Tool", "id": "Edit"},
            "context": {
                "title": "Edit a.py",
                "kind": "edit",
                "arguments": {"n": 1.5},
                "paths": ["/project/a.py"],
                "options": ["allow_always", "allow_once", "reject_once"],
                "cwd": "/project",
            },
        }
        ask(p, title="Run", subject={"type": "command", "command": "rm", "args": ["x"], "cwd": "/"})
        said = json.loads(asked[1]["text"])["input"]
        assert said["resource"]["id"] == said["context"]["kind"] == "execute"
        assert said["context"]["arguments"] == {"command": "rm", "args": ["x"], "cwd": "/"}


async def test_cedar_gets_entities_and_no_number_it_does_not_know() -> None:
    asked: list[Json] = []
    async with deciding({"decision": "Allow"}, asked, format="cedar") as p:
        await p.prompt("x")
        ask(p, {"name": 'a"b', "rawInput": {"x": None, "y": 1.5}})
        said = json.loads(asked[0]["text"])
        assert (said["principal"], said["action"]) == ('Agent::"agent"', 'Action::"permission"')
        assert said["resource"] == 'Tool::"a\\"b"'
        assert said["context"]["arguments"] == '{"x": null, "y": 1.5}'


async def test_a_decision_holds_for_its_time_and_few_are_kept() -> None:
    asked: list[Json] = []
    async with deciding(True, asked, cache=60) as p:
        await p.prompt("x")
        for _ in range(3):
            ask(p)
        assert len(asked) == 1
        p.services.advance(61)
        ask(p)
        assert len(asked) == 2
        for number in range(300):
            ask(p, {"title": str(number)})
        assert len(asked) == 302
        ask(p)
        assert len(asked) == 303, "the oldest goes first"
    asked.clear()
    async with deciding(True, asked, cache=0) as p:
        await p.prompt("x")
        ask(p)
        ask(p)
        assert len(asked) == 2


async def test_what_is_padded_is_refused_and_nobody_asked() -> None:
    asked: list[Json] = []
    async with deciding(True, asked, failure="open") as p:
        await p.prompt("x")
        assert ask(p, {"rawInput": {"command": "x" * 300_000}}) == (NO, None)
        assert asked == []


FORMS: list[tuple[str, Callable[[Json], Json]]] = [
    ("mcp/message", lambda inner: {"connectionId": "c", **inner}),
    ("_mcp/message", lambda inner: {"connectionId": "c", **inner}),
    ("_mcp/request", lambda inner: {"connectionId": "c", **inner}),
]


@pytest.mark.parametrize(("method", "form"), FORMS)
@pytest.mark.parametrize("verdict", ["allow", "deny", "narrow"])
async def test_calls_of_tools_are_asked_about(
    method: str, form: Callable[[Json], Json], verdict: str
) -> None:
    asked: list[Json] = []
    answer = {"result": {"decision": verdict, "reason": "because"}}
    async with deciding(answer, asked) as p:
        p.client = lambda _: {"content": []}
        await p.new_session()
        call = {"method": "tools/call", "params": {"name": "push", "arguments": {"to": "main"}}}
        got = p.answer_to("s", p.agent.request(method, form(call)))
        assert got is not None
        if verdict == "allow":
            assert got["result"] == {"content": []}
        else:
            error = got.get("error") or got["result"]["error"]
            assert "the tool `push` is refused: because" in error["message"]
        said = json.loads(asked[0]["text"])["input"]
        assert (said["action"]["id"], said["resource"]["id"]) == ("tool", "push")
        assert said["context"] == {"title": "push", "arguments": {"to": "main"}}
        p.agent.request(method, form({"method": "tools/list"}))
        assert len(asked) == 1


# -- through the command line ----------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """An endpoint that does not know the meaning of `no`."""

    def do_POST(self) -> None:
        """Decides."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        verdict = "deny" if "no" in asked["context"]["title"] else "allow"
        answer = json.dumps({"result": {"decision": verdict, "reason": "no is no"}}).encode()
        if self.path == "/away":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:1/")
            answer = b""
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


class UnixServer(ThreadingHTTPServer):
    """An endpoint at a socket."""

    address_family = socket.AF_UNIX
    daemon_threads = True

    def server_bind(self) -> None:
        """Binds, without looking a name up."""
        self.socket.bind(self.server_address)

    def get_request(self) -> Any:
        """A connection; its address is written to logs."""
        return self.socket.accept()[0], ("local", 0)


@pytest.fixture(params=["http", "unix"])
def place(request: pytest.FixtureRequest, rig: Rig) -> Iterator[str]:
    """Where the endpoint is, as a grant names it."""
    path = str(rig.folder.resolve() / "e")
    made = UnixServer(path, Handler) if request.param == "unix" else None  # type: ignore[arg-type]
    with made or ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"unix:{path}" if made else f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("version", [1, 2])
def test_a_chain_asks_the_endpoint_that_is_granted(rig: Rig, place: str, version: int) -> None:
    colon = ":" if place.startswith("unix:") else ""
    config = {"url": f"{place}{colon}/v1/data/agents/decision"}
    decide = component("decide", config, allow=[f"web:POST@{place}"])
    chain = agent(rig, decide, rig.demo())
    chain.initialize(**(V2 if version == 2 else {}))
    chain.serves["session/request_permission"] = lambda asked: {
        "outcome": {"outcome": "selected", "optionId": asked["options"][0]["optionId"]}
    }
    session = chain.new_session()

    def said() -> str:
        return "".join(chain.texts(session))

    chain.prompt(session, "/permission yes")
    chain.until(lambda: said().endswith("permission: allow-once"), "a yes")
    chain.prompt(session, "/permission no")
    chain.until(lambda: said().endswith("permission: reject-once"), "a no")
    assert "[decide: refused `no`: no is no]" in said()
    assert chain.finish() == 0


def test_an_endpoint_that_is_not_granted_is_closed(rig: Rig, place: str) -> None:
    colon = ":" if place.startswith("unix:") else ""
    chain = agent(rig, component("decide", {"url": f"{place}{colon}/x"}), rig.demo())
    session = chain.begin()
    said = chain.prompt(session, "/permission yes")
    assert said.endswith("permission: reject-once")
    assert "the endpoint has not decided: " in said
    assert chain.finish() == 0


@pytest.mark.proves("`decide` refuses or narrows")
def test_an_endpoint_that_sends_elsewhere_is_closed(rig: Rig, place: str) -> None:
    colon = ":" if place.startswith("unix:") else ""
    config = {"url": f"{place}{colon}/away"}
    chain = agent(rig, component("decide", config, allow=[f"web:POST@{place}"]), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/permission yes").endswith("permission: reject-once")
    assert chain.finish() == 0
