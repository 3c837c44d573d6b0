"""The language that chooses events: both its readers take it alike."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.cli import main
from conductor.errors import UsageError
from conductor.record.turns.filter import TERMS, parse
from conductor.record.turns.model import Row
from tests.places import DEADLINE, ROOT

TABLE: Final = Path(__file__).with_name("filters.json")
CASES: Final[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
ROWS: Final = [Row(**dict(zip(Row.__struct_fields__, row, strict=True))) for row in CASES["rows"]]
NODE: Final = shutil.which("node")

SCRIPT: Final = """
import { readFileSync } from "node:fs";
const [, , module, table] = process.argv;
const { parse } = await import(module);
const { rows, lines, cases, mistakes } = JSON.parse(readFileSync(table));
const has = (word, n) => lines[n].toLowerCase().includes(word.toLowerCase());
const chosen = cases.map(({ filter }) =>
  rows.filter((row) => parse(filter).matches(row, has)).map((row) => row[0]));
const reasons = mistakes.map(({ filter }) => {
  try { parse(filter); return ""; } catch (error) { return error.message; }
});
console.log(JSON.stringify([chosen, reasons]));
"""


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["filter"])
def test_what_a_filter_chooses(case: dict[str, Any]) -> None:
    chosen = parse(case["filter"])
    assert [r.n for r in ROWS if chosen.matches(r, CASES["lines"].__getitem__)] == case["chooses"]


@pytest.mark.parametrize("case", CASES["mistakes"], ids=lambda case: case["filter"][:20])
def test_a_mistake_is_shown_with_its_place(case: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(case["filter"])
    assert caught.value.text.startswith(place(case))
    assert caught.value.hint


def place(case: dict[str, Any]) -> str:
    """The text of both readers about a mistake."""
    where = f", at character {case['at']}" if case["at"] else ""
    return f"{case['why']}{where}"


@pytest.mark.skipif(NODE is None, reason="Node is not on PATH")
def test_the_page_takes_the_same_language(tmp_path: Path) -> None:
    assert NODE is not None
    script = tmp_path / "filters.mjs"
    script.write_text(SCRIPT, encoding="utf-8")
    static = tmp_path / "static"
    shutil.copytree(ROOT / "conductor" / "page" / "static", static)
    (static / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    module = (static / "filter.js").as_uri()
    done = subprocess.run(
        [NODE, str(script), module, str(TABLE)],
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    chosen, reasons = json.loads(done.stdout)
    for case, numbers in zip(CASES["cases"], chosen, strict=True):
        assert numbers == case["chooses"], case["filter"]
    for case, text in zip(CASES["mistakes"], reasons, strict=True):
        assert text == place(case), case["filter"]


PIECES: Final = st.sampled_from(
    [*(f"~{name}" for name in TERMS), *"()&|!~\"\\* ", "5ms", "x", "é", "\ud800", "\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40))
def test_any_text_is_a_filter_or_a_mistake(text: str) -> None:
    try:
        chosen = parse(text)
    except UsageError as error:
        found = re.search(r", at character (\d+) of", error.text)
        assert found is not None
        assert 1 <= int(found[1]) <= len(text) + 1
    else:
        assert all(chosen.matches(r, CASES["lines"].__getitem__) in (True, False) for r in ROWS)


def test_help_has_every_term(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "filters"]) == 0
    page = capsys.readouterr().out
    assert all(f"  ~{name} {term.value}".rstrip() in page for name, term in TERMS.items())
