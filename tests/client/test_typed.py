"""Users' code with the library and the SDK has types: mypy and pyright find no fault in it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.author import project
from tests.places import checkout_environment

PROGRAM: Final = """
import asyncio
from typing import Any, assert_type

import conductor


async def decide(permission: conductor.Permission) -> bool:
    return permission.title.startswith("Read")


async def read(params: dict[str, Any]) -> dict[str, Any]:
    return {"content": str(params["path"])}


def show(update: conductor.Update) -> None:
    print(update.kind, update.text)


async def main() -> str:
    async with conductor.open(
        "datetime",
        "demo",
        cwd=".",
        on_update=show,
        permissions=decide,
        handlers={"fs/read_text_file": read},
        clock="2026-03-01T12:00:00+01:00",
    ) as chain:
        assert_type(chain, conductor.Chain)
        answer = await chain.prompt(["hi", {"type": "text", "text": "you"}])
        assert_type(answer, conductor.Answer)
        async for update in chain.stream("bye"):
            assert_type(update, conductor.Update)
        turn = chain.stream("once more")
        assert_type(await turn, conductor.Answer)
        session = await chain.session("/tmp")
        try:
            await session.prompt("hi")
        except conductor.ConductorError as error:
            return error.hint
        return answer.text


asyncio.run(main())
"""

WRONG: Final = {
    'conductor.open("demo", clok="now")': "clok",
    'conductor.open("demo", isolation=3)': "isolation",
    'conductor.open("demo", permissions="ask")': "permissions",
    "conductor.open(3)": "str",
}

PROXY: Final = """
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from guest_sdk.python import (
    DROP, Drop, Editor, EditorEvent, Next, NoOperation, Notification, Opening, Operation, Proxy,
    Request, Session, Thread, Update,
)


@dataclass
class Config:
    words: int = 3


class Settings(TypedDict, total=False):
    words: int


proxy = Proxy("one", config=Config)
other = Proxy("two", config=Settings)
plain = Proxy("three")
named: Proxy[Config] = Proxy[Config]("four", config=Config)
assert_type(proxy, Proxy[Config])
assert_type(proxy.config.words, int)
assert_type(other.config, Settings)
assert_type(plain.config, dict[str, Any])


@proxy.request("session/prompt")
async def prompt(request: Request, next: Next) -> object:
    request.preface("x" * proxy.config.words)
    return await next(request)


@proxy.update("agent_message_chunk")
def said(update: Update) -> Drop | None:
    return DROP if update.text == "" else None


@proxy.notification("session/cancel")
def cancelled(notification: Notification) -> None:
    print(notification.session_id)


@proxy.opening
async def opening(opening: Opening) -> str:
    return "hello"


async def ask(session: Session) -> None:
    editor = session.editor
    assert_type(editor, Editor)
    panel = editor.panel("plan")

    @panel.on("click", "key")
    async def clicked(event: EditorEvent) -> dict[str, Any]:
        return {"name": event.name, "in": event.session.id}

    @panel.on("close")
    def closed(event: EditorEvent) -> None:
        editor.log("info", "closed", event.data)

    assert_type(await panel.show(label="Plan", contents="<b>1</b>", scripts=True), bool)
    assert_type(await panel.get(), str | None)
    comment = editor.comment("why")

    @comment.on_reply
    async def replied(text: str) -> bool:
        await comment.reply(text)
        return True

    shown = await comment.show(url="file:///a.py", start=3, end=(4, 1), text="?", can_reply=True)
    assert_type(shown, bool)
    assert_type(await comment.get(), Thread | None)
    assert_type(await editor.operations(), list[Operation])
    assert_type(editor.capabilities.operation, bool)
    try:
        print(await editor.operation("rename", to="x"))
    except NoOperation as error:
        print(error.message)
"""


def checkers() -> list[object]:
    """The checkers that are there: pyright comes from npm."""
    pyright = shutil.which("pyright")
    return [
        pytest.param([sys.executable, "-m", "mypy", "--strict"], id="mypy"),
        pytest.param(
            [pyright or "", "--pythonpath", sys.executable],
            id="pyright",
            marks=pytest.mark.skipif(pyright is None, reason="pyright is not on PATH"),
        ),
    ]


def checked(checker: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A checker over a folder."""
    return subprocess.run(
        [*checker, "."],
        cwd=folder,
        env=checkout_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("checker", checkers())
def test_programs_and_the_template(tmp_path: Path, checker: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "one.py").write_text(PROXY)
    for path, text in project.files("python", "briefing"):
        if path.endswith(".py"):
            (tmp_path / path).write_text(text)
    done = checked(checker, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, line in enumerate(WRONG):
        (tmp_path / f"wrong_{number}.py").write_text(f"import conductor\n\n{line}\n")
    done = checked(checker, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    for number, word in enumerate(WRONG.values()):
        about = [line for line in done.stdout.splitlines() if f"wrong_{number}.py" in line]
        assert any(word in line for line in about), done.stdout
