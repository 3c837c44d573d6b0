"""The answers of a chat's server, and the messages that the chain gets of it."""

import json
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.spec.paths import components_folder
from tests.harness.process.command import COMMAND, conductor
from tests.harness.process.processes import wait_gone
from tests.page.talking import DEMO, FANCY, Talking, idle
from tests.places import DEADLINE


@pytest.fixture(scope="module", params=[1, 2])
def demo(request: pytest.FixtureRequest) -> Iterator[Talking]:
    """A chat with the demo agent, which offers modes, in each version of ACP."""
    with Talking("datetime", DEMO if request.param == 2 else f"{DEMO} --no-v2") as talking:
        yield talking


@pytest.fixture(scope="module")
def fancy() -> Iterator[Talking]:
    """A chat with an agent that has configuration options."""
    with Talking("datetime", FANCY) as talking:
        yield talking


@pytest.mark.usefixtures("python_guest")
def test_a_guard_that_does_nothing_says_so_on_the_page() -> None:
    with Talking("prompt-prefix", DEMO) as talking:
        chat = talking.until(lambda chat: chat["sessions"])
    assert chat["lacks"] == [
        "prompt-prefix: it does nothing without the setting `text` or `suffix`: `,config.text=…`"
    ]


@pytest.mark.usefixtures("python_guest")
def test_a_refusal_is_shown_as_the_components(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\non = "prompt"\nmatch = "drop"\nblock = "not here"\n')
    with Talking(f"hooks,config={rules}", DEMO) as talking:
        session = talking.until(lambda chat: chat["sessions"])["sessions"][0]["id"]
        talking.say(session, "drop it")
        (held,) = talking.until(idle)["sessions"]
        items = [(one["kind"], one.get("component")) for one in talking.turn(1)["items"]]
    assert "not here" in held["error"][0]
    assert held["error"][1] == "a component of the chain refuses this, not the agent"
    assert ("refused", "hooks") in items


def question(chat: dict[str, Any]) -> Any:
    """The question that waits."""
    return next(iter(chat["questions"]), None)


@pytest.mark.proves("a stranger without the secret")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_nobody_else_may_speak(fancy: Talking, headers: dict[str, str], status: int) -> None:
    body = {"session": "one", "parts": [{"text": "hello"}]}
    for path in (
        "prompt",
        "cancel",
        "answer",
        "new",
        "load",
        "mode",
        "option",
        "history",
        "sessions",
    ):
        assert fancy.ask(f"/api/chat/{path}", body, **headers)[0] == status
    assert fancy.ask("/api/pause", {"name": "datetime", "paused": True}, **headers)[0] == status
    assert fancy.ask("/api/chat/news", **headers)[0] == status
    assert fancy.until(idle)["sessions"][0]["running"] is False


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("prompt", b"{", 400, "cannot be read"),
        ("prompt", b"\xff", 400, "cannot be read"),
        ("prompt", b"[" * 5000, 400, "cannot be read"),
        ("prompt", {"session": "one"}, 400, "parts"),
        ("prompt", {"session": "one", "parts": [{"text": " "}]}, 409, "empty"),
        ("prompt", {"session": "two", "parts": [{"text": "x"}]}, 409, "not open"),
        ("prompt", {"session": "one", "parts": [{"mime": "image/svg+xml"}]}, 409, "no picture"),
        ("prompt", {"session": "one", "parts": [{"text": "x", "type": "audio"}]}, 400, "unknown"),
        ("answer", {"question": 77, "option": 0}, 409, "does not wait"),
        ("cancel", b'{"session": "' + b"x" * 70_000 + b'"}', 413, "64 KiB"),
        ("load", {"session": "x"}, 409, "loads no older sessions"),
        ("mode", {"session": "two", "mode": "x"}, 409, "not open"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(
    fancy: Talking, path: str, body: object, status: int, why: str
) -> None:
    got, answer = fancy.ask(f"/api/chat/{path}", body)
    assert (got, why in answer["error"]) == (status, True), answer
    assert len(fancy.until(idle)["sessions"]) == 1


def test_a_prompt_of_any_size_ends_somewhere(fancy: Talking) -> None:
    try:
        status, answer = fancy.ask("/api/chat/prompt", b" " * (24 * 1024 * 1024 + 1))
    except (BrokenPipeError, ConnectionResetError):
        return  # it did not read on
    assert (status, "too much" in answer["error"]) == (413, True)


def test_a_turn_shows_what_each_component_did(demo: Talking) -> None:
    session = demo.until(idle)["sessions"][0]["id"]
    demo.say(session, "what day is it? token=ghp_0123456789abcdefghijABCDEFGHIJ456789")
    demo.until(idle)
    status, turns = demo.ask("/api/turns?after=1")
    assert status == 200
    shares = {share["component"]: share.get("says") for share in turns[0]["shares"]}
    assert shares["datetime"] == "added 1 block"
    # A person's own conversation is shown whole: nothing is taken out.
    items = demo.turn(1)["items"]
    assert "ghp_0123456789" in items[0]["text"]
    assert [item["kind"] for item in items].count("prompt") == 1


def test_a_component_is_paused_and_resumed(demo: Talking) -> None:
    session = demo.until(idle)["sessions"][0]["id"]

    def parts(paused: bool) -> list[str]:
        """Who has a part in the next turn."""
        assert demo.ask("/api/pause", {"name": "datetime", "paused": paused}) == (200, {})
        demo.say(session, "hi")
        demo.until(idle)
        last = demo.ask("/api/head")[1]["turns"] - 1
        return [share["component"] for share in demo.turn(last)["turn"]["shares"]]

    assert "datetime" not in parts(True)
    assert demo.ask("/api/head")[1]["paused"] == ["datetime"]
    assert "datetime" in parts(False)
    assert "paused" not in demo.ask("/api/head")[1]
    status, answer = demo.ask("/api/pause", {"name": "datetim", "paused": True})
    assert (status, "no component `datetim`" in answer["error"]) == (409, True)


@pytest.mark.proves("the person alone answers a question")
def test_a_question_waits_for_the_person_alone(demo: Talking) -> None:
    session = demo.until(idle)["sessions"][0]["id"]
    demo.say(session, "/permission format the disk")
    asked = demo.until(question)["questions"][0]
    assert asked["call"]["title"] == "format the disk"
    assert [option["kind"] for option in asked["options"]][:2] == ["allow_once", "allow_always"]
    # Another page, and a page that is opened again, see it as well.
    assert demo.until(question)["questions"] == [asked]
    refused, _ = demo.ask("/api/chat/answer", {"question": asked["number"], "option": 4})
    again, answer = demo.ask("/api/chat/prompt", {"session": session, "parts": [{"text": "x"}]})
    assert (refused, again, "still running" in answer["error"]) == (409, 409, True)
    demo.do("answer", question=asked["number"], option=2)
    chat = demo.until(idle)
    assert chat["questions"] == []
    assert demo.ask("/api/turns?after=1")[1][-1]["answer"] == "permission: reject-once"


def test_an_option_whose_id_is_that_of_another_kind_too_is_cancelled() -> None:
    options = [{"optionId": "x", "kind": kind} for kind in ("allow_once", "reject_once")]
    agent = shlex.join([*COMMAND, "agent", "py:tests.cli.agents:asking"])
    with Talking(agent) as chat:
        session = chat.until(idle)["sessions"][0]["id"]
        chat.say(session, json.dumps(options))
        chat.do("answer", question=chat.until(question)["questions"][0]["number"], option=1)
        chat.until(idle)
        assert "cancelled" in chat.ask("/api/turns?after=1")[1][-1]["answer"]


@pytest.mark.proves("the person alone answers a question")
def test_who_cancels_a_turn_answers_its_questions(fancy: Talking) -> None:
    fancy.say("one", "edit")
    asked = fancy.until(question)["questions"][0]
    # What the question leaves out, the tool call had before.
    assert asked["call"]["title"] == "Edit a.py"
    assert asked["call"]["content"][0]["newText"] == "a = 2\n"
    fancy.do("cancel", session="one")
    assert fancy.until(idle)["questions"] == []
    turn = fancy.ask("/api/turns?after=1")[1][-1]
    assert (turn["stop"], turn["answer"]) == ("cancelled", "the answer was cancelled")


def test_that_a_prompt_is_on_its_way_is_news(demo: Talking) -> None:
    session = demo.until(idle)["sessions"][0]["id"]
    seen = demo.ask("/api/chat/news")[1]["version"]
    demo.say(session, "/hang")
    assert "chat" in demo.ask(f"/api/chat/news?seen={seen}")[1]
    demo.do("cancel", session=session)
    demo.until(idle)


def test_modes_options_and_sessions(demo: Talking, fancy: Talking) -> None:
    first = demo.until(idle)["sessions"][0]
    if first["modes"] is not None:
        assert first["modes"]["currentModeId"] == "ask"
        demo.do("mode", session=first["id"], mode="code")
        assert demo.until(idle)["sessions"][0]["modes"]["currentModeId"] == "code"
        status, answer = demo.ask("/api/chat/mode", {"session": first["id"], "mode": "fly"})
        assert (status, "unknown mode" in answer["error"]) == (502, True)
    else:
        assert [(one["id"], one["currentValue"]) for one in first["options"]] == [("mode", "ask")]
        demo.do("option", session=first["id"], option="mode", value="code")
        assert demo.until(idle)["sessions"][0]["options"][0]["currentValue"] == "code"
    assert demo.until(idle)["sessions"][0]["commands"][0]["name"] == "echo"
    fancy.do("option", session="one", option="model", value="large")
    fancy.do("option", session="one", option="thinks", value=True)
    options = fancy.until(idle)["sessions"][0]["options"]
    assert [each["currentValue"] for each in options] == ["large", True]
    second = demo.do("new")["session"]
    listed = {each["sessionId"] for each in demo.do("sessions")["sessions"]}
    assert {first["id"], second} <= listed
    demo.say(second, "remember the milk")
    demo.until(idle)
    demo.do("load", session=second)
    loaded = demo.until(idle)["sessions"][-1]
    assert loaded["history"]
    repeated = demo.do("history", session=second)
    assert repeated[0]["kind"] == "prompt"
    assert "remember the milk" in repeated[0]["text"]


def test_a_picture_reaches_the_agent(fancy: Talking) -> None:
    parts = [{"text": "echo"}, {"mime": "image/png", "data": "aGVsbG8="}]
    fancy.do("prompt", session="one", parts=parts)
    fancy.until(idle)
    assert "image" in fancy.ask("/api/turns?after=1")[1][-1]["answer"]


def test_an_error_of_the_agent_is_the_end_of_the_turn_alone(fancy: Talking) -> None:
    fancy.say("one", "fail")
    chat = fancy.until(lambda chat: idle(chat) and chat["sessions"][0]["error"][0])
    text, hint = chat["sessions"][0]["error"]
    assert ("Authentication required" in text, "log in" in hint) == (True, True)
    fancy.say("one", "hello")
    assert fancy.until(idle)["sessions"][0]["error"] == ["", ""]


def test_an_agent_that_dies_is_shown_until_the_person_leaves(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsons"
    with Talking("--trace", str(trace), FANCY) as talking:
        talking.say("one", 'die {"password": "hunter2hunter2"}')
        text, hint = talking.until(lambda chat: chat["ended"][0])["ended"]
        assert ("exited with code 3" in text, "out of memory" in text, bool(hint)) == (True,) * 3
        turn = talking.turn(1)["turn"]
        assert (turn["answer"], turn["failed"]) == ("I begin", True)
        status, answer = talking.ask("/api/chat/new", {})
        assert (status, "ended" in answer["error"]) == (502, True)
        talking.wait_for(talking.err, "until Ctrl-C")
        talking.process.send_signal(signal.SIGINT)
        assert talking.process.wait(DEADLINE) == 1
        talking.wait_for(talking.err, "error: ")
    assert trace.read_text(encoding="utf-8").count("session/prompt") >= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_leaves_ends_the_chain(number: signal.Signals) -> None:
    with Talking(f"{DEMO} --child") as talking:
        said = re.compile(r"demo: child pid (\d+)\n")
        talking.wait_until(talking.err, lambda text: bool(said.search(text)), "the child")
        child = int(said.findall(talking.text(talking.err))[0])
        session = talking.until(idle)["sessions"][0]["id"]
        talking.say(session, "/permission x")
        talking.until(question)
        talking.process.send_signal(number)
        assert talking.process.wait(DEADLINE) == 0
        assert wait_gone(child, DEADLINE)  # init may be late in taking note of its end


def test_a_chain_that_cannot_start_says_why_and_serves_nothing() -> None:
    ran = conductor("chat", "--no-open", f"{DEMO} --exit-at-start 4")
    ran.assert_error(1, "exited with code 4")
    assert ran.out == ""
    conductor("chat", "--no-open").assert_error(2, "needs a COMPONENT")
    conductor("chat", "--no-open", "--cwd", "/no/where", "demo").assert_error(2, "no such folder")


def test_files_of_the_folder_are_lent_on_demand_only(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("milk")
    with Talking("--cwd", str(tmp_path), "--fs", "read", "demo") as talking:
        session = talking.until(idle)["sessions"][0]["id"]
        talking.say(session, "/read note.txt")
        talking.until(idle)
        talking.say(session, "/write note.txt wine")
        talking.until(idle)
        answers = [turn["answer"] for turn in talking.ask("/api/turns?after=1")[1]]
        assert answers[0] == "milk"
        assert "lacks the capability" in answers[1]
    assert (tmp_path / "note.txt").read_text() == "milk"


def test_what_conductor_itself_asks_waits_as_any_question(tmp_path: Path) -> None:
    shutil.copytree(components_folder() / "datetime", tmp_path / "date")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with Talking(f"{tmp_path / 'date'}", "demo", env=state) as talking:
        session = talking.until(idle)["sessions"][0]["id"]
        talking.say(session, "hi")
        asked = talking.until(question)["questions"][0]
        assert "date" in asked["call"]["title"]
        allows = [option["kind"].startswith("allow") for option in asked["options"]]
        talking.do("answer", question=asked["number"], option=allows.index(True))
        talking.until(idle)
        assert "<current-date" in talking.ask("/api/turns?after=1")[1][-1]["answer"]
