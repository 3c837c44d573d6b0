"""The call `agent/use`: a session goes on with another agent of the chain."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from conductor.core import CHANNEL, DIALECTS, Closure, Component, Effect, Propagate, Send, Serve
from conductor.core import moving as moving_module
from conductor.core.policy.policy_state import PolicyState
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import INITIALIZE, Agent, Stage, proxy
from tests.harness.router.policed import (
    DONE,
    PERMISSION,
    PROMPT,
    UPDATE,
    Json,
    error,
    guest,
    notification,
    permission,
    policy,
    prompt,
    request,
    result,
    state,
    stop,
    update,
)

HOLDS: Final = "down:session/prompt:carry+answer"
FS: Final[Json] = {"name": "fs", "command": "fs", "args": [], "env": []}
LOADS: Final[Json] = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
SET_UP: Final[Json] = {"cwd": "/work", "mcpServers": [FS], "additionalDirectories": ["/more"]}
MODES: Final[Json] = {
    "currentModeId": "ask",
    "availableModes": [{"id": one, "name": one} for one in ("ask", "plan")],
}
OPTIONS: Final = [{"id": "effort", "name": "Effort", "currentValue": "low"}]
GONE: Final = Closure("agent `b` exited with code 1", "look at its log", {"component": "b"})
MODE: Final = "session/set_mode"
OPTION: Final = "session/set_config_option"


class Play:
    """A client, the component `g`, the agents `a` (the chain's), `b` and `c`; in the client's
    session `S`. All messages that the router sends wait in `got`, by peer."""

    def __init__(
        self,
        component: Component | None = None,
        *,
        version: int = 1,
        shows: Json | None = None,
        agent: Component | None = None,
        ready: Sequence[str] = ("b", "c"),
        loads: bool = False,
        **options: Any,
    ) -> None:
        held = component or guest(HOLDS)
        self.g = held.name
        held = replace(held, agents=held.agents or dict.fromkeys(("b", "c"), held.name))
        beside = [Component(name, f"agent `{name}`", peer_agent=True) for name in ("b", "c")]
        self.router = Router(
            [held, *beside, agent or Component("a", "agent `a`")],
            options=RouterOptions(**options),
        )
        self.effects: list[Effect] = []
        self.got: list[tuple[str, Json]] = []
        self.version, self.asked = version, 0
        self.tag = b"s" if held.dialect is CHANNEL else b""
        self._begin(ready, LOADS if loads else {"protocolVersion": version})
        self.say("client", request("n", "session/new", SET_UP))
        for name in (self.g, "a", self.g):  # a component that carries set-ups passes them on
            for one in self.requests(name):
                if name == "a":
                    self.say("a", result(one["id"], {"sessionId": "S", **(shows or {})}))
                else:
                    self.say(name, one, "s")
        self.got.clear()

    def _begin(self, ready: Sequence[str], answer: Json) -> None:
        given: Json = {"protocolVersion": self.version, "clientCapabilities": {"fs": {}}}
        if self.version == 2:
            given = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
        self.say("client", request("i", "initialize", given))
        (asked,) = self.requests(self.g)
        if self.router.peers[self.g].sideband:
            self.say(self.g, request("f", "initialize", given), "s")
        else:
            self.say(self.g, request("f", "proxy/successor", {"method": "initialize",
                                                              "params": given}))  # fmt: skip
        (inner,) = self.requests("a")
        self.say("a", result(inner["id"], answer))
        self.say(self.g, result(asked["id"], answer), "p")
        self.given, self.greeted = given, {name: self.requests(name) for name in ("b", "c")}
        for name in ready:
            self.say(name, result(self.greeted[name][0]["id"], answer))

    def say(self, peer: str, message: Json, side: str = "") -> None:
        """A peer says something; a guest on a side."""
        tag = side.encode() if self.router.peers[peer].sideband else b""
        self.take(self.router.receive(peer, tag + json.dumps(message).encode()))

    def take(self, effects: Sequence[Effect]) -> None:
        """Takes the effects of a step."""
        self.effects += effects
        for one in effects:
            if isinstance(one, Send):
                frame = one.frame[one.frame.index(b"{") :]
                self.got.append((one.peer, json.loads(frame)))
            elif isinstance(one, Propagate):
                asked = request(json.loads(one.id), one.method, json.loads(one.params))
                self.got.append((one.peer, asked))

    def of(self, peer: str) -> list[Json]:
        """The messages that a peer has got since the last look."""
        found = [message for name, message in self.got if name == peer]
        self.got = [one for one in self.got if one[0] != peer]
        return found

    def requests(self, peer: str) -> list[Json]:
        """The requests that a peer has got; it has got nothing else."""
        found = self.of(peer)
        return [one for one in found if "id" in one and "method" in one]

    def prompted(self, text: str = "hi", session: str = "S") -> Json:
        """The client prompts, and `g` holds it."""
        self.asked += 1
        self.say("client", request(f"p{self.asked}", PROMPT, prompt(text, session)))
        (held,) = self.requests(self.g)
        return held

    def uses(
        self, agent: str | None = "b", *, tell: bool = False, id_: str = "use", **more: Any
    ) -> None:
        """`g` calls `agent/use`."""
        params = {"sessionId": "S", **({} if agent is None else {"agent": agent}), **more}
        named = {} if tell else {"id": id_}
        call = {"jsonrpc": "2.0", "method": "agent/use", "params": params, **named}
        if self.router.peers[self.g].sideband:
            self.say(self.g, call, "c")
        else:
            self.say(self.g, {**call, "method": "_conductor/agent/use"})

    def answer(self, id_: str = "use") -> Json:
        """The answer that `g` gets."""
        (found,) = [one for one in self.of(self.g) if one.get("id") == id_]
        return found

    def opens(self, agent: str = "b", session: str = "T", shows: Json | None = None) -> Json:
        """The new agent opens the session; the params of its `session/new`."""
        (asked,) = self.requests(agent)
        assert asked["method"] == "session/new"
        self.say(agent, result(asked["id"], {"sessionId": session, **(shows or {})}))
        return dict(asked["params"])

    def moved(self, agent: str = "b", session: str = "T", shows: Json | None = None) -> Json:
        """The session goes on with `agent`, whose it has not been; `g` still holds the prompt."""
        held = self.prompted()
        self.uses(agent)
        self.opens(agent, session, shows)
        assert self.answer()["result"]["agent"] == agent
        return held

    def passes(self, held: Json, agent: str, session: str = "S") -> Json:
        """`g` passes the prompt on, which this agent gets."""
        self.say(self.g, request(held["id"], PROMPT, held["params"]), "s")
        (got,) = self.requests(agent)
        assert got["params"]["sessionId"] == session
        return got

    def answered(self, held: Json) -> None:
        """`g` answers the prompt itself."""
        self.say(self.g, result(held["id"], DONE), "p")

    def refusal(self) -> str:
        """Why `g` may not."""
        return str(self.answer()["error"]["message"])


def kinds(messages: list[Json]) -> list[str]:
    """The kinds of updates."""
    return [one["params"]["update"]["sessionUpdate"] for one in messages]


# -- it goes on ------------------------------------------------------------------------------------


@pytest.mark.proves("a session of the user's moves")
@pytest.mark.parametrize("version", [1, 2])
def test_the_session_goes_on_and_comes_back(version: int) -> None:
    play = Play(version=version)
    assert [asked[0]["params"] for asked in play.greeted.values()] == [play.given] * 2
    held = play.prompted()
    play.uses()
    assert play.opens() == SET_UP
    assert play.answer()["result"] == {"agent": "b", "agents": ["a", "b", "c"], "unset": []}
    said = play.of("client")
    told = "agent_message_chunk" if version == 1 else "notice"
    assert kinds(said) == ["session_info_update", "available_commands_update", told]
    assert said[0]["params"]["update"]["_meta"] == {"conductor.session": {"agent": "b"}}
    assert "`b` goes on with this session" in str(said[-1])
    asked = play.passes(held, "b", "T")
    play.say("b", update("x", "T"))
    play.say("b", request("q", PERMISSION, permission("T")))
    heard, question = play.of("client")
    assert heard == update("x")
    assert question["params"] == permission("S")
    play.say("client", result(question["id"], {"outcome": {"outcome": "cancelled"}}))
    assert play.of("b") == [result("q", {"outcome": {"outcome": "cancelled"}})]
    play.say("client", stop())
    assert play.of("b") == [stop("T")]
    assert play.of("a") == []
    play.say("b", result(asked["id"], DONE if version == 1 else {"messageId": "m"}))
    if version == 2:
        play.say("b", state("idle", "T"))
    play.got.clear()
    held = play.prompted()
    play.uses("a")
    assert play.answer()["result"]["agent"] == "a"
    play.passes(held, "a")


def test_an_agent_that_has_had_the_session_goes_on_where_it_was() -> None:
    play = Play()
    play.answered(play.moved())
    play.got.clear()
    for agent in ("a", "b", "a", "b"):
        held = play.prompted()
        play.uses(agent)
        assert play.answer()["result"]["agent"] == agent
        play.answered(held)
    assert play.requests("b") == []


def test_without_an_agent_it_says_who_answers() -> None:
    play = Play()
    play.uses(None)
    assert play.answer()["result"] == {"agent": "a", "agents": ["a", "b", "c"], "unset": []}
    play.uses("a")
    assert play.answer()["result"]["agent"] == "a"
    play.uses(None, tell=True)
    assert play.got == []


def test_the_conductor_above_a_host_decides() -> None:
    host = Component("h", "the host", CHANNEL, frozenset({"service"}), policy=policy(HOLDS),
                     hosts=True, agents={"b": "one", "c": "other"})  # fmt: skip
    play = Play(host)
    play.prompted()
    params = {"component": "one", "method": "agent/use", "params": {}}
    play.say("h", request("r", "service", params), "c")
    (served,) = [one for one in play.effects if isinstance(one, Serve) and one.token]
    assert served.token is not None
    use = b'{"sessionId":"S","agent":"c"}'
    play.take(play.router.relayed("h", "one", "agent/use", use, served.token))
    assert "there is `a`, `b`" in play.of("h")[-1]["error"]["message"]
    play.take(play.router.relayed("h", "one", "agent/use", use.replace(b'"c"', b'"b"'), None))
    play.opens()
    assert "session_info_update" in kinds(play.of("client"))


def test_a_host_asks_the_conductor_above() -> None:
    one = replace(guest(HOLDS), agents={"b": "g"})
    router = Router([one], "proxy", options=RouterOptions(upstream=CHANNEL))
    call = json.dumps(request("u", "agent/use", {"sessionId": "S", "agent": "b"})).encode()
    (served,) = router.receive("g", b"c" + call)
    assert isinstance(served, Serve)
    assert json.loads(served.params or b"") == {"sessionId": "S", "agent": "b"}


# -- who may ---------------------------------------------------------------------------------------


def test_it_takes_the_right() -> None:
    play = Play()
    play.router.peers["g"].component = replace(play.router.peers["g"].component, agents={})
    play.uses()
    hint = "hint: `,allow=agent:b` lets it, with `-c peer.b=COMMAND`"
    assert f"`agent/use` is not granted to proxy `g`\n{hint}" in play.refusal()
    play.uses("not a name")
    assert "hint: `,allow=agent:NAME` lets it, with `-c peer.NAME=COMMAND`" in play.refusal()


def test_who_is_only_watched_may_not() -> None:
    play = Play()
    watched = policy(HOLDS, watched=True)
    play.router.peers["g"].policy_state = PolicyState(watched, "g")
    play.uses()
    assert "is only watched" in play.refusal()


def test_params_that_nobody_understands_are_refused() -> None:
    play = Play()
    play.uses(sessionId=7)
    assert "takes the id of a session, and the name of an agent" in play.refusal()
    play.uses("nobody", tell=True)
    assert play.got == []


@pytest.mark.proves("a session of the user's moves", "move")
def test_it_takes_a_prompt_of_the_user_s_that_the_component_holds() -> None:
    play = Play()
    play.uses()
    assert "the user has not asked for it" in play.refusal()
    held = play.prompted()
    play.passes(held, "a")
    play.uses()
    assert "the user has not asked for it" in play.refusal()


def test_nothing_else_may_be_open_there() -> None:
    play = Play()
    play.prompted()
    play.say("a", request("q", PERMISSION, permission()))
    play.uses()
    assert "`session/request_permission` is open in the session" in play.refusal()


def test_so_does_the_user_s_cancellation_and_the_next_attempt_takes_what_it_opened() -> None:
    play = Play()
    play.prompted()
    play.uses()
    play.say("client", stop())
    (asked,) = play.requests("b")
    play.got.clear()
    held = play.prompted()
    play.uses("b", tell=True)  # the former has no answer yet
    (again,) = play.requests("b")
    play.say("b", result(asked["id"], {"sessionId": "late"}))  # nobody waits for it any more
    assert [
        m["params"] for n, m in play.got if (n, m.get("method")) == ("b", "session/cancel")
    ] == [{"sessionId": "late"}]
    play.say("b", result(again["id"], {"sessionId": "T"}))
    assert "session_info_update" in kinds([m for n, m in play.got if n == "client"])
    play.passes(held, "b", "T")


def test_a_session_that_comes_too_late_is_closed() -> None:
    play = Play(version=2)
    play.prompted()
    play.uses("b")
    (asked,) = play.requests("b")
    play.got.clear()
    play.say("client", request("e", "session/close", {"sessionId": "S"}))
    play.say("b", result(asked["id"], {"sessionId": "late"}))
    (close,) = play.requests("b")
    assert (close["method"], close["params"]) == ("session/close", {"sessionId": "late"})


def test_a_cancelled_move_changes_nothing() -> None:
    play = Play()
    play.prompted()
    play.uses()
    play.say("client", stop())
    play.opens()
    assert "the user has not asked for it" in play.refusal()
    play.passes(play.prompted(), "a")


def test_a_session_moves_once_at_a_time() -> None:
    play = Play()
    play.prompted()
    play.uses("b")
    play.uses("c", id_="again")
    assert "the session moves to `b` already" in play.answer("again")["error"]["message"]
    play.opens()
    assert play.answer()["result"]["agent"] == "b"


def test_a_session_that_nobody_has_seen_set_up_stays() -> None:
    play = Play()
    play.prompted(session="X")
    play.uses(sessionId="X")
    assert "nobody has seen how the session was set up" in play.refusal()


def test_so_many_sessions_have_other_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_module, "_MOST", 0)
    play = Play()
    play.prompted()
    play.uses()
    assert "0 sessions have had other agents\nhint: close those that are done" in play.refusal()


# -- agents that do not ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda id_: error(id_, -32000, "log in"), "agent `b` opens no session: log in\nhint: log"),
        (lambda id_: error(id_, -32603, "no"), "agent `b` opens no session: no"),
        (lambda id_: result(id_, {}), "agent `b` answered `session/new` without the id of a new"),
    ],
)
def test_an_agent_that_opens_no_session(answer: Callable[[object], Json], said: str) -> None:
    play = Play()
    held = play.prompted()
    play.uses()
    (asked,) = play.requests("b")
    play.say("b", answer(asked["id"]))
    assert play.refusal().startswith(said)
    play.passes(held, "a")


def passes(play: Play, method: str, **params: Any) -> None:
    """A program without a policy passes a request on while it holds a prompt."""
    play.say("client", request("x", method, {"sessionId": "S", **params}))
    (given,) = play.requests("g")
    play.say("g", given, "s")
    (asked,) = play.requests("a")
    play.say("a", result(asked["id"], {}))
    play.say("g", result(given["id"], {}), "p")


def test_a_session_that_the_client_loads_before_another_agent_has_it_stays() -> None:
    play = Play(Component("g", dialect=CHANNEL))
    held = play.prompted()
    play.uses("b")
    (step,) = play.requests("b")
    passes(play, "session/load", **SET_UP)
    play.say("b", result(step["id"], {"sessionId": "T"}))
    assert "the client has ended the session, or set it up again" in play.refusal()
    play.passes(held, "a")


def test_a_session_that_the_client_loads_while_it_moves_stays() -> None:
    play = Play(Component("g", dialect=CHANNEL), shows=SHOWS)
    play.answered(play.moved(shows=SHOWS))
    held = play.prompted()
    play.uses("a")
    play.answered(held)
    passes(play, MODE, modeId="plan")
    held = play.prompted()
    play.uses("b")
    (step,) = play.requests("b")
    assert step["method"] == MODE
    passes(play, "session/load", **SET_UP)
    play.say("b", result(step["id"], {}))
    assert "the client has ended the session, or set it up again" in play.refusal()
    play.passes(held, "a")


def test_an_agent_that_gives_an_id_twice() -> None:
    play = Play()
    play.answered(play.moved())
    play.say("client", request("n2", "session/new", {"cwd": "/x", "mcpServers": []}))
    (asked,) = play.requests("a")
    play.say("a", result(asked["id"], {"sessionId": "S2"}))
    play.got.clear()
    play.prompted(session="S2")
    play.uses(sessionId="S2")
    play.opens(session="T")
    assert "without the id of a new session" in play.refusal()


@pytest.mark.parametrize("hint", ["look at its log", ""])
def test_an_agent_that_is_gone(hint: str) -> None:
    play = Play()
    play.take(play.router.closed("b", replace(GONE, hint=hint)))
    play.prompted()
    play.uses()
    more = f"\nhint: {hint}" if hint else ""
    assert play.refusal() == f"agent `b` exited with code 1{more}"


def test_an_agent_that_ends_while_the_session_moves() -> None:
    play = Play()
    held = play.prompted()
    play.uses()
    play.take(play.router.closed("b", GONE))
    assert "agent `b` opens no session: agent `b` exited with code 1" in play.refusal()
    play.passes(held, "a")


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_ends_in_a_turn(version: int) -> None:
    """The agent's prompts fail, and the user goes on with another agent."""
    play = Play(version=version)
    asked = play.passes(play.moved(), "b", "T")
    if version == 2:
        play.say("b", result(asked["id"], {"messageId": "m"}))
    play.got.clear()
    play.take(play.router.closed("b", GONE))
    said = play.of("client")
    if version == 1:
        assert said[-1]["error"]["message"].startswith("agent `b` exited with code 1")
    else:
        assert kinds(said) == ["notice", "state_update"]
    held = play.prompted()
    play.uses("a")
    assert play.answer()["result"]["agent"] == "a"
    play.passes(held, "a")


def test_one_that_has_not_answered_yet_is_waited_for() -> None:
    play = Play(ready=())
    play.prompted()
    play.uses()
    assert play.got == []
    answer = {"protocolVersion": 1}
    play.say("b", result(play.greeted["b"][0]["id"], answer))
    play.opens()
    assert play.answer()["result"]["agent"] == "b"


# -- settings --------------------------------------------------------------------------------------

SHOWS: Final[Json] = {"modes": MODES, "configOptions": OPTIONS}


def chosen(play: Play, method: str, **params: Any) -> None:
    """The client sets something, and the agent that has the session does it."""
    play.say("client", request("s", method, {"sessionId": "S", **params}))
    for name in ("a", "b"):
        for asked in play.requests(name):
            play.say(name, result(asked["id"], {}))
    play.got.clear()


def test_what_the_user_has_set_is_set_where_the_new_agent_has_it() -> None:
    play = Play(shows=SHOWS)
    chosen(play, MODE, modeId="plan")
    chosen(play, OPTION, configId="effort", value="high")
    chosen(play, OPTION, configId="none", value="x")
    play.prompted()
    play.uses()
    play.opens(shows=SHOWS)
    (asked,) = play.requests("b")
    assert (asked["method"], asked["params"]) == (MODE, {"sessionId": "T", "modeId": "plan"})
    play.say("b", result(asked["id"], {}))
    (asked,) = play.requests("b")
    assert (asked["method"], asked["params"]["value"]) == (OPTION, "high")
    play.say("b", error(asked["id"], -32602, "too high"))
    assert play.answer()["result"]["unset"] == [f"{OPTION}: too high"]
    said = play.of("client")
    assert f"without what you set by `{OPTION}`: too high" in str(said[-1])
    assert kinds(said)[:2] == ["session_info_update", "available_commands_update"]


def test_what_it_has_otherwise_the_client_is_told() -> None:
    play = Play(shows={"modes": MODES})
    chosen(play, MODE, modeId="plan")
    other = {"currentModeId": "build", "availableModes": [{"id": "build", "name": "Build"}]}
    play.moved(shows={"modes": other, "configOptions": OPTIONS})
    said = play.of("client")
    assert kinds(said)[1:3] == ["current_mode_update", "config_option_update"]
    assert said[1]["params"]["update"]["currentModeId"] == "build"


def test_what_is_set_with_the_new_agent_holds_with_the_former_too() -> None:
    play = Play(shows=SHOWS)
    play.answered(play.moved(shows=SHOWS))
    chosen(play, MODE, modeId="plan")
    chosen(play, OPTION, configId="effort", value="low")  # as it is there
    play.prompted()
    play.uses("a")
    (asked,) = play.requests("a")
    assert (asked["method"], asked["params"]) == (MODE, {"sessionId": "S", "modeId": "plan"})
    play.say("a", result(asked["id"], {}))
    assert play.answer()["result"] == {"agent": "a", "agents": ["a", "b", "c"], "unset": []}


def test_a_setting_that_the_agent_refuses_is_none() -> None:
    play = Play(shows=SHOWS)
    play.say("client", request("s", MODE, {"sessionId": "S", "modeId": "plan"}))
    (asked,) = play.requests("a")
    play.say("a", error(asked["id"], -32602, "no"))
    play.moved(shows=SHOWS)


def test_commands_are_those_of_the_agent_that_answers() -> None:
    def lists(name: str, session: str) -> Json:
        held = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": name}]}
        return notification(UPDATE, {"sessionId": session, "update": held})

    play = Play()
    play.say("a", lists("review", "S"))
    play.prompted()
    play.uses()
    play.got.clear()
    (new,) = play.router.peers["b"].p.requests.sent
    play.say("b", result(int(new), {"sessionId": "T"}))
    play.got.clear()
    play.say("b", lists("init", "T"))
    play.say("a", lists("late", "S"))
    assert play.of("client") == [lists("init", "S")]
    assert play.router.sessions.find("S").commands == {"/init"}
    play.uses("a")
    assert lists("late", "S") in play.of("client")
    assert play.router.sessions.find("S").commands == {"/late"}


def test_lists_of_commands_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_module, "_MOST", 1)
    play = Play()
    for session in ("S", "X"):
        held = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        play.say("a", notification(UPDATE, {"sessionId": session, "update": held}))
    large = {"sessionUpdate": "available_commands_update", "availableCommands": ["x" * 70_000]}
    play.say("a", notification(UPDATE, {"sessionId": "S", "update": large}))
    play.moved()
    play.got.clear()
    play.uses("a")
    (listed,) = [m for m in play.of("client") if "available_commands" in str(m)]
    assert listed["params"]["update"]["availableCommands"] == []


# -- messages of an agent that does not have the session -------------------------------------------


@pytest.mark.proves("move")
def test_what_the_former_agent_says_there_goes_nowhere() -> None:
    play = Play()
    play.answered(play.moved())
    play.got.clear()
    play.say("a", update("late"))
    assert play.got == []
    play.say("a", request("q", PERMISSION, permission()))
    (refused,) = play.of("a")
    assert "session `S` is not at agent `a` now" in refused["error"]["message"]
    play.take(play.router.receive("a", json.dumps([update("late"), update("x", "Y")]).encode()))
    assert play.of("client") == [update("x", "Y")]


def test_an_agent_says_nothing_of_a_session_that_it_does_not_have() -> None:
    play = Play()
    play.say("b", update("forged", "S"))
    assert play.got == []
    play.say("b", update("mine", "sub-agent"))
    assert play.of("client") == [update("mine", "sub-agent")]


# -- the client ends it, or sets it up again -------------------------------------------------------


@pytest.mark.parametrize("method", ["session/close", "session/delete", "session/load"])
def test_then_the_chain_s_agent_alone_has_it(method: str) -> None:
    play = Play()
    play.answered(play.moved())
    play.got.clear()
    more = {"cwd": "/work", "mcpServers": []} if method == "session/load" else {}
    play.say("client", request("e", method, {"sessionId": "S", **more}))
    (asked,) = play.requests("a")
    assert asked["params"] == {"sessionId": "S", **more}
    assert play.of("b") == [stop("T")]
    assert kinds(play.of("client")) == ["session_info_update"]
    play.say("a", result(asked["id"], {}))
    play.got.clear()
    if method == "session/load":
        play.moved(session="T")


def test_an_agent_that_closes_sessions_is_told_so() -> None:
    play = Play(version=2)
    play.answered(play.moved())
    held = play.prompted()
    play.uses("a")
    play.answered(held)
    play.got.clear()
    play.say("client", request("e", "session/close", {"sessionId": "S"}))
    (close,) = play.requests("b")
    assert (close["method"], close["params"]) == ("session/close", {"sessionId": "T"})
    assert len(play.requests("a")) == 1
    assert play.of("client") == []


def test_one_that_is_gone_is_not() -> None:
    play = Play()
    play.answered(play.moved())
    play.take(play.router.closed("b", GONE))
    play.got.clear()
    play.say("client", request("e", "session/close", {"sessionId": "S"}))
    assert len(play.requests("a")) == 1
    assert play.of("b") == []


def test_it_is_not_forked() -> None:
    """The new agent's fork would have an id that the chain's agent does not know."""
    play = Play()
    play.answered(play.moved())
    play.got.clear()
    fork = request("f", "session/fork", {"sessionId": "S", "cwd": "/work", "mcpServers": []})
    play.say("client", fork)
    (refused,) = play.of("client")
    assert "hint: go on with `a` first" in refused["error"]["message"]
    held = play.prompted()
    play.uses("a")
    play.answered(held)
    play.got.clear()
    play.say("client", fork)
    assert len(play.requests("a")) == 1


# -- the rest --------------------------------------------------------------------------------------


def test_mcp_connections_of_the_new_agent_are_its_own() -> None:
    play = Play()
    play.answered(play.moved())
    for name, connection in (("b", "c1"), ("a", "c2")):
        play.got.clear()
        play.say(name, request("m", "mcp/connect", {"acpId": "x"}))
        (asked,) = [one for one in play.of("client") if one.get("method") == "mcp/connect"]
        play.say("client", result(asked["id"], {"connectionId": connection}))
        play.got.clear()
        told = {"connectionId": connection, "method": "notifications/message"}
        play.say("client", notification("mcp/message", told))
        assert play.of(name) == [notification("mcp/message", told)]
        play.say(name, request("m2", "mcp/connect", {"acpId": "x"}))
        (asked,) = [one for one in play.of("client") if one.get("method") == "mcp/connect"]
        play.say("client", error(asked["id"], -32602, "no"))


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_module, "_MOST_CONNECTIONS", 1)
    play = Play()
    for connection in ("c1", "c2"):
        play.say("b", request(connection, "mcp/connect", {"acpId": "x"}))
        (asked,) = [one for one in play.of("client") if one.get("method") == "mcp/connect"]
        play.say("client", result(asked["id"], {"connectionId": connection}))
    play.got.clear()
    play.say("client", notification("mcp/message", {"connectionId": "c1"}))
    play.say("client", notification("mcp/message", {"connectionId": "c2"}))
    assert [name for name, _ in play.got] == ["a", "b"]


def test_the_trace_context_comes_with_the_agent_s_own_id() -> None:
    play = Play(propagating=True)
    play.answered(play.moved())
    play.got.clear()
    play.say("client", request("s", MODE, {"sessionId": "S", "modeId": "x"}))
    stamped = [one for one in play.effects if isinstance(one, Propagate) and one.method == MODE]
    assert [(one.peer, json.loads(one.params)) for one in stamped] == [
        ("b", {"sessionId": "T", "modeId": "x"})
    ]


def test_a_session_that_the_chain_s_agent_has_lost_goes_on_with_another() -> None:
    play = Play(agent=Component("a", "agent `a`", revived=True), loads=True)
    play.take(play.router.leaving("a", Closure("agent `a` ended", "", {"component": "a"})))
    play.take(play.router.returned("a"))
    (again,) = play.requests("a")
    play.say("a", result(again["id"], LOADS))
    (load,) = play.requests("a")
    play.say("a", error(load["id"], -32002, "no such session"))
    held = play.prompted()
    play.uses()
    assert play.opens() == SET_UP
    assert play.answer()["result"]["agent"] == "b"
    play.passes(held, "b", "T")


def test_an_agent_that_is_started_again_ends_no_turn_of_another() -> None:
    play = Play(version=2, agent=Component("a", "agent `a`", revived=True, limited=True))
    asked = play.passes(play.moved(), "b", "T")
    play.say("b", result(asked["id"], {"messageId": "m"}))
    assert play.router.turns("a") == []
    play.got.clear()
    play.take(play.router.leaving("a", Closure("agent `a` ended", "", {"component": "a"})))
    assert play.of("client") == []


def test_messages_without_params_and_answers_keep_their_way() -> None:
    play = Play()
    play.answered(play.moved())
    play.got.clear()
    play.say("b", notification("_x/y"))
    assert play.of("client") == [notification("_x/y")]
    play.say("client", notification("_x/z"))
    assert play.of("a") == [notification("_x/z")]
    play.take(play.router.tell("g", "x", b"{}"))


def test_behind_a_proxy_that_launches_its_successor_all_agents_have_its_second_connection() -> None:
    program = Component("p", "proxy `p`", DIALECTS["scp"], agents={"b": "p"})
    beside = Component("b", "agent `b`", peer_agent=True)
    router = Router([program, beside, Component("a", "agent `a`")])
    stage = Stage(router, [proxy("scp", "p"), Agent("b"), Agent("a")])
    stage.say(INITIALIZE)
    for name in ("a", "b"):
        across = router.peers[name].p.across
        assert across is not None
        assert across.peer.name == "p/successor"
