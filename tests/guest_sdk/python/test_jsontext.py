"""Texts that are edited stay as they were wherever nothing was changed."""

import copy
import json
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guest_sdk.python.jsontext import dumps, members, read_json
from guest_sdk.python.merging import merge

ODD = (
    ' {"n" : [1.10, 1e400, -0, 12345678901234567890], "t":"\\u00e9\\ud800\\/", "_meta":{"a":null}} '
)


@pytest.mark.parametrize("text", [ODD.strip(), "[]", "{}", '"x"', "[ 1 , 2 ]", '{"a":1,"a":2}'])
def test_what_is_not_changed_stays(text: str) -> None:
    assert merge(text, json.loads(text)) == text


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ('{"a": 1.10, "b" : [1]}', {"a": 1.1, "b": [2]}, '{"a": 1.10,"b" : [2]}'),
        ("[1.10, 2]", [0, 1.1, 2], "[0,1.10, 2]"),
        ("[1.10, 2]", [1.1, 2, 3], "[1.10, 2,3]"),
        ("[1.10, 2.0, 3]", [1.1, 3], "[1.10,3]"),
        ('[{"x":1e400,"y":1}]', [{"x": float("inf"), "y": 2}], '[{"x":1e400,"y":2}]'),
        ('{"a":1}', {"a": 1.0}, '{"a":1.0}'),
        ('{"a":1}', {"a": True}, '{"a":true}'),
        ('{"a":1,"b":1.10}', {"b": 1.1}, '{"b":1.10}'),
        ('{"a":1.10}', {"a": 1.1, "c": "é"}, '{"a":1.10,"c":"é"}'),
        ('{"a":1,"a":2,"b":0}', {"a": 2, "b": 1}, '{"a":2,"b":1}'),
        ('{"a":[]}', {"a": {}}, '{"a":{}}'),
        ("[1]", [], "[]"),
        ("[]", ["x"], '["x"]'),
        ('[ {"n" : 1.10} ]', ["x", "y", {"n": 1.1}], '["x","y", {"n" : 1.10} ]'),
        ('[ {"n" : 1.10} ]', [{"n": 1.1}, "x"], '[ {"n" : 1.10} ,"x"]'),
        ("[1.10,2.0]", [1.1, "x", 2.0], '[1.10,"x",2.0]'),
        ('{"a" : 1.10}', {"a": 1.1, 2: "x", None: 0}, '{"a" : 1.10,"2":"x","null":0}'),
        ('{"\\u0061" : 1.10,"b":1}', {"a": 1.1, "b": 2}, '{"\\u0061" : 1.10,"b":2}'),
        ('{"a":["x"]}', {"a": ["x", "x"]}, '{"a":["x","x"]}'),
        ('{"a":[0.0]}', {"a": [-0.0]}, '{"a":[-0.0]}'),
        ('{"a":{"b":null}}', {"a": {"b": False}}, '{"a":{"b":false}}'),
    ],
)
def test_what_is_changed_is_all_that_changes(text: str, new: Any, expected: str) -> None:
    assert merge(text, new) == expected


LONG: Final = "é" * 5000
"""As much text as makes a message a large one."""


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ('{"a": 1.10, "b" : "LONG"}', {"a": 1.1, "b": "LONG"}, None),
        ('{"a": 1.10, "b" : "LONG"}', {"a": 1.1, "b": 1}, '{"a": 1.10,"b" : 1}'),
        ('{"a":[1.10, "LONG"]}', {"a": [1, 1.1, "LONG"]}, '{"a":[1,1.10, "LONG"]}'),
        ('{"a":[ {"n" : 1.10}, 2]}', {"a": [{"n": 1.1}, "LONG"]}, '{"a":[{"n" : 1.10},"LONG"]}'),
        ('{"a":[ {"n" : 1.10, "t":"LONG"}]}', {"a": [{"n": 1.1}]}, '{"a":[{"n" : 1.10}]}'),
        ('["LONG", [1.10 , [2.0]]]', ["LONG", [1.1, [3]]], '["LONG",[1.10,[3]]]'),
        ('{"a":1,"a":{"b":"LONG"}}', {"a": {"b": 2}}, '{"a":{"b":2}}'),
        ('{"a":{"b":1.10,"c":"LONG"}}', {"a": {"c": "LONG"}}, '{"a":{"c":"LONG"}}'),
        ('{"a":[],"b":{},"c":"LONG"}', {"a": {}, "b": []}, '{"a":{},"b":[]}'),
        ('"LONG"', "LONG", None),
    ],
)
def test_a_large_text_is_changed_in_place(text: str, new: Any, expected: str | None) -> None:
    text = text.replace("LONG", LONG)
    long = json.loads(json.dumps(new).replace("LONG", LONG))
    assert merge(text, long) == (text if expected is None else expected.replace("LONG", LONG))


def test_what_is_not_json_is_an_error_each_time() -> None:
    circle: dict[str, Any] = {"a": 1}
    circle["circle"] = circle
    for text in ('{"a":1}', json.dumps({"a": 1, "b": LONG}, separators=(",", ":"))):
        with pytest.raises(ValueError, match="Circular"):
            merge(text, circle)
        assert merge(text, {"a": [1]}) == '{"a":[1]}'
    with pytest.raises(TypeError, match="not JSON serializable"):
        merge("[]", [object()])
    assert merge("[]", [[]]) == "[[]]"


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert dumps("\ud800é") == '"\\ud800\\u00e9"'
    assert dumps("é") == '"é"'


@pytest.mark.parametrize("text", ["", "[1]", '{"a"}', '{"a":}', '{"a":1', '{"a":1 "b":2}', "{a:1}"])
def test_what_is_no_object_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        members(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


UNHURRIED: Final = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
"""However busy the machine is, the same examples, with all the time they take."""


@UNHURRIED
@given(JSON, JSON)
def test_a_merged_text_says_the_new_value(old: Any, new: Any) -> None:
    merged = json.loads(merge(json.dumps(old, indent=1), new))
    assert json.dumps(merged, sort_keys=True) == json.dumps(new, sort_keys=True)


@UNHURRIED
@given(JSON, JSON, JSON)
def test_a_large_merged_text_says_the_new_value(old: Any, new: Any, other: Any) -> None:
    text = json.dumps({"pad": LONG, "list": [old, other], "inner": {"x": old}}, indent=1)
    changed = {"pad": LONG, "list": [new, old, other], "inner": {"x": new, "y": [other]}}
    merged = json.loads(merge(text, changed))
    assert json.dumps(merged, sort_keys=True) == json.dumps(changed, sort_keys=True)


@UNHURRIED
@given(st.dictionaries(st.text(), JSON, min_size=1), st.data())
def test_one_changed_member_leaves_the_others_alone(
    old: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(old, separators=(" , ", " : "))
    changed = copy.deepcopy(old)
    key = data.draw(st.sampled_from(sorted(old)))
    changed[key] = "something else entirely"
    merged = merge(text, changed)
    for name, value in old.items():
        if name != key:
            assert json.dumps(value, separators=(" , ", " : ")) in merged


@given(JSON)
def test_json_of_strangers_is_read_as_any(value: Any) -> None:
    text = json.dumps(value)
    for form in (text, text.encode(), text.encode("utf-8-sig")):
        assert json.dumps(read_json(form)) == text


def test_json_of_strangers_may_not_nest_too_deep() -> None:
    wide = json.dumps([[], {}, '"[{' * 300, "\\"] * 300)
    assert read_json(wide) == json.loads(wide)
    assert read_json("[" * 200 + "]" * 200)
    for text in ("[" * 201 + "]" * 201, '{"a":' * 201 + "1" + "}" * 201, "[" * 100_000):
        with pytest.raises(ValueError, match="nests deeper than 200 levels"):
            read_json(text)
    for wrong in ("", "{", '"' + "[" * 300, "]" * 300, "1".encode("utf-16")):
        with pytest.raises(ValueError, match=r"."):
            read_json(wrong)
