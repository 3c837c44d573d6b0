"""The editor's side of a chat without a browser: its server's records, answers and refusals."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conductor.client import editing as module
from conductor.client.editing import Editing
from conductor.errors import RequestError, UsageError
from conductor.page import frames
from tests.harness.process.command import conductor
from tests.page import editing
from tests.page.talking import DEMO, Talking, idle
from tests.places import ACTORS, DEADLINE

AGENT = f"{sys.executable} {editing.__file__}"


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """A chat that lends no files, with an agent that shows panels."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "a.py").write_text("x = 1\n")
    (folder / "panel.html").write_text("<b>one</b>")
    with Talking("--cwd", str(folder), AGENT) as talking:
        yield talking


def shown(talking: Talking, text: str) -> dict[str, Any]:
    """The content that the agent shows, as a page gets it."""
    talking.say("one", text)
    held = talking.until(idle)["editor"]["shown"][-1]
    status, content = talking.ask(f"/api/chat/shown/{held['number']}")
    assert status == 200
    return {**held, **content}


def test_nobody_else_sees_or_does_anything(talking: Talking) -> None:
    for path in ("shown/1", "lines", "file?url=a.py", "found/references?word=x"):
        assert talking.ask(f"/api/chat/{path}", Authorization="")[0] == 401
    for path in ("event", "reply", "answered"):
        assert talking.ask(f"/api/chat/{path}", {}, Authorization="")[0] == 401
    assert talking.ask("/frame/guessed")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("event", {"of": "page", "session": "one", "id": "p", "name": "x"}, 409, "neither"),
        ("event", {"of": "panel", "session": "one", "id": "no", "name": "x"}, 502, "no panel `no`"),
        ("reply", {"session": "one", "id": "no", "text": "x"}, 502, "no comment `no`"),
        ("reply", {"session": "one", "id": "no", "text": " "}, 409, "empty"),
        ("reply", {"session": "two", "id": "no", "text": "x"}, 409, "not open"),
        ("answered", {"number": 99, "result": 1}, 409, "nobody waits"),
        ("answered", {"number": 99, "result": "x" * (1 << 20)}, 413, "1024 KiB"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(
    talking: Talking, path: str, body: object, status: int, why: str
) -> None:
    got, answer = talking.ask(f"/api/chat/{path}", body)
    assert (got, why in answer["error"]) == (status, True), answer


@pytest.mark.proves("a component gets no file of the")
def test_files_are_for_the_person_unless_they_are_lent(talking: Talking) -> None:
    assert talking.ask("/api/chat/file?url=a.py")[1]["text"] == "x = 1\n"
    assert talking.ask("/api/chat/file?url=../x")[0] == 409
    for what in ("references?word=x", "definitions?word=x", "diagnostics"):
        status, answer = talking.ask(f"/api/chat/found/{what}")
        assert (status, "--fs read" in answer["error"]) == (409, True)
    assert talking.until(idle)["can"]["search"] is False


@pytest.mark.proves("a panel sends and loads nothing")
def test_a_frame_can_reach_nothing(talking: Talking) -> None:
    folder = Path(str(talking.until(idle)["cwd"]))
    held = shown(talking, f"panel Plan {folder / 'panel.html'}")
    with talking._asked("GET", held["frame"], None, {"Authorization": ""}) as answer:
        policy = answer.headers.get_all("content-security-policy")
        content = answer.read().decode()
    assert policy is not None
    assert len(policy) == 1
    assert policy[0].startswith("sandbox; default-src 'none'; style-src 'unsafe-inline';")
    assert "script-src" not in policy[0]
    assert content.endswith("<b>one</b>")
    page = talking.ask("/")[1]
    assert b"/frame/" not in page
    with talking._asked("GET", "/", None, {}) as answer:
        assert answer.headers["content-security-policy"].endswith("; frame-src 'self'")
        answer.read()
    widget = frames.headers(scripts=True)["Content-Security-Policy"]
    assert widget.startswith("sandbox allow-scripts; default-src 'none'")
    assert "same-origin" not in widget
    assert widget.endswith("; trusted-types 'none'; require-trusted-types-for 'script'")
    comment = {"id": "c", "url": "no.py", "start": {"line": 1}, "text": "t"}
    held = shown(talking, f"comment {json.dumps([comment])}")
    assert talking.ask(held["frame"])[0] == 404


@pytest.mark.parametrize(
    ("html", "becomes"),
    [
        ("<LINK rel=preconnect href=//a>", "<wbr LINK rel=preconnect href=//a>"),
        ("<meta/http-equiv=refresh>", "<wbr meta/http-equiv=refresh>"),
        ("<iframe\nsrc=//a></iframe>", "<x-iframe\nsrc=//a></iframe>"),
        ("<<object data=//a>", "<<x-object data=//a>"),
        ("<a/href=//a target=_self>", "<a target=_blank /href=//a target=_self>"),
        ("<svg><A\thref=//a>", "<svg><A target=_blank \thref=//a>"),
        ("<abbr>a<b <links> &lt;link> 1<a", "<abbr>a<b <links> &lt;link> 1<a"),
    ],
)
def test_what_a_browser_acts_on_at_once_is_taken_out(html: str, becomes: str) -> None:
    assert frames.document(html, scripts=False).endswith(f"</style>{becomes}")
    alone = becomes if "<x-" in becomes else html
    assert frames.document(html, scripts=True).endswith(f"</script>{alone}")


def test_a_reply_that_nobody_takes_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    file = ACTORS / "showing_proxy.py"
    showing = {"command": sys.executable, "args": [str(file)], "name": "X", "only": "trusted"}
    with Talking("--cwd", str(tmp_path), json.dumps(showing), DEMO) as talking:
        session = talking.until(idle)["sessions"][0]["id"]
        comment = {"id": "c", "url": "a.py", "start": {"line": 1}, "text": "t", "can_reply": True}
        talking.say(session, f"/ask _scp/file_comment/show {json.dumps(comment)}")
        (held,) = talking.until(idle)["editor"]["shown"]
        talking.say(session, "/hang")
        talking.do("reply", session=session, id="c", text="taken")
        talking.do("reply", session=session, id="c", text="pass")
        content = talking.ask(f"/api/chat/shown/{held['number'] + 2}")[1]
        assert [each["text"] for each in content["replies"]] == ["taken", "pass"]
        assert content["params"]["_meta"] == {"conductor.component": "X"}
        assert talking.until(lambda chat: not idle(chat))
        talking.do("cancel", session=session)
        talking.until(lambda chat: idle(chat) and talking.ask("/api/head")[1]["turns"] == 4)
        turns = talking.ask("/api/turns?after=2")[1]
        assert [turn["stop"] for turn in turns] == ["cancelled", "end_turn"]
        assert "a.py:1" in turns[1]["prompt"]


def test_a_trace_with_what_nobody_asked_for_becomes_a_scenario(
    tmp_path: Path,
) -> None:
    reminding = {"component": str(ACTORS / "reminding_proxy.py"), "name": "reminder"}
    granted = {"allow": ["prompt:anytime", "timer"]}
    trace = str(tmp_path / "t.jsons")
    with Talking("--trace", trace, json.dumps({**reminding, **granted}), DEMO) as talking:
        session = talking.until(idle)["sessions"][0]["id"]
        talking.say(session, "remind me")

        def over(_: object) -> bool:
            """Whether there is the last turn, and its end."""
            head = talking.ask("/api/head")[1]
            return bool(head["turns"] == 4 and not head["running"])

        talking.until(over)
        turns = talking.ask("/api/turns?after=1")[1]
        assert [turn.get("by", "") for turn in turns] == ["", "reminder", "reminder"]
        assert [turn["prompt"] for turn in turns[1:]] == ["one", "two"]
        talking.process.send_signal(signal.SIGINT)
        assert talking.process.wait(DEADLINE) == 0
    assert "Turn 3 by reminder, unprompted" in conductor("log", "show", trace).out


# -- what is kept, without a chain -----------------------------------------------------------------


def made(
    answers: Mapping[str, Any], changed: Callable[[], None] = lambda: None
) -> tuple[Editing, list[Any]]:
    """The editor's side of a chain that gives this answer, and the messages to the chain."""
    sent: list[Any] = []

    async def send(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        sent.append((method, dict(params)))
        return dict(answers)

    return Editing(changed, send), sent


async def test_what_is_shown_is_kept_until_it_is_gone() -> None:
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "so"}]}
    changes: list[int] = []
    editing, sent = made(prompt, lambda: changes.append(len(serve)))
    serve = editing.handlers
    named = {"sessionId": "s", "id": "x", "_meta": {"conductor.component": "P"}}
    await serve["_scp/html_panel/show"]({**named, "label": "L", "contents": "1"})
    await serve["_scp/file_comment/show"]({**named, "url": "a", "text": "t"})
    first, comment = editing.state()["shown"]
    assert (first["id"], comment["method"]) == ("x", "_scp/file_comment/show")
    assert await editing.reply("s", "x", "why?") == prompt["prompt"]
    await serve["_scp/file_comment/reply"]({**named, "text": "since"})
    await serve["_scp/file_comment/reply"]({**named, "id": "other", "text": "lost"})
    held = editing.shown(editing.state()["shown"][1]["number"])
    assert held is not None
    assert held.replies == [
        {"from": "user", "text": "why?"},
        {"from": "P", "text": "since"},
    ]
    assert editing.shown(comment["number"]) is None
    panel = editing.shown(first["number"])
    assert panel is not None
    assert editing.framed(panel.secret) is panel
    assert editing.framed(held.secret) is None
    await serve["_scp/html_panel/show"]({**named, "label": "L", "contents": "2"})
    assert editing.framed(panel.secret) is None
    await editing.happened("_scp/html_panel/event", {**named, "name": "click"})
    await editing.happened("_scp/html_panel/event", {**named, "name": "close"})
    await serve["_scp/html_panel/clear"](named)
    await serve["_scp/file_comment/clear"](named)
    assert editing.state()["shown"] == []
    assert len(changes) == 7  # two are shown, two replies, another is shown, and both go
    assert [method for method, _ in sent][1:] == ["_scp/html_panel/event"] * 2
    for number in range(600):
        editing.hears["_scp/log"]({"message": f"{number}"})
    assert [line["number"] for line in editing.lines(598)] == [599, 600]
    assert len(editing.lines(0)) == 500


async def test_what_is_asked_waits_for_one_page_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editing, _ = made({})
    run_it = editing.handlers["_scp/ide_operation/run"]
    asked = [asyncio.ensure_future(run_it({"name": "x"})) for _ in range(2)]
    await asyncio.sleep(0)
    one, other = editing.state()["asked"]
    editing.answer(one["number"], {"n": 1}, None)
    editing.answer(other["number"], None, RequestError(-32602, "no such operation"))
    with pytest.raises(UsageError, match="nobody waits"):
        editing.answer(one["number"], {"n": 2}, None)
    assert await asked[0] == {"n": 1}
    with pytest.raises(RequestError, match="no such operation"):
        await asked[1]
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    with pytest.raises(RequestError, match="no page of this chat answers"):
        await run_it({"name": "x"})
    assert editing.state()["asked"] == []
    with pytest.raises(RequestError, match="at most 65536 bytes"):
        await run_it({"name": "x" * 65536})
    monkeypatch.setattr(module, "_MOST_ASKED", 0)
    with pytest.raises(RequestError, match="wait already"):
        await run_it({"name": "x"})
