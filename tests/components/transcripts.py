"""Transcripts of guests: what is delivered, and the exact outbox that must come back.

A text file; ``> LINE`` is delivered, ``< LINE`` is expected, each line starting with its
side byte as on the channel. Consecutive ``>`` lines are one delivery, the ``<`` lines
behind them all of its outbox. A blank line ends a delivery; ``#`` starts a comment line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Delivery(NamedTuple):
    """One crossing: where it stands in the file, the lines in, the outbox out."""

    line: int
    given: bytes
    expected: bytes


def read_transcript(path: Path) -> list[Delivery]:
    """The deliveries of a transcript, in order.

    Raises:
        ValueError: a line is none of the four kinds, or an answer has no delivery.
    """
    deliveries: list[Delivery] = []
    is_open = False
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        mark, rest = line[:2], line[2:] + b"\n"
        if not line:
            is_open = False
        elif mark == b"> ":
            if is_open and not deliveries[-1].expected:
                last = deliveries.pop()
                deliveries.append(last._replace(given=last.given + rest))
            else:
                deliveries.append(Delivery(number, rest, b""))
            is_open = True
        elif mark == b"< " and is_open:
            last = deliveries.pop()
            deliveries.append(last._replace(expected=last.expected + rest))
        elif not line.startswith(b"#"):
            raise ValueError(f"{path.name}:{number}: neither '> ', '< ', '#' nor blank")
    return deliveries
