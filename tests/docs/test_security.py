"""docs/security.md: every claim has tests that name it."""

import ast
import re
from typing import Final

from conductor.core.guards import GUARDS
from conductor.core.policy.words import SETS
from tests.core.test_guards.attack import sources
from tests.docs import claims, pages
from tests.places import ROOT
from wasm_host.harden import ESSENTIAL, probe

TEXT = pages.read(ROOT / "docs" / "security.md")


CLAIMS: Final = claims.claims(TEXT)


def test_there_are_claims() -> None:
    assert len(CLAIMS) > len(GUARDS) + 20


def test_every_claim_has_a_test_and_every_named_claim_is_there() -> None:
    named = claims.proofs()
    unknown = {words: len(claims.meant(words, CLAIMS)) for words in named}
    assert {words: many for words, many in unknown.items() if many != 1} == {}
    proven = {claims.meant(words, CLAIMS)[0] for words in named}
    assert [claim for claim in CLAIMS if claim not in proven] == []


_SENDS: Final = frozenset(
    {"send", "forward", "notify", "reply", "refuse", "fail", "deliver", "cancel_hop"}
    | {"reject", "reject_frame", "reject_message", "add_to_batch", "drop"}
)
"""The methods of `Exchange` and `Rejections` that have something written to a peer."""

_PARTS: Final = ("exchange", "rejections")


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
                    if ast.unparse(owner).rpartition(".")[2].strip("_") in _PARTS:
                        found.add(str(file.relative_to(ROOT)))
    return found


def test_every_module_that_sends_is_on_a_road() -> None:
    section = pages.section(TEXT, "Roads")
    named = set(re.findall(r"`(conductor/[\w/]+\.py)`", section))
    assert senders() - named == set(), "no road names these"
    assert all((ROOT / path).is_file() for path in named)


def test_every_guard_has_its_row_and_its_attacks() -> None:
    attacked = {attack.guard for source in sources() for attack in source()}
    assert attacked == {guard.name for guard in GUARDS}
    for guard in GUARDS:
        assert TEXT.count(f"| `{guard.name}` |") == 1


def test_every_set_of_rights_has_its_row() -> None:
    for name in SETS:
        assert f"| `{name}` |" in TEXT


def test_every_layer_of_the_cage_has_its_row() -> None:
    for name in {*ESSENTIAL, *(layer.name for layer in probe())}:
        assert f"| `{name}` |" in TEXT


def test_the_check_sees_claims() -> None:
    text = "<!-- claims -->\n{}<!-- /claims -->\n"
    table = text.format("| what | result |\n|---|---|\n| a | held |\n")
    bullets = text.format("- [b](c.md)\n  d\n- e\n")
    assert claims.claims(f"- no claim\n{table}\n{bullets}") == ["a", "b d", "e"]
