"""`conductor.record.replay.transcript`: what becomes a transcript, and what cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.record.replay.transcript import transcript
from conductor.record.trace.records import header
from conductor.record.turns import reader as turns

HEAD: Final = header("redacted", ["a", "b", "agent"], 0.0).raw
OTHER: Final = b'{"type":"request","from":"client","to":"a"}\n'


def records(*held: bytes) -> bytes:
    """A line of records."""
    return b'{"type":"_conductor","records":[' + b",".join(held) + b"]}\n"


def written(folder: Path, *lines: bytes) -> bytes:
    """What becomes of component `a` in a file of these lines."""
    path = folder / "t"
    path.write_bytes(b"".join(lines))
    return transcript(str(path), turns.opened(str(path)), "a")


def test_a_component_is_written_delivery_by_delivery(tmp_path: Path) -> None:
    """The parts of a large delivery are one; what others were given is not looked at, nor what
    follows a delivery that ended it, nor a line that was cut off."""
    found = written(
        tmp_path,
        HEAD,
        OTHER,
        records(
            b'{"component":"a","run":1,"ts":0.1,"delivery":1,"given":[["p",{"x":1.10}]]}',
            b'{"component":"b","run":1,"ts":0.1,"given":[["",{}]]}',
        ),
        OTHER,
        records(
            b'{"component":"a","run":1,"ts":0.1,"delivery":1,"said":[["s",{"\\ud800":1}]]}',
            b'{"component":"a","run":1,"ts":0.1,"delivery":2,"given":[["c",null,"no"]]}',
            b'{"component":"a","run":1,"ts":0.1,"delivery":3,"given":[["c",{}]],"failed":"why"}',
        ),
        records(b'{"component":"a","run":1}')[:-20],
    )
    assert found.splitlines()[1:] == [
        b'> p{"x":1.10}', b'< s{"\\ud800":1}', b"", b"> cno",
    ]  # fmt: skip


RECORD: Final = b'{"component":"a","run":1,"ts":0.1,"given":[["",{}]]}'


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([HEAD, records(b'{"component":"a"}'), OTHER], "are not as conductor writes them"),
        ([HEAD, records(RECORD[:-1] + b',"left_out":1}')], "a message of `a` was too large"),
        ([HEAD], "has no records of `a`"),
        ([HEAD, records(RECORD.replace(b'"a"', b'"b"'))], "has no records of `a`"),
        ([OTHER], "by another version"),
        ([HEAD.replace(b'"format":1', b'"format":99'), OTHER], "by another version"),
        ([HEAD, records(RECORD)], "spoke over one connection"),
        ([HEAD, records(RECORD, RECORD.replace(b":1,", b":2,"))], "was started 2 times"),
    ],
)
def test_what_cannot_become_one(tmp_path: Path, lines: list[bytes], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(tmp_path, *lines)
    assert says in caught.value.text
    assert caught.value.hint
