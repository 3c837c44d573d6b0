"""JSON that a person writes."""

import pytest

from conductor.spec import written_json


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "`a` is there twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "`a` is there twice"),
        ('{"a": 1,\n "b": }', "line 2"),
        ("[" * 100_000, "too deeply"),
    ],
)
def test_what_a_person_must_not_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        written_json.refuse_doubled(text)


def test_a_name_may_come_again_in_another_object() -> None:
    written_json.refuse_doubled('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}')
