"""Pages of tools (MCP Apps) in the page of a chat, in a real browser; and pages that attack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.page.listening import Listener
from tests.page.looks import look_at
from tests.page.talking import DEMO, Talking
from tests.page.test_chat_page import ended, say

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).parents[2]
DICE: Final = ROOT / "guest_sdk" / "python" / "examples" / "dice.py"
RIGHTS: Final = "serve:tools+show:panel+web:panel"


@pytest.fixture(scope="module", autouse=True)
def talking(python_guest: Path) -> Iterator[Talking]:
    """A chat with dice; with a program that attacks, and is no less trusted than its words say."""
    attacking = Path(__file__).with_name("attacking.py")
    chain = (f"{DICE},allow={RIGHTS}+random", f"{attacking},allow={RIGHTS}", DEMO)
    with Talking("--log", "warning", *chain) as talking:
        yield talking


def calls(page: Page, tool: str, /, **arguments: Any) -> None:
    """The agent calls a tool."""
    say(page, f"/tool {tool} {json.dumps(arguments)}")
    ended(page)


def test_the_page_of_a_tool_is_shown_and_asks_its_server(
    talking: Talking, page: Page, pictures: Path | None
) -> None:
    talking.visit(page)
    calls(page, "roll", count=20)
    frame = page.frame_locator(".panel:not([hidden]) iframe")
    dice = frame.locator("li")
    expect(dice).to_have_count(20)
    turn = page.locator("article.turn").last
    expect(turn.locator(".happened")).to_have_text("agent/dice shows a panel: Roll dice")
    expect(turn.locator(".speech.agent")).to_contain_text(f'"dice": [{dice.first.inner_text()}, ')
    expect(page.locator(".panel:visible .owner")).to_have_text("agent/dice")
    rolled = dice.all_inner_texts()
    frame.locator("button").click()
    expect(frame.locator("#dice")).not_to_have_text("".join(rolled))
    look_at(page, "app", pictures, dark=True)
    page.reload()  # the page begins anew, with what the agent had called
    page.locator("#beside-tabs button", has_text="Roll dice").click()
    expect(dice).to_have_text(rolled)
    calls(page, "roll", count=3)
    expect(dice).to_have_count(3)
    expect(page.locator(".panel")).to_have_count(1)
    page.locator(".panel:visible button", has_text="Close").click()
    expect(page.locator(".panel")).to_have_count(0)
    calls(page, "roll", count=4)
    expect(dice).to_have_count(4)


TOLD: Final = (
    "own: refused; other: -32602; hidden: -32602; page: -32600; link: -32601; prompt: -32601; "
    'context: -32601; large: -32000; mode: {"mode":"inline"}; flood: refused'
)


@pytest.mark.proves("a panel sends and loads nothing", "a page of a tool reaches its own")
def test_a_page_of_a_tool_reaches_nothing_but_its_server(talking: Talking, page: Page) -> None:
    listener = Listener()
    talking.visit(page)
    address = page.url
    script = "<img src=x onerror='parent.bitten = 1'>"
    calls(page, "attack", url=listener.url, page=script)
    frame = page.frame_locator(".panel:not([hidden]) iframe")
    expect(frame.locator("#got")).to_have_text(TOLD)
    expect(frame.locator("#text")).to_have_text(script)
    expect(page.locator(".panel:visible h2")).to_have_text("<b>Attack</b>")
    height = page.locator(".panel:visible iframe").evaluate("(one) => one.clientHeight")
    assert height == 4000
    assert listener.requests == []
    assert (page.url, page.title(), len(page.context.pages)) == (address, "conductor chat", 1)
    assert page.evaluate("window.bitten") is None
    turns = page.locator("article.turn").count()
    calls(page, "large")
    calls(page, "borrow")
    assert page.locator("article.turn").count() == turns + 2, "no page has prompted"
    assert page.locator(".panel", has_text="large").count() == 0
    listener.close()
