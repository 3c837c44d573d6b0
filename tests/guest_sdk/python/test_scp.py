"""A proxy program that takes part in SCP: its messages on both connections, without processes."""

import json
from typing import Any

import pytest

from guest_sdk.python import Proxy, ProxyError
from guest_sdk.python.engine import Engine
from guest_sdk.python.scp import Scp, Server, begins
from guest_sdk.python.wire import Wire

SECTION = {"symposium": {"version": "1.0", "html_panel": False}}
FLAG = {"symposium": {"version": "1.0", "proxy": True}}
INITIALIZE: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {"_meta": SECTION}}
RESULT: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
ROLE: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"_meta": FLAG}}
AGENT: dict[str, Any] = {"name": "A", "command": "/bin/a", "args": ["-x"], "env": []}


def line(id_: object = None, /, **members: object) -> str:
    ids = {} if id_ is None else {"id": id_}
    return json.dumps({"jsonrpc": "2.0", **ids, **members})


class Ends:
    """Both ends of the program."""

    def __init__(self, proxy: Proxy[Any] | None = None) -> None:
        self.started: list[Server] = []
        self.scp = Scp(Wire(Engine(proxy or Proxy("p"))), self.started.append)

    def client(self, *lines: str) -> list[Any]:
        """The messages to the client after these lines."""
        return [json.loads(each) for each in self.scp.receive(lines)]

    def successor(self, *lines: str) -> list[Any]:
        """The messages to the client after these lines of the successor."""
        return [json.loads(each) for each in self.scp.heard(lines)]

    @property
    def onward(self) -> list[Any]:
        """The messages to the successor since the last call."""
        return [json.loads(each) for each in self.scp.onward()]

    def launch(self, *servers: Any) -> None:
        """The handshake, up to the successor's `initialize`."""
        assert "result" in self.client(line(1, method="initialize", params=INITIALIZE))[0]
        assert self.client(line(2, method="_scp/proxy", params={"servers": servers})) == []
        assert self.onward == [
            {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": INITIALIZE}
        ]


@pytest.fixture(name="ends")
def _ends() -> Ends:
    return Ends()


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (line(1, method="initialize", params=INITIALIZE), True),
        (line(1, method="initialize", params={"_meta": SECTION}), True),
        (line(1, method="initialize", params={"protocolVersion": 1}), False),
        (line(1, method="proxy/initialize", params=INITIALIZE), False),
        (line(1, method="x", params={"initialize": "symposium"}), False),
        (line(1, method="initialize", params=["symposium"]), False),
        ('{"initialize" "symposium"', False),
    ],
)
def test_the_first_request_shows_who_takes_part(read: str, expected: bool) -> None:
    assert begins([line(method="_conductor/configure"), read]) is expected


def test_the_chain_is_initialized_under_the_id_of_the_launch(ends: Ends) -> None:
    ends.launch(AGENT)
    assert ends.started == [Server("A", ["/bin/a", "-x"], {})]
    assert ends.successor(line(2, result=RESULT)) == [{"jsonrpc": "2.0", "id": 2, "result": RESULT}]
    ends.client(line("n", method="session/new", params={"cwd": "/"}), line(method="_note"))
    assert [each["method"] for each in ends.onward] == ["session/new", "_note"]
    (up,) = ends.successor(line(2, method="fs/read_text_file", params={"path": "/a"}))
    assert (up["id"], up["method"]) == (2, "fs/read_text_file")
    ends.client(line(2, result={"content": ""}))
    assert ends.onward == [{"jsonrpc": "2.0", "id": 2, "result": {"content": ""}}]


def test_version_2() -> None:
    ends = Ends(Proxy("p", version="1.2.3"))
    info = {"name": "c", "version": "1"}
    params = {"protocolVersion": 2, "capabilities": {"_meta": SECTION}, "info": info}
    (answer,) = ends.client(line(1, method="initialize", params=params))
    assert answer["result"] == {
        "protocolVersion": 2,
        "info": {"name": "p", "version": "1.2.3"},
        "capabilities": {"_meta": FLAG},
    }


def test_cancellations_stay_on_their_connection(ends: Ends) -> None:
    ends.launch(AGENT)
    ends.successor(line(2, result=RESULT))
    ends.client(line(7, method="session/prompt", params={"sessionId": "s"}))
    ends.client(line(method="$/cancel_request", params={"requestId": 7}))
    assert ends.onward[-1]["params"] == {"requestId": 7}
    ends.successor(line(7, method="_x/up", params={}))
    (down,) = ends.successor(line(method="$/cancel_request", params={"requestId": 7}))
    assert down["params"] == {"requestId": 7}


def test_a_service_is_asked_of_the_client() -> None:
    """A conductor may be the client; any other one refuses."""
    proxy = Proxy("p")

    @proxy.request("_when")
    async def when(request: Any, following: Any) -> Any:
        return {"now": (await proxy.clock.now()).isoformat()}

    ends = Ends(proxy)
    ends.launch(AGENT)
    ends.successor(line(2, result=RESULT))
    (asked,) = ends.client(line(3, method="_when"))
    assert asked["method"] == "_conductor/clock"
    said = ends.client(line(asked["id"], error={"code": -32601, "message": "no"}))
    assert ["error" in each for each in said if each.get("id") == 3] == [True]


def test_a_second_launch_and_the_envelopes_of_others_mean_nothing(ends: Ends) -> None:
    ends.launch(AGENT)
    ends.successor(line(2, result=RESULT))
    (refused,) = ends.client(line(3, method="_scp/proxy", params={"servers": [AGENT]}))
    assert refused["error"]["code"] == -32600
    assert len(ends.started) == 1
    ends.client(line(4, method="proxy/successor", params={"method": "_x"}))
    assert [each["method"] for each in ends.onward] == ["proxy/successor"]


def test_the_rest_goes_to_a_successor_that_is_a_proxy(ends: Ends) -> None:
    ends.launch({"command": "one"}, AGENT)
    assert ends.successor(line(2, result=ROLE)) == []
    (launch,) = ends.onward
    assert (launch["method"], launch["params"]) == ("_scp/proxy", {"servers": [AGENT]})
    note = line(method="_early")
    assert [each["method"] for each in ends.successor(note)] == ["_early"]
    (answer,) = ends.successor(line(launch["id"], result=RESULT))
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": RESULT}


def test_of_a_result_without_capabilities_the_greeting_counts(ends: Ends) -> None:
    ends.launch({"command": "one"}, AGENT)
    ends.successor(line(2, result=ROLE))
    (launch,) = ends.onward
    (answer,) = ends.successor(line(launch["id"], result={}))
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": ROLE}


@pytest.mark.parametrize(
    ("servers", "answers"),
    [
        ([AGENT], [{"result": ROLE}]),
        ([AGENT], [{"error": {"code": -1, "message": "no"}}]),
        ([AGENT, AGENT], [{"result": RESULT}]),
        ([AGENT, AGENT], [{"result": ROLE}, {"error": {"code": -1, "message": "no"}}]),
    ],
)
def test_a_chain_that_fails_may_be_followed_by_another(
    ends: Ends, servers: list[Any], answers: list[Any]
) -> None:
    ends.launch(*servers)
    said = ends.successor("junk", line(2, **answers[0]))
    for each in answers[1:]:
        said = ends.successor(line(ends.onward[0]["id"], **each))
    assert (said[-1]["id"], "error" in said[-1]) == (2, True)
    assert not ends.scp.joined
    assert "error" in ends.client(line(3, method="session/new"))[0]
    assert ends.client(line(4, method="_scp/proxy", params=[AGENT])) == []
    ends.onward.clear()
    assert ends.successor(line(4, result=RESULT))[0]["result"] == RESULT


def test_before_the_chain_each_other_request_is_an_error(ends: Ends) -> None:
    for method in ("session/new", "_scp/proxy", "proxy/initialize"):
        assert ends.client(line(1, method=method))[0]["error"]["code"] == -32600
    wrong: list[Any] = [
        {},
        {"_meta": SECTION},
        {"_meta": SECTION, "protocolVersion": "1"},
        [],
        None,
    ]
    for params in wrong:
        asked = {} if params is None else {"params": params}
        (answer,) = ends.client(line(1, method="initialize", **asked))
        assert answer["error"]["code"] == -32600
    assert ends.client(line(method="session/cancel")) == []
    assert "result" in ends.client(line(1, method="initialize", params=INITIALIZE))[0]
    for method in ("session/new", "initialize"):
        (answer,) = ends.client(line(1, method=method, params=INITIALIZE))
        assert "before `_scp/proxy`" in answer["error"]["message"]


@pytest.mark.parametrize(
    "server",
    [
        5,
        {},
        {"command": 5},
        {"command": "a b"},
        {"command": "./a"},
        {"command": "/a\0"},
        {"command": "/a", "args": "x"},
        {"command": "/a", "args": [5]},
        {"command": "/a", "env": {}},
        {"command": "/a", "env": [5]},
        {"command": "/a", "env": [{"name": "A"}]},
        {"command": "/a", "env": [{"name": "A", "value": 5}]},
        {"command": "/a", "type": "http"},
    ],
)
def test_what_is_no_server_is_refused(ends: Ends, server: Any) -> None:
    ends.client(line(1, method="initialize", params=INITIALIZE))
    for servers in ([server], [AGENT, server]):
        (answer,) = ends.client(line(2, method="_scp/proxy", params={"servers": servers}))
        assert answer["error"]["code"] == -32602
    assert ends.started == []


def test_one_that_does_not_start_is_refused() -> None:
    def start(server: Server) -> None:
        raise ProxyError(f"there is no {server.name}")

    scp = Scp(Wire(Engine(Proxy("p"))), start)
    scp.receive([line(1, method="initialize", params=INITIALIZE)])
    (answer,) = scp.receive([line(2, method="_scp/proxy", params={"servers": [AGENT]})])
    assert json.loads(answer)["error"]["message"] == "there is no A"
    assert not scp.joined
