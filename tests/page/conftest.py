"""A Chromium for the tests of the page: one for each file, since Playwright holds the event loop of
its thread as long as it runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_path() -> str | None:
    """The path of a Chromium, as `scripts/browser` prints it; None: there is none."""
    wanted = os.environ.get("PAGE_BROWSER")
    return wanted or next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    path = browser_path()
    if path is None:
        assert not os.environ.get("CI"), "no Chromium is found: see scripts/browser"
        pytest.skip("no Chromium is found: see scripts/browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root Chromium starts without its own sandbox only. It visits these tests alone.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Page]:
    """A window of the browser."""
    context = browser.new_context()
    made = context.new_page()
    made.set_default_timeout(float(os.environ.get("PAGE_DEADLINE", "60")) * 1000)
    yield made
    context.close()


@pytest.fixture
def page(window: Page) -> Iterator[Page]:
    """The window, as new. No script may fail in it, and nothing may break its policy; what a
    component shows in a frame may try."""
    window.goto("about:blank")
    window.set_viewport_size({"width": 1280, "height": 800})
    wrong: list[str] = []

    def failed(error: object) -> None:
        wrong.append(str(error))

    def logged(message: ConsoleMessage) -> None:
        if "Policy" in message.text and "/frame/" not in message.location.get("url", ""):
            wrong.append(message.text)

    window.on("pageerror", failed)
    window.on("console", logged)
    yield window
    window.remove_listener("pageerror", failed)
    window.remove_listener("console", logged)
    assert wrong == []


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where screenshots go, for people to look at; None: nobody wants any."""
    folder = os.environ.get("PAGE_PICTURES")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)
