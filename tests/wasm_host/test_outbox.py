"""The lines that a guest returns are judged alike on the short ways of the hottest path and the
long one."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.wasm_host.support import CARRIERS
from wasm_host import GuestError, LimitRefused, Limits
from wasm_host.carriers.abi import check_inbox, check_outbox
from wasm_host.carriers.guest import DirectGuest

LIMITS = Limits(
    json_depth=4, message_bytes=40, outbox_bytes=60, json_values=12, messages_per_delivery=3
)
ROOMY = Limits(json_depth=4, message_bytes=100, outbox_bytes=30)

LINE = st.builds(
    lambda side, text: side + text + b"\n",
    st.sampled_from([b"p", b"s", b"c"]),
    st.text(alphabet='{[]},"1ż', min_size=1, max_size=30).map(str.encode),
)
OUT = st.lists(LINE | st.binary(max_size=6), max_size=4).map(b"".join)


class Told:
    """Calls of a guest that returns what the test wants."""

    out = b""

    def exchange(self, lines: bytes, ticks: int) -> bytes:
        return self.out

    def drop(self) -> None:
        """Nothing to forget."""


def judged(limits: Limits, out: bytes) -> str:
    """The fault that `check_outbox` finds; empty if none."""
    try:
        check_outbox(out, limits, "deliver", "it")
    except GuestError as error:
        return str(error)
    return ""


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limits=st.sampled_from([LIMITS, ROOMY]), lines=LINE, out=OUT, same=st.sampled_from(b"pscx-"))
@example(LIMITS, b"p1\n", b"", ord("x"))
@example(LIMITS, b"p" + b"[" * 4 + b"\n", b"", ord("s"))
@example(ROOMY, b"p" + b"1" * 50 + b"\n", b"", ord("s"))
@example(LIMITS, b"p12\n", b"s[[\n", ord("-"))
def test_what_comes_back_is_judged_as_by_the_checks_alone(
    limits: Limits, lines: bytes, out: bytes, same: int
) -> None:
    """Often the line itself, with some side byte before it."""
    if same != ord("-"):
        out = bytes([same]) + lines[1:]
    try:
        check_inbox(lines, limits)
    except LimitRefused:
        return
    guest = CARRIERS[0].load(limits).instantiate("it")
    assert isinstance(guest, DirectGuest)
    calls, guest._calls = guest._calls, Told()
    guest._calls.out = out
    try:
        if expected := judged(limits, out):
            with pytest.raises(GuestError) as caught:
                guest.deliver(lines)
            assert str(caught.value) == expected
        else:
            assert guest.deliver(lines) == out
    finally:
        calls.drop()  # type: ignore[attr-defined]
        guest.close()
