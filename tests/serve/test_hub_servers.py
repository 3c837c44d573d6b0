"""MCP servers over ACP, editor panels and permissions where several clients share one chain: who
gets what, and who may speak for whom."""

from typing import Any, Final

import pytest

from conductor.serve.hub import HubLimits
from tests.harness.hub.world import Agent, Client, World

YES: Final = {"outcome": {"outcome": "selected", "optionId": "yes"}}
CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
INVALID: Final = -32602


def server(id_: str) -> dict[str, str]:
    return {"type": "acp", "name": "n", "serverId": id_}


def opened(client: Client, agent: Agent, session: str, *servers: Any) -> str:
    """Opens a session with MCP servers of the client's."""
    client.ask("session/new", cwd="/", mcpServers=[*servers])
    agent.answer(agent.take()[-1], {"sessionId": session})
    client.take()
    return session


def two(**how: Any) -> tuple[World, Client, Client, Agent]:
    """Two clients that share a chain."""
    world = World(shares=True, **how)
    one, other = world.client("one"), world.client("other")
    agent = one.begin()
    other.begin()
    return world, one, other, agent


# -- MCP servers -----------------------------------------------------------------------------------


def test_each_server_is_asked_at_its_client() -> None:
    world, one, other, agent = two()
    opened(one, agent, "a", server("srv-one"))
    opened(other, agent, "b", server("srv-other"), {"name": "x"}, 5, {"serverId": 5})
    agent.ask("mcp/message", serverId="srv-other", requestId="r")
    assert other.one()["params"]["requestId"] == "r"
    agent.ask("mcp/message", serverId="srv-one", requestId="r", sessionId="b")
    assert one.one()["params"]["serverId"] == "srv-one"
    assert other.take() == []
    agent.ask("mcp/message", serverId="nobodys", requestId="r")
    assert "no client is there" in agent.one()["error"]["message"]
    assert one.take() == other.take() == []
    world.left(other)
    one.take()
    agent.take()
    agent.ask("mcp/message", serverId="srv-other", requestId="r")
    assert one.one()["params"]["serverId"] == "srv-other"  # it is alone again: as without a hub


def test_nobody_takes_over_the_server_of_another_client() -> None:
    world, one, other, agent = two()
    opened(one, agent, "a", server("srv"))
    taking = other.ask("session/new", cwd="/", mcpServers=[server("own"), server("srv")])
    assert agent.take() == []
    error = other.result(taking)
    assert error["code"] == INVALID
    assert "another client of this chain offers the MCP server `srv`" in error["message"]
    agent.ask("mcp/message", serverId="srv", requestId="r")
    assert one.one()["method"] == "mcp/message"
    other.take()
    agent.ask("mcp/message", serverId="own", requestId="r")  # the whole request was refused
    assert "error" in agent.one()
    world.hub.cut("one")  # most likely the same editor, over a new link
    opened(other, agent, "b", server("srv"))
    agent.ask("mcp/message", serverId="srv", requestId="r")
    assert other.one()["method"] == "mcp/message"


def test_an_editor_that_loads_its_session_again_serves_it_again() -> None:
    world, one, other, agent = two()
    opened(one, agent, "a", server("srv"))
    other.ask("session/load", sessionId="a", cwd="/", mcpServers=[server("srv")])
    other.take()
    agent.ask("mcp/message", serverId="srv", requestId="1")
    assert one.one()["params"]["requestId"] == "1"
    world.hub.cut("one")
    other.ask("session/load", sessionId="a", cwd="/", mcpServers=[server("srv")])
    other.take()
    agent.ask("mcp/message", serverId="srv", requestId="2")
    assert other.one()["params"]["requestId"] == "2"


@pytest.mark.parametrize(
    ("entry", "connect", "link"),
    [
        (server("srv"), ("mcp/connect", {"serverId": "srv"}), "connectionId"),
        ({"type": "acp", "name": "n", "id": "x"}, ("mcp/connect", {"acpId": "x"}), "connectionId"),
        ({"url": "acp:x"}, ("_mcp/connect", {"acp_id": "x"}), "connection_id"),
        ({"url": "acp:x"}, ("_mcp/connect", {"acp_url": "acp:x"}), "connection_id"),
    ],
)
def test_a_connection_belongs_to_who_opened_it(
    entry: dict[str, str], connect: tuple[str, dict[str, str]], link: str
) -> None:
    _, one, other, agent = two()
    opened(one, agent, "a")
    opened(other, agent, "b", entry)
    family = connect[0].partition("/")[0]
    agent.ask(connect[0], **connect[1])
    other.answer(other.one(), {link: "c"})
    assert agent.one()["result"] == {link: "c"}
    agent.ask(f"{family}/message", **{link: "c"}, what="tools/list")
    assert other.one()["params"]["what"] == "tools/list"
    agent.notify(f"{family}/message", **{link: "c"}, what="notifications/x")
    assert other.one()["params"]["what"] == "notifications/x"
    assert one.take() == []
    # Nobody else speaks for the server.
    asked = one.ask(f"{family}/message", **{link: "c"}, what="sampling/createMessage")
    assert one.result(asked)["code"] == INVALID
    one.notify(f"{family}/message", **{link: "c"}, what="notifications/x")
    one.ask(f"{family}/disconnect", **{link: "c"})
    assert agent.take() == []
    other.ask(f"{family}/message", **{link: "c"}, what="sampling/createMessage")
    assert agent.one()["params"]["what"] == "sampling/createMessage"
    other.notify(f"{family}/message", **{link: "c"}, what="notifications/x")
    assert agent.one()["params"]["what"] == "notifications/x"
    agent.ask(f"{family}/disconnect", **{link: "c"})
    other.answer(other.one(), {})
    agent.take()
    agent.ask(f"{family}/message", **{link: "c"}, what="tools/list")
    assert "error" in agent.one()


def test_a_connection_of_the_same_name_is_refused() -> None:
    _, one, other, agent = two()
    opened(one, agent, "a", server("srv-one"))
    opened(other, agent, "b", server("srv-other"))
    for client, id_ in ((one, "srv-one"), (other, "srv-other")):
        agent.ask("mcp/connect", serverId=id_)
        client.answer(client.one(), {"connectionId": "1"})
    answers = agent.take()
    assert answers[0]["result"] == {"connectionId": "1"}
    assert "another client has this MCP connection" in answers[1]["error"]["message"]
    agent.ask("mcp/message", connectionId="1")
    assert one.one()["method"] == "mcp/message"


def test_servers_of_scp_have_names() -> None:
    _, one, other, agent = two()
    opened(one, agent, "a", {"type": "scp", "name": "mine"})
    opened(other, agent, "b", {"type": "scp", "name": "yours"})
    agent.ask("_scp/mcp", name="yours", message={})
    assert other.one()["method"] == "_scp/mcp"
    agent.ask("_scp/mcp", name="mine", message={})
    assert one.one()["method"] == "_scp/mcp"


def test_a_client_alone_is_asked_whatever_the_address() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    agent.ask("mcp/message", serverId="of a proxy", requestId="r")
    agent.notify("mcp/message", requestId="r")
    assert len(client.take()) == 2
    client.ask("mcp/message", connectionId="any")
    client.notify("mcp/message", connectionId="any")
    assert len(agent.take()) == 2


def test_servers_of_one_chain_are_bounded() -> None:
    _, one, _, agent = two()
    asked = one.ask("session/new", cwd="/", mcpServers=[server(str(n)) for n in range(5000)])
    assert "at most 4096" in one.result(asked)["message"]
    assert agent.take() == []


# -- panels ----------------------------------------------------------------------------------------

EVENT: Final = "_scp/html_panel/event"


def test_a_viewer_presses_no_button_of_a_panel() -> None:
    """Also not without naming the session: the chain takes all its clients for one editor."""
    _, one, viewer, agent = two()
    session = opened(one, agent, "a")
    viewer.attach(session, role="viewer")
    for params in ({"sessionId": session}, {}):
        asked = viewer.ask(EVENT, id="plan", name="click", **params)
        assert viewer.result(asked)["code"] in (INVALID, -32600), params
        assert agent.take() == []
    one.ask(EVENT, id="plan", name="click")
    assert agent.one()["params"] == {"id": "plan", "name": "click", "sessionId": session}


def test_which_session_a_panel_is_of_has_to_be_clear() -> None:
    _, one, other, agent = two()
    opened(one, agent, "a")
    opened(one, agent, "b")
    opened(other, agent, "c")
    asked = one.ask(EVENT, id="plan", name="click")
    assert "needs a `sessionId`: this client drives 2 sessions" in one.result(asked)["message"]
    other.ask(EVENT, id="plan", name="click")
    assert agent.one()["params"]["sessionId"] == "c"


def test_a_chain_of_one_client_finds_the_session_of_a_panel_itself() -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    for session in ("a", "b"):
        opened(client, agent, session)
    client.ask(EVENT, id="plan", name="click")
    assert agent.one()["params"] == {"id": "plan", "name": "click"}


# -- permissions -----------------------------------------------------------------------------------


def asked(client: Client) -> dict[str, Any]:
    """The question for permission that a client has got."""
    (found,) = (one for one in client.take() if one.get("method") == "session/request_permission")
    return found


def test_who_cancels_without_having_the_question_answers_it_too() -> None:
    """The editor that has it may be away: the agent must not wait for it."""
    world, editor, phone, agent = two()
    session = opened(editor, agent, "a")
    editor.prompt(session)
    agent.take()
    agent.permission(session)
    question = asked(editor)
    world.hub.cut("one")
    phone.attach(session, historyPolicy="none")
    phone.notify("session/cancel", sessionId=session)
    stop, answer = agent.take()
    assert stop["method"] == "session/cancel"
    assert answer["result"] == CANCELLED
    assert "$/cancel_request" in editor.kinds()
    editor.answer(question, YES)  # too late
    assert agent.take() == []


def test_who_cancels_and_has_the_question_answers_by_itself() -> None:
    _, editor, phone, agent = two()
    session = opened(editor, agent, "a")
    phone.attach(session)
    editor.prompt(session)
    agent.take()
    agent.permission(session)
    question = asked(phone)
    phone.notify("session/cancel", sessionId=session)
    assert agent.one()["method"] == "session/cancel"
    phone.answer(question, CANCELLED)
    assert agent.one()["result"] == CANCELLED


def test_a_viewer_cancels_nothing() -> None:
    _, editor, viewer, agent = two()
    session = opened(editor, agent, "a")
    viewer.attach(session, role="viewer")
    editor.prompt(session)
    agent.take()
    agent.permission(session)
    viewer.notify("session/cancel", sessionId=session)
    assert agent.take() == []
    editor.answer(asked(editor), YES)
    assert agent.one()["result"] == YES


def test_who_becomes_a_viewer_answers_no_more_and_who_becomes_a_driver_does() -> None:
    _, editor, phone, agent = two()
    session = opened(editor, agent, "a")
    phone.attach(session)
    editor.prompt(session)
    agent.take()
    agent.permission(session)
    before = asked(phone)
    phone.attach(session, role="viewer")
    phone.answer(before, YES)
    assert agent.take() == []
    messages = phone.attach(session, role="driver", historyPolicy="pending_only")
    (again,) = (one for one in messages if one.get("method") == "session/request_permission")
    phone.answer(before, YES)  # the old one is none any more
    assert agent.take() == []
    phone.answer(again, YES)
    assert agent.one()["result"] == YES
    editor.answer(asked(editor), CANCELLED)  # the first counts
    assert agent.take() == []


def test_a_turn_that_took_too_long_leaves_no_question_open() -> None:
    world, editor, phone, agent = two(limits=HubLimits(prompt_seconds=5))
    session = opened(editor, agent, "a")
    phone.attach(session)
    editor.prompt(session)
    agent.take()
    agent.permission(session)
    editor.take()
    phone.take()
    world.later(6)
    stop, answer = agent.take()
    assert stop["method"] == "session/cancel"
    assert answer["result"] == CANCELLED
    assert editor.kinds() == ["$/cancel_request"]
    assert phone.kinds() == ["$/cancel_request"]


@pytest.mark.parametrize("named", ["", "sessionId", "session_id"])
@pytest.mark.parametrize(
    "address", [{"connectionId": "c"}, {"serverId": "srv"}, {"acp_url": "acp:srv"}]
)
def test_nobody_speaks_for_the_server_of_another_by_naming_a_session(
    named: str, address: dict[str, str]
) -> None:
    _, one, other, agent = two()
    opened(one, agent, "a", server("srv"))
    opened(other, agent, "b")
    agent.ask("mcp/connect", serverId="srv")
    one.answer(one.one(), {"connectionId": "c"})
    agent.take()
    session = {named: "b"} if named else {}
    asked = other.ask("mcp/message", **address, **session, what="sampling/createMessage")
    other.notify("mcp/message", **address, **session, what="notifications/x")
    assert other.result(asked)["code"] == INVALID
    assert agent.take() == []
    mine = {named: "a"} if named else {}
    one.ask("mcp/message", **address, **mine, what="sampling/createMessage")
    one.notify("mcp/message", **address, **mine, what="notifications/x")
    assert len(agent.take()) == 2
