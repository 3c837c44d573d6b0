"""A component can reach only the connections of MCP servers it declared, in every generation.

`far` and `near` are policed, with every verb; between them stands `mid`, policed or trusted. One of
the client, `mid` and `far` has declared a server, and opened a connection to it: nobody else can
speak to it or for it, nor declare it as its own.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from conductor.core import DIALECTS, Component, Send, Violated
from conductor.core.policy import ownership
from conductor.core.policy.rules import Grants, Policy
from conductor.core.router import Router, RouterOptions
from conductor.core.session import MOST_PROMPTS
from tests.harness.router.actors import Guest, dump
from tests.harness.router.plays import V1, notification, request, result
from tests.harness.router.rules import policy_of

Json = dict[str, Any]
Lines = list[tuple[str, bytes]]

PROXIES: Final = ("far", "mid", "near")
OWNERS: Final = ("client", "mid", "trusted mid", "far")

SERVERS: Final[dict[str, Json]] = {
    "stateless": {"type": "acp", "name": "n", "serverId": "id"},
    "RFD": {"type": "acp", "name": "n", "id": "id"},
    "acp: URL": {"type": "http", "name": "n", "url": "acp:id", "headers": []},
    "P/ACP": {"transport": "http", "name": "n", "url": "acp:id"},
    "SCP": {"type": "scp", "name": "id"},
}
USES: Final[dict[str, tuple[tuple[str, Json], ...]]] = {
    "stateless": (
        ("mcp/message", {"serverId": "id", "requestId": "1", "method": "ping"}),
        ("mcp/connect", {"serverId": "id"}),
    ),
    "RFD": (("mcp/connect", {"acpId": "id"}),),
    "acp: URL": (
        ("_mcp/connect", {"acp_id": "id"}),
        ("_mcp/connect", {"acp_url": "acp:id", "session_id": "S"}),
    ),
    "P/ACP": (
        ("_mcp/client_to_server/request", {"url": "acp:id", "message": {}}),
        ("_mcp/server_to_client/notification", {"url": "acp:id", "message": {}}),
    ),
    "SCP": (("_scp/mcp", {"name": "id", "message": {}}),),
}
CONNECTED: Final = (
    ("mcp/message", {"connectionId": "k", "method": "ping"}),
    ("mcp/disconnect", {"connectionId": "k"}),
    ("_mcp/message", {"connectionId": "k", "method": "ping"}),
    ("_mcp/request", {"connection_id": "k", "method": "ping"}),
    ("_mcp/notification", {"connection_id": "k", "method": "ping"}),
    ("_mcp/disconnect", {"connection_id": "k"}),
)


class DeclaringChain:
    """The chain, and the act of each peer in it on a line; by default they pass everything on."""

    def __init__(
        self,
        trusted: bool,
        owned: dict[str, list[str]] | None = None,
        grants: dict[str, Grants] | None = None,
        hosts: tuple[str, ...] = (),
        watched: tuple[str, ...] = (),
    ) -> None:
        given = grants or {}
        full = {name: policy_of("full", grants=given.get(name, Grants())) for name in PROXIES}
        held: dict[str, Policy | None] = {**full, **({"mid": None} if trusted else {})}
        kind = DIALECTS["channel"]
        proxies = [
            Component(name, dialect=kind, policy=held[name], hosts=name in hosts)
            for name in PROXIES
        ]
        self.router = Router(
            [*proxies, Component("agent")],
            options=RouterOptions(owned=owned or {}, audited=watched),
        )
        self.actors = {name: Guest(name) for name in PROXIES}
        self.does: dict[tuple[str, str], Callable[[Json], list[tuple[str, Json]]]] = {}
        """The act of a peer on a method instead: frames to say, each to a side."""
        self.violated: list[Violated] = []
        self.ends: dict[str, list[Json]] = {"client": [], "agent": []}
        self.say("client", "", request(0, "initialize", V1))
        assert self.router.version == 1

    def say(self, name: str, side: str, frame: Json) -> None:
        """Somebody says something, and all that follows from it happens."""
        queue: Lines = [(name, side.encode() + dump(frame))]
        while queue:
            for effect in self.router.receive(*queue.pop(0)):
                if isinstance(effect, Violated):
                    self.violated.append(effect)
                if isinstance(effect, Send):
                    queue += self._hear(effect.peer, effect.frame)

    def _hear(self, name: str, line: bytes) -> Lines:
        frame = json.loads(line[name in PROXIES :])
        do = self.does.get((name, frame.get("method", "")))
        if do is not None:
            return [(name, side.encode() + dump(each)) for side, each in do(frame)]
        if name in PROXIES:
            return self.actors[name].hear(name, line[:-1])
        self.ends[name].append(frame)
        if name == "agent" and "method" in frame and "id" in frame:
            return [(name, dump(result(frame["id"], {"protocolVersion": 1, "sessionId": "S"})))]
        return []

    def rules(self) -> list[tuple[str, str]]:
        """The components that have broken a rule since the last look, each with the rule."""
        found, self.violated = [(one.peer, one.rule) for one in self.violated], []
        return found

    def heard(self, end: str, method: str) -> list[Json]:
        """The messages of a method that an end of the chain got."""
        return [frame for frame in self.ends[end] if frame.get("method") == method]


def declares(world: DeclaringChain, owner: str, server: Json, id_: int = 1) -> None:
    """A session is set up; `owner` adds a server to it."""

    def add(frame: Json) -> list[tuple[str, Json]]:
        servers = [*frame["params"]["mcpServers"], server]
        params = {**frame["params"], "mcpServers": servers}
        said = request(frame["id"], "session/new", params)
        return [("s", said)]

    before: Json = {"cwd": "/", "mcpServers": [server] if owner == "client" else []}
    if owner != "client":
        world.does[owner, "session/new"] = add
    world.say("client", "", request(id_, "session/new", before))
    world.does.pop((owner, "session/new"), None)


def connects(
    world: DeclaringChain,
    owner: str,
    id_: int,
    key: str = "connectionId",
    k: str = "k",
    server: str = "id",
) -> None:
    """The agent opens a connection to a server, and `owner` answers it."""
    side = "" if owner == "client" else "s"
    for method in ("mcp/connect", "_mcp/connect"):
        world.does[owner, method] = lambda frame: [(side, result(frame["id"], {key: k}))]
    world.say("agent", "", request(id_, "mcp/connect", {"acpId": server}))
    for method in ("mcp/connect", "_mcp/connect"):
        del world.does[owner, method]


def thieves(who: str) -> list[str]:
    """The policed components that are not the owner."""
    return [name for name in PROXIES if name not in who]


@pytest.mark.proves("a component cannot reach MCP")
@pytest.mark.parametrize("generation", SERVERS)
@pytest.mark.parametrize("who", OWNERS)
def test_servers_of_others_are_out_of_reach(who: str, generation: str) -> None:
    owner = who.removeprefix("trusted ")
    world = DeclaringChain(trusted=who == "trusted mid")
    server = SERVERS[generation]
    declares(world, owner, server)
    (new,) = world.heard("agent", "session/new")
    assert new["params"]["mcpServers"] == [server]
    assert world.rules() == []
    for thief in thieves(who):
        for number, (method, params) in enumerate(USES[generation]):
            for side in "ps":
                world.say(thief, side, request(f"t{side}{number}", method, params))
                world.say(thief, side, notification(method, params))
                assert world.rules() == [(thief, "rights")] * 2, (method, side)
        # Nor can it make the address its own, in a session of which the owner knows nothing.
        declares(world, thief, server, 10 + PROXIES.index(thief))
        assert world.rules() == [(thief, "mcp-servers")]
    for end in ("client", "agent"):
        assert [m for m, _ in USES[generation] if world.heard(end, m)] == []
    if owner in PROXIES:  # whose it is can
        for number, (method, params) in enumerate(USES[generation]):
            world.say(owner, "s", request(f"o{number}", method, params))
            assert world.heard("agent", method)
        assert world.rules() == []


@pytest.mark.proves("a component cannot reach MCP")
@pytest.mark.parametrize("key", ["connectionId", "connection_id"])
@pytest.mark.parametrize("who", OWNERS)
def test_connections_of_others_are_out_of_reach(who: str, key: str) -> None:
    owner = who.removeprefix("trusted ")
    world = DeclaringChain(trusted=who == "trusted mid")
    declares(world, owner, SERVERS["RFD"])
    connects(world, owner, 70, key)
    assert world.ends["agent"][-1] == result(70, {key: "k"})
    assert world.rules() == []
    for thief in thieves(who):
        for number, (method, params) in enumerate(CONNECTED):
            for side in "ps":
                world.say(thief, side, request(f"t{side}{number}", method, params))
                assert world.rules() == [(thief, "rights")], (method, side)
        # Nor can it open one of its own under the same id.
        mine = {"type": "acp", "name": f"n-{thief}", "id": f"id-{thief}"}
        declares(world, thief, mine, 10 + PROXIES.index(thief))
        world.does[thief, "mcp/connect"] = lambda frame: [("s", result(frame["id"], {key: "k"}))]
        ask = {"acpId": f"id-{thief}"}
        world.say("agent", "", request(80 + PROXIES.index(thief), "mcp/connect", ask))
        del world.does[thief, "mcp/connect"]
        assert world.rules() == [(thief, "mcp-connections")]
    if owner in PROXIES:
        world.say(owner, "s", request("o", "mcp/message", {"connectionId": "k", "method": "ping"}))
        assert world.heard("agent", "mcp/message")
        assert world.rules() == []


@pytest.mark.proves("a server that the client declares")
def test_what_the_client_declares_is_its_own_whoever_claimed_it_before() -> None:
    world = DeclaringChain(trusted=True)
    declares(world, "far", SERVERS["stateless"])
    world.say("far", "s", notification("mcp/message", {"serverId": "id", "requestId": "1"}))
    assert world.rules() == []
    declares(world, "client", SERVERS["stateless"], 2)
    world.say("far", "s", notification("mcp/message", {"serverId": "id", "requestId": "1"}))
    assert world.rules() == [("far", "rights")]


def claims(world: DeclaringChain, claimer: str, owner: str) -> None:
    """Both declare a server; `claimer` opens the connection `k` to its own, then `owner` does."""
    declares(world, claimer, {"type": "acp", "name": "c", "id": "claimer-s"}, 1)
    declares(world, owner, {"type": "acp", "name": "o", "id": "owner-s"}, 2)
    connects(world, claimer, 71, server="claimer-s")
    assert world.ends["agent"][-1] == result(71, {"connectionId": "k"})
    connects(world, owner, 72, server="owner-s")


USE: Final = notification("mcp/message", {"connectionId": "k", "method": "ping"})


@pytest.mark.proves("a connection of the client or")
@pytest.mark.parametrize(("owner", "watched"), [("client", ()), ("mid", ()), ("mid", ("mid",))])
@pytest.mark.parametrize("claimer", ["far", "near"])
def test_a_connection_of_who_is_not_policed_is_its_own_whoever_claimed_its_id(
    claimer: str, owner: str, watched: tuple[str, ...]
) -> None:
    world = DeclaringChain(trusted=True, watched=watched)
    claims(world, claimer, owner)
    assert world.ends["agent"][-1] == result(72, {"connectionId": "k"})
    assert world.rules() == []
    world.say(claimer, "s", USE)
    assert world.rules() == [(claimer, "rights")]
    world.does[claimer, "mcp/message"] = lambda frame: []
    world.say("agent", "", USE)
    assert world.heard("client", "mcp/message") == [USE]


@pytest.mark.parametrize(("owner", "hosts"), [("near", ()), ("mid", ("mid",))])
def test_a_connection_of_a_policed_component_stays_its_own(
    owner: str, hosts: tuple[str, ...]
) -> None:
    """Also where a host speaks for guests, some of which may be policed there."""
    world = DeclaringChain(trusted=True, hosts=hosts)
    claims(world, "far", owner)
    assert world.rules() == ([("near", "mcp-connections")] if owner == "near" else [])
    world.say("far", "s", USE)
    assert world.rules() == []


@pytest.mark.parametrize("watched", [(), ("mid",)])
@pytest.mark.parametrize("grants", [{}, {"near": Grants(mcp="others")}])
def test_who_passes_a_connection_on_has_not_opened_it(
    grants: dict[str, Grants], watched: tuple[str, ...]
) -> None:
    world = DeclaringChain(trusted=True, grants=grants, watched=watched)
    for owner, id_ in (("far", 70), ("client", 71)):
        declares(world, owner, {"type": "acp", "name": owner, "id": f"{owner}-s"}, id_)
        connects(world, owner, id_ + 10, k=f"{owner}-k", server=f"{owner}-s")
        assert world.ends["agent"][-1] == result(id_ + 10, {"connectionId": f"{owner}-k"})
    for name in ("far", "near"):
        message = {"connectionId": "far-k", "method": "ping"}
        world.say(name, "s", notification("mcp/message", message))
        assert [one for one, _ in world.rules()] == ([] if name == "far" else ["near"])
        message = {"connectionId": "client-k", "method": "ping"}
        world.say(name, "s", notification("mcp/message", message))
        assert [one for one, _ in world.rules()] == [name]


@pytest.mark.proves("a component cannot reach MCP")
def test_who_hears_of_a_connection_first_cannot_claim_it() -> None:
    world = DeclaringChain(trusted=False, grants={"near": Grants(mcp="others")})
    declares(world, "far", SERVERS["RFD"])
    held: list[Json] = []

    def holds(setup: Json) -> list[tuple[str, Json]]:
        held.append(setup)
        return []

    def adds(answer: Json) -> list[tuple[str, Json]]:
        del world.does["near", ""]
        servers = [{"type": "acp", "name": "n", "id": answer["result"]["connectionId"]}]
        params = {"cwd": "/", "mcpServers": servers}
        return [("s", request(held[0]["id"], "session/new", params)), ("s", answer)]

    world.does["near", "session/new"] = holds
    world.say("client", "", request(2, "session/new", {"cwd": "/", "mcpServers": []}))
    world.does["near", ""] = adds
    connects(world, "far", 71)
    assert world.rules() == [("near", "mcp-servers")]
    assert world.heard("agent", "session/new")[-1]["params"]["mcpServers"] == []


@pytest.mark.proves("a connection of the client or", "its MCP servers")
@pytest.mark.parametrize("k", ["mid:1/1", "MID.1", "mid:2", "acp:near:1", "near"])
def test_nobody_opens_a_connection_in_somebody_else_s_name(k: str) -> None:
    world = DeclaringChain(trusted=True)
    declares(world, "far", SERVERS["RFD"])
    connects(world, "far", 70, k=k)
    assert world.rules() == [("far", "mcp-connections")]
    connects(world, "far", 71, k="far:1/1")
    assert world.ends["agent"][-1] == result(71, {"connectionId": "far:1/1"})
    assert world.rules() == []


def test_an_address_is_one_with_the_scheme_and_without() -> None:
    world = DeclaringChain(trusted=True)
    declares(world, "client", SERVERS["RFD"])
    declares(world, "far", SERVERS["acp: URL"], 2)
    assert world.rules() == [("far", "mcp-servers")]
    world.say("far", "s", request("t", "_mcp/connect", {"acp_url": "acp:id"}))
    assert world.rules() == [("far", "rights")]
    declares(world, "far", {"type": "acp", "name": "f", "id": "far:1"}, 3)
    connects(world, "far", 70, server="far:1")
    world.say("far", "s", notification("mcp/message", {"connectionId": "k", "method": "ping"}))
    assert world.rules() == []


def test_servers_of_sessions_of_its_own_are_its_own() -> None:
    """With `sessions=own` a component may open sessions, and serve the servers that it adds
    there."""
    world = DeclaringChain(trusted=True, grants={"far": Grants(sessions="own")})
    params = {"cwd": "/work", "mcpServers": [SERVERS["SCP"]]}
    world.say("far", "s", request("own", "session/new", params))
    assert world.rules() == [("far", "own-sessions")]  # in folders that are at hand
    world.say("client", "", request(1, "session/new", {"cwd": "/work", "mcpServers": []}))
    world.say("far", "s", request("own", "session/new", params))
    assert world.heard("agent", "session/new")[1]["params"] == params
    world.say("far", "s", notification("_scp/mcp", {"name": "id", "message": {}}))
    assert world.rules() == []
    world.say("near", "s", notification("_scp/mcp", {"name": "id", "message": {}}))
    assert world.rules() == [("near", "rights")]


def test_a_refused_connection_is_nobodys() -> None:
    world = DeclaringChain(trusted=True)
    declares(world, "far", SERVERS["RFD"])
    error = {"code": -1, "message": "no"}
    world.does["far", "mcp/connect"] = lambda frame: [
        ("s", {"jsonrpc": "2.0", "id": frame["id"], "error": error})
    ]
    world.say("agent", "", request(70, "mcp/connect", {"acpId": "id"}))
    assert world.ends["agent"][-1]["error"] == error
    connects(world, "far", 71)
    world.say("far", "s", notification("mcp/message", {"connectionId": "k", "method": "ping"}))
    assert world.rules() == []


def test_of_too_many_addresses_of_one_owner_its_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No component makes room for its own by having others' forgotten."""
    monkeypatch.setattr(ownership, "_MOST", 2)
    world = DeclaringChain(trusted=True)
    for number in range(4):
        server = {"type": "acp", "name": "n", "id": f"id-{number}"}
        declares(world, "far" if number % 2 else "client", server, 10 + number)
    policy_state = world.router.peers["far"].policy_state
    assert policy_state is not None
    assert (policy_state.servers, policy_state.foreign) == (
        {"id-3", "acp:id-3"},
        {"id-2", "acp:id-2"},
    )
    for number in range(5, 9):
        server = {"type": "acp", "name": "n", "id": f"id-{number}"}
        declares(world, "far", server, 10 + number)
    assert (policy_state.servers, policy_state.foreign) == (
        {"id-8", "acp:id-8"},
        {"id-2", "acp:id-2"},
    )


def test_an_address_that_has_become_another_s_is_not_forgotten_with_the_first_one_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ownership, "_MOST", 2)
    world = DeclaringChain(trusted=True)
    declares(world, "far", {"type": "acp", "name": "n", "id": "id"}, 10)
    declares(world, "client", {"type": "acp", "name": "n", "id": "id"}, 11)
    for number in range(4):
        declares(world, "far", {"type": "acp", "name": "n", "id": f"id-{number}"}, 20 + number)
    policy_state = world.router.peers["far"].policy_state
    assert policy_state is not None
    assert policy_state.foreign == {"id", "acp:id"}
    assert policy_state.servers >= {"id-3", "acp:id-3"}
    assert world.router.addresses == {"id", "acp:id", "id-3", "acp:id-3"}


def test_what_others_own_is_not_declared_anew_after_that() -> None:
    world = DeclaringChain(trusted=False, owned={"far": [], "": ["id"]})
    declares(world, "far", SERVERS["stateless"])
    world.rules()
    message = {"serverId": "id", "requestId": "1", "method": "ping"}
    world.say("far", "s", notification("mcp/message", message))
    assert world.rules() == [("far", "rights")]


@pytest.mark.parametrize("cwd", ["/", "/work"])
@pytest.mark.parametrize("name", PROXIES)
def test_a_session_s_folders_are_those_it_was_set_up_with(name: str, cwd: str) -> None:
    """Whatever folders a component puts in their place."""
    world = DeclaringChain(trusted=False)
    world.does[name, "session/new"] = lambda frame: [
        ("s", request(frame["id"], "session/new", {**frame["params"], "cwd": cwd}))
    ]
    world.say("client", "", request(1, "session/new", {"cwd": "/work", "mcpServers": []}))
    assert world.heard("agent", "session/new")[0]["params"]["cwd"] == "/work"
    known = world.router.sessions
    assert known.find("S").folders == ("/work",)
    assert known.find("S").opened_by == ""


ASKED: Final = {"connectionId": "k", "method": "tools/call", "params": {"name": "t"}}
LINK: Final = {"type": "resource_link", "name": "n", "uri": "vscode://file/etc/passwd"}


def answers(said: Json, frame: Json) -> list[tuple[str, Json]]:
    """Answers a request with this result."""
    return [("s", result(frame["id"], said))]


def test_what_a_server_says_is_judged_like_all_else() -> None:
    world = DeclaringChain(trusted=True)
    declares(world, "far", SERVERS["RFD"])
    connects(world, "far", 70)
    # A result that breaks a rule is an error for who has asked; nobody else gets the request.
    found: tuple[Json, ...] = ({"content": [LINK]}, {"_meta": {"traceparent": "00"}})
    for number, said in enumerate(found):
        world.does["far", "mcp/message"] = partial(answers, said)
        world.say("agent", "", request(80 + number, "mcp/message", ASKED))
        answer = world.ends["agent"][-1]
        assert answer["id"] == 80 + number
        assert answer["error"]["data"]["component"] == "far"
    assert world.rules() == [("far", "mcp-words")] * 2
    assert world.heard("client", "mcp/message") == []
    del world.does["far", "mcp/message"]
    question = {"message": "Your password?", "requestedSchema": {"type": "object"}}
    for method in ("elicitation/create", "notifications/claude/channel"):
        message = {"connectionId": "k", "method": method, "params": question}
        world.say("far", "s", request("q", "mcp/message", message))
        world.say("far", "s", notification("mcp/message", message))
    assert world.rules() == [("far", "mcp-words")] * 4
    assert world.heard("agent", "mcp/message") == []


@pytest.mark.proves("its MCP servers")
def test_the_agents_model_is_asked_from_the_account_of_own_prompts() -> None:
    """As a request of a component's own MCP server, and as a member of a result."""
    far = {"far": Grants(turns="within")}
    ask = {"method": "sampling/createMessage", "params": {"messages": []}}
    result_type = {"resultType": "input_required", "inputRequests": {"a": ask, "b": ask}}
    world = DeclaringChain(trusted=False, grants=far)
    declares(world, "far", SERVERS["stateless"])
    connects(world, "far", 70)
    world.does["far", "mcp/message"] = lambda frame: [("s", result(frame["id"], result_type))]
    call = {"connectionId": "k", "method": "tools/call", "params": {"name": "t"}}
    world.say("agent", "", request(71, "mcp/message", call))
    assert world.ends["agent"][-1] == result(71, result_type)
    for number in range(100):
        asked = {"connectionId": "k", **ask}
        world.say("far", "s", request(f"s{number}", "mcp/message", asked))
    assert len(world.heard("agent", "mcp/message")) == MOST_PROMPTS - 2
    assert world.rules() == [("far", "turns")] * (100 - MOST_PROMPTS + 2)
    world.say("agent", "", request(72, "mcp/message", call))
    assert "may send no more prompts" in world.ends["agent"][-1]["error"]["message"]
    assert world.rules() == [("far", "turns")]


def test_a_server_has_the_name_of_who_declared_it() -> None:
    for who in OWNERS:
        owner = who.removeprefix("trusted ")
        world = DeclaringChain(trusted=who == "trusted mid")
        declares(world, owner, SERVERS["RFD"])
        said = "" if owner == "client" else owner
        for address in ("id", "acp:id"):
            assert world.router.server_owner(address) == said, who
        assert world.router.server_owner("nobody's") == ""
        declares(world, "client", SERVERS["RFD"], 2)
        assert world.router.server_owner("id") == ""  # servers that the client declares are its own


def test_a_forgotten_server_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_MOST", 2)
    world = DeclaringChain(trusted=True)
    for number, ident in enumerate(("first", "second")):
        declares(world, "mid", {**SERVERS["RFD"], "id": ident}, number + 1)
    assert world.router.server_owner("first") == ""
    assert world.router.server_owner("second") == "mid"
