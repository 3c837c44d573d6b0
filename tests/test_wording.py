"""Numbers and their nouns, articles and their words."""

import re
from pathlib import Path

import pytest

import conductor
from conductor.errors import a, agrees, counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "file", "0 files"),
        (1, "file", "1 file"),
        (2, "more delivery", "2 more deliveries"),
        (2, "copy", "2 copies"),
        (2, "way", "2 ways"),
        (2, "process", "2 processes"),
        (12345, "byte", "12,345 bytes"),
        (1, "other", "1 other"),
    ],
)
def test_a_number_has_its_noun(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_verbs_and_articles() -> None:
    assert [agrees(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]
    assert [*map(a, ("ADDRESS", "FILE", "EDITOR", "URL"))] == [
        "an ADDRESS", "a FILE", "an EDITOR", "a URL",
    ]  # fmt: skip


BY_HAND = re.compile(r"""['"](?:s|ies)['"] \*|1 else ['"](?:s|es|ies)['"]|\* ['"]s['"]""")


def test_nothing_else_makes_plurals() -> None:
    root = Path(conductor.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if BY_HAND.search(line)
    ]
    assert not found
