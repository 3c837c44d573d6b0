"""Spans to a collector, by the SDK of OpenTelemetry (extra `otel`).

The SDK has the queue, which is bounded and drops what does not fit, the thread that sends, and what
the variables OTEL_… say. Spans keep their own ids.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from conductor.errors import ConductorError, one_line
from conductor.telemetry import collector
from conductor.telemetry.otlp_json import SCOPE, nanos, whole
from conductor.telemetry.span import Attributes, Context, Kind, Span, What
from conductor.version import version

_KINDS: Final = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
}
_BATCH: Final = 512
_MOST_TRACES: Final = 1_000


def resource() -> Resource:
    """What the data is attributed to; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count."""
    ours = Resource({"service.name": "conductor", "service.version": version()})
    told = Resource.create()
    if str(told.attributes.get("service.name", "")).startswith("unknown_service"):
        return told.merge(ours)
    return ours.merge(told)


class _Given(IdGenerator):
    """The ids that our own span has."""

    context = Context(1, 1)

    def generate_trace_id(self) -> int:
        return self.context.trace

    def generate_span_id(self) -> int:
        return self.context.span


class Spans:
    """Makes spans of the SDK from ours, and gives them to what sends them."""

    def __init__(self, processor: SpanProcessor, began: float) -> None:
        """`began`: when the trace began, in seconds of Unix time."""
        self._given = _Given()
        self._began = began
        self._sampled: OrderedDict[int, bool] = OrderedDict()
        self._provider = TracerProvider(
            resource=resource(), shutdown_on_exit=False, id_generator=self._given
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(SCOPE, version())

    def add(self, span: Span) -> None:
        """Takes a span that has ended."""
        if span.what is What.PASSED:
            return
        around = contexts.Context()
        if span.parent is not None:
            parent = self._named(span.parent, remote=span.is_remote)
            around = trace.set_span_in_context(trace.NonRecordingSpan(parent), around)
        self._given.context = span.context
        made = self._tracer.start_span(
            span.name,
            context=around,
            kind=_KINDS[span.kind],
            attributes=_attributes(span.attributes),
            links=[trace.Link(self._named(link, remote=False)) for link in span.links],
            start_time=nanos(span.start, self._began),
        )
        for moment in span.moments:
            at = nanos(moment.at, self._began)
            made.add_event(moment.name, _attributes(moment.attributes), at)
        if span.error:
            made.set_status(trace.StatusCode.ERROR, span.error)
        made.end(nanos(span.end, self._began))

    def _named(self, context: Context, *, remote: bool) -> SpanContext:
        sampled = context.sampled if remote else self._is_sampled(context.trace)
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        return SpanContext(context.trace, context.span, remote, flags)

    def _is_sampled(self, number: int) -> bool:
        """Whether a trace is sampled: its root ends last, and all its spans must agree."""
        known = self._sampled.get(number)
        if known is None:
            result = self._provider.sampler.should_sample(contexts.Context(), number, "")
            decision = result.decision
            known = self._sampled[number] = decision is Decision.RECORD_AND_SAMPLE
            if len(self._sampled) > _MOST_TRACES:
                self._sampled.popitem(last=False)
        return known


def _attributes(attributes: Attributes) -> Attributes:
    """Attributes, with numbers that the protocol can carry."""
    return {
        key: whole(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in attributes.items()
    }


class Reasons(logging.Handler):
    """Hears why the SDK could not send, in place of standard error."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._hear = hear
        logger = logging.getLogger("opentelemetry")
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a message of the SDK; called on its threads."""
        self._hear(one_line(record.getMessage()))


class _Gathered(SpanProcessor):
    """Keeps spans until they are taken."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def send(spans: Iterable[Span], url: str, began: float) -> int:
    """Sends spans and waits until the collector has them; how many. Raises `ConductorError`."""
    reasons: list[str] = []
    Reasons(reasons.append)
    exporter = OTLPSpanExporter(endpoint=collector.endpoint(url, collector.TRACES))
    gathered, count = _Gathered(), 0
    made = Spans(gathered, began)

    def flush() -> int:
        batch, gathered.spans = gathered.spans, []
        if batch and exporter.export(batch) is not SpanExportResult.SUCCESS:
            why = reasons[-1] if reasons else "it gave no reason"
            where = collector.shown(url)
            raise ConductorError(
                f"{where} has not taken the spans: {why}",
                "is it running, and does it speak OTLP over HTTP?",
            )
        return len(batch)

    try:
        for span in spans:
            made.add(span)
            if len(gathered.spans) >= _BATCH:
                count += flush()
        return count + flush()
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
