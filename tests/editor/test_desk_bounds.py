"""The desk before components that ask too much, and before an editor that does not answer."""

import json
from typing import Any

import pytest

from conductor.editor.desk import MOST_WAITING, Desk
from conductor.editor.effects import Effect, Say, ToChain, ToClient
from conductor.editor.messages import Capabilities

PANEL = "_scp/html_panel"
COMMENT = "_scp/file_comment"
AT: dict[str, Any] = {"url": "file:///p/a.py", "start": {"line": 1}, "text": "why"}


class Client:
    """An editor with one session."""

    version = 1

    def __init__(self, **shows: bool) -> None:
        self.capabilities = Capabilities(**shows)
        self.sessions = ["S"]

    def folders(self, session: str) -> tuple[str, ...]:
        """Where a session works."""
        return ("/p",)


def sends(desk: Desk, id_: int | None, method: str, owner: str = "X", **params: Any) -> Effect:
    """The first effect of a component's message."""
    body = json.dumps({**params, "_meta": {"conductor.component": owner}}).encode()
    return desk.from_chain(None if id_ is None else b"%d" % id_, method, body)[0]


def refusal(effect: Effect) -> str:
    """The error of a component whose message is refused."""
    assert isinstance(effect, ToChain)
    assert effect.member == b"error"
    return str(json.loads(effect.body)["message"])


def test_an_editor_that_never_answers_gets_no_more_than_so_many_requests() -> None:
    desk = Desk(Client(html_panel=True, file_comment=True, ide_operation=True))
    assert isinstance(sends(desk, 0, f"{PANEL}/show", id="w", label="l", contents="c"), ToClient)
    sends(desk, 1, f"{COMMENT}/show", id="c", **AT)
    for n in range(2, MOST_WAITING):
        assert isinstance(sends(desk, n, f"{PANEL}/show", id="w"), ToClient)
    for method, params in (
        (f"{PANEL}/show", {"id": "w"}),
        (f"{PANEL}/clear", {"id": "w"}),
        (f"{COMMENT}/show", {"id": "c", **AT}),
        (f"{COMMENT}/reply", {"id": "c", "text": "t"}),
        ("_scp/ide_operation/list", {}),
    ):
        said = refusal(sends(desk, 999, method, "X/inner", **params))
        if "is of `X`" not in said:
            assert said.startswith(f"the editor has not answered {MOST_WAITING} requests of `X/inn")
    # Nothing of what was refused has happened, others go on, and an answer makes room.
    assert sends(desk, 999, f"{PANEL}/get", id="w") == ToChain(b"999", b"result", b'"c"')
    assert isinstance(sends(desk, 998, "_scp/ide_operation/list", "Y"), ToClient)
    assert desk.answered_by_client(b"998", b"result", b"[1]") is None  # as it is
    assert desk.answered_by_client(b"0", b"result", b"{}") is not None
    assert isinstance(sends(desk, 997, "_scp/ide_operation/list"), ToClient)


def test_small_requests_become_no_flood_of_large_panels() -> None:
    desk = Desk(Client(html_panel=True))
    sends(desk, 0, f"{PANEL}/show", id="w", label="l", contents="c" * 1_000_000)
    got = [sends(desk, n, f"{PANEL}/show", id="w") for n in range(1, 100)]
    assert sum(isinstance(one, ToClient) for one in got) == 8


def test_html_is_read_once_whatever_its_label_becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def markdown(html: str) -> str:
        read.append(html)
        return "body"

    monkeypatch.setattr("conductor.editor.texts.markdown", markdown)
    desk = Desk(Client())
    for n in range(5):
        shown = sends(desk, n, f"{PANEL}/show", id="w", label=f"l{n}", contents="c")
        assert isinstance(shown, ToClient)
        text = json.loads(shown.params)["update"]["content"]["text"]
        assert text.endswith(f"> **l{n}**\n>\n> body\n\n")
    assert read == ["c"]
    assert isinstance(sends(desk, 9, f"{PANEL}/show", id="w"), ToChain)
    sends(desk, 9, f"{PANEL}/show", id="w", contents="d")
    assert read == ["c", "d"]


def test_replies_in_a_loop_end_by_name_and_are_not_counted_anew_each_time() -> None:
    desk = Desk(Client())
    sends(desk, 0, f"{COMMENT}/show", id="c", **AT)
    (comment,) = desk._comments.values()
    text = "r" * 10_000
    replies = 0
    while isinstance(answer := sends(desk, 1, f"{COMMENT}/reply", id="c", text=text), ToClient):
        replies += 1
    assert refusal(answer).startswith("a comment has at most 1048576 bytes; this of `X` ")
    assert len(comment.thread.replies) == replies == 104
    sends(desk, 2, f"{COMMENT}/show", id="c", **AT)
    assert [one.size for one in desk._comments.values()] == [comment.size]


def test_a_closed_sessions_panels_are_forgotten() -> None:
    client = Client(html_panel=True)
    desk = Desk(client)
    sends(desk, 0, f"{PANEL}/show", id="w", label="l", contents="c")
    client.sessions = []
    desk.forget_closed()
    client.sessions = ["S"]
    assert sends(desk, 1, f"{PANEL}/get", id="w") == ToChain(b"1", b"result", b"null")


def test_what_is_dropped_and_logged_is_on_the_account_of_its_component() -> None:
    desk = Desk(Client())
    dropped = sends(desk, None, f"{PANEL}/show", "X/inner", id="w")
    assert dropped == Say("warning", "X", f"inner: `{PANEL}/show` dropped: it is a request")
    logged = sends(desk, None, "_scp/log", level="warn", message="m" * 9000, data=["d" * 9000])
    assert isinstance(logged, Say)
    assert (logged.level, logged.name, len(logged.text)) == ("warning", "X", 2201)
    assert desk.from_chain(None, "_scp/log", b"[]")[0].name == "editor"  # type: ignore[union-attr]


def test_no_name_is_kept_that_is_no_name() -> None:
    desk = Desk(Client(html_panel=True))
    shown = sends(desk, 1, f"{PANEL}/show", "X/" + "y" * 5000, id="w", label="l", contents="c")
    assert refusal(shown).startswith("the name of a component is too long: `X/yyy")
