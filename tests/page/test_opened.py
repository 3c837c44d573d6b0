"""How the browser comes to a page: everybody on the machine reads its command line."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page.opening import Noting
from tests.page.talking import DEMO, Talking
from tests.page.viewing import Viewed
from tests.record.turns import recorded

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.mark.proves("no secret of a page is in a command")
@pytest.mark.parametrize(("command", "end"), [("view", signal.SIGTERM), ("chat", signal.SIGINT)])
def test_no_secret_is_in_the_command_line_of_the_browser(
    tmp_path: Path, command: str, end: signal.Signals
) -> None:
    browser = Noting(tmp_path)
    started: Viewed | Talking
    if command == "view":
        started = Viewed(recorded.trace(), opens=True, env=browser.env)
    else:
        started = Talking(DEMO, opens=True, env=browser.env)
    with started:
        seen = browser.seen()
        assert started.secret not in str(seen["argv"])
        assert started.secret in seen["text"]
        assert seen["modes"] == ["0o600", "0o700"]
        assert Path(seen["path"]).exists()
        started.interrupt(end)
        assert started.end().code == 0
        assert not Path(seen["path"]).parent.exists()


def test_what_the_browser_is_opened_with_leads_to_the_page(tmp_path: Path, page: Page) -> None:
    pytest.importorskip("playwright")
    browser = Noting(tmp_path)
    with Viewed(recorded.trace(), "--turn", "1", opens=True, env=browser.env) as viewed:
        page.goto(f"file://{browser.seen()['path']}")
        page.wait_for_url(viewed.address)
        page.locator(".turn .speech").first.wait_for()


@pytest.mark.proves("no secret of a page is in a command")
def test_other_sites_lead_windows_to_the_page_alone() -> None:
    led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    with Viewed(recorded.trace()) as viewed:
        for path, status in (("/", 200), ("/trace.js", 403), ("/api/head", 403)):
            assert viewed.ask(path, **led, Sec_Fetch_Dest="document")[0] == status
        assert viewed.ask("/", **led, Sec_Fetch_Dest="iframe")[0] == 403
