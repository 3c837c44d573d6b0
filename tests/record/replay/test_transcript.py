"""`conductor.record.replay.transcript`: deliveries that become a transcript, and those that
cannot."""

import pytest

from conductor.errors import UsageError
from conductor.record.replay.transcript import Transcript
from conductor.run.host_record import Delivered
from conductor.run.log import OfHost


def written(*deliveries: tuple[bytes, bytes, str]) -> bytes:
    """The transcript of deliveries: the lines given, the lines returned, the reason for the guest's
    end."""
    made = Transcript("a")
    for delivery in deliveries:
        made.take(OfHost("a", Delivered("a", *delivery, 0.1)), 0.1, "agent")
    return made.text()


START = (b"", b"clog\n", "")


def test_a_component_is_written_delivery_by_delivery() -> None:
    """The transcript goes up to the delivery that ended the component; lines at its start answer
    none."""
    found = written(
        START,
        (b'p{"x":1.10}\np{}\n', b"sa\rb\n", ""),
        (b"cno\n", b"", ""),
        (b"c{}\n", b"sx\n", "why"),
        (b"c{}\n", b"", ""),
    )
    assert found.split(b"\n")[1:] == [
        b'> p{"x":1.10}', b"> p{}", b"< sa\rb", b"", b"> cno", b"",
    ]  # fmt: skip


@pytest.mark.parametrize("starts", [0, 2])
def test_a_transcript_is_one_conversation(starts: int) -> None:
    with pytest.raises(UsageError, match=f"was started {starts} times") as caught:
        written(*[START] * starts)
    assert caught.value.hint
