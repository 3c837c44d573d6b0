"""`conductor exec --editor`: an editor and its user, played by a file."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.cli.editor_fixture import Fixture, read
from conductor.cli.exec_editor import PlayedEditor
from conductor.errors import RequestError, UsageError
from tests.harness.process.command import Ran, conductor
from tests.places import ACTORS

SHOWING: Final = str(ACTORS / "showing_proxy.py")
EDITING: Final = str(ACTORS / "editing_proxy.py")
ASK: Final = "/ask _scp/{} {}"


def played(folder: Path, fixture: Any, prompt: str, *options: str, component: str = SHOWING) -> Ran:
    """A run in a folder with an editor."""
    path = folder / "editor.json"
    path.write_text(json.dumps(fixture))
    named = json.dumps({"command": sys.executable, "args": [component], "name": "X"})
    return conductor(
        "exec", "--editor", str(path), "--cwd", str(folder), *options, named, "demo", "-p", prompt
    )


def asking(method: str, **params: Any) -> str:
    """The prompt that has the component ask the editor for something."""
    return ASK.format(method, json.dumps(params))


def test_panels_comments_operations_and_logs_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    fixture = {
        "operations": {"get-selection": {"result": ["a", 1]}},
        "user": [
            {"panel": "plan", "event": "click", "data": {"x": 1}},
            {"comment": "why", "reply": "because"},
            {"comment": "why", "reply": "pass it on"},
        ],
    }
    ran = played(tmp_path, fixture, "hi", component=EDITING)
    assert ran.code == 0
    for shown in (
        "panel `plan` of `X`: Plan\n  | **one**\n",
        "comment `why` of `X`, takes replies: /p/a.py:3-5 (no such file)\n  | Why?\n",
        'log of `X`: info: clicked {"x":1}\n',
        'the user\'s `click` on panel `plan` is answered: {"clicks":1}\n',
        "operation of `X`: get-selection {}\n",
        "reply to comment `why` of `X`\n  | You wrote: because\n",
        "the user's reply to comment `why` is answered\n",
        "the user's reply to comment `why` becomes a prompt\n",
    ):
        assert shown in ran.err
    first, _, second = ran.out.partition("\nMy reply to a comment:\n")  # not of this folder
    assert first.startswith("hi\n[Capabilities(panel=True")
    assert "\npass it on\n" in second


def test_json_has_the_messages(tmp_path: Path) -> None:
    shown = {"id": "p", "label": "P", "contents": "<h1>x</h1>"}
    ran = played(tmp_path, {}, asking("html_panel/show", **shown), "--json")
    assert ran.code == 0
    frames = [json.loads(line) for line in ran.out.splitlines()]
    (params,) = [f["params"] for f in frames if f.get("method") == "_scp/html_panel/show"]
    assert params == {
        "sessionId": "demo-1",
        **shown,
        "scripts": False,
        "_meta": {"conductor.component": "X"},
    }
    assert "panel `p` of `X`: P\n  | # x\n" in ran.err


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ({"line": 2}, None, "2:1-2:7"),
        ({"line": 2, "column": 4}, None, "2:4-2:7"),
        ({"line": 1}, {"line": 2}, "1:1-2:7"),
        ({"line": 1, "column": 2}, {"line": 3, "column": 1}, "1:2-3:1"),
        ({"line": 7}, None, "3:1-3:1"),
    ],
)
def test_the_editor_has_exact_ranges(tmp_path: Path, start: Any, end: Any, shown: str) -> None:
    (tmp_path / "a.py").write_text("one 🙂\nthree🙂\n")
    url = (tmp_path / "a.py").as_uri()
    comment = {"id": "c", "url": url, "start": start, "text": "Why?"}
    prompt = asking("file_comment/show", **comment, **({"end": end} if end else {}))
    ran = played(tmp_path, {}, prompt)
    assert f"comment `c` of `X`: a.py:{shown}\n  | Why?\n" in ran.err


def test_what_the_editor_cannot_is_text(tmp_path: Path) -> None:
    fixture = {"capabilities": {"html_panel": False}}
    ran = played(
        tmp_path, fixture, asking("html_panel/show", id="p", label="P", contents="<b>x</b>")
    )
    assert (ran.code, ran.out, ran.err) == (0, "X:\n\n> **P**\n>\n> **x**\n\n", "")


def test_operations_are_listed_described_and_fail() -> None:
    schema = {"type": "object"}
    described = {"category": "x", "description": "A", "inputSchema": schema}
    operations = {"a": {**described, "result": [1]}, "b": {"error": "it is read-only"}}
    notes: list[str] = []
    fixture = Fixture.model_validate({"operations": operations})
    handlers = PlayedEditor(fixture, "/", notes.append).handlers()

    def asked(method: str, **params: Any) -> Any:
        async def ask() -> Any:
            return await handlers[f"_scp/ide_operation/{method}"](params)

        return asyncio.run(ask())

    a = {"name": "a", "category": "x", "description": "A"}
    b = {"name": "b", "category": "", "description": ""}
    assert asked("list") == {"operations": [a, b]}
    assert asked("list", category="x") == {"operations": [a]}
    assert asked("describe", name="a") == {**a, "inputSchema": schema}
    assert asked("run", name="a", arguments={"x": "\x1b"}) == [1]
    assert notes == ['operation of `nobody`: a {"x":"\\u001b"}']
    with pytest.raises(RequestError, match="it is read-only"):
        asked("run", name="b")
    with pytest.raises(RequestError, match="the editor has no operation `c`"):
        asked("run", name="c")


def test_the_user_cannot_do_what_is_not_shown(tmp_path: Path) -> None:
    fixture = {"user": [{"panel": "p", "event": "click"}, {"comment": "c", "reply": "x"}]}
    ran = played(tmp_path, fixture, asking("html_panel/show", id="q", label="P", contents="x"))
    assert ran.code == 1
    what = "`click` on panel `p`, reply to comment `c`: it was not shown"
    assert f"editor.json` could not do this: {what}\n" in ran.err
    assert "\nhint: the id is the one that the component shows" in ran.err


def test_what_is_refused_is_shown(tmp_path: Path) -> None:
    fixture = {"user": [{"comment": "c", "reply": "x"}, {"comment": "c", "event": "close"}]}
    comment = {"id": "c", "url": "file:///a.py", "start": {"line": 1}, "text": "?"}
    ran = played(tmp_path, fixture, asking("file_comment/show", **comment))
    refusal = "the user's reply to comment `c` is refused: comment `c` of `X` takes no replies\n"
    assert ran.code == 0
    assert refusal in ran.err
    assert 'the user\'s `close` on comment `c` is answered: {"n":1}\n' in ran.err


@pytest.mark.parametrize(
    ("fixture", "error", "hint"),
    [
        ({"user": [{"panel": "x", "evnt": "a"}]}, "there is no `user.0.evnt`", "`event`?"),
        ({"operations": {"a": {"reslt": 1}}}, "there is no `operations.a.reslt`", "`result`?"),
        (
            {"capabilities": {"log": 1}},
            "at `capabilities.log`: Input should be a valid boolean",
            "",
        ),
        ({"user": [{"panel": "x", "reply": "a"}]}, "a panel takes no `reply`, only", ""),
        ({"user": [{"event": "a"}]}, "to a `panel` or to a `comment`: name one", ""),
        ({"user": [{"comment": "x"}]}, "it is an `event` or a `reply`: name one", ""),
        ("{", "Invalid JSON", "docs/editor.md has an example"),
    ],
)
def test_wrong_files(tmp_path: Path, fixture: Any, error: str, hint: str) -> None:
    path = tmp_path / "editor.json"
    path.write_text(fixture if isinstance(fixture, str) else json.dumps(fixture))
    with pytest.raises(UsageError) as refused:
        read(str(path))
    assert str(refused.value).startswith("`--editor ")
    assert error in str(refused.value)
    assert hint in refused.value.hint


def test_a_file_that_is_not_there() -> None:
    ran = conductor("exec", "--editor", "nowhere.json", "demo", "-p", "hi")
    assert ran.code == 2
    assert "error: `--editor nowhere.json` cannot be read: No such file or directory\n" in ran.err
