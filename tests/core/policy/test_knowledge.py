"""The facts that the engine reads of messages, and its knowledge of sessions."""

import json

import pytest
from msgspec import UNSET, Raw

from conductor.core import Component
from conductor.core.jsonrpc import Params
from conductor.core.policy import sessions
from conductor.core.policy.checks import equal
from conductor.core.policy.headings import (
    Heading,
    heading,
)
from conductor.core.policy.sessions import Followed, Sessions
from conductor.core.router import Router
from conductor.core.state import own_visit

UPDATE = "session/update"


def raw(value: object) -> Raw:
    """Params."""
    return Raw(json.dumps(value).encode())


def told(session: object, **update: object) -> Raw:
    """The params of an update."""
    return raw({"sessionId": session, "update": update})


BROKEN = Raw(b'{"sessionId":"\\ud800')


@pytest.mark.parametrize(
    ("method", "params", "found"),
    [
        ("session/prompt", raw({"sessionId": "S"}), Heading("session/prompt", "S")),
        ("session/prompt", raw([]), Heading("session/prompt", None)),
        ("session/prompt", UNSET, Heading("session/prompt", None)),
        ("_x", BROKEN, Heading("_x", None)),
        (UPDATE, UNSET, Heading(f"{UPDATE}[*]", None)),
        (UPDATE, raw({"sessionId": "S"}), Heading(f"{UPDATE}[*]", "S")),
        (UPDATE, raw({"sessionId": "S", "update": 1}), Heading(f"{UPDATE}[*]", "S")),
        (UPDATE, BROKEN, Heading(f"{UPDATE}[*]", None)),
        (UPDATE, told("S", sessionUpdate="plan"), Heading(f"{UPDATE}[plan]", "S")),
        (UPDATE, told("S", sessionUpdate="new"), Heading(f"{UPDATE}[*]", "S")),
        (
            UPDATE,
            told("S", sessionUpdate="tool_call", toolCallId="t"),
            Heading(f"{UPDATE}[tool_call]", "S", "t"),
        ),
        ("mcp/message", raw({"connectionId": "k"}), Heading("mcp/message", None, ("k",))),
        ("mcp/message", raw({"connectionId": 1}), Heading("mcp/message", None, ("",))),
        ("_scp/mcp", raw({"name": "n", "url": "u"}), Heading("_scp/mcp", None, ("n",))),
        ("mcp/connect", UNSET, Heading("mcp/connect", None, ())),
        ("mcp/connect", raw([1]), Heading("mcp/connect", None, ())),
    ],
)
def test_the_heading_of_a_message(method: str, params: Params, found: Heading) -> None:
    assert heading(method, params) == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (raw({"a": 1, "b": 2}), Raw(b'{"b":2,"a":1}'), True),
        (raw({"a": 1}), raw({"a": 2}), False),
        (UNSET, UNSET, True),
        (UNSET, raw({}), False),
        (raw({}), UNSET, False),
        (b'{"a":"\\ud800"}', b'{"a":"\\ud801"}', False),
        (b"[" * 5000, b"[" * 5001, False),
    ],
)
def test_what_says_the_same(one: Params | bytes, other: Params | bytes, same: bool) -> None:
    assert equal(one, other) is same


# -- sessions --------------------------------------------------------------------------------------


def set_up(known: Sessions, name: str, cwd: str = "/w", method: str = "session/new") -> None:
    """A session is set up by its agent."""
    asked = {"cwd": cwd, "additionalDirectories": ["/more"]}
    if method != "session/new":
        asked["sessionId"] = name
    body = {} if method in ("session/load", "session/resume") else {"sessionId": name}
    known.set_up(method, raw(asked), json.dumps(body).encode())


def commands(*names: str, session: object = "S") -> Raw:
    """An update that lists commands."""
    listed = [{"name": name} for name in names]
    return told(session, sessionUpdate="available_commands_update", availableCommands=listed)


def test_the_modes_of_a_session() -> None:
    known = Sessions()
    body = {
        "sessionId": "S",
        "modes": {"availableModes": [{"id": "ask"}]},
        "models": {"availableModels": [{"modelId": "m", "name": "n"}]},
        "configOptions": [{"id": "effort"}],
        "availableCommands": [{"name": "plan"}],
    }
    known.set_up("session/new", raw({"cwd": "/"}), json.dumps(body).encode())
    assert {"ask", "effort"} <= known.find("S").modes
    assert known.find("S").commands == {"/plan"}
    more = [{"id": "style"}]
    known.learn(told("S", sessionUpdate="config_option_update", configOptions=more))
    assert {"ask", "effort", "style"} <= known.find("S").modes
    listed = known.find("S").options
    known.learn(told("S", sessionUpdate="config_option_update"))
    assert known.find("S").options == listed != ()
    known.learn(told("S", sessionUpdate="subagent_update", sessionId="S/1"))
    assert known.find("S/1").modes == known.find("S").modes


def test_of_a_session_that_nobody_knows_nothing_is_noted() -> None:
    known = Sessions()
    result = {"modes": {"availableModes": [{"id": "mine"}]}}
    known.added("g", raw(result), "S")
    known.added("g", raw(result))
    known.entered("S", "")
    assert "S" not in known
    options = json.dumps({"configOptions": [{"id": "effort"}]}).encode()
    for params, below in ((raw({"configId": "effort"}), None), (raw({"sessionId": "S"}), "S")):
        pending = own_visit("session/set_config_option")
        known.follow("session/set_config_option", params, pending, below)
        pending.target = Router([Component("agent")]).peers["agent"].p
        for follower in pending.followers:
            assert isinstance(follower, Followed)
            known.answered(follower, pending, b"result", options)
    assert known.find("S").modes == {"effort"}


def test_a_sub_agent_s_session_has_what_its_parent_has() -> None:
    known = Sessions()
    set_up(known, "S")
    known.learn(commands("review"))
    for parent, child in (("S", "S/1"), ("S/1", "S/2"), ("S", "S")):
        known.learn(told(parent, sessionUpdate="subagent_update", sessionId=child))
    found = known.find("S/2")
    assert found.folders == ("/w", "/more")
    assert found.commands == {"/review"}
    assert found.parent == "S/1"
    assert list(known.line("S/2")) == ["S/2", "S/1", "S"]
    known.learn(told("S", sessionUpdate="subagent_update", sessionId="S/3", cwd="/own"))
    assert known.find("S/3").folders == ("/own",)
    known.learn(told("S", sessionUpdate="subagent_update"))
    known.learn(told("a", sessionUpdate="subagent_update", sessionId="b"))
    known.learn(told("b", sessionUpdate="subagent_update", sessionId="a"))
    assert len(list(known.line("a"))) == 8


def test_the_oldest_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST", 2)
    known = Sessions()
    for name in "ABC":
        set_up(known, name)
    assert [name for name in "ABC" if name in known] == ["B", "C"]


def test_sessions_of_one_component_are_not_forgotten_for_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "_MOST", 2)
    known = Sessions()
    known.set_up("session/new", Raw(b"{}"), b'{"sessionId":"mine"}', "modest")
    for number in range(9):
        answer = json.dumps({"sessionId": f"S{number}"}).encode()
        known.set_up("session/new", Raw(b"{}"), answer, "greedy")
    assert [f"S{number}" in known for number in range(9)] == [False] * 7 + [True] * 2
    assert "mine" in known


def test_ids_that_are_listed_without_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_LISTED", 2)
    known = Sessions()
    set_up(known, "A")
    for name in "abcde":
        listed = {"sessionId": "A", "update": {"configOptions": [{"id": name}]}}
        known.added("p", json.dumps(listed).encode())
    assert known.get("A").added["p"] == {"e"}


def test_what_holds_too_many_values_is_equal_only_byte_by_byte() -> None:
    many = b"[" + b"1," * 25_000 + b"1]"
    assert equal(Raw(many), Raw(bytes(many)))
    assert not equal(Raw(many), Raw(b" " + many))
