"""Checks on the lines that cross the channel (docs/architecture.md): sides, sizes, count, depth.

Everything here runs for each delivery of each guest. So each check has a first test of a few
hundred nanoseconds that settles the usual message, and an exact test for the rest.
"""

from __future__ import annotations

import functools
import re
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from wasm_host.errors import GuestError, LimitRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from wasm_host.limits import Limits


SIDES = frozenset((b"p", b"s", b"c"))
"""Side bytes: predecessor, successor, conductor."""
SIDE_CODES = frozenset(b"psc")
NEWLINE = 0x0A

LINES = re.compile(rb"(?:[psc][^\n]+\n)*").fullmatch
"""Lines as they should be: a side byte, something, a newline; or none at all."""

SHORT = 2048
"""Below this length counting a byte in the whole text is faster than searching for it."""
LONG = 65536
"""Above this length searching the whole text is faster than translating each of its bytes."""
FEW = 256
"""The number of finds from which translating is faster than searching on."""

_REMEMBERED = 2 * 1024 * 1024
"""Bytes of lines that are remembered at most."""
_shallow = (b"", 0)
"""Lines that nest no deeper than so many levels, which took long to see: a host gives the same
object to one guest after the other."""

_UNITS = {
    "outbox_bytes": "bytes at once",
    "message_bytes": "bytes in a line",
    "messages_per_delivery": "lines at once",
    "json_values": "values in a line",
    "json_depth": "levels of JSON",
}
"""Limits of an outbox -> the words that follow a size."""

_BACKSLASH = b"\\"
_STRING = re.compile(rb'"[^"]*+"?')
_NOT_BRACKETS = bytes(c for c in range(256) if c not in b'{}[]"')
_NOT_SEPARATORS = bytes(c for c in range(256) if c not in b'{[,"')
_ALL_BUT_SEPARATORS = bytes(c for c in range(256) if c not in b"{[,")
_AS_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_NOT_OPENERS = bytes(c for c in range(256) if c not in b"{[\n")


def short(limits: Limits) -> int:
    """Below this length only the depth, and the form of lines, are left to be checked."""
    # A line takes three bytes at least.
    most = 3 * limits.messages_per_delivery
    return min(SHORT, limits.message_bytes, limits.outbox_bytes, limits.json_values, most)


def _bare(line: bytes, dropped: bytes) -> bytes:
    """A text without escapes and `dropped` bytes, in which no two quotes are neighbours.

    Bytes inside of strings stay inside, those outside stay outside.
    """
    if _BACKSLASH in line:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return line.translate(None, dropped).replace(b'""', b"")


def depth_of(line: bytes) -> int:
    """Deepest nesting of arrays and objects in one JSON text; brackets in strings do not count.

    An upper bound for text that is not JSON.
    """
    brackets = _STRING.sub(b"", _bare(line, _NOT_BRACKETS))
    opened = brackets.count(b"{") + brackets.count(b"[")
    if opened < len(brackets) - opened:
        return opened  # not JSON, and maybe millions of closers
    return max(accumulate(array("b", brackets.translate(_AS_STEPS)), initial=0))


@functools.cache
def _more_separators(limit: int) -> Callable[[bytes], object]:
    """Matches a bare text with so many openers and commas outside of strings."""
    # Possessive throughout: a match never goes back, so its time is linear in hostile text too.
    separator = rb'(?>[^"{\[,]++|"[^"]*+(?:"|\Z))*+[{\[,]'
    return re.compile(b"(?:%b){%d}+" % (separator, limit)).match


def too_many_values(line: bytes, limit: int) -> bool:
    """Whether one JSON text has more than `limit` values.

    Each value but the first follows an opening bracket or a comma, so those are counted; an empty
    array or object counts as if it held a value.
    """
    if _separators(line) < limit:
        return False
    return _more_separators(limit)(_bare(line, _NOT_SEPARATORS)) is not None


def _separators(text: bytes) -> int:
    """The number of openers and commas, inside strings or not."""
    found = _found(text, (b",", b"{", b"["), FEW) if len(text) > LONG else FEW
    return found if found < FEW else len(text.translate(None, _ALL_BUT_SEPARATORS))


def _has_too_many_values(lines: bytes, limit: int) -> bool:
    """Whether one of several lines has more values than `limit`."""
    if len(lines) <= limit or _separators(lines) < limit:
        return False
    return any(too_many_values(line, limit) for line in lines.split(b"\n"))


def too_deep(line: bytes, limit: int) -> bool:
    """Whether arrays and objects in one JSON text nest deeper than `limit`."""
    if len(line) <= limit or not _many_brackets(line, limit):
        return False
    return depth_of(line) > limit


def _many_brackets(text: bytes, limit: int) -> bool:
    """Whether more than `limit` opening brackets occur, inside strings or not."""
    if len(text) < SHORT:
        return text.count(b"{") + text.count(b"[") > limit
    return _found(text, (b"{", b"["), limit + 1) > limit


def _found(text: bytes, signs: tuple[bytes, ...], most: int) -> int:
    """The number of the signs, inside strings or not; `most` if there are more.

    Counting looks at each byte, searching skips over long strings.
    """
    found, find = 0, text.find
    for sign in signs:
        at = find(sign)
        while at >= 0 and found < most:
            found += 1
            at = find(sign, at + 1)
    return found


def _first_too_deep(lines: bytes, limit: int) -> bytes | None:
    """The first of several lines that nests deeper than `limit`."""
    global _shallow  # noqa: PLW0603 - one for the process: all guests of a host get the same lines
    size = len(lines)
    if size <= limit or (lines is _shallow[0] and limit >= _shallow[1]):
        return None
    if not SHORT <= size <= LONG and not _many_brackets(lines, limit):
        return None
    # Many small messages at once are common, so count openers per line for all of them in one
    # pass: only a few bytes a line remain of the text.
    openers = lines.translate(None, _NOT_OPENERS)
    if max(map(len, openers.split(b"\n"))) <= limit:
        return None
    found = next((line for line in lines.split(b"\n") if too_deep(line, limit)), None)
    if found is None and LONG < size <= _REMEMBERED:
        _shallow = lines, limit
    return found


def excerpt(data: bytes, room: int = 60) -> str:
    """The start of some bytes, printable, for a message."""
    shown = ascii(bytes(data[:room]))[1:]
    return f"{shown}…" if len(data) > room else shown


def check_inbox(lines: bytes, limits: Limits) -> None:
    """Check lines before they are delivered; the caller is trusted to have framed them.

    Raises:
        LimitRefused: a line is too long, has too many values or is too deep; the guest has not
            seen any of it.
    """
    if len(lines) > limits.message_bytes:
        longest = max(map(len, lines.split(b"\n"))) + 1
        if longest > limits.message_bytes:
            raise _refused("message_bytes", f"a line of {longest} bytes", limits)
    if _has_too_many_values(lines, limits.json_values):
        advice = " if its memory can take it"
        raise _refused("json_values", "a line of too many values", limits, advice)
    line = _first_too_deep(lines, limits.json_depth)
    if line is not None:
        what, advice = f"a line nested {depth_of(line)} deep", " if its parser can take it"
        raise _refused("json_depth", what, limits, advice, excerpt(line))


def check_outbox(out: bytes, limits: Limits, phase: str, name: str, *, sides: bool = True) -> None:
    """Check the lines that a guest returned.

    With `sides` every line must begin with a side byte (core and component carriers).

    Raises:
        GuestError: it breaks the contract or a limit, with an excerpt of the line.
    """
    if not out:
        return
    size = len(out)
    if size > limits.outbox_bytes:
        raise exceeded("outbox_bytes", size, limits, phase, name)
    if out[-1] != NEWLINE:
        tail = out[out.rfind(b"\n") + 1 :]
        raise _broken(phase, name, "left its last line without a newline", tail)
    # The lone line, by far the most frequent outbox, is checked without splitting.
    if out.find(b"\n") == size - 1:
        if sides and (out[0] not in SIDE_CODES or size < 3):
            raise _bad_line(phase, name, out[:-1])
        longest = size
    else:
        longest = _check_lines(out, limits, phase, name, sides)
    if longest > limits.message_bytes:
        raise exceeded("message_bytes", longest, limits, phase, name)
    if _has_too_many_values(out, limits.json_values):
        raise exceeded("json_values", None, limits, phase, name)
    line = _first_too_deep(out, limits.json_depth)
    if line is not None:
        raise exceeded("json_depth", depth_of(line), limits, phase, name)


def _check_lines(out: bytes, limits: Limits, phase: str, name: str, sides: bool) -> int:
    """Check several lines; the length of the longest with its newline."""
    lines = out.split(b"\n")
    lines.pop()
    if len(lines) > limits.messages_per_delivery:
        raise exceeded("messages_per_delivery", len(lines), limits, phase, name)
    if sides:
        heads = {line[:1] for line in lines}
        if not heads <= SIDES or min(map(len, lines)) < 2:
            bad = next(line for line in lines if line[:1] not in SIDES or len(line) < 2)
            raise _bad_line(phase, name, bad)
    return max(map(len, lines)) + 1


def _refused(
    limit: str, what: str, limits: Limits, advice: str = "", detail: str = ""
) -> LimitRefused:
    return LimitRefused(
        "deliver",
        f"{what} was not delivered: the limit {limit} is {getattr(limits, limit)}",
        limit=limit,
        detail=detail,
        hint=f"raise the component's {limit}{advice}",
    )


def _bad_line(phase: str, name: str, line: bytes) -> GuestError:
    if not line:
        what = "returned an empty line"
    elif line[:1] not in SIDES:
        what = f"began a line with {excerpt(line[:1])} instead of a side byte (p, s or c)"
    else:
        what = "returned a side byte without a message"
    return _broken(phase, name, what, line)


def _broken(phase: str, name: str, what: str, line: bytes) -> GuestError:
    return GuestError(
        phase,
        f"{name} broke the channel contract: it {what}: {excerpt(line)}",
        detail=excerpt(line, 400),
        hint="each line a guest returns is a side byte, one JSON text and a newline "
        "(docs/architecture.md#the-channel)",
    )


def exceeded(limit: str, size: int | None, limits: Limits, phase: str, name: str) -> GuestError:
    """The error for an outbox beyond a limit; `size` is `None` where counting stopped early."""
    bound = getattr(limits, limit)
    if size is None:
        excess = f"more than {bound} {_UNITS[limit]}"
    else:
        excess = f"{size} {_UNITS[limit]}, {size - bound} over the limit of {bound}"
    return GuestError(
        phase,
        f"{name} exceeded {limit}: {excess}",
        limit=limit,
        hint=f"raise the component's {limit} if this is intended",
    )
