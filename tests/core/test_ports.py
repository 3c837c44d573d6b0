"""Ports: messages between a component and its peer agents, beside the chain."""

import json
from typing import Any, Final

import pytest

from conductor.core import CHANNEL, DIALECTS, Closure, Component, Send, Violated
from conductor.core.accounts import Allowance
from conductor.core.router import Router, RouterOptions
from tests.harness.router.playbook import Hole, Noted, Playbook, Step
from tests.harness.router.plays import MISPLACED, OK, V1, Json, error, notification, request, result
from tests.harness.router.rules import held

AGENT: Final = Component("agent", "agent `agent`")
PEERS: Final = [Component(n, f"agent `{n}`", peer_agent=True) for n in ("research", "review")]
GIVEN: Final = {"protocolVersion": 1, "clientCapabilities": {}}
"""The params with which a peer agent is initialized."""
OWN: Final = {"type": "acp", "name": "p", "id": "x"}
"""An MCP server of the component's own."""
NEW: Final = {"cwd": "/work/a", "mcpServers": []}


def owner(
    kind: str = "acp", *, policed: bool = False, names: tuple[str, ...] = ("research", "review")
) -> Component:
    """The component `p`, which reaches the peer agents."""
    policy = held("full") if policed else None
    ports = dict.fromkeys(names, policed)
    return Component("p", "proxy `p`", DIALECTS[kind], policy=policy, ports=ports)


def wrap(method: str, params: Any = None, peer: object = "research", kind: str = "acp") -> Json:
    """The params of an envelope."""
    inner = {"method": method, **({} if params is None else {"params": params})}
    return {"peer": peer, **({"message": inner} if kind == "pacp" else inner)}


def begin(pb: Playbook, *, ready: bool = True) -> Playbook:
    """Initializes a chain of the `acp` proxy `p`, an agent, and its peer agents."""
    listed = {**V1, "_meta": {"conductor/peers": ["research", "review"]}}
    pb >> ("client", request("i", "initialize", V1))
    pb << ("p", request(Hole("i1"), "proxy/initialize", listed))
    pb >> ("p", request("f", "proxy/successor", {"method": "initialize", "params": listed}))
    pb << ("agent", request(Hole("i2"), "initialize", V1))
    pb >> ("agent", result(Hole("i2"), OK)) << ("p", result("f", OK))
    pb >> ("p", result(Hole("i1"), OK)) << ("client", result("i", OK))
    for name in ("research", "review"):
        pb << (name, request(Hole(name), "initialize", GIVEN))
    for name in ("research", "review") if ready else ():
        pb >> (name, result(Hole(name), OK))
    return pb


def chain(component: Component | None = None, *, ready: bool = True, **more: Any) -> Playbook:
    """A client, the proxy, its peer agents and the agent; initialized."""
    router = Router([component or owner(), *PEERS, AGENT], options=RouterOptions(**more))
    return begin(Playbook(router), ready=ready)


def guests(component: Component) -> Playbook:
    """A chain with a guest as the proxy."""
    pb = Playbook(Router([component, *PEERS, AGENT]))
    pb >> (lambda router: router.start())
    pb << ("p", "c", notification("configure", {"peers": ["research", "review"]}))
    pb >> ("client", request("i", "initialize", V1))
    pb << ("p", "p", request(Hole("i1"), "initialize", V1))
    pb >> ("p", "s", request("f", "initialize", V1))
    pb << ("agent", request(Hole("i2"), "initialize", V1))
    pb >> ("agent", result(Hole("i2"), OK)) << ("p", "s", result("f", OK))
    pb >> ("p", "p", result(Hole("i1"), OK)) << ("client", result("i", OK))
    for name in ("research", "review"):
        pb << (name, request(Hole(name), "initialize", GIVEN))
        pb.effects, rest = [], pb.effects
        pb >> (name, result(Hole(name), OK))
        pb.effects = rest
    return pb


def opened(pb: Playbook) -> Playbook:
    """The client opens a session in `/work`."""
    pb >> ("client", request("n", "session/new", {"cwd": "/work", "mcpServers": []}))
    pb.effects = []
    return pb


# -- routing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method", "told"),
    [
        ("acp", "proxy/successor", "proxy/successor"),
        ("sdk", "_proxy/successor", "_proxy/successor"),
        ("sacp", "_proxy/successor/notification", "_proxy/successor/notification"),
        ("pacp", "_proxy/successor/send/notification", "_proxy/successor/receive/notification"),
        ("scp", "proxy/successor", "proxy/successor"),
    ],
)
def test_every_dialect_has_peers_in_its_own_envelope(kind: str, method: str, told: str) -> None:
    router = Router([owner(kind), *PEERS, AGENT])
    peer = router.peers["p"]
    peer.ready = True
    router.peers["research"].ready = True
    with Playbook(router) as pb:
        pb >> ("p", notification(method, wrap("_x", [1], kind=kind)))
        pb << ("research", notification("_x", [1]))
        pb >> ("research", notification("_y", [2]))
        pb << ("p", notification(told, wrap("_y", [2], kind=kind)))


@pytest.mark.parametrize("kind", ["acp", "sdk", "sacp", "pacp"])
def test_peers_of_a_program_that_passes_on_what_it_got_before_its_role(kind: str) -> None:
    """The router does not know the program's dialect yet, and the program's library does not know
    the settings that come first: it passes them on while it is asked for its role."""
    dialect = DIALECTS[kind]

    def up(method: str, params: object) -> Json:
        inner = {"method": method, "params": params}
        return {"message": inner} if kind == "pacp" else inner

    program = Component("p", "proxy `p`", configure=b"{}", ports={"research": False})
    with Playbook(Router([program, PEERS[0], AGENT])) as pb:
        pb >> (lambda router: router.start())
        pb << ("p", notification("_conductor/configure", {"peers": ["research"]}))
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(1, "proxy/initialize", Hole("params")))
        envelope = str(dialect.down_notification)
        pb >> ("p", notification(envelope, up("_conductor/configure", {"peers": ["research"]})))
        pb << Noted("info", "p", "no service `configure`")
        asked = 1
        if kind != "acp":
            asked = 2
            pb >> ("p", error(1, -32601, "no")) << ("p", request(2, dialect.role, Hole("offer")))
        pb >> ("p", request("f", str(dialect.down_request), up("initialize", V1)))
        pb << ("agent", request(1, "initialize", V1))
        pb >> ("agent", result(1, OK)) << ("p", result("f", OK))
        pb >> ("p", result(asked, {**OK, "_meta": {"proxy": True}}))
        pb << ("client", result("i", Hole("answer")))
        pb << ("research", request(1, "initialize", GIVEN))


def test_a_peer_agent_asks_its_component_and_nobody_else() -> None:
    with chain() as pb:
        pb >> ("research", request(1, "session/request_permission", {"sessionId": "s"}))
        asked = wrap("session/request_permission", {"sessionId": "s"})
        pb << ("p", request(Hole("q"), "proxy/successor", asked))
        pb >> ("p", result(Hole("q"), {})) << ("research", result(1, {}))
        pb >> ("review", notification("session/update", {"sessionId": "s"}))
        told = wrap("session/update", {"sessionId": "s"}, "review")
        pb << ("p", notification("proxy/successor", told))


@pytest.mark.parametrize("peer", ["other", "agent", "client", "p"])
def test_an_unknown_peer_is_refused(peer: str) -> None:
    text = (
        f"proxy `p` has no peer agent `{peer}`; it has `research`, `review`\n"
        "hint: give it one: `-c peer.NAME=COMMAND`, and `,allow=peer:NAME` behind the component"
    )
    with chain() as pb:
        pb >> ("p", request("a", "proxy/successor", wrap("_x", None, peer)))
        pb << ("p", error("a", -32602, text))
        pb >> ("p", notification("proxy/successor", wrap("_x", None, peer)))
        pb << Noted("warning", "p", f"has no peer agent `{peer}`")


@pytest.mark.parametrize("peer", [1, None, ["research"]])
def test_a_peer_is_a_name(peer: object) -> None:
    with chain() as pb:
        pb >> ("p", request("a", "proxy/successor", wrap("_x", None, peer)))
        pb << ("p", error("a", -32602, "`peer` of a successor envelope is a name"))


def test_the_conductor_initializes_peer_agents() -> None:
    with chain() as pb:
        pb >> ("p", request("a", "proxy/successor", wrap("initialize", V1)))
        pb << ("p", error("a", -32600, "conductor itself initializes peer agent `research`"))
        pb >> ("research", request(1, "initialize", V1))
        pb << ("research", error(1, -32600, "`initialize` goes to the successor only"))


# -- initialization ------------------------------------------------------------------------------


_NO: Final = error(Hole("i"), -32000, "no")
_YES: Final = result(Hole("i"), OK)


def test_a_chain_that_failed_to_initialize_leaves_them_alone_and_they_are_asked_once() -> None:
    with Playbook(Router([owner("channel"), *PEERS, AGENT])) as pb:
        for asked, answer in enumerate((_NO, _YES, _YES)):
            pb >> ("client", request("i", "initialize", V1))
            pb << ("p", "p", request(Hole("r"), "initialize", V1))
            pb >> ("p", "s", request("f", "initialize", V1))
            pb << ("agent", request(Hole("i"), "initialize", V1))
            pb >> ("agent", answer)
            pb.effects = []
            pb >> ("p", "p", {**answer, "id": Hole("r")})
            pb << ("client", {**answer, "id": "i"})
            if asked == 1:
                for name in ("research", "review"):
                    pb << (name, request(Hole(name), "initialize", GIVEN))
            pb.values.pop("i"), pb.values.pop("r")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"error": {"code": -32000, "message": "log in"}}, "refused `initialize`: log in"),
        ({"result": {"protocolVersion": 2}}, "speaks ACP 2, and this chain version 1"),
        ({"result": 5}, "speaks ACP None, and this chain version 1"),
    ],
)
def test_a_peer_agent_that_cannot_take_part_fails_what_is_for_it(answer: Json, why: str) -> None:
    with chain(ready=False) as pb:
        pb >> ("p", request("a", "proxy/successor", wrap("_x")))
        pb >> ("research", {"jsonrpc": "2.0", "id": Hole("research"), **answer})
        pb << Noted("error", "research", why)
        failed = error("a", -32603, f"agent `research` {why}", {"component": "research"})
        pb << ("p", failed)
        pb >> ("research", request(1, "_x"))  # nobody listens to it any more
        pb >> ("client", request("c", "_x"))
        pb << ("p", request(Hole("c"), "_x"))


def test_version_2_has_its_own_members() -> None:
    v2 = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}, "capabilities": {"x": 1}}
    with Playbook(Router([owner("channel", names=("research",)), PEERS[0], AGENT])) as pb:
        pb >> ("client", request("i", "initialize", v2))
        pb << ("p", "p", request(Hole("r"), "initialize", v2))
        pb >> ("p", "s", request("f", "initialize", v2))
        pb << ("agent", request(Hole("i"), "initialize", v2))
        pb >> ("agent", result(Hole("i"), {"protocolVersion": 2}))
        pb << ("p", "s", result("f", {"protocolVersion": 2}))
        pb >> ("p", "p", result(Hole("r"), {"protocolVersion": 2}))
        pb << ("client", result("i", {"protocolVersion": 2}))
        pb << ("research", request(Hole("x"), "initialize", {**v2, "capabilities": {}}))
        pb >> ("research", result(Hole("x"), {"protocolVersion": 2}))
        # A peer agent's reports on its sessions say nothing about those of the chain.
        state = {"sessionId": "s", "update": {"sessionUpdate": "state_update", "state": "running"}}
        pb >> ("research", notification("session/update", state))
        pb << ("p", "s", notification("proxy/successor", wrap("session/update", state)))
        pb >> ("client", request("c", "session/prompt", {"sessionId": "s", "prompt": []}))
        pb << ("p", "p", request(Hole("c"), "session/prompt", {"sessionId": "s", "prompt": []}))


@pytest.mark.parametrize(
    ("meta", "passed"),
    [
        (None, None),
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"conductor/peers": 0}, {}),
    ],
)
def test_the_list_of_peers_stays_on_its_hop(meta: Any, passed: Any) -> None:
    def params(value: Any) -> Json:
        return V1 if value is None else {**V1, "_meta": value}

    listed = {**V1, "_meta": {**(meta or {}), "conductor/peers": ["research", "review"]}}
    with Playbook(Router([owner(), *PEERS, AGENT])) as pb:
        pb >> ("client", request("i", "initialize", params(meta)))
        pb << ("p", request(Hole("i1"), "proxy/initialize", listed))
        pb >> ("p", request("f", "proxy/successor", {"method": "initialize", "params": listed}))
        pb << ("agent", request(Hole("i2"), "initialize", params(passed)))


def test_a_proxy_may_pass_on_what_it_likes_in_place_of_the_list() -> None:
    odd = {"protocolVersion": 1, "_meta": [1]}
    with Playbook(Router([owner(), *PEERS, AGENT])) as pb:
        pb >> ("client", request("i", "initialize", odd))
        pb << ("p", request(Hole("i1"), "proxy/initialize", odd))
        pb >> ("p", request("f", "proxy/successor", {"method": "initialize", "params": odd}))
        pb << ("agent", request(Hole("i2"), "initialize", odd))


# -- endings -------------------------------------------------------------------------------------


def test_peer_agents_stay_as_they_are_while_components_change() -> None:
    fresh = Component("new", "proxy `new`", CHANNEL)
    with chain() as pb:
        for components in (
            [owner(), AGENT],
            [owner(), *PEERS, Component("x", peer_agent=True), AGENT],
        ):
            with pytest.raises(ValueError, match="a peer agent cannot change"):
                pb.router.prepare(components)
        with pytest.raises(ValueError, match="a peer agent cannot change"):
            pb.router.prepare([owner(), *PEERS, AGENT], fresh=["research"])
        pb >> (lambda router: router.prepare([fresh, *PEERS, AGENT]))
        pb << ("new/new", "p", request(Hole("r"), "initialize", V1))
        pb >> ("new/new", "s", request("f", "initialize", V1)) << ("new/new", "s", result("f", OK))
        pb >> ("new/new", "p", result(Hole("r"), OK))
        pb >> (lambda router: router.rearrange(Closure("`p` left")))
        pb >> ("client", request("c", "_x")) << ("new", "p", request(Hole("c"), "_x"))
        pb >> ("research", request(6, "_q")) << ("research", error(6, -32603, "`p` left"))


# -- guests --------------------------------------------------------------------------------------


def test_guests_write_envelopes_on_side_s() -> None:
    with guests(owner("channel")) as pb:
        pb >> ("p", "s", request("a", "proxy/successor", wrap("_x")))
        pb << ("research", request(Hole("a"), "_x"))
        pb >> ("research", notification("_u", [1]))
        pb << ("p", "s", notification("proxy/successor", wrap("_u", [1])))
        pb >> ("research", result(Hole("a"), 1)) << ("p", "s", result("a", 1))
        text = MISPLACED.format("proxy/successor")
        pb >> ("p", "s", request("a", "proxy/successor", {"method": "_x"}))
        pb << ("p", "s", error("a", -32600, text))
        pb >> ("p", "p", request("a", "proxy/successor", wrap("_x")))
        pb << ("p", "p", error("a", -32600, text))


@pytest.mark.parametrize("policed", [False, True])
def test_a_peer_agent_that_takes_text_alone_and_is_silent(policed: bool) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
    asked = wrap("session/prompt", {"sessionId": "R", "prompt": [image]})
    with guests(owner("channel", policed=policed)) as pb:
        if policed:
            there(pb, "R", "s")
        line = json.dumps(request("n", "proxy/successor", asked)).encode()
        (sent,) = [e for e in pb.router.receive("p", b"s" + line) if isinstance(e, Send)]
        assert b"[image: image/png, 3 bytes" in sent.frame
        reply = result(json.loads(sent.frame)["id"], {"content": "a cat"})
        said = pb.router.receive("research", json.dumps(reply).encode())
        assert [(e.peer, b"a cat" in e.frame) for e in said if isinstance(e, Send)] == [
            ("p", True)
        ] * 2


# -- a policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (NEW, ""),
        ({**NEW, "additionalDirectories": ["/work/b"]}, ""),
        ({**NEW, "mcpServers": [OWN, {"type": "acp", "name": "q", "id": "y"}]}, ""),
        ({**NEW, "cwd": "/etc"}, "folders"),
        ({**NEW, "cwd": "/work/../etc"}, "folders"),
        ({**NEW, "cwd": "a"}, "folders"),
        ({}, "folders"),
        ({**NEW, "additionalDirectories": ["/etc"]}, "folders"),
        ({**NEW, "additionalDirectories": "/etc"}, "folders"),
        ({**NEW, "mcpServers": [{"name": "x", "command": "sh"}]}, "member 'command' is none"),
        ({**NEW, "mcpServers": {}}, "MCP servers"),
        ({**NEW, "mcpServers": [{**OWN, "command": "sh", "args": []}]}, "member 'command' is none"),
        ({**NEW, "mcpServers": [{**OWN, "url": "http://b"}]}, "member 'url' is none"),
        ({**NEW, "mcpServers": [{**OWN, "_meta": {"x": 1}}]}, "`_meta` key 'x' may not be added"),
        ({**NEW, "mcpServers": [OWN, {**OWN, "id": "y"}]}, "a name that is taken"),
        ({**NEW, "mcpServers": [OWN, {**OWN, "name": "q"}]}, "an id or URL of somebody else's"),
        ({**NEW, "systemPrompt": "x"}, "has no 'systemPrompt'"),
        ({**NEW, "_meta": {}}, "has no '_meta'"),
    ],
)
@pytest.mark.parametrize("kind", ["acp", "channel"])
def test_a_policed_component_opens_sessions_in_the_client_s_folders(
    kind: str, params: Json, why: str
) -> None:
    component = owner(kind, policed=True)
    with chain(component) if kind == "acp" else guests(component) as pb:
        pb.router.sessions.set_up("session/new", _raw({"cwd": "/work"}), b'{"sessionId":"s"}')
        side = ("s",) if kind == "channel" else ()
        pb >> ("p", *side, request("a", "proxy/successor", wrap("session/new", params)))
        if why:
            answer = json.loads(pb.effects.pop().frame[len(side) :])  # type: ignore[union-attr]
            assert why in answer["error"]["message"]
        else:
            pb << ("research", request(Hole("a"), "session/new", params))


def _raw(value: Json) -> Any:
    from msgspec import Raw

    return Raw(json.dumps(value).encode())


PROMPT: Final = "session/prompt"


def said(*blocks: str | Json, session: str = "s", **more: Any) -> Json:
    """The params of a prompt."""
    texts = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return {"sessionId": session, "prompt": texts, **more}


def at(side: str, message: Json) -> Step:
    """A message of `p`: a program, or a guest's on a side."""
    return ("p", side, message) if side else ("p", message)


def there(pb: Playbook, session: str = "s", side: str = "") -> None:
    """The client has a session in `/work/a`, and `p` one with `research`."""
    pb.router.sessions.set_up("session/new", _raw({"cwd": "/work/a"}), b'{"sessionId":"s"}')
    pb >> at(side, request("n", "proxy/successor", wrap("session/new", NEW)))
    pb << ("research", request(Hole("n"), "session/new", NEW))
    pb >> ("research", result(Hole("n"), {"sessionId": session}))
    pb << at(side, result("n", {"sessionId": session}))


LINK: Final = {"type": "resource_link", "name": "n", "uri": "file:///etc/passwd"}


@pytest.mark.proves("port, branch")
@pytest.mark.parametrize(
    ("held", "sent", "broken"),
    [
        (None, said("hi"), ""),
        (None, said("@/work/a/x.py"), ""),
        (None, said("@/etc/passwd"), "links"),
        (None, said(LINK), "links"),
        (None, said({**LINK, "uri": "file:///work/a/x"}), ""),
        (None, said("/yolo on"), "commands"),
        (None, said("\u200b\n/yolo on"), "commands"),
        (None, said("$fix it"), "commands"),
        (None, said("hi", _meta={"permissionMode": "bypass"}), "meta"),
        (None, said("hi", options={}), "prompt-options"),
        (None, said({"type": "text", "text": "hi", "_meta": {"x": 1}}), "meta"),
        (None, said("hi", session="of-nobody"), "own-sessions"),
        # The user's words may be handed on, and the members around them.
        (said("look at @~/x"), said("look at @~/x"), ""),
        (said("look at @~/x"), said("The task:\nlook at @~/x"), ""),
        (said("look at @~/x"), said("look at @~/y"), "links"),
        (said("/review it"), said("/review it"), ""),
        (said("/review it"), said("/review it", "\nbriefly"), ""),
        (said("/review it"), said("/yolo it"), "commands"),
        (said("a:/yolo"), said("/yolo"), "commands"),
        (said("a: /yolo"), said("/yolo"), "commands"),
        (said("say /yolo", "on"), said("on"), ""),
        (said("a:$fix it"), said("$fix it"), "commands"),
        (said("hi", _meta={"a": 1}), said("hi", _meta={"a": 1}), ""),
        (said("hi", _meta={"a": 1}), said("hi", _meta={"permissionMode": "x"}), "meta"),
        (said("look at @~/x"), said("look at @~/x", session_id="of-nobody"), "links"),
        (said("@~/x"), {"session_id": "s", "prompt": said("@~/x")["prompt"]}, "links"),
    ],
)
@pytest.mark.parametrize("kind", ["acp", "channel"])
def test_a_prompt_to_a_peer_agent_is_judged_as_in_the_chain(
    kind: str, held: Json | None, sent: Json, broken: str
) -> None:
    component = owner(kind, policed=True)
    side, above = ("s", "p") if kind == "channel" else ("", "")
    with chain(component) if kind == "acp" else guests(component) as pb:
        there(pb, "s", side)
        listed = {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND]}
        pb >> ("research", notification("session/update", {"sessionId": "s", "update": listed}))
        pb.effects = []
        if held is not None:
            pb >> ("client", request("c", PROMPT, held))
            pb << at(above, request(Hole("c"), PROMPT, held))
        pb >> at(side, request("own", "proxy/successor", wrap(PROMPT, sent)))
        if not broken:
            pb << ("research", request(Hole("own"), PROMPT, sent))
            return
        (violation,) = [one for one in pb.effects if isinstance(one, Violated)]
        assert pb.reached[-1].refused == violation.text
        (answer,) = [one for one in pb.effects if isinstance(one, Send)]
        assert (violation.peer, violation.rule, answer.peer) == ("p", broken, "p")
        assert json.loads(answer.frame[len(side) :])["error"]["data"]["rule"] == broken
        pb.effects = []


COMMAND: Final = {"name": "$fix", "description": "d"}


def test_what_goes_beside_a_session_of_its_own_stays_out_of_a_peer_agent() -> None:
    with chain(owner(policed=True)) as pb:
        there(pb)
        for method, params in (
            ("session/cancel", {"sessionId": "t"}),
            ("mcp/message", {"connectionId": "k", "method": "notifications/x", "method ": 1}),
        ):
            pb >> ("p", notification("proxy/successor", wrap(method, params)))
            assert not any(isinstance(one, Send) for one in pb.effects), method
            pb.effects = []
        # The proxy holds a request, and no prompt.
        pb >> ("client", request("c", "session/new", NEW))
        pb << ("p", request(Hole("c"), "session/new", NEW))
        pb >> ("p", request("x", "proxy/successor", wrap(PROMPT, said("@/etc/passwd"))))
        assert '"links"' in pb.effects[-1].frame.decode()  # type: ignore[union-attr]
        pb.effects = []
        # No other agent's session is meant by the same id, and none that it has not opened.
        pb >> ("p", request("x", "proxy/successor", wrap(PROMPT, said("hi"), "review")))
        assert '"own-sessions"' in pb.effects[-1].frame.decode()  # type: ignore[union-attr]
        pb.effects = []


@pytest.mark.proves("port, branch")
@pytest.mark.parametrize(
    ("method", "answer", "passes"),
    [
        ("fs/read_text_file", {"content": "x"}, False),
        ("elicitation/create", {"action": "accept"}, False),
        ("mcp/message", {"tools": []}, True),
        ("mcp/message", {"content": [LINK]}, False),
    ],
)
def test_an_answer_to_a_peer_agent_is_judged(method: str, answer: Json, passes: bool) -> None:
    asked = {"sessionId": "s"}
    if method == "mcp/message":
        asked = {"connectionId": "k", "method": "tools/list" if passes else "tools/call"}
    with chain(owner(policed=True)) as pb:
        there(pb)
        pb >> ("research", request(1, method, asked))
        pb << ("p", request(Hole("q"), "proxy/successor", wrap(method, asked)))
        pb >> ("p", result(Hole("q"), answer))
        reached = [(one.peer, one.what, one.where, one.bytes) for one in pb.reached]
        if passes:
            pb << ("research", result(1, answer))
            assert reached == [("p", method, "research", len(json.dumps(answer)))]
            return
        assert reached == []
        (told,) = [one for one in pb.effects if isinstance(one, Send)]
        assert (told.peer, json.loads(told.frame)["error"]["data"]["component"]) == (
            "research",
            "p",
        )
        pb.effects = []


def test_a_component_has_so_many_sessions_with_a_peer_agent() -> None:
    most = Allowance().own_sessions
    with chain(owner(policed=True)) as pb:
        pb.router.sessions.set_up("session/new", _raw({"cwd": "/work/a"}), b'{"sessionId":"s"}')
        pb >> ("p", request("n", "proxy/successor", wrap("session/new", NEW)))
        pb << ("research", request(Hole("n"), "session/new", NEW))
        pb >> ("research", error(Hole("n"), -1, "no")) << ("p", error("n", -1, "no"))
        for at in range(most):
            pb.values.pop("n", None)
            there(pb, f"s{at}")
        pb >> ("p", request("n", "proxy/successor", wrap("session/new", NEW)))
        text = f"proxy `p` has {most} sessions with `research` open"
        assert text in pb.effects.pop().frame.decode()  # type: ignore[union-attr]
        closed = {"sessionId": "s0"}
        pb >> ("p", request("c", "proxy/successor", wrap("session/close", closed)))
        pb << ("research", request(Hole("c"), "session/close", closed))
        pb >> ("research", result(Hole("c"), {})) << ("p", result("c", {}))
        del pb.values["n"]
        there(pb, "more")


def test_a_policed_component_only_prompts_and_cancels() -> None:
    may = "open sessions, prompt in them and cancel"
    why = f"proxy `p` has a policy, so with `research` it may only {may}"
    with chain(owner(policed=True)) as pb:
        there(pb)
        tools = {"connectionId": "k", "method": "ping"}
        close = {"sessionId": "s"}
        for method, params in (
            (PROMPT, said("hi")), ("mcp/message", tools), ("session/close", close),
        ):  # fmt: skip
            pb >> ("p", request(method, "proxy/successor", wrap(method, params)))
            pb << ("research", request(Hole(method), method, params))
        for method in ("session/load", "session/set_mode", "authenticate", "_x", "session/cancel"):
            pb >> ("p", request("a", "proxy/successor", wrap(method)))
            pb << ("p", error("a", -32600, f"`{method}`: {why}"))
        pb >> ("p", notification("proxy/successor", wrap("session/cancel", {"sessionId": "s"})))
        pb << ("research", notification("session/cancel", {"sessionId": "s"}))
        # The peer agent alone knows the meaning of a member that nobody knows here.
        for more in ("session_id", "options", "_meta", "cwd"):
            held = {"sessionId": "s", more: "x"}
            pb >> ("p", request("m", "proxy/successor", wrap("session/close", held)))
            pb << ("p", error("m", -32600, f"`session/close` to a peer agent has no '{more}'"))
            pb >> ("p", notification("proxy/successor", wrap("session/cancel", held)))
            pb << Noted("warning", "p", "`session/cancel` dropped: `session/cancel` to a peer")
        for method in ("_x", PROMPT, "session/new", "session/close"):
            pb >> ("p", notification("proxy/successor", wrap(method, said("hi"))))
            pb << Noted("warning", "p", f"`{method}` dropped: {why}")
        reached = [(one.peer, one.what, one.where, bool(one.refused)) for one in pb.reached]
    assert reached[:2] == [
        ("p", "session/prompt", "research, session s", False),
        ("p", "mcp/message", "research", False),
    ]
    assert ("p", "authenticate", "research", True) in reached


def test_no_user_permits_what_the_peer_agent_of_a_policed_component_does() -> None:
    with chain(owner(policed=True)) as pb:
        pb >> ("research", request(1, "session/request_permission", {"sessionId": "s"}))
        pb << Noted("info", "p", "`research` asks for a permission")
        pb << ("research", result(1, {"outcome": {"outcome": "cancelled"}}))
        pb >> ("research", request(2, "fs/read_text_file", {}))
        pb << ("p", request(Hole("q"), "proxy/successor", wrap("fs/read_text_file", {})))
