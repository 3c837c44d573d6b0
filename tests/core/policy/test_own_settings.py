"""Settings of sessions: made by the user alone. A component's own sessions have those with which
the agent begins one, and a session that becomes the user's has those of the user's."""

import json
from collections import deque
from typing import Any

import pytest
from msgspec import Raw

from conductor.core import Changed, Closure, Component, Effect, Send
from conductor.core.aliases import Aliases, to_json
from conductor.core.router import Router, RouterOptions
from tests.harness.router.policed import (
    DONE,
    PERMISSION,
    PROMPT,
    UPDATE,
    Json,
    guest,
    initialize,
    notification,
    permission,
    prompt,
    request,
    result,
    tool_call,
    trusted,
)

THERE: Json = {"cwd": "/work", "mcpServers": []}
FS: Json = {"name": "fs", "command": "fs", "args": [], "env": []}
GRANTS = "sessions=own"
MODE, MODEL, OPTION = "session/set_mode", "session/set_model", "session/set_config_option"
BYPASS: Json = {"modeId": "bypass"}
AGAIN = "hint: open another by `session/new`"


class Agent:
    """An agent with a mode, a model and an option in each session; it refuses some of them."""

    def __init__(self, refuses: tuple[str, ...] = (), version: int = 1) -> None:
        self.refuses = refuses
        self.version = version
        self.sessions: dict[str, Json] = {}
        self.got: list[tuple[str, str, object]] = []
        """The requests that it got, but for set-ups: the method, the session, and the chosen
        value."""

    def shows(self, session: str) -> Json:
        """The settings of a session, as the agent shows them."""
        held = self.sessions[session]
        name = "id" if self.version == 1 else "configId"
        options = [{name: "effort", "name": "Effort", "n": 1.5, "currentValue": held["effort"]}]
        if "trust" in held:
            options.append({name: "trust", "name": "Trust", "currentValue": held["trust"]})
        said: Json = {"configOptions": options}
        if self.version == 1:
            modes = [{"id": one, "name": one} for one in ("ask", "plan", "bypass")]
            said["modes"] = {"currentModeId": held["mode"], "availableModes": modes}
            said["models"] = {"currentModelId": held["model"], "availableModels": []}
        return said

    def answers(self, method: str, params: Json) -> Json:
        """The result of a request."""
        if method in ("session/new", "session/fork", "session/load", "session/resume"):
            begins = {"mode": "ask", "model": "big", "effort": "low"}
            source = self.sessions.get(params.get("sessionId", ""), begins)
            makes = method in ("session/new", "session/fork")
            new = f"s{len(self.sessions) + 1}" if makes else params["sessionId"]
            self.sessions[new] = dict(source)
            return {"sessionId": new, **self.shows(new)}
        session = params["sessionId"]
        chosen = {MODE: "modeId", MODEL: "modelId", OPTION: "value"}.get(method, "")
        self.got.append((method, session, params.get(chosen)))
        if method in self.refuses:
            raise ValueError(method)
        if chosen:
            held = {MODE: "mode", MODEL: "model", OPTION: str(params.get("configId"))}[method]
            self.sessions[session][held] = params[chosen]
        return self.shows(session) if method == OPTION else DONE if method == PROMPT else {}


class Scene:
    """A client, components, and such an agent, which answers at once unless it is to wait."""

    def __init__(
        self,
        *components: Component,
        refuses: tuple[str, ...] = (),
        version: int = 1,
        **more: Any,
    ) -> None:
        self.agent = Agent(refuses, version)
        self.components = components or (guest(grants=GRANTS),)
        self.router = Router(
            [*self.components, Component("agent", "agent `agent`")], options=RouterOptions(**more)
        )
        initialize(self.router, self.components, version)
        self.heard: list[Json] = []
        """The messages that the client got."""
        self.told: list[Json] = []
        """The answers to components' own requests."""
        self.effects: list[Effect] = []
        self.waits: list[Json] | None = None
        """Requests that the agent has not answered; None: it answers all."""
        self.number = 0

    def send(self, name: str, side: str, message: Json) -> None:
        """Something is sent, and all that follows happens."""
        queue = deque([(name, side, message)])
        while queue:
            at, by, said = queue.popleft()
            for effect in self.router.receive(at, by.encode() + json.dumps(said).encode()):
                self.effects.append(effect)
                if isinstance(effect, Send):
                    queue.extend(self._got(effect))

    def _got(self, effect: Send) -> list[tuple[str, str, Json]]:
        frame, where = effect.frame, effect.frame.index(b"{")
        side, message = frame[:where].decode(), json.loads(frame[where:])
        if effect.peer == "client":
            self.heard.append(message)
        elif effect.peer == "agent":
            return [("agent", "", answer) for answer in self._answer(message)]
        elif side in ("p", "s") and "method" in message and not effect.copy:
            return [(effect.peer, "s" if side == "p" else "p", message)]  # as it came
        elif message.get("id") == "own" or side == "c":
            self.told.append(message)
        elif side == "s" and "method" not in message:
            return [(effect.peer, "p", message)]
        return []

    def _answer(self, message: Json) -> list[Json]:
        if "id" not in message or "method" not in message:
            return []
        if self.waits is not None:
            self.waits.append(message)
            return []
        try:
            return [result(message["id"], self.agent.answers(message["method"], message["params"]))]
        except ValueError as error:
            said = {"code": 1, "message": f"no {error}"}
            return [{"jsonrpc": "2.0", "id": message["id"], "error": said}]

    def client(self, method: str, params: Json) -> Json:
        """The client asks; the answer."""
        self.number += 1
        self.send("client", "", request(self.number, method, params))
        return next(one for one in self.heard if one.get("id") == self.number)

    def own(self, method: str, params: Json, name: str = "g") -> Json:
        """A component asks the agent; the answer."""
        self.told.clear()
        self.send(name, "s", request("own", method, params))
        return self.told[-1] if self.told else {}

    def rebinds(self, session: str, to: str, name: str = "g") -> Json:
        """A component asks for an alias; the answer."""
        self.told.clear()
        self.send(name, "c", request("own", "rebind", {"sessionId": session, "to": to}))
        return self.told[-1] if self.told else {}

    def updates(self, kind: str) -> list[Json]:
        """The updates of a kind that the client got."""
        found = [one["params"] for one in self.heard if one.get("method") == UPDATE]
        return [one["update"] for one in found if one["update"]["sessionUpdate"] == kind]

    def agent_says(self, session: str, **update: object) -> None:
        """The agent sends an update."""
        self.send("agent", "", notification(UPDATE, {"sessionId": session, "update": update}))


def begun(scene: Scene, mine: Json = THERE, user: Json = THERE) -> Scene:
    """The user has the session s1, and the component s2."""
    assert scene.client("session/new", user)["result"]["sessionId"] == "s1"
    assert scene.own("session/new", mine)["result"]["sessionId"] == "s2"
    return scene


# -- a component sets nothing ----------------------------------------------------------------------


@pytest.mark.proves("nobody but the user sets a mode")
@pytest.mark.parametrize(
    ("method", "choice"),
    [
        (MODE, BYPASS),
        (MODEL, {"modelId": "x"}),
        (OPTION, {"configId": "effort", "value": "high"}),
        (OPTION, {"configId": "effort", "type": "boolean", "value": True}),
    ],
)
@pytest.mark.parametrize("grants", [GRANTS, "sessions=own options turns=unprompted"])
def test_a_component_sets_nothing_in_any_session(method: str, choice: Json, grants: str) -> None:
    scene = begun(Scene(guest(grants=grants), guest(name="f", profile="full", grants=grants)))
    for step in ("before", "bound", "back"):
        for session in ({"sessionId": "s1"}, {"sessionId": "s2"}, {"session_id": "s2"}, {}):
            for name in ("g", "f"):
                assert "error" in scene.own(method, {**session, **choice}, name), step
        if step != "back":
            assert scene.rebinds("s1", "s2" if step == "before" else "s1")["result"] == {}
    assert scene.agent.got == []


# -- its own sessions stay as the agent begins one -------------------------------------------------


@pytest.mark.proves("nobody but the user sets a mode")
def test_a_fork_of_the_user_s_session_is_set_as_the_agent_begins_one() -> None:
    scene = begun(Scene())
    for method, choice in ((MODE, BYPASS), (OPTION, {"configId": "effort", "value": "high"})):
        scene.client(method, {"sessionId": "s1", **choice})
    scene.agent.sessions["s3"] = dict(scene.agent.sessions["s1"])
    said = {"sessionId": "s3", **scene.agent.shows("s3")}
    scene.router.sessions.set_up("session/fork", Raw(b"{}"), json.dumps(said).encode(), client="g")
    scene.agent.got.clear()
    assert scene.own(PROMPT, prompt("x", "s3"))["result"] == DONE
    assert scene.agent.got == [(MODE, "s3", "ask"), (OPTION, "s3", "low"), (PROMPT, "s3", None)]
    scene.agent.got.clear()
    assert scene.own(PROMPT, prompt("x", "s3"))["result"] == DONE
    assert [method for method, *_ in scene.agent.got] == [PROMPT]


@pytest.mark.proves("nobody but the user sets a mode")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", ["fork", "fork that shows nothing", "user's", "set only"])
def test_no_prompt_goes_where_more_is_set_than_the_agent_begins_one_with(
    how: str, version: int
) -> None:
    """The agent lists an option later: nobody knows the value that a new session would have."""
    holds = guest("down:session/prompt:carry+amend", grants=f"{GRANTS} turns=within")
    scene = begun(Scene(holds, version=version))
    for session in ("s1", "s2"):
        scene.agent.sessions[session]["trust"] = "none"
        scene.agent_says(
            session, sessionUpdate="config_option_update", **scene.agent.shows(session)
        )
    assert scene.own(PROMPT, prompt("x", "s2"))["result"] == DONE  # nobody has set anything there
    scene.client(OPTION, {"sessionId": "s1", "configId": "trust", "value": "all"})
    if "fork" in how:
        scene.agent.sessions["s3"] = dict(scene.agent.sessions["s1"])
        shown = scene.agent.shows("s3") if how == "fork" else {}
        body, fork = json.dumps({"sessionId": "s3", **shown}).encode(), Raw(b'{"sessionId":"s1"}')
        scene.router.sessions.set_up("session/fork", fork, body, client="g", below="s1")
    elif how == "user's":
        assert scene.rebinds("s1", "s2")["result"] == {}
        assert scene.rebinds("s1", "s1")["result"] == {}
    else:
        scene.waits = []
        scene.rebinds("s1", "s2")
        scene.send("client", "", request("m", MODE, {"sessionId": "s1", **BYPASS}))
        for asked in (*scene.waits,):
            scene.send("agent", "", result(asked["id"], {}))
        scene.waits = None
    scene.agent.got.clear()
    said = scene.own(PROMPT, prompt("x", "s3" if "fork" in how else "s2"))
    assert "the agent begins none with" in said["error"]["message"]
    assert scene.agent.got == []


@pytest.mark.parametrize("kind", ["current_mode_update", "config_option_update"])
def test_one_that_the_agent_itself_has_set_otherwise_is_set_back(kind: str) -> None:
    scene = begun(Scene())
    scene.agent.sessions["s2"] |= {"mode": "bypass", "effort": "high"}
    shown = {"currentModeId": "bypass"} if "mode" in kind else scene.agent.shows("s2")
    scene.agent_says("s2", sessionUpdate=kind, **shown)
    assert scene.own(PROMPT, prompt("x", "s2"))["result"] == DONE
    assert (MODE, "s2", "ask") in scene.agent.got or (OPTION, "s2", "low") in scene.agent.got
    assert scene.agent.got[-1] == (PROMPT, "s2", None)


def test_no_prompt_goes_where_the_agent_refuses_that_or_where_nobody_knows() -> None:
    scene = begun(Scene(refuses=(MODE,)))
    scene.agent_says("s2", sessionUpdate="current_mode_update", currentModeId="bypass")
    error = scene.own(PROMPT, prompt("x", "s2"))["error"]
    assert f"no {MODE}" in error["message"]
    assert AGAIN in error["message"]
    assert error["data"]["rule"] == "session-mode"
    assert PROMPT not in [method for method, *_ in scene.agent.got]
    scene = Scene()
    scene.agent.sessions["s9"] = {"mode": "bypass", "model": "big", "effort": "low"}
    scene.client("session/load", {**THERE, "sessionId": "s9"})
    said = {"sessionId": "s3", "modes": {"currentModeId": "bypass"}}
    scene.router.sessions.set_up("session/fork", Raw(b"{}"), json.dumps(said).encode(), client="g")
    assert "is unknown" in scene.own(PROMPT, prompt("x", "s3"))["error"]["message"]
    # A choice of the client by a set-up is no default, either.
    scene.client("session/new", {**THERE, "_meta": {"x.example/mode": "bypass"}})
    scene.router.sessions.set_up("session/fork", Raw(b"{}"), b'{"sessionId":"s4"}', client="g")
    assert "is unknown" in scene.own(PROMPT, prompt("x", "s4"))["error"]["message"]


def test_a_prompt_that_nobody_waits_for_any_more_goes_nowhere() -> None:
    scene = begun(Scene())
    scene.agent_says("s2", sessionUpdate="current_mode_update", currentModeId="bypass")
    scene.waits = []
    scene.own(PROMPT, prompt("x", "s2"))
    (asked,) = scene.waits
    scene.router.bypassed("g", Closure("`g` ended"))
    scene.send("agent", "", result(asked["id"], {}))
    assert [one["method"] for one in scene.waits] == [MODE]


@pytest.mark.parametrize("version", [1, 2])
def test_a_cancellation_does_not_overtake_a_prompt_that_waits_for_that(version: int) -> None:
    scene = begun(Scene(version=version))
    shown = {"sessionUpdate": "config_option_update"}
    scene.agent.sessions["s2"]["effort"] = "high"
    scene.agent_says("s2", **shown, **scene.agent.shows("s2"))
    scene.waits = []
    scene.own(PROMPT, prompt("x", "s2"))
    scene.send("g", "s", notification("session/cancel", {"sessionId": "s2"}))
    assert [one["id"] for one in scene.told] == ["own"], "it is answered at once"
    assert "ancelled" in json.dumps(scene.told)
    (asked,) = scene.waits
    scene.send("agent", "", result(asked["id"], {}))
    assert [one["method"] for one in scene.waits] == [OPTION], "the prompt goes nowhere"
    scene.waits = None
    scene.agent.sessions["s2"]["effort"] = "low"
    scene.agent_says("s2", **shown, **scene.agent.shows("s2"))
    assert scene.own(PROMPT, prompt("y", "s2"))["result"] == DONE, "the next one does"


def test_a_session_that_is_opened_again_is_open() -> None:
    scene = begun(Scene())
    assert "result" in scene.own("session/close", {"sessionId": "s2"})
    assert "and is open" in scene.rebinds("s1", "s2")["error"]["message"]
    assert "result" in scene.own("session/load", {**THERE, "sessionId": "s2"})
    assert scene.rebinds("s1", "s2")["result"] == {}


# -- one that becomes the user's is set as the user's was ------------------------------------------


@pytest.mark.proves("nobody but the user sets a mode")
@pytest.mark.parametrize("version", [1, 2])
def test_what_the_user_has_set_holds_in_the_session_that_goes_on(version: int) -> None:
    scene = begun(Scene(version=version))
    if version == 1:
        scene.client(MODE, {"sessionId": "s1", "modeId": "plan"})
        scene.client(MODEL, {"sessionId": "s1", "modelId": "small"})
    scene.client(OPTION, {"sessionId": "s1", "configId": "effort", "value": "high"})
    there = scene.agent.got.copy()
    assert scene.rebinds("s1", "s2")["result"] == {}
    assert scene.agent.got[len(there) :] == [(how, "s2", what) for how, _, what in there]
    (told,) = scene.updates("session_info_update")
    meta = {"component": "g", "own": True, "missing": []}
    assert told["_meta"] == {"conductor.session": meta}
    assert scene.updates("agent_message_chunk") == scene.updates("notice") == []
    scene.client(PROMPT, prompt("hi", "s1"))
    assert scene.agent.got[-1][:2] == (PROMPT, "s2")
    # The user's settings there hold behind it, and the component's session is as at the beginning.
    scene.client(OPTION, {"sessionId": "s1", "configId": "effort", "value": "max"})
    assert scene.rebinds("s1", "s1")["result"] == {}
    assert scene.agent.got[-1] == (OPTION, "s1", "max")
    assert scene.own(PROMPT, prompt("x", "s2"))["result"] == DONE
    assert (OPTION, "s2", "low") in scene.agent.got
    assert scene.agent.sessions["s2"] == {"mode": "ask", "model": "big", "effort": "low"}


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_user_begins_a_session_with_holds_in_the_one_that_goes_on(version: int) -> None:
    """The user's settings are `configOptions` of a set-up that the component answers itself."""
    scene = begun(Scene(version=version))
    wanted = [{"configId": "effort", "value": "high"}, {"configId": 1, "value": "x"}, "x"]
    params = Raw(json.dumps({**THERE, "configOptions": wanted}).encode())
    scene.router.sessions.set_up("session/new", params, b'{"sessionId":"X"}', "g")
    assert scene.rebinds("X", "s2")["result"] == {}
    assert scene.agent.got == [(OPTION, "s2", "high")]


@pytest.mark.parametrize("chosen", [[], None, [{"configId": "effort", "value": "high"}]])
def test_only_a_set_up_that_chooses_nothing_shows_what_the_agent_begins_with(chosen: Any) -> None:
    scene = Scene()
    scene.client("session/new", {**THERE, "configOptions": chosen, "systemPrompt": None})
    scene.agent.sessions["s4"] = dict(scene.agent.sessions["s1"])
    scene.router.sessions.set_up("session/fork", Raw(b"{}"), b'{"sessionId":"s4"}', client="g")
    assert ("error" in scene.own(PROMPT, prompt("x", "s4"))) == bool(chosen)


@pytest.mark.parametrize("when", ["in its turn", "later"])
def test_what_was_hidden_in_the_session_that_goes_on_is_not_asked_about(when: str) -> None:
    """Only the component has seen the tool call `t`, and the call is not over."""
    scene = begun(Scene())
    scene.waits = []
    scene.own(PROMPT, prompt("x", "s2"))
    (asked,) = scene.waits
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "u", "status": "completed"}
    calls = [tool_call("t", "s2"), tool_call("u", "s2")]
    calls.append(notification(UPDATE, {"sessionId": "s2", "update": done}))
    answer = result(asked["id"], DONE)
    for said in [answer, *calls] if when == "later" else [*calls, answer]:
        scene.send("agent", "", said)
    scene.waits = None
    assert scene.rebinds("s1", "s2")["result"] == {}
    for call in ("t", "u"):
        params = {**permission("s2"), "toolCall": {"toolCallId": call}}
        scene.send("agent", "", request(call, PERMISSION, params))
    asked_of = [one["params"] for one in scene.heard if one.get("method") == PERMISSION]
    assert [one["toolCall"]["toolCallId"] for one in asked_of] == ["u"]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize("session", ["s1", "s2"])
def test_no_session_goes_on_as_another_while_one_of_them_is_set_up(
    method: str, session: str
) -> None:
    """Otherwise the result of the setup would show the mode of a session that the user has left."""
    scene = begun(Scene())
    scene.client(MODE, {"sessionId": "s1", **BYPASS})
    scene.waits = []
    setup = request("l", method, {**THERE, "sessionId": session})
    scene.send(*(("client", "", setup) if session == "s1" else ("g", "s", setup)))
    (asked,) = scene.waits
    scene.rebinds("s1", "s2")
    assert f"`{method}` is open" in scene.told[-1]["error"]["message"]
    scene.send("agent", "", result(asked["id"], scene.agent.shows("s1")))
    scene.waits = None
    assert scene.rebinds("s1", "s2")["result"] == {}


@pytest.mark.proves("a session of the user's goes")
@pytest.mark.parametrize("version", [1, 2])
def test_the_user_is_told_what_the_agent_refuses_and_sees_what_it_is_in(version: int) -> None:
    scene = begun(Scene(refuses=(MODE, OPTION), version=version))
    changed = {"mode": "plan", "effort": "high"}
    scene.agent.sessions["s1"] |= changed
    scene.agent_says("s1", sessionUpdate="config_option_update", **scene.agent.shows("s1"))
    if version == 1:
        scene.agent_says("s1", sessionUpdate="current_mode_update", currentModeId="plan")
    assert scene.rebinds("s1", "s2")["result"] == {}
    if version == 1:
        assert scene.updates("current_mode_update")[-1]["currentModeId"] == "ask"
        said = scene.updates("agent_message_chunk")[-1]["content"]["text"]
        assert "`session/set_mode`: no session/set_mode" in said
    else:
        said = scene.updates("notice")[-1]["title"]
    assert "opened by `g`" in said
    assert f"`{OPTION}`: no {OPTION}" in said
    listed = scene.updates("config_option_update")[-1]["configOptions"]
    assert listed == scene.agent.shows("s2")["configOptions"]


# -- folders, servers, and the audit ---------------------------------------------------------------


@pytest.mark.proves("a session of the user's goes")
@pytest.mark.parametrize(
    ("user", "mine", "fits"),
    [
        ({"cwd": "/work"}, {"cwd": "/work/a"}, False),
        ({"cwd": "/work"}, {"cwd": "/work", "additionalDirectories": ["/work/a"]}, False),
        ({"cwd": "/a", "additionalDirectories": ["/b"]}, {"cwd": "/a"}, False),
        ({"cwd": "/a", "additionalDirectories": ["/b"]},
         {"cwd": "/b", "additionalDirectories": ["/a"]}, False),
        ({"cwd": "/a", "additionalDirectories": ["/b", "/c"]},
         {"cwd": "/a", "additionalDirectories": ["/c", "/b"]}, True),
    ],
)  # fmt: skip
def test_only_a_session_in_the_same_folders_becomes_the_user_s(
    user: Json, mine: Json, fits: bool
) -> None:
    scene = begun(Scene(), {**mine, "mcpServers": []}, {**user, "mcpServers": []})
    answer = scene.rebinds("s1", "s2")
    if fits:
        assert answer["result"] == {}
    else:
        assert "works in other folders than `s1`\nhint: open it with" in answer["error"]["message"]
        assert scene.updates("session_info_update") == []


@pytest.mark.proves("a session of the user's goes")
@pytest.mark.parametrize("moves", ["session/load", "session/resume", "session/fork"])
def test_a_session_that_is_set_up_elsewhere_does_not_become_the_user_s(moves: str) -> None:
    """An agent that has the session open already may leave the session in its folder."""
    scene, below = begun(Scene()), {**THERE, "cwd": "/work/a"}
    assert scene.client("session/new", below)["result"]["sessionId"] == "s3"
    assert "result" in scene.own(moves, {**below, "sessionId": "s2"})
    moved = "s4" if "fork" in moves else "s2"
    wrong = scene.rebinds("s3", moved)["error"]["message"]
    assert f"`{moved}` works in other folders than `s3`" in wrong
    assert "result" in scene.own("session/fork", {**below, "sessionId": moved})
    assert "error" in scene.rebinds("s3", f"s{len(scene.agent.sessions)}")


@pytest.mark.proves("a session of the user's goes")
@pytest.mark.parametrize("name", ["fs", "FS", "f-s", "fs__more", "tools"])
def test_no_server_takes_the_place_of_one_of_the_user_s(name: str) -> None:
    mine = {"type": "acp", "name": name, "serverId": "mine:1"}
    servers = {**THERE, "mcpServers": [FS]}
    scene = begun(Scene(), {**THERE, "mcpServers": [mine]}, servers)
    answer = scene.rebinds("s1", "s2")
    if name == "tools":
        assert answer["result"] == {}
        assert scene.updates("session_info_update")[0]["_meta"]["conductor.session"]["missing"] == [
            "fs"
        ]
    else:
        assert (
            "has an MCP server that is called like one of the user's" in answer["error"]["message"]
        )


@pytest.mark.proves("a session of the user's goes")
@pytest.mark.parametrize("version", [1, 2])
def test_the_user_is_told_which_servers_are_missing(version: int) -> None:
    servers = [FS, {**FS, "name": "git\u202e\n"}]
    scene = begun(Scene(version=version), THERE, {**THERE, "mcpServers": servers})
    assert scene.rebinds("s1", "s2")["result"] == {}
    said = (
        scene.updates("agent_message_chunk")[-1]["content"]["text"]
        if version == 1
        else scene.updates("notice")[-1]["title"]
    )
    assert "without the MCP server `fs`; without the MCP server `git" in said
    assert "\u202e" not in said
    (told,) = scene.updates("session_info_update")
    assert told["_meta"]["conductor.session"]["missing"] == ["fs", "git\u202e\n"]
    assert scene.rebinds("s1", "s1")["result"] == {}
    told = scene.updates("session_info_update")[-1]
    assert told["_meta"] == {"conductor.session": {"component": "g", "own": False, "missing": []}}


def test_the_audit_has_it() -> None:
    scene = begun(Scene(audited=["g"]))
    scene.rebinds("s1", "s2")
    scene.rebinds("s1", "s1")
    found = [one for one in scene.effects if isinstance(one, Changed) and one.change == "rebound"]
    assert [(one.session, one.before, one.after) for one in found] == [
        ("s1", b'{"sessionId":"s1"}', b'{"sessionId":"s2"}'),
        ("s1", b'{"sessionId":"s2"}', b'{"sessionId":"s1"}'),
    ]


def test_what_goes_on_as_another_session_further_down_has_the_settings_of_that() -> None:
    """A host of guests behind the component has bound the user's session: its report says so."""
    scene = begun(Scene(guest(grants=GRANTS), trusted("h")))
    scene.router.aliased("h", [to_json(Aliases().bind("s1", "s9"))])
    scene.agent_says("s9", sessionUpdate="current_mode_update", currentModeId="plan")
    assert scene.rebinds("s1", "s2")["result"] == {}
    assert scene.agent.got == [(MODE, "s2", "plan")]
