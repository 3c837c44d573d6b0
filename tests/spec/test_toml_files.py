"""Strict reading: where a mistake stands, and what is said about it."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from conductor.spec import toml_files
from conductor.spec.toml_files import Key, Mistake


class Part(msgspec.Struct, forbid_unknown_fields=True):
    size: int = 0
    tags: list[str] | Literal["all"] = []


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]
    parts: list[Part] = []
    named: dict[str, str | Part] = {}
    deep: dict[str, list[Part]] = {}
    free: dict[str, Any] = {}
    rate: float | None = None


TEXT = """name = "a"
free = { x = 1, y = 2 }
# why

[[parts]]
size = 1

[[parts]]
tags = [
  "b",
]
size = 2

[named.c]
size = 3
"""


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("name",), 1),
        (("free", "y"), 2),
        (("parts", 0), 5),
        (("parts", 0, "size"), 6),
        (("parts", 1), 8),
        (("parts", 1, "tags"), 9),
        (("parts", 1, "size"), 12),
        (("parts", 1, "colour"), 8),
        (("named", "c", "size"), 15),
        (("rate",), 0),
        ((), 0),
    ],
)
def test_the_line_of_a_key_or_of_the_table_around_it(at: tuple[Key, ...], line: int) -> None:
    assert toml_files.line_of(TEXT, at) == line


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("", "`name` is missing", ()),
        ("name = 1", "`name` should be a valid string", ("name",)),
        ("name = 'A'", "`name` should be a SHA-256 digest", ("name",)),
        ("name = 'a'\nnmae = 1", "a file has no key `nmae`", ("nmae",)),
        ("name = 'a'\n[[parts]]\n[[parts]]\nsiz = 1", "[parts] has no key", ("parts", 1, "siz")),
        ("name = 'a'\nparts = 1", "`parts` should be a valid list", ("parts",)),
        ("name = 'a'\n[[parts]]\ntags = 'some'", "`parts.tags` should be", ("parts", 0, "tags")),
        ("name = 'a'\n[named.b]\n[named.c]\nsiz = 1", "[named.c] has no", ("named", "c", "siz")),
        ("name = 'a'\n[[deep.a]]\nsiz = 1", "[deep.a] has no key", ("deep", "a", 0, "siz")),
        ("name = 'a'\n[named]\nb = 1", "`named.b` should be a valid string", ("named", "b")),
        ("name = 'a'\nfree = 1", "`free` should be a table", ("free",)),
        ("name = 'a'\nrate = true", "`rate` should be a valid number", ("rate",)),
    ],
)
def test_every_mistake_is_named_with_its_place(text: str, said: str, at: tuple[Key, ...]) -> None:
    with pytest.raises(Mistake) as caught:
        toml_files.convert(toml_files.loads(text), Whole, "a file")
    assert said in str(caught.value)
    assert caught.value.at == at


def test_what_is_right_is_read() -> None:
    whole = toml_files.convert(toml_files.loads(TEXT), Whole, "a file")
    assert [part.size for part in whole.parts] == [1, 2]
    assert whole.parts[1].tags == ["b"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("nmae = 1", "did you mean `name`?"),
        ("zzz = 1", "keys are: deep, free, name, named, parts, rate"),
        ("[[deep.a]]\nsiz = 1", "did you mean `size`?"),
    ],
)
def test_a_misspelt_key_has_a_hint(text: str, hint: str) -> None:
    with pytest.raises(Mistake) as caught:
        toml_files.convert(toml_files.loads(f"name = 'a'\n{text}"), Whole, "a file")
    assert caught.value.hint == hint
