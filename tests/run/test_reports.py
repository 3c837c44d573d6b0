"""`conductor.run.report_checks`: what a host of guests says is believed only of its own guests."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core import Changed, Closure, Violated
from conductor.run import report_checks as reports
from conductor.run.report_lines import change_params, report
from conductor.run.segment_spec import Recovered

GUESTS = ("a", "b")
READERS: dict[str, Callable[[bytes | None], Any]] = {
    "violated": lambda raw: reports.of_guest(raw, Violated, GUESTS),
    "recovered": lambda raw: reports.recovered(raw, GUESTS),
    "loaded": lambda raw: reports.loaded(raw, GUESTS),
    "last_words": reports.last_words,
}


def violation(peer: str) -> Violated:
    """A violation by somebody."""
    return Violated(peer, "files", "up", "fs/read_text_file", "/path", "may not", False)


def test_what_a_host_says_of_its_guests_is_taken() -> None:
    raw = msgspec.json.encode(violation("a"))
    assert reports.of_guest(raw, Violated, GUESTS) == violation("a")
    done = Recovered("b", "restart", "it is started again")
    assert reports.recovered(msgspec.json.encode(done), GUESTS) == done
    digests = {"a": "0" * 64, "b": "f" * 64}
    assert reports.loaded(msgspec.json.encode({"digests": digests}), GUESTS) == digests
    assert reports.loaded(None, GUESTS) == {}
    assert reports.last_words(b'{"text":"t","hint":"h"}') == Closure("t", "h", {})


@pytest.mark.parametrize("method", ["m", "m" * 20_000])
def test_a_report_of_a_change_is_no_longer_than_a_line(method: str) -> None:
    names = {"peer": "a", "change": "modified", "kind": "request", "direction": "down"}
    for size in range(19_000, 33_000, 97):
        raw = b'"' + b"x" * size + b'"'
        made = Changed(method=method, session="s" * 99, number=1, before=raw, after=raw, **names)
        assert len(report("changed", change_params(made, 1 << 16))) <= 1 << 16


@pytest.mark.proves("from a proxy to the conductor")
@pytest.mark.parametrize("other", ["c", "agent", "", "a+b"])
def test_a_host_reports_of_its_own_guests_only(other: str) -> None:
    with pytest.raises(ValueError, match="is not one of its guests"):
        reports.of_guest(msgspec.json.encode(violation(other)), Violated, GUESTS)
    with pytest.raises(ValueError, match="is not one of its guests"):
        reports.recovered(msgspec.json.encode(Recovered(other, "restart", "")), GUESTS)
    with pytest.raises(ValueError, match="is not one of its guests"):
        reports.loaded(msgspec.json.encode({"digests": {other: "0" * 64}}), GUESTS)


def test_a_host_cannot_invent_records() -> None:
    with pytest.raises(ValueError, match="does not 'end' its guests"):
        reports.recovered(msgspec.json.encode(Recovered("a", "end", "")), GUESTS)
    with pytest.raises(ValueError, match="not a digest"):
        reports.loaded(b'{"digests":{"a":"trust me"}}', GUESTS)


@pytest.mark.proves("from a proxy to the conductor")
@pytest.mark.parametrize(
    "data", [{"authMethods": []}, {"x": [{"Auth_Methods": 1}]}, {"why": "auth_required"}]
)
def test_the_last_words_of_a_host_show_no_login(data: Any) -> None:
    with pytest.raises(ValueError, match="ask for a login"):
        reports.last_words(msgspec.json.encode({"text": "log in", "data": data}))


@pytest.mark.proves("from a proxy to the conductor")
@pytest.mark.parametrize("report", ["violated", "recovered", "loaded", "last_words"])
def test_a_report_with_very_many_values_is_not_taken_apart(report: str) -> None:
    many = b'{"addresses":[' + b'"",' * 1_000_000 + b'""]}'
    with pytest.raises(ValueError, match="too many values"):
        READERS[report](many)


@pytest.mark.parametrize("reader", READERS)
@given(raw=st.binary(max_size=60) | st.sampled_from([b"[]", b"3", b'{"digests":3}', b'{"text":1}']))
def test_nonsense_is_a_value_error(reader: str, raw: bytes) -> None:
    with contextlib.suppress(ValueError):  # and nothing but that
        assert READERS[reader](raw) is not None
