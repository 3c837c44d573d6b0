"""A row of the list of events, made of a line of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.record.turns.line import CONDUCTOR, LONGEST, Line, Own, error_of, error_text
from conductor.record.turns.model import Change, Row


def row_of(
    number: int,
    line: Line,
    turn: int,
    *,
    pair: int,
    ms_in: float,
    change: Change | None,
    asked: Line | None = None,
) -> Row | None:
    """An event in short; None for a line that is no event.

    Args:
        number: Its number.
        line: The event.
        turn: The number of its turn.
        pair: See `Reader.pair`.
        ms_in: See `Event.ms_in`.
        change: See `Reader.change`.
        asked: For a response its request, if the response does not say which it was.
    """
    about = line.verdict or line.happened
    if about is not None:
        return _row_about(number, line, turn, about)
    if not line.is_event:
        return None
    own = line.own or Own()
    method, ms, protocol = own.method or line.method, own.ms or 0.0, line.protocol
    if asked is not None:
        method, protocol = method or asked.method, asked.protocol
        ms = ms or max(line.ts - asked.ts, 0.0) * 1000
    return Row(
        n=number,
        at=line.ts,
        kind=line.type,
        source=line.source,
        target=line.target,
        method=method,
        session=line.names_session,
        bytes=own.bytes or len(line.body),
        ms=round(ms, 3),
        ms_in=round(ms_in, 3),
        change="" if change is None else change.value,
        protocol=own.protocol or protocol,
        error=error_text(error_of(line)) if line.is_error else "",
        pair=pair,
        turn=turn,
    )


def _row_about(number: int, line: Line, turn: int, about: Mapping[str, Any]) -> Row:
    """A verdict, or an event of a component, in short."""
    kind = "verdict" if line.verdict else "notice"
    kind = "would" if line.verdict and about.get("would") else kind
    words = {k: v for k, v in about.items() if isinstance(v, str)}
    return Row(
        n=number, at=line.ts, kind=kind, source=words.get("component", ""),
        target=CONDUCTOR, method=words.get("method") or words.get("event", ""),
        session=words.get("session", "")[:LONGEST], bytes=0, ms=0.0, ms_in=0.0,
        change="", protocol="acp", error=words.get("rule", ""), pair=-1,
        turn=turn,
    )  # fmt: skip
