"""The page of a chat in a real browser: the acts of a person there."""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.page.agent import PICTURE
from tests.page.looks import look_at
from tests.page.talking import DEMO, FANCY, Talking, idle
from tests.page.viewing import EVIL
from tests.places import DEADLINE, ROOT

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Browser, Page, Route

_DEADLINE: Final = float(os.environ.get("PAGE_DEADLINE", "60")) * 1000
expect.set_options(timeout=_DEADLINE)


@pytest.fixture(scope="module", autouse=True)
def demo(python_guest: Path) -> Iterator[Talking]:
    """A chat with the demo agent, begun before the browser, and with the guest in which `redact`
    runs."""
    with Talking("datetime", "redact", DEMO) as talking:
        yield talking


@pytest.fixture(scope="module", autouse=True)
def fancy() -> Iterator[Talking]:
    """A chat with an agent that has options and pictures."""
    with Talking(FANCY) as talking:
        yield talking


def say(page: Page, text: str) -> None:
    """Writes a prompt and sends it; returns when its turn has begun."""
    turns = page.locator("article.turn[data-turn]")
    count = turns.count()
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")
    expect(turns).to_have_count(count + 1)


def ended(page: Page) -> None:
    """Waits for the end of the turn."""
    expect(page.locator("#send")).to_be_visible()


def test_a_turn_and_what_was_done_to_it(demo: Talking, page: Page, pictures: Path | None) -> None:
    demo.visit(page)
    say(page, "what **day** is it?")
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn.locator(".speech.you strong")).to_have_text("day")
    expect(turn.locator(".speech.agent")).to_contain_text("current-date")
    expect(turn.locator(".mark[data-component=datetime]")).to_contain_text("added 1 block")
    expect(page.locator(".card[data-component=datetime] .says")).to_contain_text("added 1 block")
    expect(page.locator(".prompt-words ins")).to_contain_text("<current-date")
    expect(page.locator("button.time-row .name")).to_have_text(["datetime", "redact", "agent"])
    say(page, "/plan")
    ended(page)
    expect(page.locator("article.turn").last.locator(".plan li")).to_have_count(3)
    page.locator("#prompt").fill("/too")
    page.locator("#commands button", has_text="a tool call that").click()
    expect(page.locator("#prompt")).to_have_value("/toolcall ")
    page.locator("#settings select").select_option("Act without asking")
    demo.until(lambda chat: chat["sessions"][0]["options"][0]["currentValue"] == "code")
    look_at(page, "chat-turn", pictures)
    switch = page.get_by_role("switch", name="datetime takes part")
    switch.press("Enter")
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(switch).to_have_attribute("aria-busy", "false")
    expect(page.locator("article.turn").last.locator(".happened")).to_contain_text("paused")
    look_at(page, "chat-paused", None, dark=True)
    switch.press("Space")
    expect(switch).to_have_attribute("aria-checked", "true")


def test_a_question_is_answered_by_a_key_and_only_where_it_stands(
    fancy: Talking, page: Page, pictures: Path | None
) -> None:
    fancy.visit(page)
    say(page, "edit")
    ask = page.locator(".ask")
    expect(ask).to_be_focused()
    expect(ask.locator("h2")).to_contain_text("Edit a.py")
    expect(ask.locator(".line.added")).to_have_text("+ a = 2\n")
    expect(page.locator(".question")).to_contain_text("asks: Edit a.py")
    expect(page.locator("#working")).to_have_text("The agent waits for your answer.")
    look_at(page, "chat-question", pictures)
    # Who writes has keys for words.
    page.locator("#prompt").press("1")
    expect(page.locator("#prompt")).to_have_value("1")
    page.reload()
    expect(page.locator("#prompt")).to_have_value("1")
    expect(ask).to_be_visible()
    page.locator("#prompt").fill("")
    ask.focus()
    page.keyboard.press("1")
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn.locator(".speech.agent")).to_contain_text("the answer was <allow_once>")
    expect(turn.locator(".tool .line.removed")).to_contain_text("a = 1")
    expect(turn.locator(".question")).to_contain_text("allow_once")
    say(page, "edit")
    expect(ask).to_be_visible()
    page.locator("#cancel").click()
    ended(page)
    expect(page.locator("article.turn").last).to_contain_text("the answer was cancelled")


def test_an_exchange_within_a_turn_stands_apart(
    fancy: Talking, page: Page, pictures: Path | None
) -> None:
    fancy.visit(page)
    say(page, "review A *second* <b>opinion</b>")
    ended(page)
    turn = page.locator("article.turn").last
    nested = turn.locator(".nested")
    expect(nested).to_have_count(1)
    expect(nested.locator("> summary")).to_have_text("A *second* <b>opinion</b>")
    expect(nested.locator("> .speech")).to_contain_text(["Looks", "good."])
    expect(nested.locator("> .thought")).to_contain_text("Hm.")
    outside = turn.locator(".turn-inside > div > .speech.agent")
    expect(outside).to_contain_text(["I have it reviewed.", "So it is done."])
    look_at(page, "chat-nested", pictures, dark=True)


@pytest.mark.proves("no text of an agent")
def test_no_text_of_a_chat_is_obeyed(fancy: Talking, page: Page) -> None:
    fancy.visit(page)
    say(page, f"echo {EVIL}")
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn.locator(".speech.agent")).to_contain_text("<img src=x onerror")
    assert turn.locator("img, script, a").count() == 0
    say(page, "pictures")
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn.locator("img")).to_have_count(1)
    assert (turn.locator("img").get_attribute("src") or "").startswith("data:image/png;base64,")
    assert page.evaluate("window.bitten") is None


def test_options_and_pictures_reach_the_agent(fancy: Talking, page: Page) -> None:
    fancy.visit(page)
    page.locator("#settings select").select_option("Large")
    page.locator("#settings input[type=checkbox]").click()  # it may be drawn anew meanwhile
    fancy.until(
        lambda chat: (
            [each["currentValue"] for each in chat["sessions"][0]["options"]] == ["large", True]
        )
    )
    file = {"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(PICTURE)}
    page.locator("#file").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator("#pictures img")).to_have_count(1)
    say(page, "echo look")
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn.locator(".speech.you img")).to_have_count(1)
    expect(turn.locator(".speech.agent")).to_contain_text("text image: look")
    bad = {"name": "x.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}
    page.locator("#file").set_input_files(bad)  # type: ignore[arg-type]
    expect(page.locator("#problem")).to_contain_text("no PNG")


def test_sessions_are_opened_listed_and_loaded(demo: Talking, page: Page) -> None:
    demo.visit(page)
    first = page.locator("#session-name").inner_text()
    page.locator("#new-session").click()
    expect(page.locator("#session-name")).not_to_have_text(first)
    second = page.locator("#session-name").inner_text()
    expect(page.locator("article.turn")).to_have_count(0)
    say(page, "milk")
    ended(page)
    page.locator("#sessions-button").click()
    page.locator("#sessions button", has_text=first).click()
    expect(page.locator("#session-name")).to_have_text(first)
    expect(page.locator("#conversation")).not_to_contain_text("milk")
    demo.do("load", session=second)
    page.locator("#sessions-button").click()
    page.locator("#sessions button", has_text=second).click()
    before = page.locator("article[aria-label=before]")
    expect(before.locator(".speech.you").first).to_contain_text("milk")


def test_a_choice_counts_more_than_a_session_that_is_still_being_opened(
    demo: Talking, page: Page
) -> None:
    demo.visit(page)
    first = page.locator("#session-name").inner_text()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/api/chat/new", lambda route: late.append((route, route.fetch())))
    page.locator("#new-session").click()
    expect(page.locator("#session-name")).not_to_have_text(first)
    page.locator("#sessions-button").click()
    page.locator("#sessions button", has_text=first).click()
    expect(page.locator("#session-name")).to_have_text(first)
    while not late:
        page.wait_for_timeout(10)
    [(route, answer)] = late
    route.fulfill(response=answer)
    expect(page.locator("#new-session")).to_be_enabled()
    expect(page.locator("#session-name")).to_have_text(first)


def test_a_turn_goes_on_without_a_page_and_its_end_is_seen_by_all(
    demo: Talking, page: Page
) -> None:
    demo.visit(page)
    other = page.context.new_page()
    demo.visit(other)
    say(page, "/permission go on")
    expect(other.locator(".ask")).to_be_visible()
    page.goto("about:blank")
    other.locator(".ask button", has_text="Reject").first.click()
    demo.until(lambda chat: not chat["questions"])  # a page that is closed takes its requests back
    other.close()
    demo.until(idle)
    demo.visit(page)
    expect(page.locator("article.turn").last).to_contain_text("permission: reject-once")


def test_the_page_says_that_the_chain_or_conductor_has_gone(
    page: Page, pictures: Path | None
) -> None:
    with Talking(FANCY) as talking:
        talking.visit(page)
        say(page, "die")
        expect(page.locator("#notice")).to_contain_text("exited with code 3")
        expect(page.locator("article.turn").last).to_contain_text("I begin")
        expect(page.locator("#prompt")).to_be_disabled()
        look_at(page, "chat-ended", pictures)
        talking.process.send_signal(signal.SIGINT)
        assert talking.process.wait(DEADLINE) == 1
        expect(page.locator("#notice")).to_contain_text("conductor has gone")
        expect(page.locator("article.turn").last).to_contain_text("I begin")


def test_half_an_emoji_is_text_for_the_page(page: Page) -> None:
    actor = ROOT / "tests" / "e2e" / "actors" / "half_agent.py"
    with Talking(f"{sys.executable} {actor}") as talking:
        talking.visit(page)
        say(page, "hi \ud83d")
        ended(page)
        expect(page.locator("#session-name")).to_contain_text("half")
        expect(page.locator("article.turn").last.locator(".speech.agent")).to_contain_text("half")
        entries = page.locator("#sessions button", has_text="half")
        page.locator("#sessions-button").click()
        expect(entries).to_have_count(2)  # the agent's list comes a little later
        entries.last.click()
        before = page.locator("article.turn[aria-label=before]")
        expect(before).to_contain_text("half")
        page.locator("#sessions-button").click()
        entries.first.click()
        expect(before).to_be_hidden()
        page.reload()
        expect(page.locator("article.turn").last.locator(".speech.agent")).to_contain_text("half")
        expect(page.locator("#problem")).to_be_empty()


def test_without_the_secret_the_page_says_what_to_do(demo: Talking, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(demo.address.split("#")[0])
    expect(page.locator("#notice")).to_contain_text("open the whole address")
    page.close()
