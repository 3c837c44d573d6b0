"""The difference between two JSON texts."""

import copy
import json
import tracemalloc
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.record.diff import NOTHING, at, diff, pointer, repeated, same
from conductor.record.exact_json import Json, Number, Repeated, encode, parse

Told = tuple[str, str, object, object]


def found(before: str, after: str) -> list[Told]:
    """The operations between two texts, with the values before and after."""
    return [
        (one.op, pointer(one.path), shown(one.before), shown(one.after))
        for one in diff(parse(before.encode()), parse(after.encode()))
    ]


def shown(value: Json) -> object:
    """A value as JSON text."""
    return None if value is NOTHING else encode(value).decode()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("{}", " { } ", []),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', []),
        (r'"\u0041é"', r'"A\u00e9"', []),
        ("1.0", "1.00", []),
        ("1e2", "100.0", []),
        ("1e999", "2e999", [("replace", "", "1e999", "2e999")]),
        ("1", "1.0", [("replace", "", "1", "1.0")]),
        ("1", "true", [("replace", "", "1", "true")]),
        ("[0]", "[false]", [("replace", "/0", "0", "false")]),
        ("null", "[]", [("replace", "", "null", "[]")]),
        ('{"a":1}', '{"a":2}', [("replace", "/a", "1", "2")]),
        (
            '{"a":1,"c":{"d":1}}',
            '{"b":1,"c":{"d":2}}',
            [
                ("remove", "/a", "1", None),
                ("add", "/b", None, "1"),
                ("replace", "/c/d", "1", "2"),
            ],
        ),
        ('{"a/b":{"~":1}}', '{"a/b":{}}', [("remove", "/a~1b/~0", "1", None)]),
        ("[1,2,3]", "[2]", [("remove", "/2", "3", None), ("remove", "/0", "1", None)]),
        ("[2]", "[1,2,3]", [("add", "/0", None, "1"), ("add", "/2", None, "3")]),
        (
            '{"prompt":[{"type":"text","text":"hi"}]}',
            '{"prompt":[{"type":"text","text":"today"},{"type":"text","text":"hi!"}]}',
            [
                ("add", "/prompt/0", None, '{"type":"text","text":"today"}'),
                ("replace", "/prompt/1/text", '"hi"', '"hi!"'),
            ],
        ),
        (
            '[{"name":"one","n":1},[9],{"name":"two","n":1}]',
            '[{"name":"two","n":2},[9]]',
            [
                ("remove", "/2", '{"name":"two","n":1}', None),
                ("replace", "/0/name", '"one"', '"two"'),
                ("replace", "/0/n", "1", "2"),
            ],
        ),
        ('{"a":1,"a":2}', '{"a":2}', [("replace", "", '{"a":1,"a":2}', '{"a":2}')]),
        ('{"a":2,"a":1}', '{"a":1,"a":2}', [("replace", "", '{"a":2,"a":1}', '{"a":1,"a":2}')]),
        ('[{"a":1,"a":1}]', '[{"a":1,"a":1}]', []),
        ("9" * 5000, "9" * 5000, []),
        (r'{"\ud800":"\udfff"}', "{}", [("remove", "/\ud800", r'"\udfff"', None)]),
    ],
)  # fmt: skip
def test_differences(before: str, after: str, expected: list[Told]) -> None:
    assert found(before, after) == expected


def test_all_of_it_may_come_or_go() -> None:
    assert [(one.op, one.after) for one in diff(NOTHING, 1)] == [("add", 1)]
    assert [(one.op, one.before) for one in diff(1, NOTHING)] == [("remove", 1)]
    assert diff(NOTHING, NOTHING) == []


def test_where_names_are_repeated() -> None:
    held = parse(b'{"a":[{"b":1,"b":1},{"c":{"d":1,"d":2}}],"e":1}')
    assert [pointer(path) for path in repeated(held)] == ["/a/0", "/a/1/c"]
    assert repeated(parse(b'{"a":[{}]}')) == []


def test_what_stands_at_a_path() -> None:
    held = parse(b'{"a":[{"b":1}]}')
    assert at(held, ("a", 0, "b")) == 1
    assert at({"a": "[redacted]"}, ("a", 0, "b")) == "[redacted]"


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[Infinity]", "[" * 100_000 + "]" * 100_000, "\udcff"]
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text.encode(errors="surrogateescape"))


def test_deep_values_are_compared_as_a_whole_and_in_time() -> None:
    """A component decides how deep and large a message is."""
    large = json.dumps("x" * 100_000)
    before = deep("1", large)
    (found,) = diff(before, deep("2", large))
    assert len(found.path) == 24
    assert diff(before, deep("1", large)) == []
    assert repeated(before) == []


def deep(inner: str, beside: str) -> Json:
    """A value of 500 levels, with something beside it on the lowest."""
    return parse(("[0," * 499 + f"[{beside},{inner}]" + "]" * 499).encode())


def test_numbers_are_no_other_values() -> None:
    assert Number("1.5") != 1.5
    assert Number("1.5") == Number("15e-1")
    assert repr(Number("1.5")) == "Number('1.5')"


def test_long_lists_are_compared_place_by_place() -> None:
    before = [f"a{n}" for n in range(300)]
    after = [f"b{n}" for n in range(299)]
    assert applied(before, after) == after
    assert applied(after, before) == before
    assert applied(before[:40], after[:39]) == after[:39]


# -- for anything --------------------------------------------------------------------------------

TEXTS: Final = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud800/~\u0000"), max_size=6)
SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Json, Json]:
    """A value, and the same with parts of it changed."""
    before = draw(VALUES)
    after = copy.deepcopy(before)
    for _ in range(draw(st.integers(0, 4))):
        spots = [held for held in containers(after) if held]
        if not spots:
            break
        spot = draw(st.sampled_from(spots))
        key = draw(st.sampled_from(list(spot) if isinstance(spot, dict) else range(len(spot))))
        what = draw(st.sampled_from(("set", "delete", "insert")))
        if what == "delete":
            del spot[key]
        elif what == "insert" and isinstance(spot, list):
            spot.insert(key, draw(VALUES))
        else:
            spot[key] = draw(VALUES)
    return before, after


def containers(value: Json) -> list[Any]:
    """Every list and object of a value."""
    if isinstance(value, dict):
        return [value, *(one for held in value.values() for one in containers(held))]
    if isinstance(value, list):
        return [value, *(one for held in value for one in containers(held))]
    return []


def applied(before: Json, after: Json) -> Json:
    """`before` with the differences to `after` applied as RFC 6902 says, by their pointers."""
    found = copy.deepcopy(before)
    for one in diff(before, after):
        assert one.before is NOTHING or one.before == at(before, one.was)
        assert one.after is NOTHING or one.after == at(after, one.now)
        steps = [
            step.replace("~1", "/").replace("~0", "~") for step in pointer(one.path).split("/")
        ]
        if len(steps) == 1:
            found = copy.deepcopy(one.after)
            continue
        spot = found
        for step in steps[1:-1]:
            spot = spot[int(step) if isinstance(spot, list) else step]
        key: Any = int(steps[-1]) if isinstance(spot, list) else steps[-1]
        if isinstance(spot, dict):
            assert (one.op == "add") == (key not in spot)
        if one.op == "remove":
            assert spot.pop(key) == one.before
        elif one.op == "add" and isinstance(spot, list):
            spot.insert(key, copy.deepcopy(one.after))
        else:
            spot[key] = copy.deepcopy(one.after)
    return found


@pytest.mark.proves("the record has all differences")
@given(edited())
def test_applied_to_what_was_before_they_give_what_came_after(pair: tuple[Json, Json]) -> None:
    before, after = (parse(json.dumps(one).encode()) for one in pair)
    again = applied(before, after)
    assert diff(again, after) == []
    assert found_equal(again, after)


def found_equal(one: Json, other: Json) -> bool:
    """Whether two texts differ in the spelling of numbers at most."""
    return bool(json.loads(encode(one)) == json.loads(encode(other)))


@given(VALUES)
def test_a_value_does_not_differ_from_itself_however_it_is_spelled(value: Json) -> None:
    one = parse(json.dumps(value).encode())
    other = parse(json.dumps(value, indent=2, ensure_ascii=True, sort_keys=True).encode())
    assert diff(one, other) == []
    assert diff(parse(encode(one)), one) == []
    assert json.loads(encode(one)) == value


@given(VALUES, TEXTS, VALUES)
def test_an_object_with_a_repeated_name_is_never_the_same_as_one_without(
    value: Json, name: str, last: Json
) -> None:
    key = json.dumps(name)
    twice = parse(f"{{{key}:{json.dumps(value)},{key}:{json.dumps(last)}}}".encode())
    once = parse(f"{{{key}:{json.dumps(last)}}}".encode())
    assert isinstance(twice, Repeated)
    assert diff(twice, once)
    assert diff(once, twice)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([["a"] * 200] * 90, [["a", "b"] * 100] * 90),
        ([[f"{i} {j}" for j in range(31)] for i in range(500)],) * 2,
        (["a", "b"] * 5000, ["b", "a"] * 5000),
    ],
)
def test_a_diff_compares_so_many_pairs_in_all(
    before: list[Any], after: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list was allowed 40,000: a few hundred of them took minutes."""
    compared = 0

    def counting(left: list[bytes], right: list[bytes]) -> list[int | None]:
        nonlocal compared
        compared += len(left) * len(right)
        return [None] * len(right)

    monkeypatch.setattr("conductor.record.diff.align", counting)
    after = [[f"{one}-" for one in held] if isinstance(held, list) else held for held in after]
    assert diff(before, after)
    assert compared <= 40_000


def test_a_long_text_deep_inside_is_not_written_at_each_level() -> None:
    """400 levels around 1 MiB took 800 MiB."""
    deep = '["a",' * 400 + '"%s"' + "]" * 400
    before, after = (parse((deep % (letter * 1_000_000)).encode()) for letter in "xy")
    tracemalloc.start()
    found_ = diff(before, after)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found_) == 1
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (b'{"a": 1}', b'{"a":1}', True),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', True),
        (b'"\\u0041\\/"', b'"A/"', True),
        (b'{"a":1}', b'{"a":1.0}', False),
        (b"1.10", b"1.1", False),
        (b"1e400", b"Infinity", False),
        (b'{"a":1}', b'{"a":"1"}', False),
        (b'{"a":1,"a":1}', b'{"a":1}', False),
        (b'"\\ud800"', b'"?"', False),
        (b"[]", b"{}", False),
        (b"[", b"[ ", False),
    ],
)
def test_values_are_compared_as_they_are_written(one: bytes, other: bytes, equal: bool) -> None:
    assert same(one, other, exact_numbers=True) is equal
    assert same(other, one, exact_numbers=True) is equal


def test_numbers_are_the_same_by_value_unless_their_spelling_counts() -> None:
    assert same(b'{"a":[1.10,1e2]}', b'{"a": [1.1, 100.0]}')
    assert not same(b'{"a":[1.10,1e2]}', b'{"a": [1.1, 100.0]}', exact_numbers=True)
    assert not same(b"1", b"true")
