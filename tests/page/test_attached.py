"""A chat that shows a live session of others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness.process.serving import Served, served
from tests.page.talking import Talking, idle

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.harness.process.rig import Rig

expect.set_options(timeout=float(os.environ.get("PAGE_DEADLINE", "60")) * 1000)
PERMISSION: Final = "session/request_permission"


@pytest.fixture
def server(rig: Rig) -> Iterator[Served]:
    """A chain that listens."""
    with served(rig, "agent", "--listen", "ws://127.0.0.1:0", rig.demo()) as server:
        yield server


def test_a_page_watches_a_session(rig: Rig, server: Served, page: Page) -> None:
    editor = rig.run("connect", server.address)
    editor.serves[PERMISSION] = None
    session = editor.begin()
    editor.prompt(session, "/echo the first turn")
    asked = editor.start_prompt(session, "/permission tidy up")
    question = editor.expect(PERMISSION)
    with Talking(server.address, "--attach", session, "--view") as talking:
        talking.visit(page)
        conversation = page.locator("#conversation")
        before = page.locator("article.turn").first
        expect(before.locator(".speech.agent")).to_contain_text("the first turn")
        expect(conversation).to_contain_text("/permission tidy up")
        expect(page.locator("#composer")).to_be_hidden()
        expect(page.locator("#watching")).to_contain_text("only watch")
        expect(page.locator("#new-session")).to_be_hidden()
        expect(page.locator("#questions .ask")).to_contain_text("tidy up")
        expect(page.locator("#questions button")).to_have_count(0)
        number = talking.until(lambda chat: chat["questions"])["questions"][0]["number"]
        status, answer = talking.ask("/api/chat/answer", {"question": number, "option": 0})
        assert (status, "only watch" in answer["error"]) == (409, True)
        status, answer = talking.ask(
            "/api/chat/prompt", {"session": session, "parts": [{"text": "hello"}]}
        )
        assert (status, "only watch" in answer["error"]) == (409, True)
        chosen = {"outcome": "selected", "optionId": "allow-once"}
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": chosen}})
        assert "result" in editor.answer(asked)
        expect(conversation).to_contain_text("permission: allow-once")
        expect(page.locator("#questions .ask")).to_have_count(0)
        editor.prompt(session, "/echo the last turn")
        last = page.locator("article.turn").last
        expect(last).to_contain_text("/echo the last turn")
        expect(last).to_contain_text("by another client")
        expect(page.locator("article.turn")).to_have_count(3)
        talking.until(idle)


@pytest.mark.parametrize("version", [1, 2])
def test_a_page_takes_part_in_a_session(rig: Rig, server: Served, page: Page, version: int) -> None:
    editor = rig.run("connect", server.address)
    editor.serves[PERMISSION] = None
    info = {"info": {"name": "e", "version": "1"}, "capabilities": {}} if version == 2 else {}
    editor.initialize(protocolVersion=version, **info)
    session = editor.new_session()
    with Talking(server.address, "--attach", session) as talking:
        talking.visit(page)
        asked = editor.start_prompt(session, "/permission tidy up")
        page.locator("#questions .ask button").first.click()
        assert "result" in editor.answer(asked)
        expect(page.locator("#send")).to_be_visible()  # the page knows that the turn has ended
        expect(page.locator("article.turn").last).to_contain_text("/permission tidy up")
        expect(page.locator("article.turn").last).to_contain_text("permission: allow-once")
        page.locator("#prompt").fill("/echo from the page")
        page.locator("#prompt").press("Enter")
        editor.until(lambda: "from the page" in editor.texts(session), "the answer")
        expect(page.locator("article.turn")).to_have_count(3)
        expect(page.locator("article.turn").last.locator(".speech")).to_have_count(2)
        talking.until(idle)
        assert "result" in editor.request("session/close", {"sessionId": session})
        expect(page.locator("#notice")).to_contain_text("the session was closed")
