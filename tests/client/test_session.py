"""The text that a person's client shows of a session's messages, in both versions of ACP."""

from typing import Any

import pytest

from conductor.client.session import Question, Session

RUNNING = {"sessionUpdate": "state_update", "state": "running"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
OTHERS = {"sessionUpdate": "prompt_received", "sentBy": {"clientId": "phone"}}
COMPLETE = {"sessionUpdate": "turn_complete", "stopReason": "end_turn"}
INSERTED = {"messageId": "u1"}
PROMPT = [{"type": "text", "text": "hi"}]
ECHO = {"sessionUpdate": "user_message", "messageId": "u1", "content": PROMPT}

Step = tuple[str, Any]


def play(session: Session, *steps: Step) -> list[str]:
    """Does some steps; the kinds of updates to show, and `-` where no turn runs afterwards."""
    shown: list[str] = []
    for what, held in steps:
        if what == "prompt":
            session.prompted(held)
            updates = []
        elif what == "answer":
            updates = session.answered(held, None)
        elif what == "error":
            updates = session.answered(None, held)
        else:
            updates = session.take(held)
        shown += [str(one["sessionUpdate"]) for one in updates]
        if not session.running:
            shown.append("-")
    return shown


P, A = ("prompt", PROMPT), ("answer", INSERTED)
FAILED = ("error", {"message": "no"})


def got(update: Any) -> Step:
    """An update comes."""
    return "update", update


@pytest.mark.parametrize(
    ("version", "steps", "shown"),
    [
        (1, [P, ("answer", {"stopReason": "end_turn"})], ["turn_complete", "-"]),
        (1, [P, FAILED], ["turn_complete", "-"]),
        (1, [got(OTHERS), got(COMPLETE)], ["prompt_received", "turn_complete", "-"]),
        # A turn of others goes on when ours has ended.
        (1, [got(OTHERS), P, FAILED], ["prompt_received", "turn_complete"]),
        (1, [got(IDLE)], ["state_update", "-"]),
        (2, [P, got(RUNNING), got(ECHO), A, got(IDLE)], ["turn_complete", "-"]),
        (2, [P, A, got(RUNNING), got(IDLE)], ["turn_complete", "-"]),
        (2, [P, got(RUNNING), got(IDLE), A], ["turn_complete", "-"]),
        (2, [P, FAILED], ["turn_complete", "-"]),
        # Ours was refused, and another one runs on.
        (2, [got(RUNNING), P, FAILED, got(IDLE)], ["turn_complete", "turn_complete", "-"]),
        # The end of a turn before ours is not the end of ours.
        (2, [got(RUNNING), P, got(IDLE), got(RUNNING), A, got(IDLE)], ["turn_complete", "-"]),
        # The server says the same once more, or says it for an agent that does not.
        (
            2,
            [got(OTHERS), got(RUNNING), got(IDLE), got(COMPLETE)],
            ["prompt_received", "turn_complete", "-", "-"],
        ),
        (2, [got(OTHERS), got(COMPLETE)], ["prompt_received", "turn_complete", "-"]),
        (2, [got(IDLE), got(IDLE)], ["-", "-"]),
    ],
)
def test_when_a_turn_runs(version: int, steps: list[Step], shown: list[str]) -> None:
    assert play(Session("s", "/", version), *steps) == shown


def test_a_link_that_is_lost_leaves_no_turn() -> None:
    for version in (1, 2):
        session = Session("s", "/", version)
        session.began({"_meta": {"conductor": {"turn": True, "version": version}}})
        assert play(session, P) == []
        session.unlinked()
        assert not session.running
        assert play(session, ("answer", {"stopReason": "end_turn"})) == ["-"]


def texts(session: Session, *updates: dict[str, Any]) -> list[str]:
    """The texts that are shown of messages of the agent."""
    shown = [one for update in updates for one in session.take(update)]
    return [one["content"].get("text", one["content"]["type"]) for one in shown]


def chunk(text: str, message: str = "m1") -> dict[str, Any]:
    """A part of a message."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content}


def whole(*texts_: str, message: str = "m1") -> dict[str, Any]:
    """A whole message."""
    blocks = [{"type": "text", "text": text} for text in texts_]
    return {"sessionUpdate": "agent_message", "messageId": message, "content": blocks}


@pytest.mark.parametrize(
    ("updates", "shown"),
    [
        ([whole("a", "b")], ["a", "b"]),
        ([chunk("he"), chunk("llo"), whole("hello")], ["he", "llo"]),
        ([chunk("he"), whole("hel", "lo"), chunk("!")], ["he", "l", "lo", "!"]),
        ([chunk("he"), whole("Hello")], ["he", "Hello"]),
        ([chunk("he"), whole("he", message="m2")], ["he", "he"]),
        ([chunk("\ud83d"), whole("\ud83d")], ["\ud83d"]),
        ([{"sessionUpdate": "agent_message", "messageId": "m1"}, whole("a"), whole("a")], ["a"]),
        ([{**whole("a"), "content": [{"type": "image", "data": ""}]}], ["image"]),
    ],
)
def test_what_is_new_of_a_message(updates: list[dict[str, Any]], shown: list[str]) -> None:
    assert texts(Session("s", "/", 2), *updates) == shown


def test_plans_and_options_have_one_form() -> None:
    session = Session("s", "/", 2)
    entries = [{"content": "one"}, {"content": "two"}]
    for plan in (
        {"type": "items", "entries": entries},
        {"type": "markdown", "content": "one\n\ntwo"},
    ):
        (shown,) = session.take({"sessionUpdate": "plan_update", "plan": plan})
        assert shown == {"sessionUpdate": "plan", "entries": entries}
    session.began(
        {"configOptions": [{"configId": "model"}, 7], "availableCommands": [{"name": "x"}]}
    )
    assert session.options == [{"configId": "model", "id": "model"}, 7]
    assert session.commands == [{"name": "x"}]
    session.take({"sessionUpdate": "config_option_update", "configOptions": [{"id": "v1"}]})
    assert session.options == [{"id": "v1"}]


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        ({"toolCall": {"toolCallId": "t", "title": "Edit"}}, {"title": "Edit", "kind": "edit"}),
        (
            {"title": "May I?", "subject": {"type": "tool_call", "toolCall": {"toolCallId": "t"}}},
            {"title": "May I?", "kind": "edit"},
        ),
        (
            {"title": "Run", "subject": {"type": "command", "command": "ls", "cwd": "/"}},
            {"title": "Run", "kind": "execute", "rawInput": {"command": "ls", "cwd": "/"}},
        ),
        (
            {"subject": {"type": "command", "toolCallId": "t", "command": "ls"}},
            {"title": "Change", "kind": "execute", "rawInput": {"command": "ls"}},
        ),
        (
            {"title": "?", "description": "why", "subject": {"type": "x"}},
            {"title": "?", "description": "why"},
        ),
        ({}, {}),
    ],
)
def test_what_a_question_is_about(asked: dict[str, Any], call: dict[str, Any]) -> None:
    session = Session("s", "/", 2)
    known = {"toolCallId": "t", "title": "Change", "kind": "edit"}
    session.take({"sessionUpdate": "tool_call_update", **known})
    options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "y", "kind": "reject_once"}]
    question = Question(1, {**asked, "sessionId": "s", "options": options}, session)
    assert question.call == call
    assert question.option(0) is None  # that id may mean either
