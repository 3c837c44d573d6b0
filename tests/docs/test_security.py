"""docs/security.md: every claim names tests, and they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from conductor.core.guards import GUARDS
from conductor.core.policy.words import SETS
from tests.docs import pages, tables
from tests.places import ROOT
from wasm_host.harden import ESSENTIAL, probe

TEXT = pages.read(ROOT / "docs" / "security.md")
PROVEN = ("tests", "attacks")
"""Heads of the column that names what proves a row."""


def rows(text: str) -> list[tuple[str, list[str]]]:
    """The rows of all tables, each with the head of its table's last column."""
    found: list[tuple[str, list[str]]] = []
    head = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            head = ""
        elif not head:
            head = cells[-1].removesuffix("|").strip()
        elif not line.startswith(("|---", "| ---")):
            found.append((head, cells))
    return found


CLAIMS = [cells for head, cells in rows(TEXT) if head in PROVEN]


def test_there_are_claims() -> None:
    assert len(CLAIMS) > len(GUARDS) + 20


@pytest.mark.parametrize("cells", CLAIMS, ids=lambda cells: re.sub(r"\W+", "-", cells[0])[:50])
def test_every_claim_names_tests_that_exist(cells: list[str]) -> None:
    named = pages.named(cells[-1])
    assert named, "a row without a test"
    for path, symbol in named:
        file = ROOT / path
        assert file.is_file(), path
        assert symbol in pages.symbols(file), f"{path}:{symbol}"
        test = file.name.startswith("test_") and symbol.startswith("test_")
        assert test or file.name.startswith("attacks_"), f"{path}:{symbol} is no test"


def test_every_claim_outside_of_tables_is_a_test_as_well() -> None:
    tests = [one for one in pages.named(TEXT) if Path(one.path).name.startswith("test_")]
    assert all(not symbol or symbol.startswith("test_") for _, symbol in tests)


_SENDS: Final = frozenset(
    {"send", "forward", "notify", "reply", "refuse", "fail", "deliver", "cancel_hop"}
    | {"reject", "reject_frame", "reject_message", "add_to_batch", "drop"}
)
"""The methods of `Exchange` that have something written to a peer."""


def senders() -> set[str]:
    """The modules of the core that have something written to a peer."""
    found = set()
    for file in sorted((ROOT / "conductor" / "core").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            match call.func:
                case ast.Name(id="Send"):
                    found.add(str(file.relative_to(ROOT)))
                case ast.Attribute(value=owner, attr=name) if name in _SENDS:
                    if ast.unparse(owner).rpartition(".")[2].strip("_") == "exchange":
                        found.add(str(file.relative_to(ROOT)))
    return found


def test_every_module_that_sends_is_on_a_road() -> None:
    section = TEXT.partition("## Roads\n")[2].partition("\n## ")[0]
    roads = [cells for head, cells in rows(section) if head == "tests"]
    named = set(re.findall(r"`(conductor/[\w/]+\.py)`", section))
    assert len(roads) == section.count("\n| ") - 1
    assert senders() - named == set(), "no road names these"
    assert all((ROOT / path).is_file() for path in named)


def test_every_guard_has_its_row_and_its_attacks() -> None:
    sources = tables.attack_sources()
    assert [name for name, found in sources.items() if not found] == []
    for guard in GUARDS:
        assert TEXT.count(f"| `{guard.name}` |") == 1


def test_every_set_of_rights_has_its_row() -> None:
    for name in SETS:
        assert f"| `{name}` |" in TEXT


def test_every_layer_of_the_cage_has_its_row() -> None:
    for name in {*ESSENTIAL, *(layer.name for layer in probe())}:
        assert f"| `{name}` |" in TEXT


def test_the_check_sees_rows() -> None:
    table = "| claim | tests |\n|---|---|\n| a | `x` |\n\n| b | c |\n|---|---|\n| d | e |\n"
    assert rows(table) == [("tests", ["a", "`x`"]), ("c", ["d", "e"])]
