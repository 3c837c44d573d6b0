"""`conductor.record.replay.recording`: what is read from a trace, and what is no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.record.replay.recording import Line, content_of, load
from conductor.record.trace.records import header

HEAD: Final = header("redacted", ["a", "b", "agent"], 0.0)
OTHER: Final = b'{"type":"request","from":"client","to":"a"}\n'


def records(*held: bytes) -> bytes:
    """A line of records."""
    return b'{"type":"_conductor","records":[' + b",".join(held) + b"]}\n"


def trace(folder: Path, *lines: bytes) -> str:
    """A file of these lines."""
    path = folder / "t"
    path.write_bytes(b"".join(lines))
    return str(path)


def test_a_component_is_read_run_by_run_and_delivery_by_delivery(tmp_path: Path) -> None:
    """The parts of a large delivery are one; what others were given is not looked at."""
    path = trace(
        tmp_path,
        HEAD,
        OTHER,
        records(
            b'{"component":"a","run":1,"ts":0.1,"delivery":1,"given":[["p",{"x":1.10}]]}',
            b'{"component":"b","run":1,"ts":0.1,"given":[["",{}]]}',
            b'{"component":"a","run":2,"ts":0.1,"delivery":1,"given":[["c",null,"no"]]}',
        ),
        OTHER,
        records(
            b'{"component":"a","run":1,"ts":0.1,"delivery":1,"said":[["s",{"\\ud800":1}]]}',
            b'{"component":"a","run":1,"ts":0.1,"delivery":2,"failed":"why"}',
        ),
    )
    found = load(path, "a")
    assert (found.content, found.sided, content_of(path)) == ("redacted", True, "redacted")
    first, second = found.runs
    assert [(one.delivery, one.given, one.sent, one.failed) for one in first] == [
        (1, [Line("p", b'{"x":1.10}', True)], [Line("s", b'{"\\ud800":1}', True)], ""),
        (2, [], [], "why"),
    ]
    assert second[0].given == [Line("c", b"no", is_message=False)]
    assert load(path, "b").sided is False


def test_a_trace_that_was_cut_off_is_read_so_far(tmp_path: Path) -> None:
    record = records(b'{"component":"a","run":1,"ts":0.1,"delivery":1,"given":[["p",{}]]}')
    path = trace(tmp_path, HEAD, record, record[:-20])
    assert len(load(path, "a").runs[0]) == 1


RECORD: Final = b'{"component":"a","run":1,"ts":0.1}'


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([HEAD, records(b'{"component":"a"}'), OTHER], "t:2: it is not as conductor writes it"),
        ([HEAD, records(RECORD[:-1] + b',"left_out":1}')], "a message of `a` was too large"),
        ([HEAD], "has no component `a`"),
        ([HEAD, records(RECORD.replace(b'"a"', b'"b"'))], "has no component `a`"),
        ([OTHER], "is no trace"),
        ([records(RECORD)], "by another version"),
        ([HEAD.replace(b'"format":1', b'"format":99')], "by another version"),
        ([header("none", ["a"], 0.0), records(RECORD)], "was written without content"),
    ],
)
def test_what_cannot_be_replayed(tmp_path: Path, lines: list[bytes], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(trace(tmp_path, *lines), "a")
    assert says in caught.value.text
    assert caught.value.hint
