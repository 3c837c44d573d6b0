"""The records of the sessions of an agent that may be started again."""

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from conductor.core import agent_sessions
from conductor.core.agent_sessions import UNABLE, AgentSessions, opens_by
from tests.harness.router.actors import dump

Json = dict[str, Any]
OPTION = {"id": "level", "name": "Level", "type": "select", "currentValue": "high", "options": []}


def raw(value: object) -> Raw:
    """As it comes on the wire."""
    return Raw(dump(value))


def known(version: int = 1, *opened: str) -> AgentSessions:
    """An agent that is initialized, with these sessions open."""
    sessions = AgentSessions()
    abilities = {"agentCapabilities": {"loadSession": True}, "capabilities": {"session": {}}}
    sessions.initialized(UNSET, dump({"protocolVersion": version, **abilities}))
    for session in opened:
        does(sessions, "session/new", {"cwd": "/"}, {"sessionId": session})
    return sessions


def does(sessions: AgentSessions, method: str, params: object, answer: object = None) -> None:
    """A request to the agent with its answer; an integer: an error."""
    asked = UNSET if params is None else raw(params)
    if sessions.asked(method, asked) and not isinstance(answer, int):
        sessions.done(method, asked, dump(answer))


def steps(sessions: AgentSessions, session: str, result: object) -> list[tuple[str, Json]]:
    """The settings that are made again after a session's answer."""
    return [
        (method, json.loads(bytes(params)))
        for method, params in sessions.settings(session, dump(result))
    ]


@pytest.mark.parametrize(
    ("result", "method"),
    [
        ({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}, "session/load"),
        ({"protocolVersion": 1, "agentCapabilities": {"loadSession": False}}, ""),
        (
            {
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": True,
                    "sessionCapabilities": {"resume": {}},
                },
            },
            "session/resume",
        ),
        (
            {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": None}}},
            "",
        ),
        ({"protocolVersion": 2, "capabilities": {"session": {}}}, "session/resume"),
        ({"protocolVersion": 2, "capabilities": {"session": None}}, ""),
        ({"protocolVersion": 2}, ""),
        ([], ""),
    ],
)
def test_how_an_agent_takes_sessions_up_again(result: object, method: str) -> None:
    assert opens_by(dump(result)) == method


def test_whether_an_agent_could_go_on() -> None:
    sessions = AgentSessions()
    assert sessions.unable == "it has not answered `initialize` yet"
    sessions.initialized(UNSET, b'{"protocolVersion":1}')
    assert sessions.unable == UNABLE
    assert known().unable is None


@pytest.mark.parametrize(
    ("method", "params", "answer", "session"),
    [
        ("session/new", {"cwd": "/", "mcpServers": []}, {"sessionId": "s"}, "s"),
        ("session/fork", {"sessionId": "t", "cwd": "/", "mcpServers": []}, {"sessionId": "s"}, "s"),
        ("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}, None, "s"),
        (
            "session/resume",
            {"sessionId": "s", "cwd": "/", "mcpServers": [], "replayFrom": {"type": "start"}},
            {},
            "s",
        ),
    ],
)
def test_a_session_is_opened_again_as_it_was_set_up(
    method: str, params: Json, answer: object, session: str
) -> None:
    sessions = known()
    does(sessions, method, params, answer)
    again, given = sessions.opening(session)
    assert again == "session/load"
    assert json.loads(bytes(given)) == {"sessionId": "s", "cwd": "/", "mcpServers": []}


def test_a_set_up_that_fails_or_names_nothing_opens_no_session() -> None:
    sessions = known()
    does(sessions, "session/new", {"cwd": "/"}, -1)
    does(sessions, "session/new", {"cwd": "/"}, {"sessionId": 7})
    does(sessions, "session/new", {"cwd": "/"}, [])
    does(sessions, "session/load", None, {})
    does(sessions, "session/prompt", {"sessionId": "s"}, {})
    assert sessions.open == []


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": 1, "conductor.conversation/history": {"turns": []}}, {"a": 1}),
        (None, None),
    ],
)
def test_a_history_is_given_once(meta: object, kept: object) -> None:
    sessions = known()
    does(sessions, "session/new", {"cwd": "/", "_meta": meta}, {"sessionId": "s"})
    assert json.loads(bytes(sessions.opening("s").params))["_meta"] == kept


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_closed_session_is_not_opened_again(method: str) -> None:
    sessions = known(1, "s", "t")
    sessions.refused("t", "gone")
    does(sessions, method, {"sessionId": "s"})
    does(sessions, method, {"sessionId": "t"})
    assert sessions.open == []
    assert sessions.setup("t") is None


def test_only_so_many_sessions_and_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_sessions, "_MOST", 2)
    monkeypatch.setattr(agent_sessions, "_MOST_CHOICES", 2)
    sessions = known(1, "a", "b", "c")
    assert sessions.open == ["b", "c"]
    for option in "xyz":
        choice = {"sessionId": "b", "configId": option, "value": option}
        does(sessions, "session/set_config_option", choice, {})
    assert [choice["value"] for _, choice in steps(sessions, "b", {})] == ["y", "z"]
    for session in "bdc":
        sessions.refused(session, "why")
    assert sessions.why_lost("session/prompt", raw({"sessionId": "b"})) is None
    assert sessions.why_lost("session/prompt", raw({"sessionId": "c"})) == "why"


@pytest.mark.parametrize(
    ("method", "choice", "shown", "again"),
    [
        ("session/set_mode", {"modeId": "plan"}, {"modes": {"currentModeId": "ask"}}, True),
        ("session/set_mode", {"modeId": "plan"}, {"modes": {"currentModeId": "plan"}}, False),
        ("session/set_mode", {"modeId": "plan"}, {"modes": {}}, True),
        ("session/set_mode", {"modeId": "plan"}, [], True),
        ("session/set_model", {"modelId": "m"}, {"models": {"currentModelId": "n"}}, True),
        ("session/set_model", {"modelId": "m"}, {"models": {"currentModelId": "m"}}, False),
        (
            "session/set_config_option",
            {"configId": "level", "value": "low"},
            {"configOptions": [OPTION]},
            True,
        ),
        (
            "session/set_config_option",
            {"configId": "level", "value": "high"},
            {"configOptions": [OPTION]},
            False,
        ),
        (
            "session/set_config_option",
            {"configId": "fast", "value": True, "type": "boolean"},
            {"configOptions": [{"id": "fast"}, {"currentValue": 1}]},
            True,
        ),
        (
            "session/set_config_option",
            {"configId": "fast", "value": "x"},
            {"configOptions": [1]},
            True,
        ),
    ],
)
def test_a_setting_is_set_again_where_another_is_shown(
    method: str, choice: Json, shown: object, again: bool
) -> None:
    sessions = known(1, "s")
    does(sessions, method, {"sessionId": "s", **choice}, {})
    assert steps(sessions, "s", shown) == (
        [(method, {"sessionId": "s", **choice})] if again else []
    )


def test_version_2_names_the_type_of_an_option() -> None:
    sessions = known(2, "s")
    option = {"sessionId": "s", "configId": "level", "value": "low", "type": "id"}
    does(sessions, "session/set_config_option", option, {})
    shown = {"configOptions": [{"configId": "level", "currentValue": "high"}]}
    assert steps(sessions, "s", shown) == [("session/set_config_option", option)]


def test_what_the_agent_sets_itself_counts_and_the_last_setting_comes_last() -> None:
    sessions = known(1, "s")
    does(sessions, "session/set_mode", {"sessionId": "s", "modeId": "plan"}, {})

    def says(session: object, update: object) -> None:
        sessions.updated(raw({"sessionId": session, "update": update}))

    says("s", {"sessionUpdate": "config_option_update", "configOptions": [OPTION]})
    says("s", {"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    says("t", {"sessionUpdate": "current_mode_update", "currentModeId": "no such session"})
    says("s", {"sessionUpdate": "agent_message_chunk", "text": "current_mode_update"})
    says("s", "current_mode_update")
    says("s", {"sessionUpdate": "agent_message_chunk", "content": {}})
    sessions.updated(raw(["current_mode_update"]))
    assert steps(sessions, "s", {}) == [
        ("session/set_config_option", {"sessionId": "s", "configId": "level", "value": "high"}),
        ("session/set_mode", {"sessionId": "s", "modeId": "code"}),
    ]


@pytest.mark.parametrize("params", [{"methodId": "m"}, None])
def test_the_last_login_that_went_well_is_kept_until_the_client_logs_out(params: object) -> None:
    sessions = known()
    does(sessions, "auth/login", params, {})
    does(sessions, "authenticate", {"methodId": "n"}, -1)
    assert sessions.login is not None
    assert sessions.login.method == "auth/login"
    assert json.loads(bytes(sessions.login.params)) == (params or {})
    does(sessions, "auth/logout", None)
    assert sessions.login is None


def test_what_a_lost_session_still_takes() -> None:
    sessions = known(1, "s", "t")
    asked = raw({"sessionId": "s"})
    assert sessions.why_lost("session/prompt", asked) is None
    sessions.refused("s", "damaged")
    assert sessions.open == ["t"]
    assert sessions.why_lost("session/prompt", asked) == "damaged"
    assert sessions.why_lost("session/set_mode", asked) == "damaged"
    assert sessions.why_lost("session/prompt", raw({"sessionId": "t"})) is None
    assert sessions.why_lost("authenticate", UNSET) is None
    assert sessions.why_lost("session/load", asked) is None
    assert sessions.why_lost("session/close", asked) is None
    does(sessions, "session/load", {"sessionId": "s", "cwd": "/"}, {})
    assert sessions.why_lost("session/prompt", asked) is None
