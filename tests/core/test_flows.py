"""Notifications without ids: what was given and what was said, put in pairs."""

from __future__ import annotations

import json
from typing import Final

import pytest
from conductor.core.flows import Flow, Given, Match, Said
from conductor.core.tokens import Params
from msgspec import UNSET, Raw

from conductor.core import flows

Told = tuple[str, str, str | None, str | None]

HALF: Final = Raw(b'{"text":"\\ud800"}')
"""Half a surrogate pair, which cannot be written anew."""


def params(text: str) -> Raw:
    """An update that says something."""
    return Raw(json.dumps({"sessionId": "S", "update": {"kind": "chunk", "text": text}}).encode())


def text(held: Params) -> str:
    """What it says."""
    if held is UNSET:
        return "-"
    found: str = json.loads(bytes(held)).get("update", {}).get("text", "…")
    return found


def told(found: list[Match]) -> list[Told]:
    """Matches as change, how it is known, and the texts before and after."""
    return [
        (
            one.change,
            one.matched,
            None if one.given is None else text(one.given.params),
            None if one.said is None else text(one.said.params),
        )
        for one in found
    ]


class Component:
    """Plays one flow: `given` and `said` are numbered as they come."""

    def __init__(self) -> None:
        self.flow = Flow()
        self.number = 0

    def given(self, *held: Params) -> list[Told]:
        """It is given these."""
        found: list[Told] = []
        for one in held:
            self.number += 1
            found += told(self.flow.give(Given(self.number, one, "agent")))
        return found

    def says(self, *held: Params) -> list[Told]:
        """It says these."""
        return [one for params in held for one in told(self.flow.say(Said(params, "client")))]

    def settle(self) -> list[Told]:
        """It has had its say about all of them."""
        return told(self.flow.settle(self.number + 1))


def test_what_passes_unchanged_is_nothing_to_speak_of() -> None:
    flow = Component()
    assert flow.given(params("a"), params("b"), UNSET) == []
    assert flow.says(params("b"), UNSET, params("a")) == []
    assert flow.settle() == []


def test_each_way_of_changing_is_told() -> None:
    flow = Component()
    flow.given(params("hello"), params("bye"))
    assert flow.says(params("hello!"), params("bye")) == []  # not decided yet
    assert flow.settle() == [("modified", "order", "hello", "hello!")]
    flow.given(params("kept"))
    assert flow.settle() == [("dropped", "order", "kept", None)]
    assert flow.says(params("kept")) == [("delayed", "value", "kept", "kept")]
    assert flow.says(params("own")) == []
    assert flow.settle() == [("originated", "order", None, "own")]


def test_params_may_be_missing() -> None:
    flow = Component()
    flow.given(UNSET)
    assert flow.says(params("a")) == []
    assert flow.settle() == [
        ("originated", "order", None, "a"),
        ("dropped", "order", "-", None),
    ]
    assert flow.says(params("b"), UNSET) == [("delayed", "value", "-", "-")]
    assert flow.settle() == [("originated", "order", None, "b")]


def test_what_is_put_before_the_original_is_told_from_it() -> None:
    flow = Component()
    flow.given(params("one"))
    flow.says(params("inserted"), params("one"))
    assert flow.settle() == [("originated", "order", None, "inserted")]


def test_the_same_value_in_other_words_is_the_same_message() -> None:
    flow = Component()
    flow.given(params("first"), params("a"))
    spelled = Raw(bytes(params("a")).replace(b": ", b":"))
    assert flow.says(spelled) == [("modified", "value", "a", "a")]
    assert flow.settle() == [("dropped", "order", "first", None)]


def test_two_values_of_one_name_are_not_hidden() -> None:
    """A parser that keeps the last one takes both for the same: whoever writes the record looks."""
    flow = Component()
    flow.given(Raw(b'{"a":2}'))
    found = flow.flow.say(Said(Raw(b'{"a":1,"a":2}'), "client"))
    assert [one.change for one in found] == ["modified"]


def test_partners_are_found_among_dropped_and_added_ones() -> None:
    flow = Component()
    plan = Raw(b'{"plan":["some","other","kind","of","message"]}')
    flow.given(params("the first text"), plan, params("the second text"))
    flow.says(params("the first text, changed"), params("the second text, changed"), HALF)
    assert flow.settle() == [
        ("modified", "order", "the first text", "the first text, changed"),
        ("dropped", "order", "…", None),
        ("modified", "order", "the second text", "the second text, changed"),
        ("originated", "order", None, "…"),
    ]


def test_only_what_it_was_given_before_is_settled() -> None:
    flow = Component()
    flow.given(params("early"))
    number = flow.number + 1
    flow.given(params("late"))
    assert told(flow.flow.settle(number)) == [("dropped", "order", "early", None)]
    assert flow.says(params("late")) == []
    assert told(flow.flow.settle()) == []
    flow.given(params("last"))
    assert told(flow.flow.settle()) == [("dropped", "end", "last", None)]


def test_who_is_gone_has_dropped_nothing() -> None:
    flow = Component()
    flow.given(params("hello"), params("unheard"))
    flow.says(params("hello!"))
    assert told(flow.flow.forget_given()) == [("modified", "order", "hello", "hello!")]
    assert flow.says(params("unheard")) == []
    assert flow.settle() == [("originated", "order", None, "unheard")]


def test_who_changes_everything_is_paired_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_SAID", 3)
    flow = Component()
    flow.given(*(params(f"text {n}") for n in range(5)))
    found = flow.says(*(params(f"text {n}!") for n in range(3)))
    assert found == [("modified", "order", f"text {n}", f"text {n}!") for n in range(3)]
    assert flow.says(params("text 3"), params("text 4")) == []
    assert flow.settle() == []


def test_who_keeps_everything_has_dropped_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MOST_GIVEN", 2)
    flow = Component()
    assert flow.given(params("a"), params("b")) == []
    assert flow.given(params("c")) == [("dropped", "order", "a", None)]
