"""How a page looks: its widths and colours, and what axe has to say of it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

NARROW: Final = 400
WIDTHS: Final = (NARROW, 800, 1280, 1680)


def look_at(page: Page, name: str, folder: Path | None, *, dark: bool = False) -> None:
    """Looks at a page in all widths; in a `folder`, if there is one, pictures stay for people.
    `dark`: axe looks at its dark colours, too."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if width == NARROW:
            _look_at_tabs(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)
        for scheme in ("light", "dark") if folder is not None else ():
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.screenshot(path=f"{folder}/{name}-{scheme}-{width}.png")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 800})
    assert _findings(page, {}) == []
    if dark:  # only the colours are new
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert _findings(page, {"runOnly": ["color-contrast"]}) == []
        page.emulate_media(color_scheme="light", reduced_motion="reduce")


def _look_at_tabs(page: Page) -> None:
    """Axe looks at each pane of a narrow window, with the keyboard where it was."""
    for tab in page.locator(".tabs [role=tab]").all()[::-1]:
        page.evaluate("(one) => one.click()", tab.element_handle())
        assert _findings(page, {}) == []


def _findings(page: Page, options: dict[str, Any]) -> list[Any]:
    axe: Any = importlib.import_module("axe_playwright_python.sync_playwright").Axe()
    return [
        (each["id"], node["target"], node["failureSummary"])
        for each in axe.run(page, options=options).response["violations"]
        for node in each["nodes"]
    ]
