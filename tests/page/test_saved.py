"""The page as one file."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.harness.process.command import conductor
from tests.page.viewing import EVIL, Lines
from tests.record.turns import recorded


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The saved page of a real chain's trace."""
    path = tmp_path_factory.mktemp("saved") / "page.html"
    done = conductor("log", "view", str(recorded.trace()), "--output", str(path))
    assert done.code == 0, done.err
    assert path.stat().st_mode & 0o077 == 0
    return path.read_text(encoding="utf-8")


def test_it_needs_nothing_else_and_only_its_own_script_may_run(saved: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', saved)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r'(src|href)="(?!#|data:)', saved)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', saved, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_one_turn_is_saved_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    done = conductor("log", "view", str(recorded.trace()), "--output", str(path), "--turn", "5")
    assert done.code == 0, done.err
    held = path.read_text(encoding="utf-8")
    assert "read auth.py" in held
    assert "what day is it" not in held
    assert "onerror" not in held


def test_secrets_are_taken_out(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "trace.jsons")
    lines.turn('{"password": "hunter2hunter2"}', "fine")
    with lines.path.open("a", encoding="utf-8") as file:
        params = {"env": [{"name": "TOKEN", "value": "hunter2hunter2"}]}
        event = {"type": "notification", "ts": 1.0, "method": "x", "from": "a", "to": "b"}
        file.write(json.dumps({**event, "params": params}) + "\n")
    done = conductor("log", "view", str(lines.path), "--output", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    held = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"value\\":\\"hunter2' not in held
    assert "[redacted]" in held


def test_no_text_of_a_trace_ends_the_script_that_holds_it(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "trace.jsons")
    lines.turn(EVIL, EVIL)
    done = conductor("log", "view", str(lines.path), "--output", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    held = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert held.count("</script>") == 2
    assert "onerror" in held
    assert "<img" not in held


def test_what_cannot_be_saved_is_refused_in_words(tmp_path: Path) -> None:
    trace, page = str(recorded.trace()), str(tmp_path / "page.html")
    conductor("log", "view", trace, "--output", page, "--live").assert_error(2, "does not grow")
    conductor("log", "view", trace, "--output", page, "--turn", "99").assert_error(2, "no turn 99")
    nowhere = str(tmp_path / "none" / "page.html")
    conductor("log", "view", trace, "--output", nowhere).assert_error(2, "cannot write")
    assert list(tmp_path.iterdir()) == []


def test_much_text_is_saved_whole(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "trace.jsons")
    for number in range(8):
        lines.turn("see https://example.com/ " * 10_000 + f"end {number}", "fine")
    done = conductor("log", "view", str(lines.path), "--output", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    held = (tmp_path / "page.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'id="saved">(.*?)</script>', held, re.DOTALL)
    assert "[redacted]" not in data
    assert all(f"end {number}" in data for number in range(8))
