"""How the guards read a message, at the edges."""

import inspect
import sys
from typing import Final

import pytest
from msgspec import Raw

from conductor.core.guards import forwarded
from conductor.core.guards.reading import Unreadable, difference, read
from tests.core.test_guards.attack import CONTEXT

DEPTH: Final = 200


def test_more_values_than_one_may_read_are_refused() -> None:
    assert read(Raw(b"[1,2]"), 4).value is not None
    with pytest.raises(Unreadable, match="more than 4 values"):
        read(Raw(b"[1,2,3,4,5]"), 4)


def test_a_pointer_has_at_most_eight_steps() -> None:
    one, two = (read(Raw(b"[" * 10 + n + b"]" * 10)).value for n in (b"1", b"2"))
    assert difference(one, two, "/x") == "/x" + "/0" * 8


def test_however_full_the_stack_is_a_change_is_a_violation() -> None:
    """A deep message may find the rest of the stack too short: to be read, or to be compared."""
    old, new = (
        Raw(b'{"sessionId":"s","x":' + b"[" * DEPTH + n + b"]" * DEPTH + b"}") for n in (b"1", b"2")
    )
    limit, here = sys.getrecursionlimit(), len(inspect.stack(0))
    found = []
    try:
        for more in range(40, 3 * DEPTH):
            sys.setrecursionlimit(here + more)
            found.append(forwarded(CONTEXT, "down", "session/prompt", old, new))
    finally:
        sys.setrecursionlimit(limit)
    assert None not in found
