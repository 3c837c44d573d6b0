"""The desk: messages in, effects out. Its records, its questions, its refusals."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from conductor.core.policy.key_table import STAMP
from conductor.editor.desk import MOST, MOST_BYTES, Desk
from conductor.editor.effects import Answer, Pass, Say, ToChain, ToClient
from conductor.editor.messages import Capabilities, capabilities

ALL: Final = Capabilities(html_panel=True, file_comment=True, ide_operation=True, log=True)
NONE: Final = Capabilities()
Json = dict[str, Any]


@dataclass
class Editor:
    """The desk's view of a client."""

    capabilities: Capabilities = ALL
    version: int | None = 1
    sessions: list[str] = field(default_factory=lambda: ["S"])

    def folders(self, session: str) -> tuple[str, ...]:
        """Where a session works."""
        return ("/p",)


class Side:
    """A desk with a chain behind it and a client before it."""

    def __init__(self, can: Capabilities = ALL, **more: Any) -> None:
        self.editor = Editor(can, **more)
        self.desk = Desk(self.editor)
        self._ids = 0

    def up(self, method: str, owner: str = "X", *, id_: bytes | None = b"", **params: Any) -> Any:
        """A message of a component's; the effects."""
        self._ids += 1
        meta = {"_meta": {STAMP: owner}} if owner else {}
        body = json.dumps({**meta, **params}).encode()
        given = str(self._ids).encode() if id_ == b"" else id_
        return self.desk.from_chain(given, f"_scp/{method}", body)

    def down(self, method: str, *, id_: bytes | None = b"9", **params: Any) -> Any:
        """A message of the client's; the effects."""
        return self.desk.from_client(id_, f"_scp/{method}", json.dumps(params).encode())

    def shown(self, method: str, owner: str = "X", **params: Any) -> Json:
        """The message that the client gets of this one, and takes."""
        (sent,) = self.up(method, owner, **params)
        assert isinstance(sent, ToClient)
        assert sent.id is not None
        assert self.desk.answered_by_client(sent.id, b"result", b"{}") is not None
        found: Json = json.loads(sent.params)
        return found

    def result(self, method: str, owner: str = "X", **params: Any) -> Any:
        """The answer of the desk itself."""
        (answer,) = self.up(method, owner, **params)
        assert isinstance(answer, ToChain)
        assert answer.member == b"result", answer
        return json.loads(answer.body)

    def refused(self, method: str, owner: str = "X", **params: Any) -> tuple[int, str]:
        """The code and the text of a refusal."""
        (answer,) = self.up(method, owner, **params)
        assert isinstance(answer, ToChain)
        return error(answer)


def error(answer: ToChain | Answer) -> tuple[int, str]:
    """The code and the text of an error."""
    assert answer.member == b"error", answer
    held = json.loads(answer.body)
    return held["code"], held["message"]


PANEL: Final[Json] = {"id": "w", "label": "L", "contents": "<b>x</b>"}
COMMENT: Final[Json] = {"id": "c", "url": "file:///p/a.py", "start": {"line": 3}, "text": "Why?"}


# -- up --------------------------------------------------------------------------------------------


def test_show_gives_the_client_the_whole_panel() -> None:
    side = Side()
    named = {"sessionId": "S", "_meta": {STAMP: "X"}}
    assert side.shown("html_panel/show", **PANEL) == {**named, **PANEL, "scripts": False}
    changed = side.shown("html_panel/show", id="w", contents="y", scripts=True)
    assert changed == {**named, "id": "w", "label": "L", "contents": "y", "scripts": True}
    assert side.shown("html_panel/show", id="w", label="M")["scripts"] is True
    assert side.result("html_panel/get", id="w") == "y"


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("html_panel/show", {"id": "w", "label": "L"}, "needs `label` and `contents`"),
        ("html_panel/show", {"label": "L", "contents": "x"}, "needs `id`"),
        ("html_panel/show", {**PANEL, "id": "x" * 257}, "length <= 256"),
        ("html_panel/show", {**PANEL, "scripts": 1}, "Expected `bool`"),
        ("html_panel/show", {**PANEL, "sessionId": "T"}, "`T` is no session of the client's"),
        ("file_comment/show", {**COMMENT, "start": {"line": 0}}, ">= 1"),
        ("file_comment/show", {**COMMENT, "end": {"line": 2}}, "`end` is before `start`"),
        ("file_comment/show", {"id": "c", "text": "x", "start": {"line": 1}}, "needs `url`"),
        ("file_comment/reply", {"id": "c", "text": "x"}, "no comment `c` in session `S`"),
        ("file_comment/reply", {"id": "c"}, "needs `text`"),
        ("log", {"level": "loud", "message": "x"}, "`level` is one of error, warn, info, debug"),
        ("log", {"level": "info"}, "needs `message`"),
        ("log", {"level": "info", "message": "x" * MOST_BYTES}, "of more than"),
    ],
)
def test_what_is_wrong_is_refused(method: str, params: Json, said: str) -> None:
    code, text = Side().refused(method, **params)
    assert code == -32602
    assert said in text


def test_unknown_messages_and_notifications() -> None:
    side = Side()
    assert side.refused("html_panel/fly", id="w")[0] == -32601
    (said,) = side.up("html_panel/show", id_=None, **PANEL)
    assert said == Say("warning", "X", "`_scp/html_panel/show` dropped: it is a request")
    assert side.refused("html_panel/show", owner="", **PANEL)[0] == -32602
    assert side.result("html_panel/get", id="w") is None


def test_without_a_session_it_is_the_only_one() -> None:
    side = Side(sessions=["S", "T"])
    assert "name the session" in side.refused("html_panel/show", **PANEL)[1]
    side.editor.sessions.remove("S")
    assert side.shown("html_panel/show", **PANEL)["sessionId"] == "T"


def test_another_component_is_refused_by_the_owners_name() -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    side.shown("file_comment/show", "inner/X", **COMMENT)
    for method, params in (
        ("html_panel/show", PANEL),
        ("html_panel/get", {"id": "w"}),
        ("html_panel/clear", {"id": "w"}),
    ):
        refusal = (-32600, "`w` is of `X`, not of `inner/Y`")
        assert side.refused(method, "inner/Y", **params) == refusal
    for method, params in (
        ("file_comment/show", COMMENT),
        ("file_comment/get", {"id": "c"}),
        ("file_comment/clear", {"id": "c"}),
        ("file_comment/reply", {"id": "c", "text": "x"}),
    ):
        refusal = (-32600, "`c` is of `inner/X`, not of `X`")
        assert side.refused(method, **params) == refusal


def test_what_is_cleared_is_anybodys() -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    assert side.shown("html_panel/clear", id="w") == {
        "sessionId": "S",
        "id": "w",
        "_meta": {STAMP: "X"},
    }
    assert side.result("html_panel/clear", id="w") == {}
    assert side.result("html_panel/get", id="w") is None
    side.shown("html_panel/show", "Y", **PANEL)


def test_a_component_has_bounded_room_also_behind_a_nested_conductor() -> None:
    side = Side(NONE)
    for number in range(MOST):
        owner = f"inner/{number}"
        side.up("html_panel/show", owner, **{**PANEL, "id": f"w{number}"})
    said = f"`inner/x` shows {MOST} panels already\nhint: clear some"
    assert side.refused("html_panel/show", "inner/x", **PANEL) == (-32602, said)
    side.up("html_panel/show", "Y", **PANEL)
    assert side.result("html_panel/clear", "inner/0", id="w0") == {}
    side.up("html_panel/show", "inner/x", **{**PANEL, "id": "v"})
    assert side.result("html_panel/get", "inner/x", id="v") == PANEL["contents"]


def test_a_component_has_bounded_bytes() -> None:
    side = Side(NONE)
    large = "x" * (MOST_BYTES - 1)
    for number in range(8):
        side.up("html_panel/show", id=f"w{number}", label="L", contents=large)
    assert "bytes already" in side.refused("html_panel/show", **PANEL)[1]
    side.up("html_panel/show", id="w0", contents="y")  # less than before
    side.up("html_panel/show", **PANEL)
    assert side.result("html_panel/get", id="w") == PANEL["contents"]
    refused = side.refused("html_panel/show", "Y", id="v", label="L", contents=large + "x")
    assert "a panel has at most 1048576 bytes; this of `Y`" in refused[1]
    side.up("file_comment/show", "Z", **COMMENT, can_reply=True)
    text = side.refused("file_comment/reply", "Z", id="c", text=large)[1]
    assert "a comment has at most" in text


# -- what the client answers -----------------------------------------------------------------------


def asks(side: Side, **params: Any) -> bytes:
    """The id of a `show` that the client has and has not answered."""
    (sent,) = side.up("html_panel/show", **params)
    assert isinstance(sent, ToClient)
    assert sent.id is not None
    return sent.id


def test_an_error_undoes_what_it_was_about_alone() -> None:
    side = Side()
    first = asks(side, **PANEL)
    assert side.desk.asks
    answer = side.desk.answered_by_client(first, b"error", b'{"code":1}')
    assert answer == ToChain(first, b"error", b'{"code":1}')
    assert not side.desk.asks
    assert side.result("html_panel/get", id="w") is None
    assert side.desk.answered_by_client(first, b"result", b"{}") is None
    good = asks(side, **PANEL)
    assert side.desk.answered_by_client(good, b"result", b"3") == ToChain(
        good, b"result", b'{"shown":"panel"}'
    )
    bad = asks(side, id="w", contents="y")
    side.desk.answered_by_client(bad, b"error", b"{}")
    assert side.result("html_panel/get", id="w") == PANEL["contents"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_what_was_refused_never_comes_back(order: tuple[int, ...]) -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    ids = [asks(side, id="w", contents=f"{n}") for n in range(3)]
    for number in order:
        side.desk.answered_by_client(ids[number], b"error", b"{}")
    assert side.result("html_panel/get", id="w") == PANEL["contents"]
    side = Side()
    ids = [asks(side, id="w", label="L", contents=f"{n}") for n in range(3)]
    for number in order:
        side.desk.answered_by_client(ids[number], b"error", b"{}")
    assert side.result("html_panel/get", id="w") is None


def test_an_error_about_what_is_cleared_brings_nothing_back() -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    asked = asks(side, id="w", contents="y")
    side.shown("html_panel/clear", id="w")
    side.desk.answered_by_client(asked, b"error", b"{}")
    assert side.result("html_panel/get", id="w") is None


# -- operations and logs ---------------------------------------------------------------------------


def test_operations_pass_with_the_owners_name_alone() -> None:
    side = Side()
    given: Json = {"name": "rename", "arguments": {"to": 1.10}, "sessionId": "S"}
    (sent,) = side.up("ide_operation/run", **given)
    assert isinstance(sent, ToClient)
    assert json.loads(sent.params) == {**given, "_meta": {STAMP: "X"}}
    assert sent.id is not None
    assert side.desk.answered_by_client(sent.id, b"result", b"[1]") is None  # as it came
    side.editor.capabilities = NONE
    code, text = side.refused("ide_operation/list")
    assert code == -32601
    assert text.startswith("the editor has no operations\nhint: ")


def test_log_lines_are_the_editors_or_the_conductors() -> None:
    side = Side()
    line: Json = {"level": "warn", "message": "m", "data": {"a": 1}}
    (sent,) = side.up("log", id_=None, **line)
    assert isinstance(sent, ToClient)
    assert (sent.id, json.loads(sent.params)) == (None, {**line, "_meta": {STAMP: "X"}})
    sent, answer = side.up("log", **line, sessionId="S")
    assert json.loads(sent.params)["sessionId"] == "S"
    assert (answer.member, answer.body) == (b"result", b"{}")
    side.editor.capabilities = NONE
    assert side.up("log", id_=None, **line) == [Say("warning", "X", 'm {"a":1}')]
    assert side.up("log", id_=None, level="debug", message="m\nn") == [Say("debug", "X", "m n")]
    (dropped,) = side.up("log", id_=None, level="loud", message="m")
    assert dropped.level == "warning"


# -- down ------------------------------------------------------------------------------------------


def test_events_go_to_the_owner_and_its_answer_comes_back() -> None:
    side = Side()
    side.shown("html_panel/show", "inner/X", **PANEL)
    forged: Json = {"_meta": {STAMP: "Y", "a": 1}}
    (passed,) = side.down("html_panel/event", id="w", name="click", data=[1.10], **forged)
    assert isinstance(passed, Pass)
    assert json.loads(passed.params) == {
        "sessionId": "S",
        "id": "w",
        "name": "click",
        "data": [1.10],
        "_meta": {"a": 1, STAMP: "inner/X"},
    }
    assert side.desk.owes
    assert side.desk.answered_by_owner(b"9", b"result", b"[1]") == Answer(b"9", b"result", b"[1]")
    assert side.desk.answered_by_owner(b"9", b"result", b"[1]") is None


@pytest.mark.parametrize(
    ("member", "body", "answer"),
    [
        (b"error", b'{"code":-32601,"message":""}', (b"result", b"{}")),
        (b"error", b'{"code":-32000,"message":""}', (b"error", b'{"code":-32000,"message":""}')),
        (b"error", b'{"code":"x"}', (b"error", b'{"code":"x"}')),
        (b"result", b"null", (b"result", b"null")),
    ],
)
def test_an_owner_that_is_gone_has_heard_of_an_event(
    member: bytes, body: bytes, answer: tuple[bytes, bytes]
) -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    side.down("html_panel/event", id="w", name="click")
    assert side.desk.answered_by_owner(b"9", member, body) == Answer(b"9", *answer)


def test_a_closed_panel_and_a_resolved_comment_are_gone() -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    side.shown("file_comment/show", **COMMENT, can_reply=True)
    for method, id_ in (("html_panel", "w"), ("file_comment", "c")):
        (passed,) = side.down(f"{method}/event", id=id_, name="close")
        assert isinstance(passed, Pass)
        (refused,) = side.down(f"{method}/event", id=id_, name="close")
        assert error(refused)[0] == -32602
        assert side.result(f"{method}/get", id=id_) is None
    (refused,) = side.down("file_comment/reply", id="c", text="late")
    assert "no comment `c` in session `S`" in error(refused)[1]


def test_what_is_shown_in_a_session_ends_with_it() -> None:
    side = Side(sessions=["S", "T"])
    side.shown("html_panel/show", **PANEL, sessionId="S")
    side.editor.sessions.remove("S")
    (refused,) = side.down("html_panel/event", id="w", name="x", sessionId="S")
    assert "`S` is no session of the client's" in error(refused)[1]
    side.editor.sessions.append("S")
    assert side.result("html_panel/get", id="w", sessionId="S") is None


def test_a_reply_is_taken_or_becomes_a_prompt() -> None:
    side = Side()
    side.shown("file_comment/show", **COMMENT, can_reply=True, end={"line": 5, "column": 1})
    (passed,) = side.down("file_comment/reply", id="c", text="because")
    assert json.loads(passed.params)["text"] == "because"
    assert side.desk.answered_by_owner(b"9", b"result", b'{"a":1}') == Answer(
        b"9", b"result", b"{}"
    )
    side.down("file_comment/reply", id="c", text="again")
    answer = side.desk.answered_by_owner(b"9", b"error", b'{"code":1}')
    assert answer is not None
    prompt = json.loads(answer.body)
    assert prompt["sessionId"] == "S"
    assert prompt["prompt"][0]["text"] == "My reply to the comment at a.py:3-4:\n\nagain"
    side.shown("file_comment/reply", id="c", text="I see")
    assert side.result("file_comment/get", id="c")["replies"] == [
        {"from": "user", "text": "because"},
        {"from": "user", "text": "again"},
        {"from": "X", "text": "I see"},
    ]
    side.shown("file_comment/show", **{**COMMENT, "text": "Why not?"})  # replies stay, no new ones
    assert len(side.result("file_comment/get", id="c")["replies"]) == 3
    (refused,) = side.down("file_comment/reply", id="c", text="no")
    assert "comment `c` of `X` takes no replies" in error(refused)[1]


def test_notifications_of_the_client_reach_nobody() -> None:
    side = Side()
    side.shown("html_panel/show", **PANEL)
    (said,) = side.down("html_panel/event", id_=None, id="w", name="click")
    assert said == Say("warning", "client", "`_scp/html_panel/event` dropped: it is a request")


# -- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_what_cannot_be_shown_is_text_once(version: int) -> None:
    side = Side(NONE, version=version)

    def text(method: str, **params: Any) -> tuple[str | None, str]:
        sent, answer = side.up(method, **params)
        assert answer.member == b"result"
        update = json.loads(sent.params)["update"]
        assert update["_meta"] == {STAMP: "X"}
        return update.get("messageId"), update["content"]["text"]

    first = text("html_panel/show", **PANEL)
    again = text("html_panel/show", id="w", contents="y")
    assert (first[1], again[1]) == (
        "X:\n\n> **L**\n>\n> **x**\n\n",
        "X:\n\n> **L**\n>\n> y\n\n",
    )
    assert (first[0] is None) == (version == 1)
    assert version == 1 or first[0] != again[0]
    (answer,) = side.up("html_panel/show", id="w", scripts=True)
    assert answer.body == b'{"shown":"text"}'
    assert text("file_comment/show", **COMMENT)[1] == "X:\n\n> `a.py:3`: Why?\n\n"
    (answer,) = side.up("file_comment/show", **COMMENT)
    assert answer.body == b'{"shown":"text"}'
    assert text("file_comment/reply", id="c", text="So?")[1] == "X:\n\n> `a.py:3`: So?\n\n"
    assert side.result("file_comment/clear", id="c") == {}


# -- capabilities ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initialize", "found"),
    [
        ({"clientCapabilities": {"_meta": {"symposium": {"log": True}}}}, Capabilities(log=True)),
        ({"capabilities": {"_meta": {"symposium": {"log": True}}}}, Capabilities(log=True)),
        ({"_meta": {"symposium": {"html_panel": True}}}, Capabilities(html_panel=True)),
        ({"_meta": {"symposium": {"html_panel": 1, "log": "yes"}}}, NONE),
        ({"_meta": {"symposium": True}}, NONE),
        ({"_meta": None, "capabilities": None}, NONE),
        ([], NONE),
    ],
)
def test_what_an_editor_says(initialize: Any, found: Capabilities) -> None:
    assert capabilities(json.dumps(initialize).encode()) == found
