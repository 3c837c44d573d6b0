"""Telemetry of a chain that runs: takes the events of its trace, as a file of `--trace` does.

Nothing here makes the chain wait: the event loop writes the file, as ever; Prometheus is
answered by a thread; data for a collector waits in the bounded queue of the SDK.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from conductor.core.tracing import best_effort
from conductor.errors import UsageError
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import Line
from conductor.run.log import Sink
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.origins import blamed, by
from conductor.spec.plan import Plan
from conductor.telemetry import names, payloads
from conductor.telemetry.book import Book
from conductor.telemetry.context import with_context
from conductor.telemetry.measures import MEMORY, OUTBOX, RESTARTS, Keeper, Labels, Measures, Number
from conductor.telemetry.span import Attributes, Ids, Place, Span, What, read_traceparent
from conductor.telemetry.spans import Translator
from conductor.transports.process_state import memory

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime
    from conductor.telemetry.otel import Sending
    from conductor.telemetry.serving import Serving

Log = Callable[[str, str, str], None]


def wanted(plan: Plan, log: Log) -> Telemetry:
    """The telemetry that the options of a chain ask for. Raises `UsageError`."""
    options = plan.options
    otlp = options.otlp if options.sends else None
    if options.propagate and options.otlp is None:
        error = UsageError(
            "`propagate` names spans that nobody gets", "add `-c otlp=URL`, or leave it out"
        )
        raise blamed(error, plan.origin("propagate"))
    if otlp is not None:
        from conductor.telemetry import collector

        collector.require(otlp)
    return Telemetry(options, otlp, [*plan.components], log)


class Telemetry(Sink[Line]):
    """Makes spans and numbers of a chain while it runs."""

    def __init__(self, options: Options, otlp: str | None, specs: list[Spec], log: Log) -> None:
        self._log = log
        self._set_by = options.set_by
        self._otlp = otlp
        self._runtime: Runtime | None = None
        self._changed: Callable[[], None] | None = None
        self._sending: Sending | None = None
        self._serving: Serving | None = None
        self._began = time.time()
        self._to_file = options.metrics is not None
        self._book = Book()
        self._book.read = self._state
        keepers: list[Keeper] = []
        if options.metrics is not None or options.prometheus is not None:
            keepers.append(self._book)
        if options.prometheus is not None:
            self._serve(options.prometheus)
        self.traceparent = ""
        """The context of the run, for programs; empty: they get none."""
        self._keepers = keepers
        content = otlp is not None and names.captures(os.environ.get(names.CAPTURE))
        self._fold = Fold(most_words=payloads.MOST_TEXT if content else 0)
        self._measures = Measures(self._fold, *keepers)
        self._translator: Translator | None = None
        if otlp is not None:
            facts = {spec.name: _facts(spec) for spec in specs}
            ids = Ids(os.urandom(32))
            run = _run(ids) if options.propagate else None
            if run is not None:
                sampled = run.context.sampled is not False
                self.traceparent = run.context.traceparent(sampled=sampled)
            self._translator = Translator(self._fold, ids, content=content, facts=facts, run=run)

    def _serve(self, port: int) -> None:
        from conductor.telemetry.serving import HOST, Serving

        try:
            self._serving = Serving(port, self._book.text)
        except OSError as error:
            # Another chain of the same user may have the port: that is no reason not to run this
            # chain.
            why = error.strerror or str(error)
            hint = "another chain may have it; `-c prometheus=0` takes any that is free"
            who = by(self._set_by.get("prometheus"))
            text = f"no numbers are served at port {port}: {why}{who}\nhint: {hint}"
            self._log("warning", "conductor", text)
        else:
            where = f"http://{HOST}:{self._serving.port}/metrics"
            self._log("warning" if port == 0 else "info", "conductor", f"numbers are at {where}")

    def attach(self, runtime: Runtime) -> None:
        """The chain that is measured."""
        self._runtime = runtime
        if self._to_file:
            self._changed = runtime.services.measuring(self._book.text)

    # -- a sink --------------------------------------------------------------------------------

    def take(self, item: Line, at: float, mode: str) -> None:
        """See `Sink`. With the first line the components start: then there is time to load the
        SDK."""
        if self._otlp is not None and self._sending is None:
            from conductor.telemetry.otel import Sending

            who = by(self._set_by.get("otlp"))
            self._sending = Sending(self._otlp, who, self._began, self._log, self._state)
            if self._sending.meters is not None:
                self._measures = Measures(self._fold, *self._keepers, self._sending.meters)
        self._take(item)
        if self._changed is not None:
            self._changed()

    @best_effort
    def close(self) -> None:
        """See `Sink`. Waits for a collector two seconds at most."""
        if self._serving is not None:
            self._serving.close()
        if self._sending is not None:
            if self._translator is not None and self._sending.spans is not None:
                for span in self._translator.finish():
                    self._sending.spans.add(span)
            self._sending.close()

    @best_effort
    def _take(self, line: Line) -> None:
        if self.failed:
            return
        try:
            event = self._fold.take(line)
            if event is None:
                return
            self._measures.take(event)
            if self._translator is None or self._sending is None or self._sending.spans is None:
                return
            for span in self._translator.take(event):
                self._sending.spans.add(span)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        self.failed = True
        text = f"telemetry ends here, by a mistake of conductor: {error!r}"
        self._log("error", "conductor", text)

    def stamped(self, number: int, params: bytes) -> bytes:
        """The params of a request to the agent, with the context of its span in them."""
        translator, sending = self._translator, self._sending
        if self.failed or translator is None or sending is None or sending.spans is None:
            return params
        found = translator.context(number)
        if found is None:
            return params
        try:
            return with_context(params, found, sampled=sending.spans.is_sampled(found))
        except Exception as error:  # a sampler may be anybody's
            self._end(error)
            return params

    def _state(self) -> Iterator[tuple[Number, Labels, float]]:
        """The present numbers of the chain itself."""
        runtime = self._runtime
        if runtime is None:
            return
        planned = dict(runtime.planned)
        guests = [guest for it in planned.values() for guest in it.names]
        happened = dict(runtime.records.events)
        for guest in guests:
            yield RESTARTS, {"component": guest}, float(happened.get(("restart", guest), 0))
        for name in planned:
            yield OUTBOX, {"component": name}, float(runtime.connections.held(name))
        for name, it in planned.items():
            process = runtime.connections.process(name)
            if it.guests and process is not None and (bytes_ := memory(process)) is not None:
                yield MEMORY, {"component": name}, float(bytes_)


def _run(ids: Ids) -> Span:
    """The span of the whole run, below the span that the variable TRACEPARENT names."""
    parent = read_traceparent(os.environ.get("TRACEPARENT", ""))
    return Span(
        what=What.RUN, name=names.RUN, context=ids.below(parent), parent=parent,
        is_remote=parent is not None, start=0.0, end=0.0, attributes={}, place=Place(names.RUN, 0),
    )  # fmt: skip


def _facts(spec: Spec) -> Attributes:
    """The facts about a component before it runs."""
    facts: Attributes = {names.KIND: spec.kind}
    if spec.wasm is not None and (digest := spec.pins.get(spec.wasm)):
        facts[names.DIGEST] = digest
    if spec.command is not None:
        facts["network.transport"] = "pipe"
    return facts
