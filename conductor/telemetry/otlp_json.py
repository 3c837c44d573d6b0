"""Writes spans as OTLP: the JSON mapping of OpenTelemetry's protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from conductor.core import json_text
from conductor.telemetry.span import Attributes, Kind, Span, Value, What

_encode: Final = json_text.encode

KINDS: Final = {Kind.INTERNAL: 1, Kind.SERVER: 2, Kind.CLIENT: 3}
_UNSET, _ERROR = 0, 2
_MOST: Final = 2**63 - 1
SCOPE: Final = "conductor"


def written(
    spans: Iterable[Span], resource: Attributes, version: str, began: float
) -> Iterator[bytes]:
    """The pieces of the file: one object, in one line.

    Args:
        spans: They may be an iterator that makes them.
        resource: What made them: `service.name` and the like.
        version: The version of conductor.
        began: When the trace began, in seconds of Unix time.
    """
    scope = {"name": SCOPE, "version": version}
    yield b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (
        _encode({"attributes": _attributes(resource)}),
        _encode(scope),
    )
    first = True
    for span in spans:
        if span.what is What.PASSED:
            continue
        yield (b"" if first else b",") + _encode(_span(span, began))
        first = False
    yield b"]}]}]}\n"


def nanos(seconds: float, began: float) -> int:
    """A moment in nanoseconds of Unix time."""
    return int(began * 1_000_000) * 1_000 + int(seconds * 1_000_000_000)


def _span(span: Span, began: float) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": f"{span.context.trace:032x}",
        "spanId": f"{span.context.span:016x}",
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(nanos(span.start, began)),
        "endTimeUnixNano": str(nanos(span.end, began)),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR, "message": span.error} if span.error else {"code": _UNSET},
    }
    if span.parent is not None:
        made["parentSpanId"] = f"{span.parent.span:016x}"
    if span.moments:
        made["events"] = [
            {
                "timeUnixNano": str(nanos(moment.at, began)),
                "name": moment.name,
                "attributes": _attributes(moment.attributes),
            }
            for moment in span.moments
        ]
    if span.links:
        made["links"] = [
            {"traceId": f"{link.trace:032x}", "spanId": f"{link.span:016x}"} for link in span.links
        ]
    return made


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(whole(value))}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(one) for one in value]}}


def whole(value: int) -> int:
    """A number that the protocol can carry."""
    return max(min(value, _MOST), -_MOST)
