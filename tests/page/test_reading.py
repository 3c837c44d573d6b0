"""Words in any direction, tables, links, the keyboard: what somebody sees who opens a page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from conductor.page import saved
from tests.page.looks import look_at
from tests.page.talking import FANCY, Talking
from tests.page.viewing import EVIL, Lines, Viewed

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_DEADLINE: Final = float(os.environ.get("PAGE_DEADLINE", "60")) * 1000
expect.set_options(timeout=_DEADLINE)

HEBREW: Final = "שלום עולם!"
TABLE: Final = f"""Before
| name | left \\| right | `n` |
|:-----|:-----:|---:|
| **a** | {EVIL.splitlines()[0]} | 1 |
| ragged
| {HEBREW} | b | 3 | one too many |

# {HEBREW}

- {HEBREW}
- item

**{HEBREW}**

```
# {HEBREW}
```

| שם | value |
|--|--|
| א | b |

no | table
a | b
"""
DIRECTION: Final = "one => getComputedStyle(one).direction"


@pytest.fixture(scope="module", autouse=True)
def fancy() -> Iterator[Talking]:
    """A chat, begun before the browser."""
    with Talking(FANCY) as talking:
        yield talking


def _directions(page: Page, *texts: tuple[str, str]) -> list[str]:
    """The direction of the elements that hold texts."""
    return [
        page.locator(where).filter(has_text=text).last.evaluate(DIRECTION) for where, text in texts
    ]


def test_tables_are_drawn_and_words_have_their_own_direction(
    page: Page, tmp_path: Path, pictures: Path | None
) -> None:
    lines = Lines(tmp_path / "words.jsons")
    lines.turn(f"{HEBREW} one", TABLE)
    with Viewed(lines.path) as view:
        view.visit(page, "turn=1")
        tables = page.locator(".turn table")
        expect(tables).to_have_count(2)
        heads = tables.first.locator("th")
        expect(heads).to_have_text(["name", "left | right", "n"])
        aligned = "all => all.map((one) => one.style.textAlign)"
        assert heads.evaluate_all(aligned) == ["left", "center", "right"]
        rows = tables.first.locator("tbody tr")
        expect(rows.nth(0).locator("td strong")).to_have_text("a")
        expect(rows.nth(0)).to_contain_text("<img src=x onerror")
        counts = "all => all.map((one) => one.cells.length)"
        assert rows.evaluate_all(counts) == [3, 1, 3]
        assert tables.locator("img, script").count() == 0
        assert page.evaluate("window.bitten") is None
        expect(page.locator(".turn .markdown p").last).to_contain_text("no | table\na | b")
        assert (
            _directions(
                page,
                (".speech.you p", "one"),
                (".markdown .heading", HEBREW),
                (".markdown li", HEBREW),
                (".markdown p:has(strong)", HEBREW),
                ("td", HEBREW),
                ("table", "שם"),
                (".prompt-words", "one"),
            )
            == ["rtl"] * 7
        )
        assert (
            _directions(
                page,
                (".markdown li", "item"),
                ("table", "name"),
                (".markdown pre", HEBREW),
                (".markdown pre code", HEBREW),
                ("td code, th code", "n"),
                (".who", "You"),
            )
            == ["ltr"] * 6
        )
        look_at(page, "words", pictures, dark=True)
        page.locator(".event").first.click()
        assert page.locator(".pane pre .line").first.evaluate(DIRECTION) == "ltr"
        assert page.locator(".pane [dir=auto] .line, .pane .line[dir=auto]").count() == 0


def test_a_chat_is_ready_to_be_written_in_any_direction(fancy: Talking, page: Page) -> None:
    page.goto(fancy.address)
    expect(page.locator("#prompt")).to_be_focused()
    page.keyboard.type(f"review {HEBREW}")  # maybe before there is a session
    expect(page.locator("#session-name")).not_to_be_empty()
    expect(page.locator("#prompt")).to_have_value(f"review {HEBREW}")
    page.locator("#prompt").fill(HEBREW)
    assert page.locator("#prompt").evaluate(DIRECTION) == "rtl"
    for count, text in enumerate((f"review {HEBREW}", *[f"line {'x ' * 700}"] * 4), 1):
        page.locator("#prompt").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator("article.turn[data-turn]")).to_have_count(count)
        expect(page.locator("#send")).to_be_visible()
    assert page.locator(".nested > summary").first.evaluate(DIRECTION) == "rtl"
    for number in (2, 1, 4):  # as a link that is pasted, and as one that is opened
        page.evaluate("number => { location.hash = `turn=${number}`; }", number)
        expect(page.locator(f"[data-turn='{number}'] .turn-head")).to_be_in_viewport()
    page.goto("about:blank")
    page.goto(f"{fancy.address}&turn=2")
    expect(page.locator("[data-turn='2'] .turn-head")).to_be_in_viewport()
    expect(page.locator("[data-turn='2'] .speech.agent")).to_be_visible()
    expect(page.locator("[data-turn='2'] .turn-head")).to_be_in_viewport()


def test_a_link_and_an_option_scroll_to_their_turn(page: Page, tmp_path: Path) -> None:
    lines = Lines(tmp_path / "many.jsons")
    for number in range(1, 61):
        lines.turn(f"question {number}", *["an answer\n\n"] * (number % 7 * 9))
    with Viewed(lines.path, "--turn", "40") as view:
        head = page.locator(".turn[aria-current=true] > .turn-head")
        view.visit(page)
        for number in (40, 60, 3, 59, 1):
            page.evaluate("number => { location.hash = `turn=${number}`; }", number)
            expect(head).to_contain_text(f"Turn {number} ")
            inside = page.locator(f".turn[data-key='{number}'] .turn-inside[data-whole]")
            expect(inside).to_be_visible()
            expect(head).to_be_in_viewport()
        page.go_back()
        expect(head).to_contain_text("Turn 59 ")
        expect(head).to_be_in_viewport()
        page.locator("#conversation").hover()
        page.mouse.wheel(0, -200000)  # who scrolls stays where he is
        expect(page.locator(".turn[data-key='1'] .turn-head")).to_be_in_viewport()


def test_no_key_throws_where_there_is_nothing(
    fancy: Talking, browser: Browser, page: Page, tmp_path: Path
) -> None:
    empty = Lines(tmp_path / "empty.jsons")
    full = Lines(tmp_path / "full.jsons", "redact")
    full.turn("one", "first")
    pages = [tmp_path / f"{one.path.stem}.html" for one in (empty, full)]
    for one, file in zip((empty, full), pages, strict=True):
        saved.save(str(one.path), str(file))
    with Viewed(empty.path) as nothing, Viewed(full.path) as view:
        secretless = [each.address.split("#")[0] for each in (fancy, view)]
        other = browser.new_page()
        other.set_default_timeout(_DEADLINE)
        wrong: list[str] = []
        other.on("pageerror", lambda error: wrong.append(str(error)))
        for address in (
            nothing.address,
            view.address,
            f"{view.address}&turn=99",
            f"{view.address}&filter=nowhere",
            f"{view.address}&component=no&event=77",
            fancy.address,
            f"{fancy.address}&turn=99",
            *secretless,
            *(file.as_uri() for file in pages),
            f"{pages[1].as_uri()}#turn=99&component=no&event=77",
        ):
            other.goto("about:blank")
            other.evaluate("() => { try { sessionStorage.clear(); } catch { } }")
            other.goto(address)
            _press_all(other)
            other.set_viewport_size({"width": 400, "height": 800})
            for tab in ("turn", "conversation"):
                other.locator(f"#tab-{tab}").click()
                _press_all(other)
            other.set_viewport_size({"width": 1280, "height": 800})
        other.close()
        assert wrong == []


def _press_all(page: Page) -> None:
    page.locator("h1").click()  # no field has the keyboard
    for key in "jk][d.ap/":
        page.evaluate("document.activeElement?.blur()")
        page.keyboard.press(key)
    page.evaluate("document.activeElement?.blur()")
    page.keyboard.press("?")
    page.evaluate("document.activeElement?.blur()")
    page.keyboard.press("?")
    page.keyboard.press("j")
    page.keyboard.press("Escape")
