"""Messages of the editor's desk: the router writes whose they are, and takes answers there."""

import json
from typing import Any, Final

import pytest

from conductor.core import CHANNEL, DIALECTS, Component, Send
from conductor.core.aliases import Aliases, to_json
from conductor.core.policy.key_table import STAMP
from conductor.core.router import Router
from tests.core.policy.test_aliases import bound
from tests.core.policy.test_hosts import ABOVE, host
from tests.core.policy.test_own_sessions import OWN
from tests.core.test_ports import chain as with_peers
from tests.core.test_ports import wrap
from tests.harness.router.policed import (
    Hole,
    Json,
    Noted,
    Playbook,
    chain_of,
    error,
    guest,
    initialize,
    notification,
    request,
    result,
    trusted,
)

SHOW: Final = "_scp/html_panel/show"
EVENT: Final = "_scp/html_panel/event"
HOST: Final = Component("g", "", CHANNEL, hosts=True, known_as=frozenset(("inside", "g")))
PANEL: Final[Json] = {"sessionId": "S", "id": "w"}


def of(component: str, **more: object) -> Json:
    """Params with the name of a component."""
    return {**PANEL, **more, "_meta": {STAMP: component}}


def refusal(pb: Playbook) -> str:
    """The error that the component gets which has broken a rule."""
    frames = [one.frame for one in pb.effects if isinstance(one, Send)]
    pb.effects = []
    return str(json.loads(frames[0][1:])["error"]["message"])


def answered(pb: Playbook, name: str, tag: str = "p", id_: object = "x") -> None:
    """The client answers the request that it got, and the component gets the answer."""
    pb >> ("client", result(Hole("up"), {})) << (name, tag, result(id_, {}))


@pytest.mark.parametrize(
    ("component", "params", "found"),
    [
        (trusted("g"), PANEL, of("g")),
        (guest(grants="editor=panel"), PANEL, of("g")),
        (guest(grants="editor=panel"), of("g"), of("g")),
        (trusted("g"), {**PANEL, "_meta": None}, of("g")),
        (trusted("g"), {**PANEL, "_meta": {"a": 1}}, {**PANEL, "_meta": {"a": 1, STAMP: "g"}}),
        (trusted("g"), of("agent"), of("g/agent")),  # who has asked nothing
        (trusted("g"), of("agent/x"), of("g/agent/x")),
        (trusted("g"), of("other"), of("g/other")),  # a conductor as a proxy has others inside
        (trusted("g"), of("g"), of("g/g")),
        (trusted("g"), {**PANEL, "_meta": {STAMP: 1}}, of("g/")),
        (trusted("g"), {**PANEL, "_meta": 1}, {**PANEL, "_meta": 1}),  # the desk refuses these
        (trusted("g"), [1], [1]),
        (HOST, of("inside"), of("inside")),
        (HOST, of("agent"), of("g/agent")),
        (HOST, of("outside"), of("g/outside")),
    ],
)
def test_the_router_writes_whose_a_message_is(
    component: Component, params: Any, found: Any
) -> None:
    with chain_of(component) as pb:
        pb >> ("g", "p", request("x", SHOW, params))
        pb << ("client", request(Hole("up"), SHOW, found))
        answered(pb, "g")
        pb >> ("g", "p", notification("_scp/html_panel/x", params))
        pb << ("client", notification("_scp/html_panel/x", found))


@pytest.mark.parametrize("component", [trusted("g"), HOST])
def test_a_name_stays_while_a_component_passes_on_what_has_asked_behind_it(
    component: Component,
) -> None:
    with chain_of(component) as pb:
        pb >> ("agent", request(1, SHOW, of("x")))
        pb << ("g", "s", request(Hole("s"), SHOW, of("agent/x")))
        # A request of the client to the component is none that is passed on up.
        pb >> ("client", request(7, EVENT, of("g")))
        pb << ("g", "p", request(Hole("e"), EVENT, PANEL if component is not HOST else of("g")))
        for name, found in (("agent/x", "agent/x"), ("agent", "agent"), ("f", "g/f")):
            pb >> ("g", "p", request("x", SHOW, of(name)))
            pb << ("client", request(Hole("up"), SHOW, of(found)))
            answered(pb, "g")
            pb.values.pop("up")
        pb >> ("g", "s", result(Hole("s"), {})) << ("agent", result(1, {}))
        pb >> ("g", "p", request("x", SHOW, of("agent")))
        pb << ("client", request(Hole("up"), SHOW, of("g/agent")))
        answered(pb, "g")
        # Nobody answers a line of the log.
        pb >> ("g", "p", notification("_scp/log", of("agent")))
        pb << ("client", notification("_scp/log", of("agent")))
        pb >> ("g", "p", result(Hole("e"), {})) << ("client", result(7, {}))


def test_an_agents_messages_pass_all_others_and_keep_its_name() -> None:
    with chain_of(trusted("f"), guest(grants="editor=panel")) as pb:
        pb >> ("agent", request(1, SHOW, PANEL))
        pb << ("f", "s", request(Hole("s"), SHOW, of("agent")))
        pb >> ("f", "p", request(9, SHOW, of("agent")))
        pb << ("client", request(Hole("up"), SHOW, of("agent")))
        pb >> ("client", result(Hole("up"), {})) << ("f", "p", result(9, {}))
        pb >> ("f", "s", result(Hole("s"), {})) << ("agent", result(1, {}))
        # Downwards it is a message like others.
        pb >> ("f", "s", notification("_scp/html_panel/x", PANEL))
        pb << ("agent", notification("_scp/html_panel/x", PANEL))


def test_a_policed_component_names_no_other_and_needs_the_grant() -> None:
    with chain_of(guest(grants="editor=panel")) as pb:
        pb >> ("g", "p", request("x", SHOW, of("agent")))
        assert "`_meta` key 'conductor.component' may not be added" in refusal(pb)
        pb >> ("g", "p", request("y", "_scp/file_comment/show", PANEL))
        assert "`,allow=show:comment` lets it" in refusal(pb)


def test_a_peer_agent_has_no_editor() -> None:
    with with_peers() as pb:
        refused = f"`{SHOW}`: a peer agent has no editor"
        pb >> ("research", request(1, SHOW, PANEL)) << ("research", error(1, -32601, refused))
        pb >> ("research", notification("_scp/log", {}))
        pb << Noted("warning", "research", "a peer agent has no editor")
        pb >> ("p", notification("proxy/successor", wrap("_scp/log", {})))
        pb << ("research", notification("_scp/log", {}))


# -- down ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "code", "said"),
    [
        (of("h"), -32601, f"`{EVENT}`: `h` is not there"),
        (of("client"), -32601, f"`{EVENT}`: `client` is not there"),
        (PANEL, -32602, f"`{EVENT}` names no owner"),
        ([1], -32602, f"`{EVENT}` names no owner"),
        ({"_meta": 1}, -32602, f"`{EVENT}` names no owner"),
        ({"_meta": {STAMP: "\ud800"}}, -32601, f"`{EVENT}`: `\ud800` is not there"),
    ],
)
def test_without_an_owner_it_goes_nowhere(params: Any, code: int, said: str) -> None:
    with chain_of(trusted("g")) as pb:
        pb >> ("client", request(7, EVENT, params)) << ("client", error(7, code, said))


def test_before_initialize_nothing_is_sent() -> None:
    with Playbook(Router([Component("agent")])) as pb:
        expected = error(7, -32600, "expected `initialize` request")
        pb >> ("client", request(7, EVENT, of("agent"))) << ("client", expected)


def test_a_host_gets_it_with_the_guests_name_and_takes_it_there() -> None:
    component = Component("f+g", "", CHANNEL, hosts=True, known_as=frozenset(("f", "g")))
    with chain_of(component) as pb:
        pb >> ("client", request(7, EVENT, of("g")))
        pb << ("f+g", "p", request(Hole("e"), EVENT, of("g")))
        pb >> ("f+g", "p", result(Hole("e"), {})) << ("client", result(7, {}))
    with host(trusted("f"), guest()) as pb:
        pb >> (ABOVE, "p", request(7, EVENT, of("g")))
        pb << ("g", "p", request(7, EVENT, PANEL))
        pb >> ("g", "p", result(7, {})) << (ABOVE, "p", result(7, {}))
        gone = error(9, -32601, f"`{EVENT}`: `client` is not there")
        pb >> (ABOVE, "p", request(9, EVENT, of("client"))) << (ABOVE, "p", gone)
        # Up, a trusted guest passes on messages that others below have sent.
        pb >> (ABOVE, "s", request(8, SHOW, of("below")))
        pb << ("f", "s", request(8, SHOW, of("below")))
        pb >> ("f", "p", request(8, SHOW, of("below")))
        pb << (ABOVE, "p", request(8, SHOW, of("below")))
        pb >> (ABOVE, "p", result(8, {})) << ("f", "p", result(8, {}))
        pb >> ("f", "s", result(8, {})) << (ABOVE, "s", result(8, {}))


def test_a_conductor_as_a_proxy_takes_its_name_off() -> None:
    with chain_of(trusted("inner")) as pb:
        pb >> ("client", request(7, EVENT, of("inner/g")))
        pb << ("inner", "p", request(Hole("e"), EVENT, of("g")))
        pb >> ("inner", "p", result(Hole("e"), {})) << ("client", result(7, {}))
    # An outer conductor that knows nothing of owners sends it like all else.
    with host(trusted("g")) as pb:
        pb >> (ABOVE, "p", request(7, EVENT, PANEL)) << ("g", "p", request(7, EVENT, PANEL))
        pb >> ("g", "p", result(7, {})) << (ABOVE, "p", result(7, {}))


def test_the_owner_knows_its_session_by_its_own_id() -> None:
    with chain_of(guest(**OWN)) as pb:
        bound(pb)
        pb >> ("client", request(7, EVENT, of("agent")))
        pb << ("agent", request(Hole("e"), EVENT, {**PANEL, "sessionId": "mine"}))
        answer = {"in": [{"sessionId": "mine"}]}
        pb >> ("agent", result(Hole("e"), answer))
        pb << ("client", result(7, {"in": [{"sessionId": "S"}]}))
        pb >> ("client", request(8, EVENT, of("g")))
        pb << ("g", "p", request(Hole("f"), EVENT, PANEL))
        pb >> ("g", "p", result(Hole("f"), {})) << ("client", result(8, {}))


# -- sessions of the client ------------------------------------------------------------------------


def test_the_router_knows_the_clients_sessions_and_what_it_said() -> None:
    router = Router([trusted("g"), Component("agent")])
    assert router.initialized == b""
    initialize(router, [trusted("g")])
    assert json.loads(router.initialized) == {"protocolVersion": 1}
    assert not router.sessions.of_client
    with chain_of(Component("p", "", DIALECTS["acp"])) as pb:
        for method, params, member, value in (
            ("session/new", {"cwd": "/a", "mcpServers": []}, "result", {"sessionId": "A"}),
            ("session/load", {"cwd": "/a", "mcpServers": [], "sessionId": "B"}, "result", {}),
            ("session/new", {"cwd": "/a", "mcpServers": []}, "error", {"code": 1, "message": ""}),
            ("session/close", {"sessionId": "A"}, "result", {}),
        ):
            pb >> ("client", request(7, method, params))
            pb << ("p", request(Hole(method), method, params))
            pb >> ("p", {"jsonrpc": "2.0", "id": Hole(method), member: value})
            pb << ("client", {"jsonrpc": "2.0", "id": 7, member: value})
            pb.values.clear()
        assert pb.router.sessions.of_client == ["B"]


NO = {"code": 1, "message": ""}
FOLDERS: list[tuple[str, dict[str, Any], Any, list[str], list[str]]] = [
    ("session/new", {"cwd": "/a"}, {"sessionId": "A"}, ["/a"], ["/a"]),
    ("session/new", {"cwd": "/no"}, None, ["/a", "/no"], ["/a"]),
    ("session/load", {"sessionId": "B", "cwd": "/b", "additionalDirectories": ["/x"]}, {},
     ["/a", "/b", "/x"], ["/a", "/b", "/x"]),
    ("session/load", {"sessionId": "B", "cwd": "/c"}, None, ["/a", "/b", "/x", "/c"],
     ["/a", "/b", "/x"]),
    ("session/resume", {"sessionId": "B", "cwd": "/c"}, {}, ["/a", "/b", "/x", "/c"], ["/a", "/c"]),
    ("session/resume", {"sessionId": "B"}, {}, ["/a", "/c"], ["/a", "/c"]),
    ("session/fork", {"sessionId": "B", "cwd": "/d"}, {"sessionId": "D"}, ["/a", "/c", "/d"],
     ["/a", "/c", "/d"]),
    ("session/close", {"sessionId": "A"}, None, ["/a", "/c", "/d"], ["/a", "/c", "/d"]),
    ("session/close", {"sessionId": "A"}, {}, ["/a", "/c", "/d"], ["/c", "/d"]),
    ("session/close", {"sessionId": "A"}, {}, ["/c", "/d"], ["/c", "/d"]),
    ("session/delete", {"sessionId": "D"}, {}, ["/c", "/d"], ["/c"]),
    ("session/new", {"cwd": 7}, {}, ["/c"], ["/c"]),
]  # fmt: skip
"""The client's request, the result (None: an error), and the folders that count before and
after."""


def test_the_router_knows_the_folders_of_the_clients_sessions() -> None:
    def folders() -> list[str]:
        sessions = pb.router.sessions.folders_of_client
        return sorted({folder for session in sessions for folder in session}, key=shown.index)

    shown = ["/a", "/b", "/x", "/c", "/d", "/no"]
    with chain_of(Component("p", "", DIALECTS["acp"])) as pb:
        for number, (method, params, value, before, after) in enumerate(FOLDERS):
            changed = {**params, "cwd": "/"} if "cwd" in params else params
            answer = {"error": NO} if value is None else {"result": value}
            pb >> ("client", request(number, method, params))
            # The component may say another folder to the agent: the client has not.
            pb << ("p", request(Hole("p"), method, params))
            pb >> ("p", request("x", "proxy/successor", {"method": method, "params": changed}))
            pb << ("agent", request(Hole("a"), method, changed))
            assert folders() == before, number
            pb >> ("agent", {"jsonrpc": "2.0", "id": Hole("a"), **answer})
            pb << ("p", {"jsonrpc": "2.0", "id": "x", **answer})
            pb >> ("p", {"jsonrpc": "2.0", "id": Hole("p"), **answer})
            pb << ("client", {"jsonrpc": "2.0", "id": number, **answer})
            assert folders() == after, number
            pb.values.clear()


def test_of_very_many_sessions_the_oldest_is_forgotten() -> None:
    router = Router([Component("agent")])
    known = router.sessions
    for n in range(5000):
        known.client_enters(f"{n}", "session/prompt")
    assert 4096 <= len(known.of_client) <= 4096 + 512  # they are forgotten some at a time
    assert "0" not in known.of_client


def test_aliases_inside_a_host_count_on_the_way_down() -> None:
    component = Component("f+g", "", CHANNEL, hosts=True, known_as=frozenset(("f", "g")))
    with chain_of(component, trusted("e")) as pb:
        pb.router.aliased("f+g", [to_json(Aliases().bind("S", "T"))])
        pb >> ("client", request(7, EVENT, of("e")))
        pb << ("e", "p", request(Hole("e"), EVENT, {**PANEL, "sessionId": "T"}))
        pb >> ("e", "p", error(Hole("e"), -32000, 'not in {"sessionId":"T"}'))
        pb << ("client", error(7, -32000, 'not in {"sessionId":"T"}'))
        pb >> ("client", request(8, EVENT, of("e")))
        pb << ("e", "p", request(Hole("f"), EVENT, {**PANEL, "sessionId": "T"}))
        pb >> ("e", "p", result(Hole("f"), {"sessionId": "T"}))
        pb << ("client", result(8, {"sessionId": "S"}))
