"""Several clients on one session: who sees what, who may do what, and what stays of who leaves."""

import json
from typing import Any

import pytest

from conductor.serve.hub import HubLimits, ToClient
from tests.harness.hub.world import Agent, Client, World, kind_of, updates

TEXT = {"type": "text", "text": "hello"}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
NO = {"outcome": {"outcome": "cancelled"}}


def opened(*, version: int = 1, **how: Any) -> tuple[World, Client, Agent]:
    """A client that has opened session `s`."""
    world = World(**how)
    client = world.client("home")
    agent = client.begin(version)
    client.new(agent, "s")
    return world, client, agent


def joined(world: World, name: str, version: int = 1, **params: Any) -> Client:
    """A client that has attached to it."""
    client = world.client(name, **({"views": True} if params.pop("views", False) else {}))
    client.begin(version)
    client.attach("s", **params)
    return client


def loaded(world: World, name: str) -> Client:
    """An editor that has loaded it."""
    client = world.client(name)
    client.begin()
    client.ask("session/load", sessionId="s", cwd="/", mcpServers=[])
    client.take()
    return client


# -- who sees what ---------------------------------------------------------------------------------


def test_a_chain_is_closed_when_the_last_who_has_asked_it_leaves() -> None:
    world = World()
    owner, visitor = world.client("owner"), world.client("visitor")
    session = owner.new(owner.begin(), "s")
    visitor.ask("initialize", protocolVersion=1, _meta={"conductor": {"attaches": True}})
    visitor.attach(session)
    world.left(owner)
    visitor.ask("session/set_mode", sessionId=session, modeId="m")
    visitor.ask("session/detach", sessionId=session)
    assert world.agents
    world.left(visitor)
    assert not world.agents


def test_all_see_a_turn() -> None:
    world, home, agent = opened()
    editor, phone = loaded(world, "editor"), joined(world, "phone", role="viewer")
    home.prompt("s")
    asked = agent.one()
    agent.update("s", content=TEXT)
    agent.update("s", "tool_call", toolCallId="t")
    agent.answer(asked, {"stopReason": "end_turn"})
    assert home.kinds() == ["agent_message_chunk", "tool_call", "result"]
    assert set(editor.scopes) == {"s"}
    assert editor.kinds() == ["user_message_chunk", "agent_message_chunk", "tool_call"]
    shown = phone.take()
    assert [kind_of(one) for one in shown] == [
        *("prompt_received", "user_message_chunk", "agent_message_chunk", "tool_call"),
        "turn_complete",
    ]
    assert updates(shown)[0]["sentBy"] == {"clientId": "client-1"}
    assert updates(shown)[1]["content"] == TEXT
    assert updates(shown)[-1]["stopReason"] == "end_turn"


def test_any_driver_prompts() -> None:
    world, home, agent = opened()
    editor = loaded(world, "editor")
    other = [one for one in world.agents.values() if one is not agent]
    prompt = editor.prompt("s")
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    assert editor.result(prompt) == {"stopReason": "end_turn"}
    assert home.kinds() == ["user_message_chunk"]
    assert not other[0].seen  # its own chain has no part in it


def test_notifications_of_a_session_reach_all() -> None:
    world, home, agent = opened()
    editor, viewer = loaded(world, "editor"), joined(world, "viewer", role="viewer")
    agent.notify("_progress", sessionId="s", done=1)
    assert home.kinds() == editor.kinds() == viewer.kinds() == ["_progress"]
    editor.notify("session/cancel", sessionId="s")
    assert agent.one()["method"] == "session/cancel"
    editor.ask("session/new")
    (own,) = [one for one in world.agents.values() if one.seen]
    own.notify("_progress", sessionId="new", done=2)
    own.answer(own.one(), {"sessionId": "new"})
    assert editor.kinds() == ["result", "_progress"]


@pytest.mark.parametrize(
    "params",
    [
        b'{"update":{"sessionUpdate":"plan","state":5},"sessionId":"s"}',
        b'{"sessionId":"s","update":{"sessionUpdate":"plan","stopReason":[]}}',
        rb'{"sessionId":"s","update":{"sessionUpdate":"plan","text":"\ud800"}}',
        b'{"sessionId":"s","update":5}',
        b'{"sessionId":"s"}',
    ],
)
def test_updates_that_are_written_oddly(params: bytes) -> None:
    world, _home, agent = opened()
    for head in (
        b'{"jsonrpc":"2.0","method":"session/update","params":',
        b'{"method":"session/update","params":',
    ):
        sent = world.hub.from_chain(agent.name, head + params + b"}\r\n", 0)
        assert sent == [ToClient("home", head + params + b"}", "s")]


def test_an_agent_that_repeats_the_prompt() -> None:
    world, home, agent = opened()
    editor = loaded(world, "editor")
    home.prompt("s")
    agent.update("s", "available_commands_update", availableCommands=[])
    agent.update("s", "user_message_chunk", content=TEXT)
    agent.update("s", content=TEXT)
    agent.update("s", "user_message_chunk", content=TEXT)  # what another component has put in
    seen = ["available_commands_update", "agent_message_chunk", "user_message_chunk"]
    assert editor.kinds() == ["user_message_chunk", *seen]
    assert home.kinds() == [seen[0], "user_message_chunk", *seen[1:]]
    later = loaded(world, "later")
    later.ask("session/load", sessionId="s")
    assert later.kinds() == ["user_message_chunk", *seen, "result"]


def test_load_in_the_middle_of_a_turn() -> None:
    world, home, agent = opened()
    home.prompt("s", "first")
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    home.prompt("s", "second")
    asked = agent.one()
    agent.update("s", content=TEXT)
    agent.permission("s")
    editor = world.client("editor")
    editor.begin()
    load = editor.ask("session/load", sessionId="s", cwd="/", mcpServers=[])
    assert editor.result(load) == {}
    *history, answer, question = editor.take()
    assert [one["content"]["text"] for one in updates(history)] == ["first", "second", "hello"]
    assert kind_of(answer) == "result"
    assert question["params"]["toolCall"] == {"toolCallId": "t1"}
    agent.update("s", content=TEXT)
    agent.answer(asked, {"stopReason": "end_turn"})
    assert editor.kinds() == ["agent_message_chunk"]


def test_resume_replays_nothing() -> None:
    world, home, agent = opened()
    home.prompt("s")
    editor = world.client("editor")
    editor.begin()
    editor.ask("session/resume", sessionId="s", cwd="/", mcpServers=[])
    assert editor.kinds() == ["result"]
    agent.update("s", content=TEXT)
    assert editor.kinds() == ["agent_message_chunk"]


def test_resume_of_version_2() -> None:
    world, home, agent = opened(version=2)
    home.prompt("s")
    agent.answer(agent.one(), {"messageId": "m"})
    agent.update("s", "user_message", messageId="m", content=[TEXT])
    agent.update("s", "state_update", state="running")
    editor = world.client("editor")
    editor.begin(2)
    editor.ask("session/resume", sessionId="s", cwd="/")
    state, answer = editor.take()
    assert updates([state])[0]["state"] == "running"
    assert answer["result"] == {}
    editor.ask("session/resume", sessionId="s", cwd="/", replayFrom={"type": "start"})
    assert editor.kinds() == ["user_message", "replay_complete", "state_update", "result"]
    editor.ask("session/resume", sessionId="s", cwd="/", replayFrom={"type": "_other"})
    assert editor.one()["error"]["code"] == -32602
    world, home, agent = opened(version=2)
    assert updates(joined(world, "new", 2).attach("s"))[0]["state"] == "idle"


def test_the_end_of_a_replay_and_suggestions_are_no_part_of_a_history() -> None:
    world, home, agent = opened(version=2)
    agent.update("s", "user_message", messageId="m", content=[TEXT])
    for kind in ("replay_complete", "prompt_suggestions_update", "cursor_update"):
        agent.update("s", kind, suggestions=[])
    assert home.kinds()[-3:] == ["replay_complete", "prompt_suggestions_update", "cursor_update"]
    editor = world.client("editor")
    editor.begin(2)
    editor.ask("session/resume", sessionId="s", cwd="/", replayFrom={"type": "start"})
    assert editor.kinds() == [
        *("user_message", "cursor_update", "replay_complete", "state_update", "result"),
    ]


def test_another_version_cannot_be_attached() -> None:
    world, _, _ = opened()
    other = world.client("other")
    other.begin(2)
    for method in ("session/attach", "session/resume"):
        other.ask(method, sessionId="s")
        assert "version 1" in other.one()["error"]["message"]


def test_what_attach_answers() -> None:
    world, home, agent = opened()
    home.prompt("s")
    agent.update("s", content=TEXT)
    agent.permission("s")
    client = world.client("phone")
    client.ask("initialize", protocolVersion=1, clientInfo={"name": "Page", "version": "3"})
    (other,) = [one for one in world.agents.values() if one is not agent]
    other.answer(other.one(), {"protocolVersion": 1})
    client.take()
    answer = client.attach("s", role="driver", clientId="phone", historyPolicy="pending_only")
    result, question = answer
    assert question["method"] == "session/request_permission"
    assert result["result"] == {
        "sessionId": "s",
        "clientId": "phone",
        "role": "driver",
        "historyPolicy": "pending_only",
        "replayed": 0,
        "connectedClients": [
            {"clientId": "client-1", "role": "driver"},
            {"clientId": "phone", "name": "Page", "version": "3", "role": "driver"},
        ],
        "_meta": {"conductor": {"complete": True, "turn": True, "version": 1}},
    }
    *history, result = client.attach("s", historyPolicy="full", clientId="client-1")
    assert [kind_of(one) for one in history] == ["user_message_chunk", "agent_message_chunk"]
    assert result["result"]["replayed"] == 2
    assert result["result"]["clientId"] == "phone"  # the other name is taken
    third = world.client("third")
    third.begin()
    assert [kind_of(one) for one in third.attach("s", historyPolicy="none")] == ["result"]
    for wrong in ({"role": "boss"}, {"historyPolicy": "some"}, {"role": 5}):
        (refused,) = third.attach("s", **wrong)
        assert refused["error"]["code"] == -32602


def test_a_mode_that_a_driver_chooses() -> None:
    world, home, agent = opened()
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]}
    home.new(agent, "m", modes=modes, configOptions=[{"id": "a"}], models={"currentModelId": "x"})
    editor = world.client("editor")
    editor.begin()
    load = editor.ask("session/load", sessionId="m")
    assert editor.result(load)["modes"] == modes
    editor.take()
    home.ask("session/set_mode", sessionId="m", modeId="code")
    agent.answer(agent.one(), {})
    assert updates(editor.take()) == [
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    ]
    assert home.kinds() == ["result"]
    home.ask("session/set_mode", sessionId="m", modeId="ask")
    agent.update("m", "current_mode_update", currentModeId="ask")
    agent.answer(agent.one(), {})
    assert len(editor.take()) == 1
    home.ask("session/set_mode", sessionId="m", modeId="none")
    agent.send(id=agent.one()["id"], error={"code": 1, "message": "no"})
    home.ask("session/set_config_option", sessionId="m", configId="a", value="b")
    agent.answer(agent.one(), {"configOptions": [{"id": "b"}]})
    home.ask("session/set_model", sessionId="m", modelId="y")
    agent.answer(agent.one(), {})
    assert updates(editor.take()) == [
        {"sessionUpdate": "config_option_update", "configOptions": [{"id": "b"}]}
    ]
    load = editor.ask("session/load", sessionId="m")
    result = editor.result(load)
    assert result["modes"]["currentModeId"] == "ask"
    assert result["configOptions"] == [{"id": "b"}]
    assert result["models"] == {"currentModelId": "y"}


# -- questions -------------------------------------------------------------------------------------


def test_the_first_answer_wins() -> None:
    world, home, agent = opened()
    editor, phone = loaded(world, "editor"), joined(world, "phone", clientId="phone")
    viewer = joined(world, "viewer", role="viewer")
    asked = agent.permission("s", "t9")
    first, second, third = home.one(), editor.one(), phone.one()
    (shown,) = updates(viewer.take())
    assert shown == {
        "sessionUpdate": "permission_requested",
        "requestId": asked,
        "request": third["params"],
    }
    phone.answer(third, YES)
    assert agent.one()["result"] == YES
    assert home.one()["params"] == {"requestId": first["id"]}
    assert editor.one()["params"] == {"requestId": second["id"]}
    editor.answer(second, NO)  # too late
    home.answer(first, NO)
    assert not agent.seen
    assert not world.log  # both were asked
    for client in (phone, viewer):
        assert updates(client.take()) == [
            {
                "sessionUpdate": "permission_resolved",
                "requestId": asked,
                "toolCallId": "t9",
                "outcome": YES["outcome"],
                "chosenOptionId": "yes",
                "resolvedBy": {"clientId": "phone"},
            }
        ]


@pytest.mark.parametrize("how", ["answered", "error", "cancelled", "left"])
def test_a_viewer_sees_how_a_question_ends_and_answers_none(how: str) -> None:
    """Only who watches by `session/attach`: no other client gets updates of the hub's own."""
    world, home, agent = opened()
    watcher = world.client("watcher", views=True)
    watcher.begin()
    watcher.ask("session/load", sessionId="s")
    watcher.take()
    first = agent.permission("s", "t1")
    asked = home.one()
    assert not watcher.seen
    late = joined(world, "late", role="viewer", historyPolicy="pending_only")
    late.attach("s", role="viewer", historyPolicy="none")
    assert not late.seen
    shown = updates(late.attach("s", role="viewer", historyPolicy="pending_only"))
    assert [(one["sessionUpdate"], one["requestId"]) for one in shown] == [
        ("permission_requested", first)
    ]
    late.send(id=first, result=YES)
    assert not agent.seen
    if how == "answered":
        home.answer(asked, YES)
    elif how == "error":
        home.send(id=asked["id"], error={"code": -32601, "message": "what is that?"})
    elif how == "cancelled":
        home.notify("session/cancel", sessionId="s")
        home.answer(asked, NO)
    else:
        world.left(home)
    (ended,) = [
        one for one in updates(late.take()) if one["sessionUpdate"] == "permission_resolved"
    ]
    assert ended["requestId"] == first
    assert not updates(late.attach("s", role="viewer", historyPolicy="pending_only"))
    assert ("resolvedBy" in ended) == (how in ("answered", "cancelled"))
    outcomes = {"answered": YES["outcome"], "error": None}
    assert ended.get("outcome") == outcomes.get(how, NO["outcome"])
    assert all("permission" not in kind for kind in watcher.kinds())


def test_of_an_answer_with_both_members_the_one_counts_that_is_not_null() -> None:
    _, home, agent = opened()
    wrong = {"code": 1, "message": "no"}
    for members, member in (
        ({"result": YES, "error": None}, "result"),
        ({"result": None, "error": wrong}, "error"),
    ):
        agent.permission("s", "t9")
        home.raw(json.dumps({"jsonrpc": "2.0", "id": home.one()["id"], **members}).encode())
        assert agent.one()[member] == members[member]
        home.take()


def test_a_permission_of_version_2() -> None:
    world, home, agent = opened(version=2)
    phone = joined(world, "phone", 2)
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t2"}}
    agent.ask("session/request_permission", sessionId="s", title="?", subject=subject, options=[])
    home.answer(home.one(), NO)
    resolved = updates(phone.take())[0]
    assert (resolved["toolCallId"], resolved["outcome"]) == ("t2", NO["outcome"])
    assert "chosenOptionId" not in resolved


def test_an_error_is_an_answer_where_no_other_is_left() -> None:
    world, home, agent = opened()
    editor = loaded(world, "editor")
    for last in (YES, None):
        agent.ask("elicitation/create", sessionId="s", mode="form", message="?")
        first, second = home.one(), editor.one()
        home.send(id=first["id"], error={"code": -32601, "message": "what is that?"})
        assert not agent.seen
        if last:
            editor.answer(second, last)
            assert agent.one()["result"] == last
        else:
            editor.send(id=second["id"], error={"code": -32601, "message": "nor I"})
            assert agent.one()["error"]["message"] == "nor I"


def test_the_agent_takes_a_question_back() -> None:
    world, home, agent = opened()
    editor = loaded(world, "editor")
    asked = agent.permission("s")
    first, second = home.one(), editor.one()
    agent.notify("$/cancel_request", requestId=asked)
    assert home.one()["params"] == {"requestId": first["id"]}
    assert editor.one()["params"] == {"requestId": second["id"]}
    home.answer(first, NO)
    assert agent.one()["result"] == NO


def test_an_answer_to_nothing_is_logged_with_what_stays_open() -> None:
    world, home, agent = opened()
    agent.permission("s")
    agent.ask("fs/read_text_file", sessionId="s", path="/a")
    asked, read = home.take()
    stays = "without an answer: `session/request_permission`, `fs/read_text_file`"
    for id_ in (77, "1", None, 2.5, [1], -1, "\ud83d"):
        home.send(id=id_, result=YES)
        (line,) = world.log
        assert line.startswith("client-1: answer dropped: ")
        assert ("it has no valid id" in line) == (id_ in (2.5, [1]))
        assert line.endswith(stays)
        world.log.clear()
    home.answer(asked, YES)
    home.answer(asked, YES)
    assert world.log.pop().endswith("without an answer: `fs/read_text_file`")
    home.send(id=read["id"], error={"code": 1, "message": "no"})
    agent.take()
    for _ in range(40):
        home.send(id=77, result=YES)
    assert world.log[-1].endswith("under its id; further ones are not logged")
    assert len(world.log) == 12
    assert not agent.seen


def test_answers_of_the_wrong_client() -> None:
    world, home, agent = opened()
    viewer = joined(world, "viewer", role="viewer")
    stranger = world.client("stranger")
    stranger.begin()
    agent.permission("s")
    question = home.one()
    viewer.answer(question, YES)
    stranger.answer(question, YES)
    home.send(id=str(question["id"]), result=YES)
    assert not agent.seen
    assert len(world.log) == 3
    home.answer(question, NO)
    assert agent.one()["result"] == NO


def test_questions_of_the_machine_go_home() -> None:
    world, home, agent = opened()
    editor = loaded(world, "editor")
    agent.ask("fs/read_text_file", sessionId="s", path="/a")
    home.answer(home.one(), {"content": "a"})
    assert agent.one()["result"] == {"content": "a"}
    assert not editor.seen
    world.hub.cut("home")
    agent.ask("terminal/create", sessionId="s", command="ls")
    assert not editor.seen  # it waits for the one whose machine it is
    world.hub.cut("home", is_cut=False)
    home.take()
    world.left(home)
    assert agent.take()[-1]["error"]["code"] == -32603
    agent.ask("fs/read_text_file", sessionId="s", path="/a")
    assert editor.one()["method"] == "fs/read_text_file"


def test_an_editor_that_comes_back_over_a_new_link() -> None:
    world, home, agent = opened()
    world.hub.cut("home")
    agent.ask("fs/read_text_file", sessionId="s", path="/a")
    agent.permission("s")
    waiting, _ = home.take()
    again = world.client("again")
    again.begin()
    again.ask("session/load", sessionId="s")
    answer, file, permission = again.take()
    assert [kind_of(one) for one in (answer, file, permission)] == [
        *("result", "fs/read_text_file", "session/request_permission"),
    ]
    assert home.one()["params"] == {"requestId": waiting["id"]}
    again.answer(file, {"content": "a"})
    assert agent.one()["result"] == {"content": "a"}
    world.left(home)
    again.answer(permission, YES)
    assert agent.one()["result"] == YES


def test_an_elicitation_about_a_request() -> None:
    world = World(shares=True)
    one, two = world.client("one"), world.client("two")
    agent = one.begin()
    two.begin()
    asked = two.ask("authenticate", methodId="x")
    sent = agent.one()["id"]
    agent.ask("elicitation/create", requestId=sent, mode="url", message="?")
    question = two.one()
    assert question["params"]["requestId"] == asked
    assert not one.seen
    two.answer(question, {"action": "accept"})
    agent.take()
    agent.notify("elicitation/complete", elicitationId="e")
    assert two.kinds() == ["elicitation/complete"]
    agent.ask("elicitation/create", requestId=99, mode="url", message="?")
    assert agent.one()["result"] == {"action": "cancel"}


def test_a_question_of_a_session_without_a_name() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    agent.ask("fs/read_text_file", sessionId="none", path="/a")
    assert agent.one()["error"]["code"] == -32603
    agent.ask("session/request_permission", sessionId=5)
    assert agent.one()["error"]["code"] == -32602
    client.ask("session/new", cwd="/", mcpServers=[])
    agent.ask("_setup", sessionId="soon")
    assert client.one()["method"] == "_setup"


def test_nobody_is_asked_where_all_are_viewers() -> None:
    world, home, agent = opened()
    joined(world, "viewer", role="viewer")
    home.ask("session/detach", sessionId="s")
    agent.permission("s")
    agent.ask("elicitation/create", sessionId="s")
    agent.ask("fs/read_text_file", sessionId="s")
    permission, elicitation, file = agent.take()
    assert permission["result"] == NO
    assert elicitation["result"] == {"action": "cancel"}
    assert file["error"]["code"] == -32603


# -- roles -----------------------------------------------------------------------------------------

DRIVING = (
    *("session/prompt", "session/set_mode", "session/set_config_option", "session/set_model"),
    *("session/close", "session/delete", "session/fork", "session/archive", "session/set_title"),
    *("tool_call/cancel", "_anything"),
)


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("method", DRIVING)
def test_a_viewer_changes_nothing(method: str, views: bool) -> None:
    world, home, agent = opened()
    viewer = joined(world, "viewer", role="viewer", views=views)
    viewer.ask(method, sessionId="s", prompt=[TEXT], modeId="m")
    assert "viewer" in viewer.one()["error"]["message"]
    viewer.notify(method, sessionId="s")
    viewer.notify("session/cancel", sessionId="s")
    assert not agent.seen
    assert not home.seen


def test_a_connection_that_may_only_watch() -> None:
    world, _home, agent = opened(owned=["old"])
    watcher = joined(world, "watcher", views=True, role="viewer")
    own = [one for one in world.agents.values() if one is not agent]
    for role in ("driver", "controller"):
        (refused,) = watcher.attach("s", role=role)
        assert "viewer" in refused["error"]["message"]
    for method in ("session/new", "authenticate", "_x", "session/load", "session/fork"):
        watcher.ask(method, sessionId="old")
        assert "viewer" in watcher.one()["error"]["message"]
    watcher.notify("_x")
    watcher.ask("session/load", sessionId="s")
    assert watcher.kinds() == ["result"]
    watcher.prompt("s")
    assert "viewer" in watcher.one()["error"]["message"]
    agent.permission("s")
    assert watcher.kinds() == ["permission_requested"]
    assert not own[0].seen


def test_roles_change() -> None:
    world, home, agent = opened()
    phone = joined(world, "phone", role="observer")
    agent.permission("s")
    question = home.one()
    phone.attach("s", role="driver")
    assert phone.attach("s", role="controller")[-1]["result"]["role"] == "driver"
    home.attach("s", role="viewer")
    home.answer(question, YES)
    assert not agent.seen
    (info,) = world.hub.sessions
    assert (info.drivers, info.viewers) == (("phone",), ("home",))
    agent.ask("fs/read_text_file", sessionId="s")
    assert phone.take()[-1]["method"] == "fs/read_text_file"
    phone.attach("s", role="viewer")
    assert [one.get("result", "error") for one in agent.take()] == [NO, "error"]


def test_a_client_that_is_not_attached() -> None:
    world, _home, agent = opened(owned=["stored"])
    other = world.client("other")
    mine = other.begin()
    other.prompt("s")
    assert "not attached" in other.one()["error"]["message"]
    other.notify("session/cancel", sessionId="s")
    assert not agent.seen
    other.ask("session/status", sessionId="s")
    assert agent.one()["method"] == "session/status"
    other.ask("session/options", sessionId="s", cwd="/")
    assert agent.one()["method"] == "session/options"
    other.ask("session/options", cwd="/")
    assert mine.one()["params"] == {"cwd": "/"}
    other.ask("session/options", sessionId="of others", cwd="/")
    assert other.take()[-1]["error"]["code"] == -32002
    other.ask("session/set_title", sessionId="stored", title="x")
    assert mine.one()["params"]["title"] == "x"
    other.ask("session/detach", sessionId="s")
    assert other.take()[-1]["error"]["code"] == -32002


# -- who leaves ------------------------------------------------------------------------------------


def test_a_turn_goes_on_while_a_driver_is_left() -> None:
    world, home, agent = opened()
    phone = joined(world, "phone")
    home.prompt("s")
    asked = agent.one()
    agent.permission("s")
    world.left(home)
    assert not agent.seen
    assert world.closed == []
    question = phone.take()[-1]
    phone.answer(question, YES)
    agent.one()
    agent.answer(asked, {"stopReason": "end_turn"})
    assert phone.kinds() == ["permission_resolved", "turn_complete"]
    assert world.hub.open_turns == 0
    prompt = phone.prompt("s")
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    assert phone.result(prompt) == {"stopReason": "end_turn"}
    world.left(phone)
    assert not world.agents


def test_a_turn_is_cancelled_where_no_driver_is_left() -> None:
    world, home, agent = opened()
    viewer = joined(world, "viewer", role="viewer")
    home.prompt("s")
    asked = agent.one()
    agent.permission("s")
    world.left(home)
    assert [one.get("method", one.get("result")) for one in agent.take()] == [NO, "session/cancel"]
    agent.answer(asked, {"stopReason": "cancelled"})
    assert viewer.kinds()[-1] == "turn_complete"
    world.left(viewer)
    assert not world.agents


def test_the_last_one_leaves() -> None:
    world, home, agent = opened()
    home.ask("authenticate")
    home.prompt("s")
    agent.take()
    frames: list[Any] = world.hub.left("home")
    assert [type(one).__name__ for one in frames][-1] == "CloseChain"
    assert world.hub.sessions == []
    assert world.hub.open_turns == 0


def test_a_session_of_a_shared_chain_is_closed() -> None:
    world = World(shares=True)
    one, two = world.client("one"), world.client("two")
    agent = one.begin()
    assert two.begin() is agent
    one.new(agent, "s")
    two.new(agent, "t")
    one.ask("authenticate")
    sent = agent.one()["id"]
    one.prompt("s")
    agent.one()
    world.left(one)
    assert [message["method"] for message in agent.take()] == [
        *("$/cancel_request", "session/cancel", "session/close"),
    ]
    agent.answer({"id": sent}, {})
    assert [info.session for info in world.hub.sessions] == ["t"]
    agent.update("s", content=TEXT)
    assert not two.seen


def test_detach() -> None:
    world, home, agent = opened()
    phone = joined(world, "phone")
    prompt = home.prompt("s")
    asked = agent.one()
    agent.permission("s")
    question = home.one()
    home.ask("session/detach", sessionId="s")
    result, cancelled = home.take()
    assert result["result"] == {"sessionId": "s"}
    assert cancelled["params"] == {"requestId": question["id"]}
    agent.update("s", content=TEXT)
    agent.answer(asked, {"stopReason": "end_turn"})
    assert home.result(prompt) == {"stopReason": "end_turn"}
    assert home.kinds() == ["result"]
    phone.take()
    phone.ask("session/detach", sessionId="s")
    assert [one.get("method", one.get("result")) for one in agent.take()] == [NO, "session/close"]
    assert world.hub.sessions == []


def test_a_chain_stays_for_an_answer_that_somebody_waits_for() -> None:
    world, home, agent = opened()
    phone = joined(world, "phone")
    world.left(home)
    asked = phone.ask("session/status", sessionId="s")
    phone.ask("session/detach", sessionId="s")
    assert agent.name in world.agents
    agent.answer(agent.take()[0], {"status": "open"})
    assert phone.result(asked) == {"status": "open"}
    assert world.closed == [agent.name]


def test_the_chain_of_an_attached_client_ends() -> None:
    world, _home, agent = opened()
    phone = joined(world, "phone")
    (own,) = [one for one in world.agents.values() if one is not agent]
    world.ended(own)
    phone.prompt("s")
    asked = agent.one()
    phone.ask("session/new")
    assert phone.take()[-1]["error"]["message"] == "the chain has ended"
    world.ended(agent)
    assert {kind_of(one) for one in phone.take()} == {
        "error",
        "turn_complete",
        "session_closed",
    }
    agent.answer(asked, {})
    assert not phone.seen


# -- sessions that are not live --------------------------------------------------------------------


def test_load_from_the_agent() -> None:
    world = World(owned=["s"])
    one, two, three = (world.client(name) for name in ("one", "two", "three"))
    agent = one.begin()
    two.begin()
    three.begin()
    one.ask("session/load", sessionId="s")
    asked = agent.one()
    agent.update("s", "user_message_chunk", content=TEXT)
    waits = two.ask("session/load", sessionId="s")
    cancelled = three.ask("session/attach", sessionId="s")
    three.notify("$/cancel_request", requestId=cancelled)
    assert three.one()["error"]["code"] == -32800
    three.ask("session/attach", sessionId="s")
    world.left(three)
    assert not two.seen
    agent.update("s", content=TEXT)
    agent.answer(asked, {"configOptions": []})
    assert one.kinds() == ["user_message_chunk", "agent_message_chunk", "result"]
    assert two.result(waits) == {"configOptions": []}
    assert two.kinds() == ["user_message_chunk", "agent_message_chunk", "result"]


def test_load_that_fails() -> None:
    world = World(owned=["s"])
    one, two = world.client("one"), world.client("two")
    agent = one.begin()
    two.begin()
    one.ask("session/load", sessionId="s")
    two.ask("session/load", sessionId="s")
    agent.send(id=agent.one()["id"], error={"code": -32002, "message": "gone"})
    assert one.one()["error"] == two.one()["error"] == {"code": -32002, "message": "gone"}
    assert world.hub.sessions == []


def test_who_loads_leaves() -> None:
    world = World(owned=["s"])
    one, two = world.client("one"), world.client("two")
    agent = one.begin()
    own = two.begin()
    one.ask("session/load", sessionId="s")
    asked = agent.one()
    waits = two.ask("session/load", sessionId="s")
    world.left(one)
    own.answer(own.one(), {})
    assert two.result(waits) == {}
    assert agent.name not in world.agents
    agent.answer(asked, {})


def test_a_history_that_is_not_complete() -> None:
    """The agent replays the session, for the one who asked; in a turn it does not."""
    world, home, agent = opened(limits=HubLimits(history_bytes=1000))
    for _ in range(20):
        agent.update("s", content=TEXT)
    home.take()
    phone = joined(world, "phone", role="viewer")
    *history, result = phone.attach("s", role="viewer")
    assert 0 < len(history) < 10
    assert result["result"]["_meta"]["conductor"]["complete"] is False
    phone.ask("session/load", sessionId="s")
    assert "viewer" in phone.one()["error"]["message"]
    editor = world.client("editor")
    editor.begin()
    home.prompt("s")
    turn = agent.one()
    editor.ask("session/load", sessionId="s")
    assert "a turn is open" in editor.one()["error"]["message"]
    agent.answer(turn, {"stopReason": "end_turn"})
    home.take()
    editor.ask("session/load", sessionId="s")
    asked = agent.one()
    waits = home.prompt("s")
    agent.update("s", content=TEXT)
    assert not home.seen
    agent.answer(asked, {})
    assert editor.kinds()[:2] == ["agent_message_chunk", "result"]
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    assert home.result(waits) == {"stopReason": "end_turn"}
    editor.ask("session/load", sessionId="s")
    assert editor.kinds() == ["agent_message_chunk", "user_message_chunk", "result"]


def test_a_replay_that_fails() -> None:
    world, home, agent = opened()
    home.ask("session/fork", sessionId="s", cwd="/")
    agent.answer(agent.one(), {"sessionId": "f"})
    home.take()
    home.ask("session/load", sessionId="f")
    waits = home.prompt("f")
    agent.send(id=agent.one()["id"], error={"code": -32601, "message": "no such method"})
    assert home.one()["error"]["code"] == -32601
    agent.answer(agent.one(), {"stopReason": "end_turn"})
    assert home.result(waits)
    assert {info.session for info in world.hub.sessions} == {"s", "f"}


def test_fork_of_a_session_of_another_chain() -> None:
    world, _home, agent = opened()
    phone = joined(world, "phone")
    phone.ask("session/fork", sessionId="s", cwd="/")
    agent.answer(agent.one(), {"sessionId": "f"})
    assert phone.one()["result"] == {"sessionId": "f"}
    phone.prompt("f")
    assert agent.one()["params"]["sessionId"] == "f"
    assert "f" in world.owned


def test_close_and_delete() -> None:
    world, home, agent = opened()
    phone = joined(world, "phone")
    agent.permission("s")
    question = phone.one()
    home.take()
    home.ask("session/delete", sessionId="s")
    agent.answer(agent.one(), {})
    assert world.owned == set()
    cancelled, closed = phone.take()
    assert cancelled["params"] == {"requestId": question["id"]}
    assert kind_of(closed) == "session_closed"
    assert agent.one()["result"] == NO
    phone.prompt("s")
    assert phone.one()["error"]["code"] == -32002
    home.new(agent, "t")
    home.ask("session/close", sessionId="t")
    agent.send(id=agent.one()["id"], error={"code": 1, "message": "no"})
    assert [info.session for info in world.hub.sessions] == ["t"]
    home.ask("session/close", sessionId="t")
    agent.answer(agent.one(), {})
    assert world.hub.sessions == []
    assert world.owned == {"t"}


def test_the_list_has_own_sessions_only() -> None:
    _world, home, agent = opened(owned=["stored"])
    home.ask("session/list")
    entries: list[Any] = [{"sessionId": id_, "cwd": "/"} for id_ in ("s", "theirs", "stored")]
    entries += [5, {"sessionId": 5}]
    agent.answer(agent.one(), {"sessions": entries, "nextCursor": "n"})
    result = home.one()["result"]
    assert [entry["sessionId"] for entry in result["sessions"]] == ["s", "stored"]
    assert result["nextCursor"] == "n"
    for odd in ({}, {"sessions": 5}, 5):
        home.ask("session/list")
        agent.answer(agent.one(), odd)
        assert home.one()["result"] == odd


# -- the same id twice -----------------------------------------------------------------------------


def test_two_chains_have_the_same_id() -> None:
    world, home, agent = opened()
    phone = world.client("phone")
    own = phone.begin()
    phone.new(own, "s")
    assert [info.chain for info in world.hub.sessions] == [agent.name, own.name]
    phone.prompt("s")
    assert own.one()["method"] == "session/prompt"
    own.update("s", content=TEXT)
    agent.update("s", content=TEXT)
    assert phone.kinds() == ["agent_message_chunk"]
    assert home.kinds() == ["agent_message_chunk"]
    # To who has neither, the id means the elder one; then a new one of that id is refused.
    third = world.client("third")
    mine = third.begin()
    third.attach("s")
    third.ask("session/new")
    mine.answer(mine.one(), {"sessionId": "s"})
    assert "with the id that the agent gave" in third.one()["error"]["message"]
    assert [message["method"] for message in mine.take()] == ["session/close"]
    third.ask("session/detach", sessionId="s")
    third.take()
    third.new(mine, "s")
    assert len(world.hub.sessions) == 3


def test_the_agent_gives_an_id_twice() -> None:
    world, home, agent = opened()
    home.ask("session/new")
    agent.answer(agent.one(), {"sessionId": "s"})
    assert home.one()["result"] == {"sessionId": "s"}
    assert len(world.hub.sessions) == 1
    for odd in ({"sessionId": 5}, 5, {}):
        home.ask("session/new")
        agent.answer(agent.one(), odd)
        assert home.one()["result"] == odd
    assert len(world.hub.sessions) == 1


# -- sharing, and principals -----------------------------------------------------------------------


def test_who_shares_a_chain() -> None:
    world = World(shares=True)
    clients = [world.client(name) for name in ("a", "b", "c")]
    other = world.client("other", named="dev")
    params = {"protocolVersion": 1, "clientCapabilities": {"x": 1}}
    answers = [client.ask("initialize", **params) for client in clients]
    (agent,) = world.agents.values()
    agent.answer(agent.one(), {"protocolVersion": 1})
    for client, asked in zip(clients, answers, strict=True):
        assert client.result(asked)["protocolVersion"] == 1
    later = world.client("later")
    later.ask("initialize", clientCapabilities={"x": 1}, protocolVersion=1, _meta={})
    assert later.one()["result"]["protocolVersion"] == 1
    other.ask("initialize", protocolVersion=1, clientCapabilities={"x": 1})
    different = world.client("different")
    different.ask("initialize", protocolVersion=1, clientCapabilities={"x": 2})
    assert len(world.agents) == 3


def test_who_waits_for_a_chain_that_does_not_begin() -> None:
    world = World(shares=True)
    one, two = world.client("one"), world.client("two")
    one.ask("initialize", protocolVersion=1)
    two.ask("initialize", protocolVersion=1)
    (agent,) = world.agents.values()
    world.left(one)
    assert [message["method"] for message in agent.take()] == ["initialize"]
    world.ended(agent, "it did not start")
    assert two.one()["error"]["message"] == "it did not start"
    two.begin()
    two.ask("session/new")
    assert not two.seen


def test_two_principals_never_meet() -> None:
    """Two hubs: what one principal has is to the other as if it did not exist."""
    _ours, home, agent = opened(shares=True)
    theirs = World(shares=True)
    stranger = theirs.client("stranger")
    stranger.begin()
    for method in ("load", "resume", "attach", "detach", "prompt", "delete", "status", "fork"):
        seen = []
        for session in ("s", "none"):
            stranger.ask(f"session/{method}", sessionId=session)
            error = stranger.one()["error"]
            assert error.pop("data") == {"sessionId": session}
            seen.append(error)
        assert seen[0] == seen[1]
        assert seen[0]["code"] == -32002
    assert not home.seen
    assert not agent.seen


@pytest.mark.parametrize("name", ["sessionId", "session_id"])
def test_a_viewer_prompts_by_no_spelling_of_its_session(name: str) -> None:
    world = World(shares=True)
    home, viewer = world.client("home"), world.client("viewer")
    agent = home.begin()
    viewer.begin()
    home.new(agent, "s")
    viewer.attach("s", role="viewer")
    for method in ("session/prompt", "session/set_mode"):
        asked = viewer.ask(method, **{name: "s"}, prompt=[], modeId="m")
        assert "viewer" in viewer.result(asked)["message"]
    viewer.notify("session/cancel", **{name: "s"})
    assert not agent.take()


def test_a_sub_agents_session_is_seen_with_the_one_it_works_for() -> None:
    world = World(shares=True)
    home, viewer, other = world.client("home"), world.client("viewer"), world.client("other")
    agent = home.begin(2)
    viewer.begin(2)
    other.begin(2)
    home.new(agent, "s")
    other.new(agent, "t")
    viewer.attach("s", role="viewer")
    home.prompt("s")
    agent.answer(agent.one(), {"messageId": "m"})
    agent.update("s", "state_update", state="running")
    agent.update("s", "subagent_update", sessionId="s/1")
    agent.update("s/1", "subagent_update", sessionId="s/1/1")
    home.take()
    viewer.take()
    agent.update("s/1", "agent_message_chunk", number=1)
    agent.update("s/1/1", "state_update", state="idle")
    agent.update("s/1", "current_mode_update", currentModeId="m")
    for client in (home, viewer):
        assert client.kinds() == ["agent_message_chunk", "state_update", "current_mode_update"]
    assert world.hub.open_turns == 1  # its parent goes on
    asked = agent.ask("session/request_permission", sessionId="s/1", subject={}, options=[])
    home.answer(home.one(), YES)
    assert agent.one() == {"jsonrpc": "2.0", "id": asked, "result": YES}
    viewer.take()
    viewer.notify("session/cancel", sessionId="s/1")
    other.notify("session/cancel", sessionId="s/1")
    assert not agent.take()
    home.notify("session/cancel", sessionId="s/1")
    assert agent.one()["params"] == {"sessionId": "s/1"}
    # A session that is live is nobody's sub-agent, whatever is said of it.
    agent.update("s", "subagent_update", sessionId="t")
    home.take()
    agent.update("t", number=2)
    assert not home.take()
    late = joined(world, "late", 2)
    seen = [one["params"]["sessionId"] for one in late.attach("s") if "params" in one]
    assert seen.count("s/1") == 3
    assert "t" not in seen


def test_a_chain_gets_the_session_once() -> None:
    """A session of others beside one's own: some agents would take the other spelling."""
    _, home, agent = opened()
    home.ask("session/prompt", session_id="t", sessionId="s", prompt=[])
    home.notify("session/cancel", session_id="t", sessionId="s")
    assert [one["params"]["sessionId"] for one in agent.seen] == ["s", "s"]
    assert not any("session_id" in one["params"] for one in agent.take())


@pytest.mark.parametrize("method", ["prompt", "load", "delete", "close", "set_mode", "status"])
def test_a_session_of_others_is_unknown_by_any_spelling(method: str) -> None:
    _, home, agent = opened()
    asked = home.ask(f"session/{method}", session_id="t", prompt=[], modeId="m")
    assert home.result(asked)["code"] == -32002
    assert not agent.take()


@pytest.mark.parametrize("name", ["sessionId", "session_id"])
@pytest.mark.parametrize("session", ["t", None, 7])
def test_a_new_session_has_the_agent_s_name(name: str, session: Any) -> None:
    _, home, agent = opened()
    home.ask("session/new", cwd="/w", mcpServers=[], **{name: session})
    assert agent.one()["params"] == {"cwd": "/w", "mcpServers": []}
