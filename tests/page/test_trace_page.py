"""The page of a trace in a real browser: the text for a person, and text that the page must not
obey."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from conductor.page import saved
from tests.page.looks import look_at
from tests.page.viewing import EVIL, Lines, Viewed
from tests.record.turns import recorded

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

_DEADLINE: Final = float(os.environ.get("PAGE_DEADLINE", "60")) * 1000
expect.set_options(timeout=_DEADLINE)


@pytest.fixture(scope="module", autouse=True)
def viewed() -> Iterator[Viewed]:
    """The page of the trace of a real chain, which is made before the browser starts."""
    with Viewed(recorded.trace()) as view:
        view.whole()
        yield view


def test_a_turn_answers_the_questions_of_a_person(
    viewed: Viewed, page: Page, pictures: Path | None
) -> None:
    viewed.visit(page, "turn=1")
    # What did I say, and what did the agent get?
    words = page.locator(".prompt-words")
    expect(words.locator("ins").first).to_contain_text("<current-date")
    expect(words.locator("ins").last).to_contain_text("github-token")
    # Who changed it?
    expect(page.locator(".card[data-component=datetime] .says")).to_contain_text("added 1 block")
    expect(page.locator(".card[data-component=redact] .says")).to_contain_text("changed 1 secret")
    expect(page.locator(".turn .mark").first).to_contain_text("datetime added 1 block")
    # Where did the time go?
    rows = page.locator("button.time-row .name")
    expect(rows).to_have_text(["datetime", "redact", "agent"])
    assert page.locator("[data-longest=true]").count() == 1
    # What did it cost?
    expect(page.locator("#turn-view h2")).to_contain_text("tokens in")
    page.locator(".event").nth(5).click()
    page.locator(".pane").first.wait_for()
    look_at(page, "whole", pictures, dark=True)
    viewed.visit(page, "turn=7")
    expect(page.locator("#turn-view h2")).to_contain_text("0.25")


def test_a_message_is_shown_before_and_after_a_component(viewed: Viewed, page: Page) -> None:
    viewed.visit(page, "turn=1")
    page.locator(".event[data-change=changed]", has_text="session/prompt").last.click()
    panes = page.locator(".pane")
    expect(panes).to_have_count(2)
    expect(panes.nth(0).locator(".removed")).to_contain_text("what day is it")
    expect(panes.nth(1).locator(".added mark")).to_contain_text("github-token")
    assert "event=" in page.url
    # The shown text can be copied.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panes.nth(0).locator("button").click()
    expect(panes.nth(0).locator("button")).to_have_text("copied")
    assert '"sessionId"' in page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("d")
    expect(panes.nth(0).locator("h4")).to_have_text("before: client → datetime")
    expect(panes.nth(1).locator(".added").first).to_contain_text("current-date")


def test_the_address_is_a_link_without_the_secret(viewed: Viewed, page: Page) -> None:
    viewed.visit(page, "turn=3&component=tools-demo")
    assert "secret" not in page.url
    expect(page.locator("#turn-view h2")).to_contain_text("Turn 3")
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator(".component[aria-pressed=true]")).to_have_text("tools-demo")
    page.locator(".turn-head", has_text="Turn 4").click()
    expect(page.locator("#turn-view h2")).to_contain_text("Turn 4")
    page.go_back()
    expect(page.locator("#turn-view h2")).to_contain_text("Turn 3")
    page.reload()
    expect(page.locator("#turn-view h2")).to_contain_text("Turn 3")
    held = page.evaluate(
        "[document.body.innerHTML, JSON.stringify(history.state), document.referrer]"
    )
    assert viewed.secret not in "".join(map(str, held))


def test_another_browser_without_the_secret_says_what_to_do(
    viewed: Viewed, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{viewed.port}/#turn=1")
    expect(page.locator("#conversation")).to_contain_text("open the whole address again")
    assert "current-date" not in page.content()
    page.close()


@pytest.mark.parametrize("is_saved", [False, True], ids=["served", "saved"])
def test_everything_is_reached_by_keys(
    viewed: Viewed, page: Page, tmp_path: Path, is_saved: bool
) -> None:
    if is_saved:
        file = tmp_path / "saved.html"
        saved.save(str(recorded.trace()), str(file))
        page.goto(file.as_uri())
        page.locator(".turn .speech").first.wait_for()
    else:
        viewed.visit(page)
    title = page.locator("#turn-view h2")
    for key, wanted in (("j", "Turn 2"), ("j", "Turn 3"), ("k", "Turn 2"), (".", "Turn 8")):
        page.keyboard.press(key)
        expect(title).to_contain_text(wanted)
    for key, wanted in (("]", "datetime"), ("]", "redact"), ("[", "datetime")):
        page.keyboard.press(key)
        expect(page.locator(".component[aria-pressed=true]")).to_have_text(wanted)
    page.keyboard.press("[")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("~mcp")
    expect(page.locator("#filter-note")).to_contain_text("in 1 turn")
    expect(page.locator(".turn")).to_have_count(1)
    page.locator("#filter").fill("~component")
    expect(page.locator("#filter-note")).to_contain_text("needs a NAME")
    expect(page.locator("#filter")).to_have_attribute("aria-invalid", "true")
    page.locator("#filter").fill("~chnaged")
    said = "there is no term `~chnaged`" if is_saved else "did you mean `~changed`?"
    expect(page.locator("#filter-note")).to_contain_text(said)
    expect(page.locator(".turn")).to_have_count(1)  # the last filter that can be read counts
    page.keyboard.press("Escape")
    expect(page.locator("#filter-note")).to_be_empty()
    expect(page.locator(".turn")).not_to_have_count(1)
    expect(page.locator(".event[data-kind]").first).to_be_visible()
    page.locator(".sequence-view").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".event[aria-selected=true]")).to_have_count(1)
    expect(page.locator(".pane").first).to_be_visible()
    page.keyboard.press("d")
    expect(page.locator(".pane h4").first).to_contain_text("before: ")
    page.set_viewport_size({"width": 800, "height": 800})
    page.locator("#tab-conversation").press("ArrowRight")
    expect(page.locator("#tab-turn")).to_be_focused()
    expect(page.locator("#turn-view")).to_be_visible()
    expect(page.locator("#conversation")).not_to_be_visible()


def test_tab_goes_through_all_and_the_focus_is_seen(viewed: Viewed, page: Page) -> None:
    viewed.visit(page)
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "(() => { const one = document.activeElement;"
                " const outline = getComputedStyle(one).outlineStyle;"
                " return `${one.id || one.className || one.tagName} ${outline}`; })()"
            )
        )
    for wanted in ("skip", "component", "filter", "turn-head", "time-row", "link", "sequence-view"):
        assert any(each.startswith(wanted) for each in seen), (wanted, seen)
    assert not [each for each in seen if each.endswith(" none") and not each.startswith("BODY")]


def test_both_readers_of_the_filter_choose_the_same(viewed: Viewed, page: Page) -> None:
    """The one of the page reads a saved trace, where there is no server."""
    filters = [
        "~changed", "~component redact & !~method session/update", "~mcp | ~error", "~slow 5ms",
        "~from re* ~type request", "~turn 3 (tools | ~changed)", '"what day"', "~session demo-2",
        "~to agent", "!~turn 1", "~text onerror",
    ]  # fmt: skip
    viewed.visit(page)
    page.goto(page.url)
    script = """
    async ([filters, rows, lines]) => {
      const { parse } = await import("/filter.js");
      const has = (word, n) => lines[n].toLowerCase().includes(word.toLowerCase());
      const chosen = (text) => rows.filter((row) => parse(text).matches(row, has));
      return filters.map((text) => chosen(text).map((row) => row[0]));
    }
    """
    _, whole, _ = viewed.ask("/api/rows?limit=2000")
    lines = recorded.trace().read_text(encoding="utf-8").splitlines()
    found = page.evaluate(script, [filters, whole["rows"], lines])
    for text, numbers in zip(filters, found, strict=True):
        from urllib.parse import quote

        _, answer, _ = viewed.ask(f"/api/rows?limit=2000&filter={quote(text)}")
        assert [row[0] for row in answer["rows"]] == numbers, text
        assert numbers, text


def test_nothing_of_a_trace_is_obeyed(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "evil.jsons", "<b onclick=alert(1)>x</b>")
    lines.turn(EVIL, f"{EVIL}\n\n[site](https://example.org/) [data](data:text/html,x)")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with Viewed(lines.path) as view:
        view.visit(page, "event=1")
        expect(page.locator(".pane")).to_contain_text("onerror")
        _is_harmless(page)
        assert {url.split("/")[2] for url in asked if url.startswith("http")} == {
            f"127.0.0.1:{view.port}"
        }
    file = tmp_path / "saved.html"
    saved.save(str(lines.path), str(file))
    page.goto(file.as_uri())
    page.locator(".card").first.wait_for()
    _is_harmless(page)


def _is_harmless(page: Page) -> None:
    text = page.locator(".turn").last.inner_text()
    assert "<img src=x onerror=window.bitten=1>" in text
    assert "\\u{1b}[31m" in text
    assert "\\u{202e}evil" in text
    assert page.evaluate("window.bitten") is None
    links = page.eval_on_selector_all("main a", "all => all.map((one) => one.href)")
    assert set(links) <= {"https://example.org/"}
    assert page.locator("main img, main script, main iframe").count() == 0


def test_a_saved_page_opens_from_a_file(page: Page, tmp_path: Path, pictures: Path | None) -> None:
    file = tmp_path / "saved.html"
    saved.save(str(recorded.trace()), str(file))
    asked: list[str] = []

    def ask(request: Request) -> None:
        asked.append(request.url)

    page.on("request", ask)
    page.goto(f"{file.as_uri()}#turn=3&filter=~mcp")
    expect(page.locator(".card[data-component=tools-demo]")).to_be_visible()
    expect(page.locator("#filter-note")).to_contain_text("in 1 turn")
    page.locator(".event").first.click()
    expect(page.locator(".pane").first).to_contain_text("{")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.remove_listener("request", ask)
    lines = Lines(tmp_path / "empty.jsons", "redact")
    saved.save(str(lines.path), str(file))
    page.goto("about:blank")
    page.goto(file.as_uri())
    expect(page.locator("#conversation")).to_contain_text("This trace is empty")
    expect(page.locator("#chain .component")).to_have_text(["redact", "agent"])
    look_at(page, "empty", pictures)


def test_a_long_trace_is_asked_for_by_parts(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "long.jsons")
    for number in range(600):
        lines.turn(f"question {number}", *["some words of an answer; "] * 22)
    events = 600 * 24
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - it marks it
    with Viewed(lines.path) as view:
        view.whole()  # while it is read, the page asks again and again how much there is
        view.visit(page)
        expect(page.locator("#state")).to_contain_text(f"{events:,} events")
        page.locator(".section .small").click()
        expect(page.locator(".section .note")).to_contain_text(f"{events:,}")
        scroll = "(one, part) => { one.scrollTop = one.scrollHeight * part; }"
        for part in (0.3, 0.6, 1):
            for pane in ("#conversation", ".sequence-view"):
                page.locator(pane).evaluate(scroll, part)
            expect(page.locator(".event[data-kind]").first).to_be_visible()
        expect(page.locator(".turn[data-key='600'] .speech").first).to_be_visible()
        assert page.locator(".turn").count() < 60
        assert page.locator(".event").count() < 60
        rows = [r.url for r in asked if "/api/rows" in r.url]
        assert 0 < len(rows) < 14
        assert all("limit=400" in url or "limit=0" in url for url in rows)
        assert len([r for r in asked if "/api/turn/" in r.url]) < 80


def test_a_trace_is_shown_as_it_grows_in_each_of_its_states(
    page: Page, tmp_path: Path, pictures: Path | None
) -> None:
    path = tmp_path / "later.jsons"
    title, notice = page.locator("#turn-view h2"), page.locator("#notice")
    with Viewed(path, "--live") as view:
        page.goto(view.address)
        expect(notice).to_contain_text("This file is not there yet")
        look_at(page, "loading", pictures)
        lines = Lines(path, "sneaky")
        lines.turn("one", "first answer")
        expect(title).to_contain_text("Turn 1")
        expect(page.locator("#state")).to_contain_text("live")
        expect(notice).to_be_empty()
        # No tab holds one of the few connections of a browser: news come by requests that end.
        with page.expect_event("requestfinished", lambda asked: "/api/head" in asked.url):
            pass
        lines.turn("two", "second answer", ends=False)
        lines.verdict("sneaky", "originate", "it may not send session/update")
        expect(title).to_contain_text("Turn 2 not ended")
        expect(title).to_contain_text("1 refused")
        expect(page.locator(".turn .refused")).to_contain_text("it may not send session/update")
        expect(page.locator(".card[data-component=sneaky] .refused")).to_contain_text("originate")
        # Who has chosen a turn keeps it.
        page.keyboard.press("k")
        lines.fails("three", "the agent died: " + "x" * 300)
        expect(page.locator("#conversation")).to_contain_text("the agent died")
        expect(title).to_contain_text("Turn 1")
        page.keyboard.press(".")
        expect(title).to_have_text(re.compile(r"Turn 3 .* failed$"))
        look_at(page, "failed", pictures)
        _is_within(page, ".event .label", ".sequence-view")
        path.rename(tmp_path / "old.jsons")
        lines = Lines(path)
        lines.turn("word " * 1_000_000, "of another chain")
        with path.open("a", encoding="utf-8") as file:
            file.write("no event\n")
        expect(notice).to_contain_text("The file was replaced")
        expect(notice).to_contain_text("Line 5 is no event")
        expect(page.locator("#conversation")).to_contain_text("of another chain")
        expect(page.locator("#conversation")).not_to_contain_text("first answer")
        page.locator(".event").first.click()
        expect(page.locator(".pane")).to_contain_text("4,990,000 more characters")
        look_at(page, "too-large", pictures)
        page.locator("#filter").fill("~type request")
        expect(page.locator("#filter-note")).to_contain_text("in 1 turn")
        expect(page.locator(".section .note")).to_contain_text("that the filter chooses")
        view.interrupt()
        assert view.end().code == 0
        expect(notice).to_contain_text("conductor has gone")
        expect(page.locator("#conversation")).to_contain_text("of another chain")
        expect(page.locator("#state")).to_contain_text("gone")
        page.keyboard.press("Escape")
        expect(page.locator(".section .note")).to_contain_text("Conductor has gone")
        expect(page.locator(".event[data-kind]").first).to_be_visible()


def _is_within(page: Page, inner: str, outer: str) -> None:
    """No element is wider than the one that it is in."""
    box = page.locator(outer).bounding_box()
    assert box is not None
    for one in page.locator(inner).all():
        its = one.bounding_box()
        assert its is not None
        assert box["x"] <= its["x"]
        assert its["x"] + its["width"] <= box["x"] + box["width"]
