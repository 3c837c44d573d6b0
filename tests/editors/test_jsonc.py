"""JSON with comments: read, and edited as text."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.editors import jsonc
from conductor.editors.jsonc import SyntaxMistakeError
from tests.editors.documents import DATA, FIXTURES, WRONG, documents

FEW = settings(max_examples=60)
"""Drawing a document takes long."""


@FEW
@given(documents())
def test_what_is_read_is_what_was_written(document: tuple[str, Any]) -> None:
    text, data = document
    value = jsonc.parse(text)

    assert value is not None
    assert value.data == data


@FEW
@given(documents())
def test_every_value_stands_where_it_says(document: tuple[str, Any]) -> None:
    text, _ = document
    waiting = [jsonc.parse(text)]
    while waiting:
        value = waiting.pop()
        assert value is not None
        alone = jsonc.parse(text[value.start : value.end])
        assert alone is not None
        assert alone.data == value.data
        for slot in value.slots or ():
            waiting.append(slot.value)
            assert text[slot.start] == '"' or not value.is_object
            assert not slot.comma or text[slot.comma - 1] == ","


@FEW
@given(documents(), st.text(max_size=4), DATA, st.data())
def test_what_is_inserted_is_taken_out_byte_for_byte(
    document: tuple[str, Any], key: str, data: Any, draw: st.DataObject
) -> None:
    text, _ = document
    root = jsonc.parse(text)
    assert root is not None
    containers = [value for value in _all(root) if value.slots is not None]
    where = draw.draw(st.sampled_from(containers))
    if where.is_object and key in where.data:
        return

    after, seam = jsonc.insert(text, where, key if where.is_object else None, data)

    again = _like(jsonc.parse(after), where.start)
    slot = again.get(key if where.is_object else 0)
    assert slot is not None
    assert slot.value.data == data
    assert jsonc.take_out(after, again, slot, seam) == text


@FEW
@given(documents(), st.data())
def test_a_cut_takes_one_value_and_leaves_the_others(
    document: tuple[str, Any], draw: st.DataObject
) -> None:
    text, _ = document
    root = jsonc.parse(text)
    assert root is not None
    containers = [value for value in _all(root) if value.slots]
    if not containers:
        return
    where = draw.draw(st.sampled_from(containers))
    slot = draw.draw(st.sampled_from(where.slots or []))
    rest = [each.value.data for each in where.slots or () if each is not slot]

    after = _like(jsonc.parse(jsonc.cut(text, where, slot)), where.start)

    assert [each.value.data for each in after.slots or ()] == rest


@FEW
@given(documents(), DATA, st.data())
def test_a_replacement_changes_nothing_else(
    document: tuple[str, Any], data: Any, draw: st.DataObject
) -> None:
    text, _ = document
    root = jsonc.parse(text)
    assert root is not None
    value = draw.draw(st.sampled_from(_all(root)))

    after = jsonc.replace(text, value, data)

    assert after.startswith(text[: value.start])
    assert after.endswith(text[value.end :])
    alone = jsonc.parse(after[value.start : len(after) - (len(text) - value.end)])
    assert alone is not None
    assert alone.data == data


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_mistake_has_a_place(name: str) -> None:
    text, place = WRONG[name]

    with pytest.raises(SyntaxMistakeError) as caught:
        jsonc.parse(text)

    assert f"{caught.value.line}:{caught.value.column}" == place


@given(st.text(alphabet=' \n{}[]",:/*\\ab1-e.tnu', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = jsonc.parse(text)
    except SyntaxMistakeError:
        return
    assert value is None or 0 <= value.start < value.end <= len(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{"a": "// no /* comment */"}', -1),
        ('{"a": 1, /* here */ "b": 2}', 9),
        ('{"a": [1,]}', 8),
        ('{"a": "//",\n}', 10),
    ],
)
def test_what_plain_json_has_not(text: str, at: int) -> None:
    assert jsonc.beyond_json(text) == at


def test_numbers_of_any_length_are_read() -> None:
    value = jsonc.parse("[" + "9" * 10_000 + "]")

    assert value is not None
    assert value.slots is not None


def test_many_comments_on_one_line_take_no_time() -> None:
    text = '{"a": {' + "/**/" * 1000 + "}}"
    root = jsonc.parse(text)
    assert root is not None

    after, _ = jsonc.insert(text, root.at("a"), "k", 1)

    assert "/**/" * 1000 in after


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_fixtures_are_read(name: str) -> None:
    value = jsonc.parse(FIXTURES[name] or "")

    assert value is None or value.is_object


def _all(root: jsonc.Value) -> list[jsonc.Value]:
    found, waiting = [], [root]
    while waiting:
        value = waiting.pop()
        found.append(value)
        waiting += [slot.value for slot in value.slots or ()]
    return found


def _like(root: jsonc.Value | None, start: int) -> jsonc.Value:
    """The value that begins at a place."""
    assert root is not None
    return next(value for value in _all(root) if value.start == start)
