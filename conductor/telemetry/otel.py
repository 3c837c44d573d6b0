"""Spans to a collector, by the SDK of OpenTelemetry (extra `otel`).

The SDK has the bounded queue, which drops spans that do not fit, the thread that sends, and the
settings of the variables OTEL_…. Spans keep their own ids.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from conductor.core.json_text import utf8
from conductor.errors import ConductorError, one_line
from conductor.telemetry import collector, posting
from conductor.telemetry.book import Read
from conductor.telemetry.measures import STATE, Labels, Number
from conductor.telemetry.span import Attributes, Context, Kind, Span, Value, What
from conductor.version import version

_KINDS: Final = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
}
_SCOPE: Final = "conductor"
_MOST_NUMBER: Final = 2**63 - 1
_BATCH: Final = 512
_HINT: Final = "is it running, and does it speak OTLP over HTTP?"
_PATIENCE: Final = 2.0
"""Seconds that the end of a chain waits for a collector."""
Log = Callable[[str, str, str], None]
"""Writes a line: level, component name, text."""
_MOST_TRACES: Final = 1_000


def resource() -> Resource:
    """The resource of the data; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count."""
    ours = Resource({"service.name": "conductor", "service.version": version()})
    theirs = Resource.create()
    if str(theirs.attributes.get("service.name", "")).startswith("unknown_service"):
        return theirs.merge(ours)
    return ours.merge(theirs)


class _Given(IdGenerator):
    """The ids that our own span has."""

    context = Context(1, 1)

    def generate_trace_id(self) -> int:
        return self.context.trace

    def generate_span_id(self) -> int:
        return self.context.span


class Spans:
    """Makes spans of the SDK from ours, and gives them to a processor that sends them."""

    def __init__(self, processor: SpanProcessor, began: float) -> None:
        """`began`: when the trace began, in seconds of Unix time."""
        self._given = _Given()
        self._began = began
        self._sampled: OrderedDict[tuple[int, bool | None], bool] = OrderedDict()
        self._provider = TracerProvider(
            resource=resource(), shutdown_on_exit=False, id_generator=self._given
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(_SCOPE, version())

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
            _text(span.name),
            context=around,
            kind=_KINDS[span.kind],
            attributes=_attributes(span.attributes),
            links=[trace.Link(self._named(link)) for link in span.links],
            start_time=self._nanos(span.start),
        )
        for moment in span.moments:
            at = self._nanos(moment.at)
            made.add_event(moment.name, _attributes(moment.attributes), at)
        if span.error:
            made.set_status(trace.StatusCode.ERROR, _text(span.error))
        made.end(self._nanos(span.end))

    def _nanos(self, seconds: float) -> int:
        """A moment in nanoseconds of Unix time."""
        return int(self._began * 1_000_000) * 1_000 + int(seconds * 1_000_000_000)

    def _named(self, context: Context, *, remote: bool = False) -> SpanContext:
        sampled = bool(context.sampled) if remote else self.is_sampled(context)
        return SpanContext(context.trace, context.span, remote, _flags(sampled))

    def is_sampled(self, context: Context) -> bool:
        """Whether the trace of a span is sent: its root ends last, and all its spans must agree."""
        key = (context.trace, context.sampled)
        known = self._sampled.get(key)
        if known is None:
            around = contexts.Context()
            if context.sampled is not None:
                began = SpanContext(context.trace, context.span, True, _flags(context.sampled))
                around = trace.set_span_in_context(trace.NonRecordingSpan(began), around)
            result = self._provider.sampler.should_sample(around, context.trace, "")
            known = self._sampled[key] = result.decision is Decision.RECORD_AND_SAMPLE
            if len(self._sampled) > _MOST_TRACES:
                self._sampled.popitem(last=False)
        return known


def _flags(sampled: bool) -> TraceFlags:
    return TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)


def _attributes(attributes: Attributes) -> Attributes:
    """Attributes, with numbers and texts that the protocol can carry."""
    return {key: _sendable(value) for key, value in attributes.items()}


def _sendable(value: Value) -> Value:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple):
        return tuple(map(_text, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(min(value, _MOST_NUMBER), -_MOST_NUMBER)
    return value


def _text(text: str) -> str:
    """A text without lone surrogates: one of these in a span loses the whole batch."""
    return utf8(text).decode()


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


def _exporter(url: str) -> OTLPSpanExporter:
    """The exporter of spans to a collector."""
    endpoint = collector.endpoint(url, collector.TRACES)
    return OTLPSpanExporter(endpoint=endpoint, session=posting.session())


def send(spans: Iterable[Span], url: str, began: float) -> int:
    """Sends spans and waits until the collector has them; how many. Raises `ConductorError`."""
    reasons: list[str] = []
    Reasons(reasons.append)
    exporter = _exporter(url)
    gathered, count = _Gathered(), 0
    made = Spans(gathered, began)

    def flush() -> int:
        batch, gathered.spans = gathered.spans, []
        if batch and exporter.export(batch) is not SpanExportResult.SUCCESS:
            why = reasons[-1] if reasons else "it gave no reason"
            where = collector.shown(url)
            raise ConductorError(f"{where} has not taken the spans: {why}", _HINT)
        return len(batch)

    try:
        for span in spans:
            made.add(span)
            if len(gathered.spans) >= _BATCH:
                count += flush()
        return count + flush()
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


# -- a chain that runs -----------------------------------------------------------------------------


class Meters:
    """A `conductor.telemetry.measures.Keeper`: instruments of the SDK."""

    def __init__(self, meter: metrics.Meter, read: Read) -> None:
        self._meter = meter
        self._counters: dict[str, metrics.Counter] = {}
        self._histograms: dict[str, metrics.Histogram] = {}
        self._read = read
        kinds = {
            "counter": meter.create_observable_counter,
            "gauge": meter.create_observable_gauge,
        }
        for number in STATE:
            observed = partial(self._observed, number)
            kinds[number.kind](number.name, [observed], number.unit, number.what)

    def _observed(
        self, wanted: Number, _: metrics.CallbackOptions
    ) -> Iterator[metrics.Observation]:
        for number, labels, value in self._read():
            if number is wanted:
                yield metrics.Observation(value, _named(labels))

    def add(self, number: Number, labels: Labels, amount: float) -> None:
        """A counter grows."""
        counter = self._counters.get(number.name)
        if counter is None:
            counter = self._meter.create_counter(number.name, number.unit, number.what)
            self._counters[number.name] = counter
        counter.add(amount, _named(labels))

    def record(self, number: Number, labels: Labels, value: float) -> None:
        """One more value of a histogram."""
        histogram = self._histograms.get(number.name)
        if histogram is None:
            histogram = self._histograms[number.name] = self._meter.create_histogram(
                number.name,
                number.unit,
                number.what,
                explicit_bucket_boundaries_advisory=number.buckets,
            )
        histogram.record(value, _named(labels))


def _named(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if value}


class Sending:
    """Sends the spans and numbers of a running chain to a collector.

    `none` in OTEL_TRACES_EXPORTER leaves out spans, in OTEL_METRICS_EXPORTER numbers.
    """

    def __init__(self, url: str, by: str, began: float, log: Log, read: Read) -> None:
        """
        Args:
            url: The collector.
            by: The origin of this setting, for messages about it.
            began: When the trace began, in seconds of Unix time.
            log: Writes a line: level, component name, text; called on the event loop's thread and,
                once, on another thread.
            read: Has the numbers that are read when they are sent.
        """
        self._url = url
        self._by = by
        self._log = log
        self._warned = False
        Reasons(self._failed)
        self._last: list[Callable[[], object]] = []
        """The functions that end the sending."""
        self.spans: Spans | None = None
        self.meters: Meters | None = None
        if os.environ.get("OTEL_TRACES_EXPORTER") != "none":
            batches = BatchSpanProcessor(_exporter(url))
            self.spans = Spans(batches, began)
            self._last.append(batches.shutdown)
        if os.environ.get("OTEL_METRICS_EXPORTER") != "none":
            numbers = OTLPMetricExporter(
                endpoint=collector.endpoint(url, collector.METRICS), session=posting.session()
            )
            provider = MeterProvider(
                [PeriodicExportingMetricReader(numbers)],
                resource=resource(),
                shutdown_on_exit=False,
            )
            self.meters = Meters(provider.get_meter(_SCOPE, version()), read)
            self._last.append(provider.shutdown)

    def _failed(self, why: str) -> None:
        """Warns once; called on the threads of the SDK."""
        if self._warned:
            return
        self._warned = True
        where = collector.shown(self._url)
        text = f"{where}{self._by} refuses the data sent to it, the chain goes on without: {why}"
        hint = "OTEL_METRICS_EXPORTER=none sends spans alone" if "metrics" in why else _HINT
        self._log("warning", "conductor", f"{text}\nhint: {hint}")

    def close(self) -> None:
        """Sends the rest, for two seconds at most: later data is lost."""
        until = time.monotonic() + _PATIENCE
        last = [threading.Thread(target=work, daemon=True) for work in self._last]
        for thread in last:
            thread.start()
        for thread in last:
            thread.join(max(until - time.monotonic(), 0.0))
