"""``python -m benchmarks.page``: see ../README.md."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.page import traces

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CASES: Final = {
    "200,000 events": {"turns": 1000, "chunks": 97},
    "one turn of 100,000 chunks": {"turns": 1, "chunks": 100_000},
    "5,000 turns": {"turns": 5000, "chunks": 5},
    "a prompt of 20 MB": {"turns": 3, "chunks": 20, "prompt": "the log: " + "x y " * 5_000_000},
}  # fmt: skip
_SCROLL: Final = """
async (selector) => {
  const pane = document.querySelector(selector);
  const frames = [];
  let last = performance.now();
  const end = last + 3000;
  while (last < end) {
    pane.scrollTop += 90;
    if (pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 1) pane.scrollTop = 0;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  frames.sort((one, other) => one - other);
  return { median: frames[frames.length >> 1], p95: frames[Math.floor(frames.length * 0.95)],
    each: frames.length / 3, nodes: document.querySelectorAll('*').length };
}
"""
"""Scrolls as fast as frames come; milliseconds from frame to frame."""


def main() -> int:
    """Measures the cases of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--only", choices=CASES, help="one case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--browser", default=next(filter(None, map(shutil.which, _NAMES)), None))
    parser.add_argument("--json", metavar="FILE", help="write the figures, too")
    options = parser.parse_args()
    if options.browser is None:
        print("error: no Chromium is found\n\nhint: give its path with --browser", file=sys.stderr)
        return 2
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, size in CASES.items():
            if options.only in (None, name):
                path = Path(folder) / "trace.jsons"
                events = traces.write(path, **size)  # type: ignore[arg-type]
                rounds = [_measured(path, options.browser) for _ in range(options.rounds)]
                figures[name] = _medians(rounds)
                _show(name, events, path.stat().st_size, figures[name])
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def _measured(path: Path, browser: str) -> dict[str, float]:
    """Opens the page of a trace once."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "conductor", "log", "view", str(path), "--no-open"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        begin = perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            page = started.new_page(viewport={"width": 1280, "height": 800})
            served = perf_counter()
            page.goto(address[0])
            page.wait_for_selector(".turn .speech", timeout=120_000)
            page.wait_for_selector(".card", timeout=120_000)
            readable = perf_counter()
            page.wait_for_selector("#notice:empty", state="attached", timeout=300_000)
            whole = perf_counter()
            page.wait_for_timeout(500)
            times = {"served": served - begin, "readable": readable - served}
            return times | {"whole": whole - served} | _scrolled(page) | _memory(page, server.pid)
        finally:
            server.terminate()
            server.wait()
            started.close()


def _scrolled(page: Any) -> dict[str, float]:
    """Frames a second while the conversation and the sequence scroll."""
    talk = page.evaluate(_SCROLL, "#conversation")
    page.click(".section .small")  # the messages of the whole trace
    page.wait_for_selector(".event[data-kind]", timeout=60_000)
    sequence = page.evaluate(_SCROLL, ".sequence-view")
    return {
        "conversation frames/s": talk["each"],
        "conversation p95 ms": talk["p95"],
        "sequence frames/s": sequence["each"],
        "sequence p95 ms": sequence["p95"],
        "nodes": max(talk["nodes"], sequence["nodes"]),
    }


def _memory(page: Any, pid: int) -> dict[str, float]:
    """MB of the page's heap and of the server."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    status = Path(f"/proc/{pid}/status")
    resident = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    server = int(resident[1]) / 1000 if resident else 0.0
    return {"page MB": metrics["JSHeapUsedSize"] / 1e6, "server MB": server}


def _show(name: str, events: int, size: int, figures: dict[str, float]) -> None:
    print(f"{name}: {events:,} events, {size / 1e6:.0f} MB")
    for key, value in figures.items():
        unit = " s" if key in ("served", "readable", "whole") else ""
        print(f"    {key:24}{value:10.2f}{unit}")


if __name__ == "__main__":
    sys.exit(main())
