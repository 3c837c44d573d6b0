"""The page of a trace in a real browser: what a person reads there, and what it does not obey."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.harness.process.command import conductor
from tests.page.viewing import EVIL, Lines, Viewed
from tests.record.turns import recorded

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

WIDTHS: Final = (800, 1280, 1680)
_DEADLINE: Final = float(os.environ.get("PAGE_DEADLINE", "60")) * 1000
expect.set_options(timeout=_DEADLINE)


@pytest.fixture(scope="module")
def trace() -> Path:
    """The trace of a real chain. It is made before the browser starts."""
    return recorded.trace()


@pytest.fixture(scope="module")
def viewed(trace: Path) -> Iterator[Viewed]:
    """Its page."""
    with Viewed(trace) as view:
        yield view


@pytest.fixture
def page(viewed: Viewed, browser: Browser) -> Iterator[Page]:
    """A window of a browser. No script may fail in it, and nothing may break its policy."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    made = context.new_page()
    made.set_default_timeout(_DEADLINE)
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda said: wrong.append(said.text) if "Policy" in said.text else None)
    yield made
    context.close()
    assert wrong == []


def test_a_turn_answers_the_questions_of_a_person(viewed: Viewed, page: Page) -> None:
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
    rows = page.locator(".time-row .name")
    expect(rows).to_have_text(["datetime", "redact", "agent"])
    assert page.locator("[data-longest=true]").count() == 1
    # What did it cost?
    expect(page.locator("#turn-view h2")).to_contain_text("tokens in")
    viewed.visit(page, "turn=7")
    expect(page.locator("#turn-view h2")).to_contain_text("0.25")


def test_what_was_refused_stands_in_the_conversation(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "refused.jsons", "sneaky")
    lines.turn("be quick", "yes", ends=False)
    lines.verdict("sneaky", "originate", "it may not send session/update")
    with Viewed(lines.path) as view:
        view.visit(page)
        expect(page.locator(".turn .refused")).to_contain_text("it may not send session/update")
        expect(page.locator("#turn-view h2")).to_contain_text("1 refused")
        expect(page.locator(".card[data-component=sneaky] .refused")).to_contain_text("originate")


def test_a_message_is_shown_before_and_after_a_component(viewed: Viewed, page: Page) -> None:
    viewed.visit(page, "turn=1")
    page.locator(".event[data-change=changed]", has_text="session/prompt").last.click()
    panes = page.locator(".pane")
    expect(panes).to_have_count(2)
    expect(panes.nth(0).locator(".removed")).to_contain_text("what day is it")
    expect(panes.nth(1).locator(".added mark")).to_contain_text("github-token")
    assert "event=" in page.url
    # What is shown can be copied.
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


def test_another_browser_without_the_secret_says_what_to_do(viewed: Viewed, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{viewed.port}/#turn=1")
    expect(page.locator("#conversation")).to_contain_text("open the whole address again")
    assert "current-date" not in page.content()


def test_everything_is_reached_by_keys(viewed: Viewed, page: Page) -> None:
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
    page.keyboard.press("Escape")
    expect(page.locator("#filter-note")).to_be_empty()
    page.locator(".sequence-view").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".event[aria-selected=true]")).to_have_count(1)
    expect(page.locator(".pane").first).to_be_visible()


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


def test_a_filter_that_is_wrong_says_where(viewed: Viewed, page: Page) -> None:
    viewed.visit(page, "filter=~component")
    expect(page.locator("#filter-note")).to_contain_text("needs a NAME")
    expect(page.locator("#filter")).to_have_attribute("aria-invalid", "true")


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
    saved = tmp_path / "saved.html"
    done = conductor("trace", "view", str(lines.path), "--save", str(saved))
    assert done.code == 0, done.err
    page.goto(saved.as_uri())
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


def test_a_saved_page_opens_from_a_file(viewed: Viewed, page: Page, tmp_path: Path) -> None:
    saved = tmp_path / "saved.html"
    done = conductor("trace", "view", str(recorded.trace()), "--save", str(saved))
    assert done.code == 0, done.err
    page.context.set_offline(True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{saved.as_uri()}#turn=3&filter=~mcp")
    expect(page.locator(".card[data-component=tools-demo]")).to_be_visible()
    expect(page.locator("#filter-note")).to_contain_text("in 1 turn")
    page.locator(".event").first.click()
    expect(page.locator(".pane").first).to_contain_text("{")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_a_long_trace_is_asked_for_by_parts(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "long.jsons")
    for number in range(600):
        lines.turn(f"question {number}", *["some words of an answer; "] * 22)
    events = 600 * 24
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - it marks it
    with Viewed(lines.path) as view:
        view.visit(page)
        expect(page.locator("#state")).to_contain_text(f"{events:,} events")
        page.locator(".section .small").click()
        expect(page.locator(".section .note")).to_contain_text(f"{events:,}")
        scroll = "(one, part) => { one.scrollTop = one.scrollHeight * part; }"
        for part in (0.3, 0.6, 1):
            for pane in ("#conversation", ".sequence-view"):
                page.locator(pane).evaluate(scroll, part)
            expect(page.locator(".event[data-kind]").first).to_be_visible()
        expect(page.locator(".turn[data-key='600'] .said").first).to_be_visible()
        assert page.locator(".turn").count() < 60
        assert page.locator(".event").count() < 60
        rows = [r.url for r in asked if "/api/rows" in r.url]
        assert 0 < len(rows) < 14
        assert all("limit=400" in url or "limit=0" in url for url in rows)
        assert len([r for r in asked if "/api/turn/" in r.url]) < 80


def test_a_trace_is_shown_as_it_grows_and_says_so_when_another_comes(
    page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "later.jsons"
    with Viewed(path, "--live") as view:
        page.goto(view.address)
        expect(page.locator("#notice")).to_contain_text("This file is not there yet")
        lines = Lines(path)
        lines.turn("one", "first answer")
        expect(page.locator("#turn-view h2")).to_contain_text("Turn 1")
        expect(page.locator("#state")).to_contain_text("live")
        expect(page.locator("#notice")).to_be_empty()
        lines.turn("two", "second answer", ends=False)
        expect(page.locator("#turn-view h2")).to_contain_text("Turn 2 not ended")
        # Who has chosen a turn keeps it.
        page.keyboard.press("k")
        lines.turn("three", "third answer")
        expect(page.locator("#conversation")).to_contain_text("third answer")
        expect(page.locator("#turn-view h2")).to_contain_text("Turn 1")
        page.keyboard.press(".")
        expect(page.locator("#turn-view h2")).to_contain_text("Turn 3")
        path.rename(tmp_path / "old.jsons")
        Lines(path).turn("anew", "of another chain")
        expect(page.locator("#notice")).to_contain_text("The file was replaced")
        expect(page.locator("#conversation")).to_contain_text("of another chain")
        expect(page.locator("#conversation")).not_to_contain_text("first answer")


def test_a_page_keeps_what_it_has_when_conductor_has_gone(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "trace.jsons")
    lines.turn("one", "an answer that stays")
    with Viewed(lines.path, "--live") as view:
        view.visit(page)
        view.interrupt()
        assert view.end().code == 0
        expect(page.locator("#notice")).to_contain_text("conductor has gone")
        expect(page.locator("#conversation")).to_contain_text("an answer that stays")
        expect(page.locator("#state")).to_contain_text("gone")


STATES: Final = ("whole", "empty", "loading", "cut", "too-large", "disconnected")


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_clear_in_all_looks_and_open_to_all(
    state: str, viewed: Viewed, page: Page, tmp_path: Path, pictures: Path | None
) -> None:
    """Looks: both schemes, three widths. `PAGE_PICTURES` names a folder for the screenshots."""
    axe: Any = importlib.import_module("axe_playwright_python.sync_playwright").Axe()

    with _in_state(state, viewed, page, tmp_path) as wanted:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                expect(page.locator("body")).to_contain_text(wanted)
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                if pictures is not None:
                    page.screenshot(path=pictures / f"{state}-{scheme}-{width}.png")
            # Of the second scheme only the colours are new.
            only = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
            found: Any = axe.run(page, options=only)
            wrong = [
                (each["id"], node["target"], node["failureSummary"])
                for each in found.response["violations"]
                for node in each["nodes"]
            ]
            assert wrong == []


class _in_state:  # noqa: N801 - reads as a part of the sentence
    """The page in one of the states that it can be in; what must be read there."""

    def __init__(self, state: str, viewed: Viewed, page: Page, folder: Path) -> None:
        self._state, self._viewed, self._page, self._folder = state, viewed, page, folder
        self._own: Viewed | None = None

    def __enter__(self) -> str:
        return getattr(self, f"_{self._state.replace('-', '_')}")()  # type: ignore[no-any-return]

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.__exit__()

    def _open(self, path: Path, *options: str) -> Viewed:
        self._own = Viewed(path, *options)
        return self._own

    def _whole(self) -> str:
        self._viewed.visit(self._page, "turn=1&event=20")
        self._page.locator(".pane").first.wait_for()
        return "What the agent got"

    def _empty(self) -> str:
        path = self._folder / "empty.jsons"
        Lines(path)
        self._page.goto(self._open(path).address)
        return "This trace is empty"

    def _loading(self) -> str:
        self._page.goto(self._open(self._folder / "later.jsons", "--live").address)
        return "This file is not there yet"

    def _cut(self) -> str:
        lines = Lines(self._folder / "cut.jsons")
        lines.turn("Why does the login test fail?", "The token has **expired**.")
        with lines.path.open("a", encoding="utf-8") as file:
            file.write('no event\n{"type":"request","ts":3')
        self._open(lines.path).visit(self._page)
        return "The last line is cut off"

    def _too_large(self) -> str:
        lines = Lines(self._folder / "large.jsons")
        lines.turn("word " * 1_000_000, "That is long.")
        self._open(lines.path).visit(self._page, "event=1")
        return "4,980,000 more characters"

    def _disconnected(self) -> str:
        lines = Lines(self._folder / "gone.jsons")
        lines.turn("Why does the login test fail?", "The token has **expired**.")
        view = self._open(lines.path, "--live")
        view.visit(self._page)
        view.interrupt()
        view.end()
        return "conductor has gone"
